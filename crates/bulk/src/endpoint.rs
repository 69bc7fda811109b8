//! An endpoint: what one core says about all its transfers over one link. Its owner hands it
//! every frame of the protocol that comes, calls [`Endpoint::on_time`] when something is due, and
//! after each of these and every other call sends what [`Endpoint::transmit`] writes and takes
//! what [`Endpoint::poll`] tells, until there is nothing more. Nothing blocks.
//!
//! * `receive`: from a frame to what it changes.
//! * `transmit`: what is said next, credit granted in turns.
//! * `timers`: what happens when nothing comes.

mod receive;
mod timers;
mod transmit;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use nile_abi::ethernet::HEADER_BYTES;
use nile_abi::{Generation, Instant, MacAddress, NodeId, Status};
use nile_order::SortedMap;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::counters::Counters;
use crate::event::{Event, Gone, IncomingId, OutgoingId, Refused, Send, Transfer, Why};
use crate::incoming::Incoming;
use crate::outgoing::Outgoing;
use crate::pace::Pace;
use crate::peers::{Ended, Peers};
use crate::settings::Settings;
use crate::shown::Shown;
use crate::wire::{Body, DATA_BYTES, Header, SEAL_BYTES, TAG_BYTES};

/// The fewest bytes of data for which a frame must have room.
const LEAST_BLOCK: usize = 64;

/// No frame has more bytes beside its data.
const MOST_AROUND: usize = 128;

/// Answers that wait to be sent, to frames of transfers that are not there. What exceeds this is
/// not answered: whoever asked will ask again.
const MOST_REPLIES: usize = 256;

/// The memory of the transfers, as their owners provide it. Ranges never exceed what was offered
/// or accepted. No method blocks.
pub trait Memory {
    /// Copies what a transfer sends, from `offset` bytes after its start, to `into`: a part of
    /// the frame that is being made. The same range may be asked for again until
    /// [`Event::Progress`] is beyond it.
    fn read(&mut self, transfer: OutgoingId, offset: u64, into: &mut [u8]) -> Result<(), Gone>;

    /// Takes `bytes` of what a transfer receives, a part of the frame that has come; they belong
    /// `offset` bytes after its start. Each byte of a transfer comes here once, in blocks, in any
    /// order.
    fn write(&mut self, transfer: IncomingId, offset: u64, bytes: &[u8]) -> Result<(), Gone>;
}

/// All transfers of a core over one link.
pub struct Endpoint {
    settings: Settings,
    counters: Counters,
    random: Xoshiro256PlusPlus,
    peers: Peers,
    pace: Pace,
    outgoing: SortedMap<u32, Box<Outgoing>>,
    incoming: SortedMap<IncomingId, Box<Incoming>>,
    /// The number of the next transfer.
    pub(crate) number: u32,
    /// Transfers that are to be granted more, in turns.
    wanting: VecDeque<IncomingId>,
    /// Transfers that have blocks and credit, in turns.
    sending: VecDeque<u32>,
    /// Transfers of which an announcement or credit is to be sent.
    words: VecDeque<Transfer>,
    /// Answers that belong to no transfer.
    replies: VecDeque<Header>,
    news: VecDeque<News>,
    /// No transfer's timer is due before this.
    due: Option<Instant>,
    /// When more can be granted.
    grant_due: Option<Instant>,
    /// Where sealed frames are opened.
    scratch: Vec<u8>,
}

/// What is to be told.
enum News {
    Event(Event),
    /// Progress, as it is when it is told.
    Progress(Transfer),
}

impl Endpoint {
    /// An endpoint without transfers.
    pub fn new(settings: Settings) -> Endpoint {
        Endpoint {
            counters: Counters::default(),
            random: Xoshiro256PlusPlus::seed_from_u64(settings.seed),
            peers: Peers::new(settings.limits.peers),
            pace: Pace::new(&settings.link),
            outgoing: SortedMap::new(),
            incoming: SortedMap::new(),
            number: 1,
            wanting: VecDeque::new(),
            sending: VecDeque::new(),
            words: VecDeque::new(),
            replies: VecDeque::new(),
            news: VecDeque::new(),
            due: None,
            grant_due: None,
            scratch: Vec::new(),
            settings,
        }
    }

    /// Begins a transfer; its bytes are read from [`Memory`] until it ends.
    pub fn send(&mut self, now: Instant, send: Send) -> Result<OutgoingId, Refused> {
        let block = self.block().ok_or(Refused::SmallFrames)?;
        if send.to == self.settings.node {
            return Err(Refused::Here);
        }
        let is_dead = match send.generation {
            Some(generation) => self.peers.is_dead(send.to, generation),
            None => self.peers.is_gone(send.to),
        };
        if is_dead {
            return Err(Refused::Dead);
        }
        if self.outgoing.len() >= self.settings.limits.outgoing {
            return Err(Refused::Busy);
        }
        while self.outgoing.contains_key(&self.number) {
            self.number = self.number.wrapping_add(1);
        }
        let number = self.number;
        self.number = number.wrapping_add(1);
        let outgoing = Outgoing::new(now, &send, block);
        self.wake_at(outgoing.due);
        self.outgoing.insert(number, Box::new(outgoing));
        self.announce(number);
        Ok(OutgoingId(number))
    }

