//! Where receivers run and how they are woken: the map that the core manager keeps and every
//! sender reads (NewtOS thesis, section 3.3).
//!
//! ```text
//! bitmap   one bit a receiver: 1 needs a signal, 0 watches its line or polls
//! homes    16 bits a receiver: the core that runs it
//! ```
//!
//! Only the manager's memory holds it writable. The homes stand here and not in the rings'
//! headers because a move is the only thing that writes this map: a sender's two loads stay
//! hits in its own cache, while the line in the ring that a receiver writes changes with every
//! message received.
//!
//! # Moving a receiver
//!
//! 1. The old core detaches the receiver.
//! 2. [`Mover::begin`] writes the new home and bit.
//! 3. If [`Move::needs_fence`]: every core that may send to the receiver executes a full fence
//!    (it answers a message, takes an interrupt, or `membarrier` does it). A quiet sender puts no
//!    fence between publishing its message and reading the map, so it may have read the old
//!    entry while its message was still on the way; after this step such a message is visible.
//! 4. The new core attaches the receiver.
//! 5. [`Move::finish`] sends one extra notification to the new core, which looks at the channel
//!    once more and finds every message that was announced to the old core, or quietly to a core
//!    that no longer watches its line.

use core::fmt;

use nile_abi::{CoreId, EndpointId};

use crate::doorbell::Doorbells;
use crate::notify::Signal;
use crate::region::{LINE_BYTES, Region};
use crate::sync::AtomicU64;
use crate::sync::Ordering::{Acquire, Relaxed, Release};

/// Receivers whose bits fill one line; the map grows in such steps.
const BLOCK: usize = LINE_BYTES * 8;

/// Lines for a block: one of bits and its homes, 16 bits each.
const BLOCK_LINES: usize = 1 + BLOCK * 2 / LINE_BYTES;

/// Words of a line.
const LINE_WORDS: usize = LINE_BYTES / 8;

/// Where a receiver of the manager's choosing waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// Its core watches its doorbell's line (MWAIT) or polls: a store is enough.
    Quiet,
    /// Its core is shared or halts: it needs the platform's signal.
    Signal,
}

/// The region holds not even one block of the map, or no such receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapError {
    /// The region is too small for any receiver.
    BadSize,
    /// The map has no entry for this receiver.
    NoSuchReceiver,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MapError::BadSize => "the region is too small for a map of receivers",
            MapError::NoSuchReceiver => "the map of receivers has no such entry",
        })
    }
}

/// The map, for reading. Clones share the same memory, which may be mapped read-only.
#[derive(Clone, Debug)]
pub struct ReceiverMap {
    region: Region,
    /// Words of bits; the homes begin after them.
    bit_words: usize,
}

impl ReceiverMap {
    /// Bytes of the region that a map for `receivers` receivers takes.
    pub const fn region_len(receivers: usize) -> usize {
        receivers.div_ceil(BLOCK) * BLOCK_LINES * LINE_BYTES
    }

    /// The map in `region`, which is zeroed memory (every receiver quiet on core 0) or holds one.
    pub fn attach(region: Region) -> Result<ReceiverMap, MapError> {
        match region.lines().len() / BLOCK_LINES {
            0 => Err(MapError::BadSize),
            blocks => Ok(ReceiverMap { region, bit_words: blocks * LINE_WORDS }),
        }
    }

    /// Whether `receiver` is woken by a signal only.
    #[inline]
    pub fn needs_signal(&self, receiver: EndpointId) -> bool {
        let (index, bit) = bit_of(receiver);
        self.bits().get(index).is_some_and(|word| word.load(Acquire) & bit != 0)
    }

    /// The core that runs `receiver`, if the map holds it.
    #[inline]
    pub fn home(&self, receiver: EndpointId) -> Option<CoreId> {
        let (index, shift) = home_of(receiver);
        let word = self.homes().get(index)?.load(Relaxed);
        Some(CoreId((word >> shift) as u16))
    }

    fn bits(&self) -> &[AtomicU64] {
        &self.region.words()[..self.bit_words]
    }

    fn homes(&self) -> &[AtomicU64] {
        &self.region.words()[self.bit_words..self.bit_words * BLOCK_LINES]
    }
}

/// The word of the bitmap and the bit in it that are `receiver`'s.
fn bit_of(receiver: EndpointId) -> (usize, u64) {
    let index = usize::from(receiver.0);
    (index / 64, 1 << (index % 64))
}

/// The word of the homes and the shift in it that are `receiver`'s.
fn home_of(receiver: EndpointId) -> (usize, u32) {
    let index = u32::from(receiver.0);
    ((index / 4) as usize, index % 4 * 16)
}

/// The core manager's pen: the only writer of the map.
#[derive(Debug)]
pub struct Mover {
    map: ReceiverMap,
    bells: Doorbells,
}

