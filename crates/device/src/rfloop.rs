//! RFloop: Ethernet frames between a domain and its supervisor, over memory that both share
//! (RainForest 5.4). A ring of frames in each direction, without a lock; whoever waits for frames
//! is interrupted once, and whoever looks at the ring anyway is not.
//!
//! | offset in a loop | what                                                                 |
//! | ---------------- | -------------------------------------------------------------------- |
//! | 0                | the domain's address, with a bit that says so: by the supervisor      |
//! | 64               | the ring to the domain                                               |
//! | then             | the ring to the supervisor                                           |
//!
//! | offset in a ring | what                                                                 |
//! | ---------------- | -------------------------------------------------------------------- |
//! | 0                | frames that were put in, by the sender                               |
//! | 64               | frames that were taken out, by the receiver                          |
//! | 128              | the receiver's name in the machine, plus one, while it waits         |
//! | 192              | the slots: bytes of the frame (8), the frame                         |
//!
//! What the other end writes is never trusted: a frame is copied before it is looked at, and
//! nonsense in the counters loses frames of this loop alone.

use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicU64, Ordering};

use nile_abi::MacAddress;
use nile_abi::ethernet::HEADER_BYTES;
use nile_ring::Region;

use crate::Interface;
use crate::interface::Traffic;
use crate::waits::Waits;

/// Bytes of the largest frame.
pub const MAX_FRAME: usize = HEADER_BYTES + 1500;

const LINE: usize = 64;
const LINE_WORDS: usize = LINE / 8;

/// Frames that a ring holds: a power of two, so that counters may wrap.
pub const SLOTS: u64 = 64;
const SLOT_BYTES: usize = (8 + MAX_FRAME).next_multiple_of(LINE);
const SLOT_WORDS: usize = SLOT_BYTES / 8;
const RING_BYTES: usize = 3 * LINE + SLOTS as usize * SLOT_BYTES;

/// Bytes of a loop, whole pages.
pub const LOOP_BYTES: usize = (LINE + 2 * RING_BYTES).next_multiple_of(4096);

const IS_ADDRESS: u64 = 1 << 48;

/// A loop.
#[derive(Clone, Debug)]
pub struct FrameLoop(Region);

impl FrameLoop {
    /// The loop in a region of [`LOOP_BYTES`], zero at first; `None` if it is smaller.
    pub fn new(region: Region) -> Option<FrameLoop> {
        (region.len() >= LOOP_BYTES).then_some(FrameLoop(region))
    }

    /// Says which address the domain has there. Until then it has no interface.
    pub fn set_address(&self, address: MacAddress) {
        let [a, b, c, d, e, f] = address.0;
        let word = u64::from_be_bytes([0, 0, a, b, c, d, e, f]) | IS_ADDRESS;
        self.0.words()[0].store(word, Ordering::Release);
    }

    /// The domain's address.
    pub fn address(&self) -> Option<MacAddress> {
        let word = self.0.words()[0].load(Ordering::Acquire);
        let [_, _, address @ ..] = word.to_be_bytes();
        (word & IS_ADDRESS != 0).then_some(MacAddress(address))
    }

    /// Forgets what frames held, for another domain. The counters go on.
    pub fn erase(&self) {
        for ring in [self.ring(0), self.ring(1)] {
            ring.slots().iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
    }

    /// The supervisor's end, for a core of this name in the machine.
    pub fn supervisor_end(&self, own: u32) -> LoopEnd {
        LoopEnd { outbound: self.ring(0), inbound: self.ring(1), own }
    }

    /// The domain's end. What was for an earlier one is dropped.
    pub fn domain_end(&self, own: u32) -> LoopEnd {
        let end = LoopEnd { outbound: self.ring(1), inbound: self.ring(0), own };
        let put = end.inbound.put().load(Ordering::Acquire);
        end.inbound.taken().store(put, Ordering::Release);
        end
    }

    /// The ring to the supervisor as it is, for who keeps to none of its rules.
    pub fn to_supervisor(&self) -> Ring {
        self.ring(1)
    }

    fn ring(&self, index: usize) -> Ring {
        let ring = self.0.slice(LINE + index * RING_BYTES, RING_BYTES);
        Ring(ring.expect("a loop has room for both rings"))
    }
}

/// A ring of frames, as words: both ends write there, and believe nothing that they read.
#[derive(Clone, Debug)]
pub struct Ring(Region);

impl Ring {
    /// Frames that were put in.
    pub fn put(&self) -> &AtomicU64 {
        &self.0.words()[0]
    }