    /// Has a transfer's announcements say where all of its bytes are, which stay there until it is
    /// over. A receiver that cannot read there is sent them as ever. For right after the transfer
    /// was begun, whose total is known; nothing happens if there are too many parts, or frames
    /// have no room for them.
    pub fn show(&mut self, transfer: OutgoingId, shown: &Shown) {
        let data = shown.write();
        let room = self.settings.link.max_frame.saturating_sub(MOST_AROUND);
        if let Some(outgoing) = self.outgoing.get_mut(&transfer.0)
            && data.len() <= room
            && outgoing.total() == Some(shown.total())
        {
            outgoing.shown = data;
        }
    }

    /// Where the sender of a transfer has all of its bytes, if it has said so.
    pub fn shown(&self, transfer: IncomingId) -> Option<&Shown> {
        self.incoming.get(&transfer)?.shown.as_ref()
    }

    /// The address that frames to a node carry: that of all, if none has come from it.
    pub fn address_of(&self, node: NodeId) -> MacAddress {
        self.peers.mac(node)
    }

    /// A transfer's owner has read all of it where its sender [has it](Endpoint::shown): it is
    /// over. Nothing happens if it was over before.
    pub fn fetched(&mut self, transfer: IncomingId) {
        let Some(incoming) = self.incoming.get_mut(&transfer) else { return };
        let before = incoming.on_the_way();
        incoming.fill();
        self.pace.account(before, incoming.on_the_way());
        self.counters.fetched_bytes += incoming.arrived();
        self.complete(transfer);
    }

    /// More of a stream is ready: `bytes` from its start. Blocks are sent when they are full, and
    /// what is left when the stream is finished. Nothing happens if the transfer is over.
    pub fn offer(&mut self, transfer: OutgoingId, bytes: u64) {
        if let Some(outgoing) = self.outgoing.get_mut(&transfer.0) {
            outgoing.offer(bytes);
            self.goes_on(transfer.0, false);
        }
    }

    /// A stream ends after `total` bytes, all of which are ready. `false`, and nothing happens, if
    /// it is over, more was offered, or it ends elsewhere.
    pub fn finish(&mut self, transfer: OutgoingId, total: u64) -> bool {
        let outgoing = self.outgoing.get_mut(&transfer.0);
        let finished = outgoing.is_some_and(|outgoing| outgoing.finish(total));
        if finished {
            self.goes_on(transfer.0, true);
        }
        finished
    }

    /// Has a transfer come that was announced: there is room for `room` bytes from its start.
    /// Called again to make more room in the memory of a stream; room is never taken back.
    /// Nothing happens if the transfer is over.
    pub fn accept(&mut self, now: Instant, transfer: IncomingId, room: u64) {
        let Some(incoming) = self.incoming.get_mut(&transfer) else { return };
        incoming.accept(now, room);
        let (complete, expires) = (incoming.is_complete(), incoming.expires());
        self.wake_at(expires);
        match complete {
            true => self.complete(transfer),
            false => self.want(transfer),
        }
    }

    /// Ends a transfer, or refuses one that was announced. The other end is told `status`, which
    /// is not [`Status::Ok`]. Nothing happens if it is over.
    pub fn cancel(&mut self, transfer: impl Into<Transfer>, status: Status) {
        let status = if status == Status::Ok { Status::Invalid } else { status };
        self.fail(transfer.into(), Why::CancelledHere(status), Some(status));
    }

    /// That incarnation of the node, and those before it, are gone, as others have found out. So
    /// are transfers that nobody there has answered.
    pub fn peer_dead(&mut self, node: NodeId, generation: Generation) {
        if self.peers.bury(node, generation) {
            self.fail_dead(node, |it| it.is_none_or(|it| it <= generation));
        }
    }

    /// That incarnation of the node lives, and those before it are gone. If it was told to be gone,
    /// it was cut off, and goes on as it was; what had ended has.
    pub fn peer_alive(&mut self, node: NodeId, generation: Generation) {
        if self.peers.revive(node, generation) {
            self.fail_dead(node, |it| it.is_some_and(|it| it < generation));
        }
    }

    /// The next thing that happened, in order.
    pub fn poll(&mut self) -> Option<Event> {
        loop {
            match self.news.pop_front()? {
                News::Event(event) => return Some(event),
                News::Progress(transfer) => {
                    // A transfer that is over by now has told more than its progress.
                    let bytes = match transfer {
                        Transfer::Out(id) => self.outgoing.get_mut(&id.0).map(|outgoing| {
                            outgoing.progress_due = false;
                            outgoing.arrived()
                        }),
                        Transfer::In(id) => self.incoming.get_mut(&id).map(|incoming| {
                            incoming.progress_due = false;
                            incoming.arrived()
                        }),
                    };
                    if let Some(bytes) = bytes {
                        return Some(Event::Progress { transfer, bytes });
                    }
                }
            }
        }
    }

