//! One transfer at its receiver. A *frame number* (sequence) counts the sender's data frames: a
//! frame with a higher one has come means that those before it are here or lost, whatever blocks
//! they carried. Credit is a limit on frame numbers, so that of lost frames comes back by itself.

use core::cmp::Ordering;
use core::time::Duration;

use nile_abi::Instant;

use crate::shown::Shown;
use crate::window::Window;
use crate::wire::{Announce, Credit, Data, WINDOW_BLOCKS};

/// The longest time without news after which the credit is said again.
const PATIENCE_LONGEST: Duration = Duration::from_millis(200);

/// A word is said at the latest after so many data frames.
const WORD_EVERY: u32 = 8;

pub struct Incoming {
    /// Bytes in every block but the last.
    pub block: u16,
    pub total: Option<u64>,
    /// Bytes that a frame of the transfer takes of the wire.
    wire: u64,
    /// Blocks that the sender has ready.
    ready: u32,
    /// Bytes that the owner has room for; `None` until it accepts.
    room: Option<u64>,
    /// Where its sender has all of it.
    pub shown: Option<Shown>,
    window: Window,
    /// Blocks that have arrived.
    received: u32,
    next: u32,
    limit: u32,
    /// What is on its way no longer counts.
    expired: bool,
    /// After this time without news what was granted counts as lost: others get its share of the
    /// window, and the credit is said again in case that was lost. It doubles each time.
    patience: Duration,
    backoff: u32,
    expires: Instant,
    /// Data frames that have come since the sender was told what has arrived.
    unsaid: u32,
    /// Whether the sender waits for that: a frame was lost, or it has sent all it may.
    word_due: bool,
    pub heard: Instant,
    /// Whether it waits for its turn to be granted more.
    pub in_turn: bool,
    /// Whether a credit frame is to be sent.
    pub credit_due: bool,
    /// Whether news of its progress is to be told.
    pub progress_due: bool,
}

/// What becomes of a data frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Its data belongs at this offset.
    New(u64),
    /// It has been here.
    Duplicate,
    /// There was no room for it.
    Beyond,
    /// It contradicts what is known.
    Nonsense,
}

impl Incoming {
    /// `announce` must contain no contradiction: it is the first.
    pub fn new(
        now: Instant,
        announce: &Announce,
        block: u16,
        wire: u64,
        patience: Duration,
    ) -> Incoming {
        let mut incoming = Incoming {
            block,
            total: None,
            wire,
            ready: 0,
            room: None,
            shown: None,
            window: Window::new(),
            received: 0,
            next: 0,
            limit: 0,
            expired: false,
            patience,
            backoff: 0,
            expires: now + PATIENCE_LONGEST,
            unsaid: 0,
            word_due: false,
            heard: now,
            in_turn: false,
            credit_due: false,
            progress_due: false,
        };
        incoming.announced(announce);
        incoming
    }

    /// The sender says (again) how much there is. `false` if that contradicts what it said before.
    pub fn announced(&mut self, announce: &Announce) -> bool {
        if !self.ends_at(announce.total) {
            return false;
        }
        let ready = match self.total == Some(announce.ready) {
            true => blocks_of(announce.ready, self.block),
            false => whole_blocks(announce.ready, self.block),
        };
        self.ready = self.ready.max(ready);
        self.pass(announce.next)
    }

    /// Data frames before `next` are not on their way any more. `false` if that cannot be.
    fn pass(&mut self, next: u32) -> bool {
        let passed = next.wrapping_sub(self.next);
        let granted = self.limit.wrapping_sub(self.next);
        if passed >= 1 << 31 {
            // That was long ago.
            return true;
        }
        if passed > granted.saturating_add(2 * WINDOW_BLOCKS) {
            return false;
        }
        self.next = next;
        if passed > granted {
            self.limit = next;
        }
        if passed > 0 {
            (self.expired, self.backoff) = (false, 0);
        }
        true
    }

    /// Takes note of the total if it is not known yet.
    fn ends_at(&mut self, total: Option<u64>) -> bool {
        let Some(total) = total else { return true };
        match self.total {
            Some(known) => known == total,
            // What has come already must lie before the end.
            None if self.window.top() <= blocks_of(total, self.block) => {
                self.total = Some(total);
                true
            }
            None => false,
        }
    }

    /// The owner has room for so many bytes from the transfer's start.
    pub fn accept(&mut self, now: Instant, room: u64) {
        self.room = Some(self.room.unwrap_or(0).max(room));
        self.expires = now + self.patience;
    }

    /// All of it is here, whose total is known.
    pub fn fill(&mut self) {
        let blocks = blocks_of(self.total.unwrap_or(0), self.block);
        self.window.fill(blocks);
        (self.room, self.received) = (self.total, blocks);
    }

    pub fn is_accepted(&self) -> bool {
        self.room.is_some()
    }