    /// Frames that were taken out.
    pub fn taken(&self) -> &AtomicU64 {
        &self.0.words()[LINE_WORDS]
    }

    fn waits(&self) -> Waits<'_> {
        Waits(&self.0.words()[2 * LINE_WORDS])
    }

    fn slots(&self) -> &[AtomicU64] {
        &self.0.words()[3 * LINE_WORDS..]
    }

    /// The slot of a frame: its length in bytes, then the bytes.
    pub fn slot(&self, number: u64) -> &[AtomicU64] {
        let at = (number % SLOTS) as usize * SLOT_WORDS;
        &self.slots()[at..at + SLOT_WORDS]
    }
}

/// One end of a loop. It keeps nothing but its place: whoever makes it anew goes on.
#[derive(Debug)]
pub struct LoopEnd {
    outbound: Ring,
    inbound: Ring,
    own: u32,
}

impl LoopEnd {
    /// How many frames the other end has taken, if there is no room for another one.
    pub fn is_full(&self) -> Option<u64> {
        let put = self.outbound.put().load(Ordering::Relaxed);
        let taken = self.outbound.taken().load(Ordering::Acquire);
        (put.wrapping_sub(taken) >= SLOTS).then_some(taken)
    }

    /// The number that the next frame gets, and how many of those before it the other end has still
    /// to take.
    pub fn held(&self) -> (u64, u64) {
        let put = self.outbound.put().load(Ordering::Relaxed);
        let taken = self.outbound.taken().load(Ordering::Acquire);
        (put, put.wrapping_sub(taken).min(SLOTS))
    }

    /// Puts a frame in, if there is room and it is one.
    pub fn put(&self, frame: &[u8]) -> bool {
        if self.is_full().is_some() || frame.len() > MAX_FRAME {
            return false;
        }
        let put = self.outbound.put().load(Ordering::Relaxed);
        let [length, slot @ ..] = self.outbound.slot(put) else { return false };
        length.store(frame.len() as u64, Ordering::Relaxed);
        let (words, rest) = frame.as_chunks();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let words = words.iter().chain(core::iter::once(&last));
        for (to, from) in slot.iter().zip(words) {
            to.store(u64::from_le_bytes(*from), Ordering::Relaxed);
        }
        self.outbound.put().store(put.wrapping_add(1), Ordering::Release);
        true
    }

    /// Who is to be interrupted after frames were put in: whoever waits for them, once.
    pub fn to_wake(&self) -> Option<u32> {
        self.outbound.waits().take()
    }

    /// Whether a frame has come.
    pub fn is_ready(&self) -> bool {
        let put = self.inbound.put().load(Ordering::Acquire);
        put != self.inbound.taken().load(Ordering::Relaxed)
    }

    /// Takes the next frame; how long it is, and zero if it is none. `None`: nothing has come.
    pub fn take(&self, into: &mut Frame) -> Option<usize> {
        let put = self.inbound.put().load(Ordering::Acquire);
        let mut taken = self.inbound.taken().load(Ordering::Relaxed);
        if put == taken {
            return None;
        }
        // Nobody puts in more than there is room for: what is older is written over.
        if put.wrapping_sub(taken) > SLOTS {
            taken = put.wrapping_sub(SLOTS);
        }
        let [length, slot @ ..] = self.inbound.slot(taken) else { return None };
        let length = length.load(Ordering::Relaxed) as usize;
        let length = if length > MAX_FRAME { 0 } else { length };
        for (to, from) in into.0[..length.next_multiple_of(8)].chunks_exact_mut(8).zip(slot) {
            to.copy_from_slice(&from.load(Ordering::Relaxed).to_le_bytes());
        }
        self.inbound.taken().store(taken.wrapping_add(1), Ordering::Release);
        Some(length)
    }

    /// Says that this end waits, unless a frame has come: whether one has. The next one that comes
    /// interrupts it.
    pub fn wait(&self) -> bool {
        self.inbound.waits().begin(self.own, || self.is_ready())
    }