    /// What this endpoint has seen.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many transfers are under way: sent, received or announced.
    pub fn transfers(&self) -> [usize; 2] {
        [self.outgoing.len(), self.incoming.len()]
    }

    /// Bytes of data that a frame of this link has room for.
    fn block(&self) -> Option<u16> {
        let seal = if self.settings.sealed { SEAL_BYTES + TAG_BYTES } else { 0 };
        let room = self.settings.link.max_frame.checked_sub(HEADER_BYTES + DATA_BYTES + seal)?;
        let room = room.min(usize::from(u16::MAX));
        u16::try_from(room).ok().filter(|room| usize::from(*room) >= LEAST_BLOCK)
    }

    /// There may be something new to send of a transfer, or to say.
    fn goes_on(&mut self, number: u32, say: bool) {
        let Some(outgoing) = self.outgoing.get_mut(&number) else { return };
        if outgoing.can_send() && !outgoing.in_turn {
            outgoing.in_turn = true;
            self.sending.push_back(number);
        }
        let (due, must_ask) = (outgoing.due, outgoing.must_ask());
        self.wake_at(due);
        if say || must_ask {
            self.announce(number);
        }
    }

    fn announce(&mut self, number: u32) {
        let Some(outgoing) = self.outgoing.get_mut(&number) else { return };
        if !outgoing.announce_due {
            outgoing.announce_due = true;
            self.words.push_back(Transfer::Out(OutgoingId(number)));
        }
    }

    /// A transfer may be granted more.
    fn want(&mut self, id: IncomingId) {
        let Some(incoming) = self.incoming.get_mut(&id) else { return };
        if !incoming.in_turn && incoming.wants() > 0 {
            incoming.in_turn = true;
            self.wanting.push_back(id);
        }
    }

    /// The transfer's sender is to be told what has arrived and what it may send.
    fn say(&mut self, id: IncomingId) {
        let Some(incoming) = self.incoming.get_mut(&id) else { return };
        if !incoming.credit_due {
            incoming.credit_due = true;
            self.words.push_back(Transfer::In(id));
        }
    }

    fn reply(&mut self, header: Header) {
        if self.replies.len() < MOST_REPLIES {
            self.replies.push_back(header);
        }
    }

    fn header(&self, to: NodeId, generation: Generation, transfer: u32, body: Body) -> Header {
        Header {
            transfer,
            source: self.settings.node,
            source_generation: self.settings.generation,
            destination: to,
            destination_generation: generation,
            body,
        }
    }

    /// All of a transfer has arrived here.
    fn complete(&mut self, id: IncomingId) {
        let Some(incoming) = self.remove(id) else { return };
        let ended = Ended::Complete(incoming.credit());
        self.peers.end(&id, ended);
        self.reply(self.header(id.from, id.generation, id.number, ended.body()));
        let finished = Event::Finished { transfer: id.into(), bytes: incoming.arrived() };
        self.news.push_back(News::Event(finished));
    }

    /// Forgets a transfer that was received.
    fn remove(&mut self, id: IncomingId) -> Option<Box<Incoming>> {
        let incoming = self.incoming.remove(&id)?;
        self.pace.account(incoming.on_the_way(), 0);
        Some(incoming)
    }

    /// Ends a transfer early, and tells its other end if there is a status for it.
    fn fail(&mut self, transfer: Transfer, why: Why, tell: Option<Status>) {
        match transfer {
            Transfer::Out(id) => {
                let Some(outgoing) = self.outgoing.remove(&id.0) else { return };
                if let (Some(status), Some(generation)) = (tell, outgoing.generation) {
                    let body = Body::Cancel { status, by_sender: true };
                    self.reply(self.header(outgoing.to, generation, id.0, body));
                }
            }
            Transfer::In(id) => {
                if self.remove(id).is_none() {
                    return;
                }
                let ended = Ended::Cancelled(tell.unwrap_or(why.status()));
                self.peers.end(&id, ended);
                if tell.is_some() {
                    self.reply(self.header(id.from, id.generation, id.number, ended.body()));
                }
            }
        }
        self.news.push_back(News::Event(Event::Failed { transfer, why }));
    }

    /// Incarnations of a node are gone, and with them all transfers from and to them.
    fn fail_dead(&mut self, node: NodeId, is_gone: impl Fn(Option<Generation>) -> bool) {
        let to = self.outgoing.iter().filter(|(_, it)| it.to == node);
        let to = to.filter(|(_, it)| is_gone(it.generation));
        let to = to.map(|(number, _)| Transfer::Out(OutgoingId(*number)));
        let from = self.incoming.iter().map(|(id, _)| id);
        let from = from.filter(|id| id.from == node && is_gone(Some(id.generation)));
        let gone: Vec<Transfer> = to.chain(from.map(|id| Transfer::In(*id))).collect();
        gone.into_iter().for_each(|transfer| self.fail(transfer, Why::Dead, None));
    }

    /// A transfer's timer is due at this moment.
    fn wake_at(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }
}
