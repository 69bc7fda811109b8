//! One transfer at its sender. Every data frame has a number of its own (sequence), also when its
//! block was sent before: when the receiver has seen higher ones, those whose blocks it does not
//! have were lost. Only the end of a burst needs a timer.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Generation, Instant, NodeId};

use crate::event::Send;
use crate::incoming::{blocks_of, whole_blocks};
use crate::window::blocks;
use crate::wire::{Announce, Credit, Data, WINDOW_BLOCKS};

/// A frame counts as lost when the receiver has seen so many later ones.
const LATER_FRAMES: u32 = 3;

/// The most blocks of a transfer: block numbers never wrap.
const MOST_BLOCKS: u32 = u32::MAX - 2 * WINDOW_BLOCKS;

/// How long an answer takes, before it was measured and at the extremes.
const FIRST_WAIT: Duration = Duration::from_millis(2);
const LEAST_WAIT: Duration = Duration::from_micros(200);
const MOST_WAIT: Duration = Duration::from_millis(100);

pub struct Outgoing {
    pub to: NodeId,
    /// The receiver's incarnation; unknown until it answers.
    pub generation: Option<Generation>,
    source_core: CoreId,
    core: CoreId,
    tag: u64,
    label: u64,
    total: Option<u64>,
    /// The data of its announcements, which say where its bytes are.
    pub shown: Vec<u8>,
    /// Bytes that may be read.
    offered: u64,
    /// Bytes in every block but the last: what was proposed until the receiver has answered.
    block: u16,
    agreed: bool,
    /// Ready blocks of which the receiver was told.
    told: u32,
    /// The first block that has not arrived.
    base: u32,
    /// The blocks from there on that were sent.
    sent: VecDeque<Sent>,
    /// Blocks to be sent again; some may have arrived since.
    lost: VecDeque<u32>,
    /// The number of the next data frame.
    next: u32,
    /// The receiver has seen frames up to this number.
    seen: u32,
    limit: u32,
    end: u32,
    /// The timer has fired: one block may be sent without credit.
    probe: bool,
    round_trip: RoundTrip,
    backoff: u32,
    pub due: Instant,
    pub heard: Instant,
    /// Whether it waits for its turn to send.
    pub in_turn: bool,
    /// Whether an announcement is to be sent.
    pub announce_due: bool,
    /// Whether news of its progress is to be told.
    pub progress_due: bool,
}

/// A block that was sent.
struct Sent {
    /// In which frame it was sent last.
    sequence: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    OnItsWay,
    Lost,
    Arrived,
}

/// A block to be sent.
pub struct Pick {
    pub data: Data,
    pub offset: u64,
    pub bytes: usize,
    /// Whether it was sent before.
    pub repeated: bool,
}

/// What credit leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// All of it has arrived.
    Complete,
    /// More of it has arrived, or nothing has changed.
    Goes,
    /// The transfer has more blocks than can be counted.
    TooLong,
    /// It contradicts what was sent.
    Nonsense,
}

impl Outgoing {
    pub fn new(now: Instant, send: &Send, block: u16) -> Outgoing {
        Outgoing {
            to: send.to,
            generation: send.generation,
            source_core: send.source_core,
            core: send.core,
            tag: send.tag,
            label: send.label,
            total: send.total,
            shown: Vec::new(),
            offered: send.total.unwrap_or(0),
            block,
            agreed: false,
            told: 0,
            base: 0,
            sent: VecDeque::new(),
            lost: VecDeque::new(),
            next: 0,
            seen: 0,
            limit: 0,
            end: 0,
            probe: false,
            round_trip: RoundTrip::default(),
            backoff: 0,
            due: now + FIRST_WAIT,
            heard: now,
            in_turn: false,
            announce_due: false,
            progress_due: false,
        }
    }

    /// So many bytes from the start can be read.
    pub fn offer(&mut self, bytes: u64) {
        let most = self.total.unwrap_or(u64::MAX - 1);
        self.offered = self.offered.max(bytes.min(most));
    }

    /// The transfer ends here. `false` if more was offered, or another end was named.
    pub fn finish(&mut self, total: u64) -> bool {
        if self.total.is_some_and(|known| known != total) || self.offered > total {
            return false;
        }
        (self.total, self.offered) = (Some(total), total);
        true
    }

    /// Blocks that can be read.
    fn ready(&self) -> u32 {
        match self.total == Some(self.offered) {
            true => blocks_of(self.offered, self.block),
            false => whole_blocks(self.offered, self.block),
        }
    }