    /// Says that this end looks by itself.
    pub fn awake(&self) {
        self.inbound.waits().end();
    }
}

/// Room for a frame.
#[derive(Debug)]
pub struct Frame([u8; MAX_FRAME.next_multiple_of(8)]);

impl Default for Frame {
    fn default() -> Frame {
        Frame([0; MAX_FRAME.next_multiple_of(8)])
    }
}

impl Frame {
    /// Its first bytes.
    pub fn bytes(&self, length: usize) -> &[u8] {
        &self.0[..length]
    }

    /// All that a frame may have.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.0[..MAX_FRAME]
    }
}

/// A domain's interface: its end of the loop. `wake` interrupts the core of a name.
pub struct LoopInterface<W> {
    end: LoopEnd,
    address: MacAddress,
    wake: W,
    frame: RefCell<Frame>,
    /// How much the other end had taken when there was last no room, and how often since.
    stuck: Cell<(u64, u32)>,
    traffic: Cell<Traffic>,
}

/// How often there may be no room, and nothing be taken meanwhile, until frames are dropped: nobody
/// is at the other end.
const PATIENCE: u32 = 20;

impl<W: Fn(u32)> LoopInterface<W> {
    /// The interface of a domain's core of this name; `None` if there is nobody at the other end.
    pub fn open(frames: &FrameLoop, own: u32, wake: W) -> Option<LoopInterface<W>> {
        let address = frames.address()?;
        let end = frames.domain_end(own);
        let (frame, stuck, traffic) = (RefCell::default(), Cell::default(), Cell::default());
        Some(LoopInterface { end, address, wake, frame, stuck, traffic })
    }

    /// Whether there is no room that would come if one waited.
    fn is_crowded(&self) -> bool {
        let Some(taken) = self.end.is_full() else { return false };
        let (before, times) = self.stuck.get();
        let times = if taken == before { times.saturating_add(1) } else { 0 };
        self.stuck.set((taken, times));
        times < PATIENCE
    }
}

impl<W: Fn(u32)> Interface for LoopInterface<W> {
    fn address(&self) -> MacAddress {
        self.address
    }

    fn max_frame(&self) -> usize {
        MAX_FRAME
    }

    fn is_ready(&self) -> bool {
        self.end.wait()
    }

    fn receive(&self, limit: usize, take: &mut dyn FnMut(&[u8])) -> usize {
        self.end.awake();
        let Ok(mut frame) = self.frame.try_borrow_mut() else { return 0 };
        let mut traffic = self.traffic.get();
        let mut given = 0;
        while given < limit
            && let Some(length) = self.end.take(&mut frame)
        {
            given += 1;
            traffic.came(length, take, &frame);
        }
        self.traffic.set(traffic);
        given
    }

    fn transmit(&self, fill: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> bool {
        let Ok(mut frame) = self.frame.try_borrow_mut() else { return false };
        let mut traffic = self.traffic.get();
        let has_room = loop {
            if self.is_crowded() {
                break false;
            }
            let Some(bytes) = fill(frame.room()) else { break true };
            let sent = bytes <= MAX_FRAME && self.end.put(frame.bytes(bytes));
            traffic.went(bytes, sent);
        };
        self.traffic.set(traffic);
        self.end.to_wake().into_iter().for_each(&self.wake);
        has_room
    }

    fn traffic(&self) -> Traffic {
        self.traffic.get()
    }
}

impl Traffic {
    /// Gives a frame of a loop that has come, if it is one.
    pub(crate) fn came(&mut self, length: usize, take: &mut dyn FnMut(&[u8]), frame: &Frame) {
        if length < HEADER_BYTES {
            self.dropped += 1;
            return;
        }
        self.received += 1;
        self.received_bytes += length as u64;
        take(frame.bytes(length));
    }

