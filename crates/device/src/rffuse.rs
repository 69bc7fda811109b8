//! RFfuse: a part of a supervisor's disk as its domain has it (RainForest 5.4), over memory that
//! both share. The domain's end is a [`Disk`] like any other; the supervisor's, which drives the
//! device, is [`SharedDisk`](crate::SharedDisk).
//!
//! | offset in a link | what                                                                |
//! | ---------------- | ------------------------------------------------------------------- |
//! | 0                | bytes of the part, bytes of a sector: by the supervisor; zero: none |
//! | 64               | the domain's core that waits for answers                            |
//! | 128              | the supervisor's core that waits for requests                       |
//! | 192              | the states of the slots                                             |
//! | 320              | the requests of the slots: what, where, how many bytes              |
//! | a page           | the blocks of the slots, through which all bytes go                 |
//!
//! A slot is idle until the domain asks there, and asked until the supervisor answers. What a
//! request reads and writes is its block, never other memory of the domain: so no device reaches
//! that, and what a dead incarnation had asked for does no harm but to its block. The next one asks
//! for nothing before all that has ended.
//!
//! What the other end writes is never trusted. What the supervisor alone knows of a part, as
//! whether it is as new, stands in a [`PartState`] that no domain has.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::sync::atomic::{AtomicU64, Ordering};

use nile_ring::Region;

use crate::Disk;
use crate::disk::{Completion, Description, DiskError, Piece, Request};
use crate::waits::Waits;

const LINE_WORDS: usize = 8;
const HEAD_BYTES: usize = 4096;

/// Requests of a link at a time.
pub const SLOTS: usize = 16;

/// Bytes of a slot's block: the most that one of them moves.
pub const BLOCK_BYTES: usize = 64 << 10;

/// Bytes of a link, whole pages.
pub const DISK_LINK_BYTES: usize = HEAD_BYTES + SLOTS * BLOCK_BYTES;

/// Where the states and the requests of slots begin, in words.
const STATES: usize = 3 * LINE_WORDS;
const REQUESTS: usize = STATES + SLOTS;
const REQUEST_WORDS: usize = 4;
const _: () = assert!((REQUESTS + SLOTS * REQUEST_WORDS) * 8 <= HEAD_BYTES);

/// States of a slot besides idle; from [`ANSWERED`] on they say how the request ended.
const ASKED: u64 = 1;
const ANSWERED: u64 = 2;

/// States of the part with being made as new.
const WANTED: u64 = 1;
const IS_NEW: u64 = 2;
const IS_NOT: u64 = 3;
const IS_TOLD: u64 = 4;

/// What a domain and its supervisor share of a part of a disk.
#[derive(Clone, Debug)]
pub struct DiskLink(Region);

/// What a domain asks for in a slot, as it stands there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    pub what: What,
    /// The first byte of the part.
    pub at: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// What is done to a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Read,
    Write,
    Flush,
    Discard,
}

impl What {
    const ALL: [What; 4] = [What::Read, What::Write, What::Flush, What::Discard];

    fn of(request: &Request) -> What {
        match request {
            Request::Read { .. } => What::Read,
            Request::Write { .. } => What::Write,
            Request::Flush => What::Flush,
            Request::Discard { .. } => What::Discard,
        }
    }
}

/// How a request of a slot ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Answer {
    Done,
    Media,
    NoSpace,
    ReadOnly,
    Failed,
    /// It was none of this part's.
    Refused,
}

impl Answer {
    const ALL: [Answer; 6] = [
        Answer::Done,
        Answer::Media,
        Answer::NoSpace,
        Answer::ReadOnly,
        Answer::Failed,
        Answer::Refused,
    ];

    pub fn of(result: Result<(), DiskError>) -> Answer {
        match result {
            Ok(()) => Answer::Done,
            Err(DiskError::Media { .. }) => Answer::Media,
            Err(DiskError::NoSpace) => Answer::NoSpace,
            Err(DiskError::ReadOnly) => Answer::ReadOnly,
            Err(DiskError::Failed) => Answer::Failed,
            Err(DiskError::OutOfRange { .. } | DiskError::Misaligned(_) | DiskError::Unfit) => {
                Answer::Refused
            }
        }
    }

    fn result(self, request: &Request) -> Result<(), DiskError> {
        match self {
            Answer::Done => Ok(()),
            Answer::Media => {
                let (at, end) = request.range().unwrap_or_default();
                Err(DiskError::Media { at, end })
            }
            Answer::NoSpace => Err(DiskError::NoSpace),
            Answer::ReadOnly => Err(DiskError::ReadOnly),
            Answer::Failed | Answer::Refused => Err(DiskError::Failed),
        }
    }
}