    /// The first block that was never sent.
    fn fresh(&self) -> u32 {
        self.base + self.sent.len() as u32
    }

    fn is_known_lost(&self, block: u32) -> bool {
        block
            .checked_sub(self.base)
            .and_then(|at| self.sent.get(at as usize))
            .is_some_and(|sent| sent.state == State::Lost)
    }

    fn has_credit(&self) -> bool {
        self.limit != self.next && self.limit.wrapping_sub(self.next) < 1 << 31
    }

    fn has_blocks(&self) -> bool {
        !self.lost.is_empty() || self.fresh() < self.ready().min(self.end)
    }

    pub fn can_send(&self) -> bool {
        self.agreed && (self.probe || (self.has_credit() && self.has_blocks()))
    }

    /// Whether it has to announce that more is ready: no data frame is going to say so.
    pub fn must_ask(&self) -> bool {
        self.agreed && !self.has_credit() && self.sent.is_empty() && self.ready() > self.told
    }

    /// The next block to be sent, as if it were sent now.
    pub fn pick(&mut self, now: Instant) -> Option<Pick> {
        let index = self.choose()?;
        let repeated = index < self.fresh();
        let sent = Sent { sequence: self.next, state: State::OnItsWay };
        match self.sent.get_mut((index - self.base) as usize) {
            Some(known) => *known = sent,
            None => self.sent.push_back(sent),
        }
        self.round_trip.start(now, self.next);
        self.due = now + self.wait();
        let offset = u64::from(index) * u64::from(self.block);
        let bytes = (self.offered - offset).min(u64::from(self.block));
        let last = self.total == Some(offset + bytes);
        self.told = self.ready();
        let data = Data { index, sequence: self.next, ready: self.told, last };
        self.next = self.next.wrapping_add(1);
        Some(Pick { data, offset, bytes: bytes as usize, repeated })
    }

    fn choose(&mut self) -> Option<u32> {
        if !self.agreed {
            return None;
        }
        if core::mem::take(&mut self.probe) && !self.sent.is_empty() {
            return Some(self.base);
        }
        if !self.has_credit() {
            return None;
        }
        while let Some(block) = self.lost.pop_front() {
            if self.is_known_lost(block) {
                return Some(block);
            }
        }
        Some(self.fresh()).filter(|fresh| *fresh < self.ready().min(self.end))
    }

    /// The receiver says what has arrived and what may be sent.
    pub fn credit(&mut self, now: Instant, credit: &Credit, bitmap: &[u8]) -> Answer {
        if credit.block > self.block || (self.agreed && credit.block != self.block) {
            return Answer::Nonsense;
        }
        let ahead = credit.limit.wrapping_sub(self.next);
        let granted_too_much = ahead < 1 << 31 && ahead > 2 * WINDOW_BLOCKS;
        let never_sent = self.next.wrapping_sub(credit.next) >= 1 << 31;
        let is_fetched = credit.complete && !self.shown.is_empty();
        let too_early = credit.base > self.fresh() && !is_fetched;
        if never_sent || granted_too_much || too_early {
            return Answer::Nonsense;
        }
        self.heard = now;
        (self.block, self.agreed) = (credit.block, true);
        if self.total.is_some_and(|total| blocks_of(total, self.block) > MOST_BLOCKS) {
            return Answer::TooLong;
        }
        if credit.complete {
            let all = self.total == Some(self.offered) && credit.base == self.ready();
            return if all { Answer::Complete } else { Answer::Nonsense };
        }
        if credit.base < self.base || credit.next.wrapping_sub(self.seen) >= 1 << 31 {
            // It was overtaken by later credit, which said all of this.
            return Answer::Goes;
        }
        if credit.limit.wrapping_sub(self.limit) < 1 << 31 {
            self.limit = credit.limit;
        }
        self.end = self.end.max(credit.end.min(MOST_BLOCKS));
        if self.round_trip.stop(now, credit.next) || credit.base > self.base {
            self.backoff = 0;
        }
        self.seen = credit.next;
        self.sent.drain(..(credit.base - self.base) as usize);
        self.base = credit.base;
        for block in blocks(credit.base, bitmap) {
            if let Some(sent) = self.sent.get_mut((block - self.base) as usize) {
                sent.state = State::Arrived;
            }
        }
        let first_passed = self.sent.front().is_some_and(|sent| self.is_passed(sent));
        if first_passed || !bitmap.is_empty() {
            self.find_lost();
        }
        self.due = now + self.wait();
        Answer::Goes
    }

