//! How quick both ends are beside a copy of the same bytes, in one thread, over a ring of frames
//! in memory: `cargo run --release -p nile-bulk --example speed`.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::time::{Duration, Instant as Clock};

use nile_abi::{CoreId, Generation, Instant, MacAddress, NodeId};

use nile_bulk::{
    Checksum, Endpoint, Event, Gone, IncomingId, Link, Memory, OutgoingId, Send, Settings,
    Unsealed, checksum,
};

const BYTES: usize = 256 << 20;

struct Bytes(Vec<u8>);

impl Memory for Bytes {
    fn read(&mut self, _transfer: OutgoingId, offset: u64, into: &mut [u8]) -> Result<(), Gone> {
        into.copy_from_slice(&self.0[offset as usize..][..into.len()]);
        Ok(())
    }

    fn write(&mut self, _transfer: IncomingId, offset: u64, bytes: &[u8]) -> Result<(), Gone> {
        self.0[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

/// One transfer between two endpoints that take turns in one thread, over a ring of frames; how
/// long it took in all, and at the sender and the receiver.
fn transfer(from: &mut Bytes, to: &mut Bytes, link: Link, checksum: Checksum) -> [Duration; 3] {
    let new = |id: u32| {
        let mac = MacAddress::local(NodeId(id), 0);
        Settings { checksum, ..Settings::new(NodeId(id), Generation(1), mac, link) }
    };
    let [mut sender, mut receiver] = [Endpoint::new(new(0)), Endpoint::new(new(1))];
    let mut ring: Vec<(usize, Vec<u8>)> = (0..16).map(|_| (0, vec![0; link.max_frame])).collect();
    let send = Send {
        to: NodeId(1),
        generation: None,
        source_core: CoreId(0),
        core: CoreId(0),
        tag: 0,
        label: 0,
        total: Some(from.0.len() as u64),
    };
    let now = Instant::START;
    sender.send(now, send).expect("nothing is being sent yet");
    let start = Clock::now();
    let mut spent = [Duration::ZERO; 2];
    loop {
        for (at, end) in [&mut sender, &mut receiver].into_iter().enumerate() {
            let began = Clock::now();
            let memory = if at == 0 { &mut *from } else { &mut *to };
            for (bytes, frame) in ring.iter_mut().filter(|(bytes, _)| *bytes > 0) {
                end.receive(now, &frame[..*bytes], memory, &mut Unsealed);
                *bytes = 0;
            }
            while let Some(event) = end.poll() {
                match event {
                    Event::Announced { transfer, .. } => end.accept(now, transfer, u64::MAX),
                    Event::Finished { .. } if at == 0 => {
                        return [start.elapsed(), spent[0], spent[1]];
                    }
                    _ => {}
                }
            }
            for (bytes, frame) in &mut ring {
                let Some(written) = end.transmit(now, frame, memory, &mut Unsealed) else { break };
                *bytes = written;
            }
            spent[at] += began.elapsed();
        }
    }
}

fn main() {
    let mut from = Bytes((0..BYTES).map(|at| (at * 7 + at / 251) as u8).collect());
    let mut to = Bytes(vec![1; BYTES]);
    let memory = |frame| Link::shared_memory(frame, 1 << 20);
    let network = |frame| Link { trusted: false, ..memory(frame) };
    let cases: [(&str, Link, Checksum); 6] = [
        ("trusted, 64 KiB frames", memory(65_000), checksum::portable),
        ("trusted, 16 KiB frames", memory(16_384), checksum::portable),
        ("trusted, jumbo frames", memory(9014), checksum::portable),
        ("processor's CRC, jumbo frames", network(9014), crc32c::crc32c_append),
        ("processor's CRC, standard frames", network(1514), crc32c::crc32c_append),
        ("portable CRC, jumbo frames", network(9014), checksum::portable),
    ];
    for (name, link, checksum) in cases {
        let mut best = [Duration::MAX; 4];
        for _ in 0..4 {
            let start = Clock::now();
            to.0.copy_from_slice(black_box(&from.0));
            let copied = start.elapsed();
            to.0.fill(0);
            let [all, sender, receiver] = transfer(&mut from, &mut to, link, checksum);
            assert!(to.0 == from.0);
            for (best, took) in best.iter_mut().zip([copied, all, sender, receiver]) {
                *best = took.min(*best);
            }
        }
        let [copy, all, sender, receiver] = best.map(|took| BYTES as f64 / took.as_nanos() as f64);
        println!(
            "{name}: copy {copy:.1} GB/s; both ends in one thread {all:.1} ({:.2} of it), the \
             sender alone {sender:.1}, the receiver alone {receiver:.1}",
            all / copy
        );
    }
}