/// How far a part is with being made as new.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Renewal {
    /// Whoever drives the disk is at it.
    UnderWay,
    /// It is: all of it is zero.
    Done,
    /// It is not, and will not be; said once.
    Failed,
}

/// Bytes of what a supervisor alone knows of a part: a cache line.
pub const PART_STATE_BYTES: usize = LINE_WORDS * 8;

/// What a supervisor alone knows of a part, between its managing core and the one that drives the
/// disk: whether it is there, how far it is with being made as new, and who waits to hear of that.
#[derive(Clone, Debug)]
pub struct PartState(Region);

impl PartState {
    /// The state in a region of [`PART_STATE_BYTES`], zero at first; `None` if it is smaller.
    pub fn new(region: Region) -> Option<PartState> {
        (region.len() >= PART_STATE_BYTES).then_some(PartState(region))
    }

    fn is_there_word(&self) -> &AtomicU64 {
        &self.0.words()[0]
    }

    fn renewal(&self) -> &AtomicU64 {
        &self.0.words()[1]
    }

    pub(crate) fn waits(&self) -> Waits<'_> {
        Waits(&self.0.words()[2])
    }

    /// Says whether somebody drives the disk, and the part is there.
    pub fn set_there(&self, is_there: bool) {
        self.is_there_word().store(is_there.into(), Ordering::Release);
    }

    /// Whether somebody does.
    pub fn is_there(&self) -> bool {
        self.is_there_word().load(Ordering::Acquire) != 0
    }

    /// Has the part made as new, which no domain has, or asks how far that is. `wake` interrupts
    /// the core of a name.
    pub fn renew(&self, wake: impl FnMut(u32)) -> Renewal {
        let state = self.renewal();
        match state.load(Ordering::Acquire) {
            0 => {
                state.store(WANTED, Ordering::Release);
                self.waits().name().into_iter().for_each(wake);
                Renewal::UnderWay
            }
            IS_NEW => {
                state.store(0, Ordering::Release);
                Renewal::Done
            }
            IS_NOT => {
                state.store(IS_TOLD, Ordering::Release);
                Renewal::Failed
            }
            _ => Renewal::UnderWay,
        }
    }

    /// Whether it is to be made as new.
    pub(crate) fn is_to_renew(&self) -> bool {
        self.renewal().load(Ordering::Acquire) == WANTED
    }

    /// Says whether it is as new.
    pub(crate) fn renewed(&self, is_new: bool) {
        self.renewal().store(if is_new { IS_NEW } else { IS_NOT }, Ordering::Release);
    }

    /// What could not be made as new is tried once more: somebody else drives the disk.
    pub(crate) fn try_again(&self) {
        if self.renewal().load(Ordering::Acquire) >= IS_NOT {
            self.renewal().store(WANTED, Ordering::Release);
        }
    }
}

impl DiskLink {
    /// The link in a region of [`DISK_LINK_BYTES`], zero at first; `None` if it is smaller.
    pub fn new(region: Region) -> Option<DiskLink> {
        (region.len() >= DISK_LINK_BYTES).then_some(DiskLink(region))
    }

    fn word(&self, line: usize) -> &AtomicU64 {
        &self.0.words()[line * LINE_WORDS]
    }

    fn sector(&self) -> &AtomicU64 {
        &self.0.words()[1]
    }

    /// Says how large the part is; by whoever drives the disk.
    pub(crate) fn set_part(&self, bytes: u64, sector_bytes: u32) {
        self.sector().store(sector_bytes.into(), Ordering::Relaxed);
        self.word(0).store(bytes, Ordering::Release);
    }