    /// Blocks before this one may come.
    fn end(&self) -> u32 {
        let room = self.room.unwrap_or(0);
        match self.total {
            Some(total) if room >= total => self.window.end(),
            _ => whole_blocks(room, self.block).min(self.window.end()),
        }
    }

    /// A data frame has come; if its block is new it counts as arrived.
    pub fn data(&mut self, now: Instant, data: &Data, bytes: usize) -> Verdict {
        let offset = u64::from(data.index) * u64::from(self.block);
        let end = offset + bytes as u64;
        let total = if data.last { Some(end) } else { self.total };
        let fits = match bytes.cmp(&usize::from(self.block)) {
            Ordering::Less => total == Some(end),
            Ordering::Equal => total.is_none_or(|total| end <= total),
            Ordering::Greater => false,
        };
        if !fits || !self.ends_at(total) {
            return Verdict::Nonsense;
        }
        let ahead = data.sequence.wrapping_sub(self.next);
        let late = ahead >= 1 << 31;
        if !late {
            if !self.pass(data.sequence.wrapping_add(1)) {
                return Verdict::Nonsense;
            }
            self.expires = now + self.patience;
        }
        self.unsaid += 1;
        self.word_due |= (!late && ahead > 0) || self.unsaid >= WORD_EVERY;
        let most = self.total.map_or(u32::MAX, |total| blocks_of(total, self.block));
        self.ready = self.ready.max(data.ready.min(most));
        if self.window.contains(data.index) {
            // What said so before was lost, or is late.
            self.word_due = true;
            return Verdict::Duplicate;
        }
        if data.index >= self.end() {
            return Verdict::Beyond;
        }
        self.window.insert(data.index);
        self.received += 1;
        Verdict::New(offset)
    }

    /// Frames that were granted and have not come.
    fn outstanding(&self) -> u32 {
        self.limit.wrapping_sub(self.next)
    }

    /// Bytes of them, while they may still come.
    pub fn on_the_way(&self) -> u64 {
        if self.expired { 0 } else { u64::from(self.outstanding()) * self.wire }
    }

    /// Bytes that a frame takes of the wire.
    pub fn wire(&self) -> u64 {
        self.wire
    }

    /// How many more frames it can use. One that is silent gets no more.
    pub fn wants(&self) -> u32 {
        if self.expired {
            return 0;
        }
        let missing = self.ready.min(self.end()).saturating_sub(self.received);
        missing.saturating_sub(self.outstanding())
    }

    pub fn grant(&mut self, now: Instant, frames: u32) {
        self.limit = self.limit.wrapping_add(frames);
        self.expires = self.expires.max(now + self.patience);
    }

    /// Whether the sender waits to be told what has arrived.
    pub fn wants_word(&self) -> bool {
        self.word_due || self.outstanding() == 0
    }

    /// The sender is being told.
    pub fn said(&mut self) {
        (self.word_due, self.unsaid) = (false, 0);
    }

    pub fn is_complete(&self) -> bool {
        let blocks = self.total.map(|total| blocks_of(total, self.block));
        self.is_accepted() && blocks == Some(self.window.base())
    }

    /// Bytes that have arrived, from the start.
    pub fn arrived(&self) -> u64 {
        let bytes = u64::from(self.window.base()) * u64::from(self.block);
        bytes.min(self.total.unwrap_or(u64::MAX))
    }

    pub fn credit(&self) -> Credit {
        Credit {
            block: self.block,
            complete: self.is_complete(),
            base: self.window.base(),
            next: self.next,
            limit: self.limit,
            end: self.end(),
        }
    }

    #[cfg(test)]
    pub fn start_at(&mut self, number: u32) {
        (self.next, self.limit) = (number, number);
    }

    pub fn window(&self) -> &Window {
        &self.window
    }

    /// When [`Incoming::expire`] is due: while credit is out, or to ask an idle sender for news.
    pub fn expires(&self) -> Instant {
        self.expires
    }

    /// Nothing has come for a while.
    pub fn expire(&mut self, now: Instant) {
        self.expired = self.outstanding() > 0;
        let waits = match self.outstanding() {
            0 => PATIENCE_LONGEST,
            _ => self.patience.saturating_mul(2 << self.backoff.min(16)).min(PATIENCE_LONGEST),
        };
        self.backoff += 1;
        self.expires = now + waits;
    }
}

/// Blocks that so many bytes fill.
pub fn whole_blocks(bytes: u64, block: u16) -> u32 {
    u32::try_from(bytes / u64::from(block.max(1))).unwrap_or(u32::MAX)
}

/// Blocks that so many bytes take, the last perhaps not full.
pub fn blocks_of(bytes: u64, block: u16) -> u32 {
    u32::try_from(bytes.div_ceil(u64::from(block.max(1)))).unwrap_or(u32::MAX)
}