    /// Counts a frame that was to go.
    pub(crate) fn went(&mut self, bytes: usize, sent: bool) {
        if sent {
            self.sent += 1;
            self.sent_bytes += bytes as u64;
        } else {
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    const ADDRESS: MacAddress = MacAddress([2, 0, 0, 0, 1, 0x81]);

    fn frames_of(end: &LoopEnd) -> Vec<Vec<u8>> {
        let mut frame = Frame::default();
        let mut all = Vec::new();
        while let Some(length) = end.take(&mut frame) {
            all.push(frame.bytes(length).to_vec());
        }
        all
    }

    fn new() -> FrameLoop {
        let frames = FrameLoop::new(Region::owned(LOOP_BYTES)).expect("large enough");
        frames.set_address(ADDRESS);
        frames
    }

    #[test]
    fn frames_go_both_ways_whole_and_in_order() {
        let frames = new();
        let (above, below) = (frames.supervisor_end(3), frames.domain_end(7));
        for round in 0..300_usize {
            let frame: Vec<u8> = (0..round * 5 % (MAX_FRAME + 1)).map(|it| it as u8).collect();
            assert!(above.put(&frame) && below.put(&frame));
            let expected = vec![frame];
            assert_eq!((frames_of(&above), frames_of(&below)), (expected.clone(), expected));
        }
        assert!(!above.put(&[0; MAX_FRAME + 1]), "that is no frame");
    }

    #[test]
    fn a_full_ring_takes_no_more_and_a_new_domain_gets_nothing_of_it() {
        let frames = new();
        let (above, below) = (frames.supervisor_end(3), frames.domain_end(7));
        let put = (0..).take_while(|it: &u32| above.put(&it.to_le_bytes())).count();
        assert_eq!((put as u64, above.is_full()), (SLOTS, Some(0)));
        assert_eq!(frames_of(&below).len(), put);
        assert!(above.put(b"secret!!"));
        frames.erase();
        let next = frames.domain_end(8);
        assert!(!next.is_ready() && frames_of(&next).is_empty());
        assert_eq!(frames.address(), Some(ADDRESS), "the supervisor is the same");
        assert!(
            !frames
                .0
                .words()
                .iter()
                .any(|it| it.load(Ordering::Relaxed) == u64::from_le_bytes(*b"secret!!"))
        );
    }

    #[test]
    fn who_waits_is_woken_once_and_who_looks_is_not() {
        let frames = new();
        let (above, below) = (frames.supervisor_end(3), frames.domain_end(7));
        assert!(!below.wait());
        assert!(above.put(b"frame"));
        assert_eq!([above.to_wake(), above.to_wake()], [Some(7), None]);
        assert!(below.wait(), "a frame is there");
        assert_eq!(above.to_wake(), None);
        frames_of(&below);
        assert!(!below.wait());
        below.awake();
        assert!(above.put(b"frame"));
        assert_eq!(above.to_wake(), None);
    }

    #[test]
    fn nonsense_in_the_counters_and_lengths_loses_frames_and_no_more() {
        let frames = new();
        let (above, below) = (frames.supervisor_end(3), frames.domain_end(7));
        assert!(below.put(b"frame"));
        above.inbound.slot(0)[0].store(u64::MAX, Ordering::Relaxed);
        assert_eq!(frames_of(&above), [b""]);
        above.inbound.put().store(u64::MAX - 5, Ordering::Relaxed);
        assert_eq!(frames_of(&above).len() as u64, SLOTS);
        above.outbound.taken().store(12345, Ordering::Relaxed);
        assert!(!above.put(b"frame"));
    }

    #[test]
    fn an_interface_drops_when_nobody_takes_anything() {
        let frames = new();
        let woken = RefCell::new(Vec::new());
        let wake = |name| woken.borrow_mut().push(name);
        let interface = LoopInterface::open(&frames, 7, wake).expect("an address");
        let above = frames.supervisor_end(3);
        assert!(!above.wait());
        let mut left = 70;
        let mut fill = |frame: &mut [u8]| {
            left = usize::checked_sub(left, 1)?;
            frame[..60].fill(left as u8);
            Some(60)
        };
        assert!(!interface.transmit(&mut fill), "there is no room");
        assert_eq!(*woken.borrow(), [3]);
        assert_eq!(frames_of(&above).len() as u64, SLOTS);
        assert!(interface.transmit(&mut fill));
        assert_eq!(interface.traffic().sent, 70);
        let endless = (0..100).find(|_| interface.transmit(&mut |_| None));
        assert_eq!(endless, Some(0));
        while above.is_full().is_none() && interface.end.put(&[0; 60]) {}
        let gave_up = (0..100).find(|_| interface.transmit(&mut |_| None));
        assert_eq!(gave_up, Some(PATIENCE as usize));
    }
}