    pub(crate) fn domain_waits(&self) -> Waits<'_> {
        Waits(self.word(1))
    }

    pub(crate) fn supervisor_waits(&self) -> Waits<'_> {
        Waits(self.word(2))
    }

    /// Makes all of it as new.
    pub(crate) fn erase(&self) {
        let words = self.0.words().iter();
        words.for_each(|word| word.store(0, Ordering::Relaxed));
    }

    fn state(&self, slot: usize) -> &AtomicU64 {
        &self.0.words()[STATES + slot]
    }

    pub(crate) fn request(&self, slot: usize) -> [&AtomicU64; 3] {
        core::array::from_fn(|word| &self.0.words()[REQUESTS + slot * REQUEST_WORDS + word])
    }

    /// The first bytes of a slot's block, and where they are in the link.
    pub(crate) fn block(&self, slot: usize, bytes: usize) -> Option<(usize, Region)> {
        let at = HEAD_BYTES + slot * BLOCK_BYTES;
        let fits = slot < SLOTS && bytes <= BLOCK_BYTES;
        Some((at, self.0.slice(at, bytes).filter(|_| fits)?))
    }

    /// Whether the domain waits for an answer in a slot.
    pub(crate) fn is_asked(&self, slot: usize) -> bool {
        self.state(slot).load(Ordering::Acquire) == ASKED
    }

    /// What it asks for; none if that is nothing that can be asked.
    pub(crate) fn asked(&self, slot: usize) -> Option<Asked> {
        let [what, at, bytes] = self.request(slot).map(|word| word.load(Ordering::Relaxed));
        Some(Asked { what: *What::ALL.get(what as usize)?, at, bytes })
    }

    /// Asks for something in an idle slot.
    pub(crate) fn ask(&self, slot: usize, asked: Asked) {
        let words = [asked.what as u64, asked.at, asked.bytes];
        for (word, value) in self.request(slot).into_iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        self.state(slot).store(ASKED, Ordering::Release);
    }

    /// Answers; who is to be interrupted then.
    pub(crate) fn answer(&self, slot: usize, answer: Answer) -> Option<u32> {
        self.state(slot).store(ANSWERED + answer as u64, Ordering::Release);
        self.domain_waits().name()
    }

    /// Nobody drives the disk: there is no part, and what was asked for has failed.
    pub fn close(&self) {
        self.set_part(0, 0);
        for slot in (0..SLOTS).filter(|slot| self.is_asked(*slot)) {
            self.answer(slot, Answer::Failed);
        }
    }

    /// The answer in a slot, if there is one. What no supervisor answers is that it failed.
    fn answered(&self, slot: usize) -> Option<Answer> {
        let answer = self.state(slot).load(Ordering::Acquire).checked_sub(ANSWERED)?;
        Some(Answer::ALL.get(answer as usize).copied().unwrap_or(Answer::Failed))
    }
}

/// Requests that a domain's end takes on at a time.
const MOST: usize = 64;

/// A part of a disk, on the domain's core that drives it. `wake` interrupts the core of a name.
pub struct LinkedDisk<W> {
    link: DiskLink,
    own: u32,
    wake: W,
    description: Description,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// Whether all that an earlier incarnation asked for has ended.
    is_begun: bool,
    open: Vec<Open>,
    slots: [Option<Chunk>; SLOTS],
    ended: VecDeque<Completion>,
}

/// A request that has not ended.
struct Open {
    tag: u32,
    request: Request,
    /// How far it was asked for; none of what moves nothing.
    asked: Option<u64>,
    chunks: u32,
    result: Result<(), DiskError>,
}

/// What a slot has of a request.
#[derive(Clone, Copy)]
struct Chunk {
    tag: u32,
    from: u64,
    bytes: u64,
}

impl Open {
    /// The next piece of it to ask for.
    fn next(&mut self) -> Option<(Asked, Chunk)> {
        let (what, tag) = (What::of(&self.request), self.tag);
        let range = self.request.range();
        let all = self.request.bytes();
        let from = match (self.asked, self.result) {
            (Some(asked), Ok(())) if asked < all => asked,
            (None, _) => 0,
            _ => return None,
        };
        let bytes = (all - from).min(BLOCK_BYTES as u64);
        self.asked = Some(from + bytes);
        self.chunks += 1;
        let (at, end) = range.unwrap_or_default();
        // What moves nothing is asked for at once.
        let said = if all == 0 { end - at } else { bytes };
        Some((Asked { what, at: at + from, bytes: said }, Chunk { tag, from, bytes }))
    }

    fn is_over(&self) -> bool {
        let is_asked = self.asked.is_some_and(|asked| asked == self.request.bytes());
        self.chunks == 0 && (is_asked || self.result.is_err())
    }
}

impl<W: Fn(u32)> LinkedDisk<W> {
    /// The part as a domain's core of this name has it; `None` if there is none. What an earlier
    /// incarnation asked for ends before anything else is done.
    pub fn open(link: DiskLink, own: u32, wake: W) -> Option<LinkedDisk<W>> {
        let bytes = link.word(0).load(Ordering::Acquire);
        let sector = link.sector().load(Ordering::Relaxed);
        let sector_bytes = u32::try_from(sector).ok()?;
        let is_one = sector.is_power_of_two() && sector >= 512 && bytes.is_multiple_of(sector);
        if bytes == 0 || !is_one {
            return None;
        }
        let (name, serial) = ("rffuse".into(), Default::default());
        let description = Description { name, serial, bytes, sector_bytes };
        Some(LinkedDisk { link, own, wake, description, state: RefCell::default() })
    }