    /// Whether the receiver has seen the block's frame or a later one.
    fn is_passed(&self, sent: &Sent) -> bool {
        sent.sequence != self.seen && self.seen.wrapping_sub(sent.sequence) < 1 << 31
    }

    /// Notes which blocks were lost, now that later frames were seen. When the last of all was
    /// seen none can come any more, unless they were overtaken.
    fn find_lost(&mut self) {
        let all_seen = self.seen == self.next;
        for at in 0..self.sent.len() {
            let sent = &self.sent[at];
            let later = self.seen.wrapping_sub(sent.sequence);
            let is_lost = self.is_passed(sent) && (later > LATER_FRAMES || all_seen);
            if sent.state == State::OnItsWay && is_lost {
                self.sent[at].state = State::Lost;
                self.lost.push_back(self.base + at as u32);
            }
        }
    }

    /// The timer has fired: a block that is missing may be sent without credit, so that the
    /// receiver answers. If none is, an announcement is to ask.
    pub fn expire(&mut self, now: Instant, spread: u32) {
        self.backoff = self.backoff.saturating_add(1);
        self.round_trip.give_up();
        self.probe = self.agreed && !self.sent.is_empty();
        let wait = self.wait();
        self.due = now + wait + wait / 8 * (spread % 8) / 8;
    }

    /// How long to wait for an answer.
    fn wait(&self) -> Duration {
        let waits_for_owner = self.total.is_none() && self.fresh() >= self.ready();
        let least = match self.sent.is_empty() {
            false => LEAST_WAIT,
            // Nothing is missing: only to hear whether the other end is there.
            true if waits_for_owner => MOST_WAIT,
            true => FIRST_WAIT,
        };
        let wait = self.round_trip.wait().max(least);
        wait.saturating_mul(1 << self.backoff.min(16)).min(MOST_WAIT)
    }

    pub fn announce(&mut self, oldest: u32) -> Announce {
        self.told = self.ready();
        Announce {
            source_core: self.source_core,
            core: self.core,
            block: self.block,
            tag: self.tag,
            label: self.label,
            total: self.total,
            ready: self.offered,
            oldest,
            // Frames whose blocks have arrived otherwise do not matter any more, and they may
            // have used up all credit.
            next: if self.sent.is_empty() { self.next } else { self.seen },
        }
    }

    /// Bytes that have arrived, from the start.
    pub fn arrived(&self) -> u64 {
        (u64::from(self.base) * u64::from(self.block)).min(self.offered)
    }

    #[cfg(test)]
    pub fn start_at(&mut self, number: u32) {
        (self.next, self.seen, self.limit) = (number, number, number);
    }

    /// Bytes in all, if that is known.
    pub fn total(&self) -> Option<u64> {
        self.total
    }

    /// Bytes in all, as far as they were offered.
    pub fn offered(&self) -> u64 {
        self.offered
    }
}

/// How long it takes until a frame's arrival is known, measured one frame at a time (as RFC 6298
/// smooths it). Numbers are not used twice, so a measurement is never of another frame.
#[derive(Default)]
struct RoundTrip {
    measured: Option<(u32, Instant)>,
    smooth: Option<Duration>,
    varies: Duration,
}

impl RoundTrip {
    fn start(&mut self, now: Instant, sequence: u32) {
        self.measured.get_or_insert((sequence, now));
    }

    /// Frames before `next` were seen. Whether that was an answer to the measured one.
    fn stop(&mut self, now: Instant, next: u32) -> bool {
        let Some((sequence, since)) = self.measured else { return false };
        let passed = next.wrapping_sub(sequence);
        if passed == 0 || passed >= 1 << 31 {
            return false;
        }
        self.measured = None;
        let took = now.since(since);
        match self.smooth {
            None => (self.smooth, self.varies) = (Some(took), took / 2),
            Some(smooth) => {
                let off = took.abs_diff(smooth);
                self.varies = (self.varies * 3 + off) / 4;
                self.smooth = Some((smooth * 7 + took) / 8);
            }
        }
        true
    }

    /// What is measured was probably lost.
    fn give_up(&mut self) {
        self.measured = None;
    }

    fn wait(&self) -> Duration {
        let Some(smooth) = self.smooth else { return FIRST_WAIT };
        smooth.saturating_add(self.varies.saturating_mul(4)).clamp(LEAST_WAIT, MOST_WAIT)
    }
}
