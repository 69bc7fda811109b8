//! What other nodes send of bulk transfers, to an endpoint without a key.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nile_abi::{CoreId, Generation, Instant, MacAddress, NodeId, Status};
use nile_bulk::wire::{Frame, write_checksum};
use nile_bulk::{
    Endpoint, Event, Gone, IncomingId, Limits, Link, Memory, OutgoingId, Send, Settings, Transfer,
    Unsealed, checksum,
};

use crate::input::Input;

const MOST_STEPS: usize = 64;
const FRAME: usize = 1514;
const LIMITS: Limits = Limits { outgoing: 8, incoming: 8, peers: 8, ended: 8 };

/// Bytes that an accepted transfer has room for.
const ROOM: u64 = 1 << 20;

/// Remembers what was written, and nothing of its bytes.
#[derive(Default)]
struct Ranges(BTreeMap<IncomingId, BTreeMap<u64, u64>>);

impl Memory for Ranges {
    fn read(&mut self, _transfer: OutgoingId, offset: u64, into: &mut [u8]) -> Result<(), Gone> {
        assert!(offset + into.len() as u64 <= ROOM, "more is read than was offered");
        into.fill(0x5a);
        Ok(())
    }

    fn write(&mut self, transfer: IncomingId, offset: u64, bytes: &[u8]) -> Result<(), Gone> {
        let end = offset + bytes.len() as u64;
        assert!(!bytes.is_empty() && end <= ROOM, "{transfer:?} has no room for {offset}..{end}");
        let ranges = self.0.entry(transfer).or_default();
        let before = ranges.range(..end).next_back();
        assert!(before.is_none_or(|(_, last)| *last <= offset), "bytes came twice");
        ranges.insert(offset, end);
        Ok(())
    }
}

/// An endpoint and what it has told.
struct Victim {
    endpoint: Endpoint,
    memory: Ranges,
    now: Instant,
    announced: Vec<IncomingId>,
    ended: BTreeSet<Transfer>,
}

/// Steps: a frame, whose checksum is made right; time that passes; something that the owner does.
/// Accepted: a frame was believed.
pub fn bulk(bytes: &[u8]) -> bool {
    let (node, mac) = (NodeId(1), MacAddress::local(NodeId(1), 0));
    let link = Link::network(FRAME, 1_000_000_000, Duration::from_micros(100));
    let settings = Settings { limits: LIMITS, ..Settings::new(node, Generation::FIRST, mac, link) };
    let mut victim = Victim {
        endpoint: Endpoint::new(settings),
        memory: Ranges::default(),
        now: Instant::START,
        announced: Vec::new(),
        ended: BTreeSet::new(),
    };
    let mut input = Input::new(bytes);
    for _ in 0..MOST_STEPS {
        let Some([step, detail]) = input.take() else { break };
        match step {
            0xff => victim.pass(Duration::from_micros(10 << (detail % 18))),
            0xfe => victim.send(detail),
            0xfd => victim.decide(detail),
            _ => {
                let length = usize::from(step) << 8 | usize::from(detail);
                let mut frame = input.most(length % (FRAME + 1)).to_vec();
                write_checksum(&mut frame, checksum::portable);
                victim.take(&frame);
            }
        }
        victim.settle();
    }
    // Nobody says anything more: all ends.
    victim.pass(Duration::from_secs(60));
    assert_eq!(victim.endpoint.transfers(), [0, 0]);
    assert_eq!(victim.endpoint.next_due(), None);
    victim.endpoint.counters().received > 0
}

impl Victim {
    fn take(&mut self, frame: &[u8]) {
        let before = *self.endpoint.counters();
        self.endpoint.receive(self.now, frame, &mut self.memory, &mut Unsealed);
        if Frame::parse(frame).is_err() {
            let malformed = before.malformed + 1;
            let expected = nile_bulk::Counters { malformed, ..before };
            assert_eq!(*self.endpoint.counters(), expected, "it changed more than a counter");
        }
    }

    /// The owner begins a transfer to a node that the frames may come from.
    fn send(&mut self, detail: u8) {
        let total = u64::from(detail) * 97;
        let send = Send {
            to: NodeId(u32::from(detail % 4)),
            generation: (detail & 4 == 0).then_some(Generation::FIRST),
            source_core: CoreId(0),
            core: CoreId(0),
            tag: 0,
            label: 0,
            total: (detail & 8 == 0).then_some(total),
        };
        if let Ok(id) = self.endpoint.send(self.now, send) {
            self.endpoint.offer(id, total);
            self.endpoint.finish(id, total);
        }
    }

    /// The owner decides about what was announced last.
    fn decide(&mut self, detail: u8) {
        let Some(transfer) = self.announced.last().copied() else { return };
        match detail {
            0..4 => self.endpoint.cancel(transfer, Status::Denied),
            4..8 => self.endpoint.peer_dead(transfer.from, transfer.generation),
            8..32 if self.endpoint.shown(transfer).is_some() => self.endpoint.fetched(transfer),
            _ => self.endpoint.accept(self.now, transfer, ROOM >> (detail % 20)),
        }
    }

    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(due) = self.endpoint.next_due().filter(|due| *due <= end) {
            self.now = self.now.max(due) + Duration::from_nanos(1);
            self.endpoint.on_time(self.now);
            self.settle();
        }
        self.now = self.now.max(end);
    }

    /// What it sends are frames that another endpoint reads; what it tells is told once.
    fn settle(&mut self) {
        let mut out = [0; FRAME];
        for sent in 0.. {
            let memory = &mut self.memory;
            let written = self.endpoint.transmit(self.now, &mut out, memory, &mut Unsealed);
            let Some(bytes) = written else { break };
            let frame = Frame::parse(&out[..bytes]).expect("what it says is well-formed");
            assert!(frame.checksum_holds(checksum::portable) && frame.header.source == NodeId(1));
            assert!(sent < 10_000, "it does not stop talking");
        }
        while let Some(event) = self.endpoint.poll() {
            match event {
                Event::Announced { transfer, .. } => {
                    assert!(!self.announced.contains(&transfer), "{transfer:?} comes again");
                    self.announced.push(transfer);
                }
                Event::Progress { transfer, .. } => assert!(!self.ended.contains(&transfer)),
                Event::Finished { transfer, .. } | Event::Failed { transfer, .. } => {
                    assert!(self.ended.insert(transfer), "{transfer:?} ended twice");
                }
            }
        }
        let [outgoing, incoming] = self.endpoint.transfers();
        assert!(outgoing <= LIMITS.outgoing && incoming <= LIMITS.incoming);
    }
}