    /// Asks for as much as there is room for, and tells the supervisor.
    fn ask(&self, state: &mut State) {
        if self.put(state) {
            self.link.supervisor_waits().name().into_iter().for_each(&self.wake);
        }
    }

    /// Puts requests into slots; whether the supervisor has anything to do for it, which an earlier
    /// incarnation may not have told.
    fn put(&self, state: &mut State) -> bool {
        if !state.is_begun {
            if (0..SLOTS).any(|slot| self.link.is_asked(slot)) {
                return true;
            }
            state.is_begun = true;
        }
        let mut is_put = false;
        for slot in 0..SLOTS {
            if state.slots[slot].is_some() {
                continue;
            }
            let mut open = state.open.iter_mut();
            let Some((asked, chunk, request)) =
                open.find_map(|it| it.next().map(|(asked, chunk)| (asked, chunk, &it.request)))
            else {
                break;
            };
            if let Request::Write { from, .. } = request
                && let Some((_, block)) = self.link.block(slot, chunk.bytes as usize)
            {
                copy(words(from, chunk), block.words().iter());
            }
            self.link.ask(slot, asked);
            state.slots[slot] = Some(chunk);
            is_put = true;
        }
        is_put
    }

    /// Takes the answer in a slot, if there is one.
    fn take(&self, state: &mut State, slot: usize) {
        let State { open, slots, ended, .. } = state;
        let (Some(chunk), Some(answer)) = (slots[slot], self.link.answered(slot)) else { return };
        slots[slot] = None;
        let Some(place) = open.iter().position(|it| it.tag == chunk.tag) else { return };
        let it = &mut open[place];
        it.chunks -= 1;
        it.result = it.result.and(answer.result(&it.request));
        if let Request::Read { into, .. } = &it.request
            && let Some((_, block)) = self.link.block(slot, chunk.bytes as usize)
        {
            copy(block.words().iter(), words(into, chunk));
        }
        if it.is_over() {
            let Open { tag, result, .. } = open.remove(place);
            ended.push_back(Completion { tag, result, hash: None });
        }
    }
}

/// The words of memory that a chunk is about.
fn words(pieces: &[Piece], chunk: Chunk) -> impl Iterator<Item = &AtomicU64> {
    let mut before = chunk.from as usize / 8;
    let words = pieces.iter().flat_map(move |piece| {
        let words = piece.region.words();
        let skipped = before.min(words.len());
        before -= skipped;
        &words[skipped..]
    });
    words.take(chunk.bytes as usize / 8)
}

fn copy<'a>(from: impl Iterator<Item = &'a AtomicU64>, to: impl Iterator<Item = &'a AtomicU64>) {
    for (to, from) in to.zip(from) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl<W: Fn(u32)> Disk for LinkedDisk<W> {
    fn description(&self) -> &Description {
        &self.description
    }

    fn submit(&self, tag: u32, request: &Request) -> bool {
        let state = &mut *self.state.borrow_mut();
        if state.open.len() == MOST {
            return false;
        }
        let (request, result) = (request.clone(), Ok(()));
        state.open.push(Open { tag, request, asked: None, chunks: 0, result });
        self.ask(state);
        true
    }

    fn tell(&self) {
        let state = &mut *self.state.borrow_mut();
        self.ask(state);
    }

    fn is_ready(&self) -> bool {
        let state = self.state.borrow();
        let is_answered = || {
            let mut slots = state.slots.iter().enumerate();
            let own = slots.any(|(slot, it)| it.is_some() && self.link.answered(slot).is_some());
            let is_quiet = || !(0..SLOTS).any(|slot| self.link.is_asked(slot));
            own || (!state.is_begun && !state.open.is_empty() && is_quiet())
        };
        !state.ended.is_empty() || self.link.domain_waits().begin(self.own, is_answered)
    }

    fn complete(&self) -> Option<Completion> {
        let state = &mut *self.state.borrow_mut();
        self.link.domain_waits().end();
        (0..SLOTS).for_each(|slot| self.take(state, slot));
        self.ask(state);
        state.ended.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_say_what_was_asked_for() {
        let discard = Request::Discard { at: 4096, bytes: 512 };
        let media = Answer::Media.result(&discard);
        assert_eq!(media, Err(DiskError::Media { at: 4096, end: 4608 }));
        for answer in Answer::ALL {
            let back = Answer::of(answer.result(&discard));
            assert!(back == answer || answer == Answer::Refused && back == Answer::Failed);
        }
    }
}