impl Mover {
    /// The writer of `map`, which must be mapped writable here and have no other writer.
    pub fn new(map: ReceiverMap, bells: Doorbells) -> Mover {
        Mover { map, bells }
    }

    /// Writes that `receiver` now runs on `home` and is woken by `wake`; also for its first
    /// home. The move is over when the result is [finished](Move::finish).
    pub fn begin(
        &mut self,
        receiver: EndpointId,
        home: CoreId,
        wake: Wake,
    ) -> Result<Move<'_>, MapError> {
        let (bit_index, bit) = bit_of(receiver);
        let (home_index, shift) = home_of(receiver);
        let bits = self.map.bits().get(bit_index).ok_or(MapError::NoSuchReceiver)?;
        let homes = self.map.homes().get(home_index).ok_or(MapError::NoSuchReceiver)?;

        let others = homes.load(Relaxed) & !(0xffff << shift);
        homes.store(others | u64::from(home.0) << shift, Relaxed);
        // Release: a sender that finds the receiver quiet rings it at its new home.
        let before = bits.load(Relaxed);
        match wake {
            Wake::Quiet => bits.store(before & !bit, Release),
            Wake::Signal => bits.store(before | bit, Release),
        }
        Ok(Move { bells: &self.bells, home, was_quiet: before & bit == 0 })
    }
}

/// A move whose extra notification is still to be sent.
#[derive(Debug)]
#[must_use = "messages may be lost until the move is finished"]
pub struct Move<'a> {
    bells: &'a Doorbells,
    home: CoreId,
    was_quiet: bool,
}

impl Move<'_> {
    /// Whether every core that may send to the receiver has to execute a full fence before
    /// [`Move::finish`]: senders to a receiver that needed a signal have fences of their own.
    pub fn needs_fence(&self) -> bool {
        self.was_quiet
    }

    /// Sends the extra notification: a loud one, which ends either way of waiting.
    pub fn finish(self, signal: &impl Signal) {
        self.bells.wake(self.home, signal);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::cell::Cell;

    struct Count(Cell<usize>);

    impl Signal for Count {
        fn signal(&self, _: CoreId) {
            self.0.set(self.0.get() + 1);
        }
    }

    fn manager(receivers: usize) -> (ReceiverMap, Doorbells, Mover) {
        let map = ReceiverMap::attach(Region::owned(ReceiverMap::region_len(receivers))).unwrap();
        let bells = Doorbells::attach(Region::owned(Doorbells::region_len(4)));
        (map.clone(), bells.clone(), Mover::new(map, bells))
    }

    #[test]
    fn a_move_changes_one_receiver_s_entry_alone() {
        let (map, _, mut mover) = manager(1024);
        let ids = [0, 1, 63, 64, 511, 512, 1023].map(EndpointId);
        for (turn, moved) in ids.into_iter().enumerate() {
            let home = CoreId(turn as u16 + 1);
            mover.begin(moved, home, Wake::Signal).unwrap().finish(&Count(Cell::new(0)));
            for (index, id) in ids.into_iter().enumerate() {
                let expected = if index <= turn { index as u16 + 1 } else { 0 };
                assert_eq!(map.home(id), Some(CoreId(expected)));
                assert_eq!(map.needs_signal(id), index <= turn);
            }
        }
        let back = mover.begin(EndpointId(64), CoreId(u16::MAX), Wake::Quiet).unwrap();
        assert!(!back.needs_fence());
        back.finish(&Count(Cell::new(0)));
        assert_eq!(map.home(EndpointId(64)), Some(CoreId(u16::MAX)));
        assert!(!map.needs_signal(EndpointId(64)) && map.needs_signal(EndpointId(63)));
    }

    #[test]
    fn every_move_wakes_the_new_core_once_more() {
        let (_, bells, mut mover) = manager(1);
        let (bell, count) = (bells.of(CoreId(2)).unwrap(), Count(Cell::new(0)));
        for wake in [Wake::Signal, Wake::Quiet, Wake::Signal] {
            let sleep = bell.prepare();
            let step = mover.begin(EndpointId(0), CoreId(2), wake).unwrap();
            assert!(!sleep.is_over());
            step.finish(&count);
            assert!(sleep.is_over());
        }
        assert_eq!(count.0.get(), 3);
    }

    #[test]
    fn a_receiver_outside_the_map_is_refused() {
        let (map, _, mut mover) = manager(512);
        let outside = EndpointId(512);
        assert_eq!(map.home(outside), None);
        assert!(!map.needs_signal(outside));
        let refused = mover.begin(outside, CoreId(1), Wake::Signal).map(|_| ());
        assert_eq!(refused, Err(MapError::NoSuchReceiver));
        assert_eq!(ReceiverMap::attach(Region::owned(64)).unwrap_err(), MapError::BadSize);
    }

    #[test]
    fn the_largest_map_s_bits_are_one_page() {
        let (map, ..) = manager(nile_abi::MAX_RECEIVERS);
        assert_eq!(map.bits().len() * 8, 4096);
    }
}
