//! A direct link between two nodes of one machine: a ring of frames in memory that both have
//! mapped, in each direction. Frames are built and read where they lie.
//!
//! | offset in a ring | what                                                            |
//! | ---------------- | --------------------------------------------------------------- |
//! | 0                | frames that were put in, by the sender                          |
//! | 64               | frames that were taken out, by the receiver                     |
//! | 128              | 1 while the receiver sleeps, or is about to: it is a futex      |
//! | 192              | the slots: bytes of the frame (4), room to 64, the frame        |
//!
//! Both ends are this program, started by one user, with one cluster's key: the ring trusts its
//! other end to keep its turns, as a driver trusts its device. What a frame says, nobody trusts.

use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

use nile_abi::MacAddress;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::futex;

use crate::peer_pool::PeerPool;

const LINE: usize = 64;
const PUT: usize = 0;
const TAKEN: usize = LINE;
const ASLEEP: usize = 2 * LINE;
const SLOTS: usize = 3 * LINE;

/// Bytes of a ring's frames, about: as much as a few links may cost a machine.
const RING_BYTES: usize = 1 << 20;

/// The memory of a link, and which end this is.
pub struct Direct {
    base: NonNull<u8>,
    bytes: usize,
    max_frame: usize,
    /// Whether this end sends by the first ring.
    first: bool,
    /// The address of the other end.
    pub peer: MacAddress,
    /// The pool of the node at the other end, if it shows it.
    pub pool: Option<PeerPool>,
    /// Whether the other end is gone.
    pub dead: AtomicBool,
}

// SAFETY: the counters are atomics, and a slot is touched only by the end whose turn it is; which
// thread of this process is that end, `Port` sees to.
unsafe impl Send for Direct {}
// SAFETY: as above.
unsafe impl Sync for Direct {}

/// What became of a frame that was written where it is to lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filled {
    /// It is put in, with so many bytes.
    Put(usize),
    /// It is for somebody else.
    Other,
    /// There was none.
    Nothing,
    /// There was no place.
    NoRoom,
}

fn slot_bytes(max_frame: usize) -> usize {
    LINE + max_frame.next_multiple_of(LINE)
}

/// How many frames a ring holds: a power of two, so that counters may wrap.
fn slots(max_frame: usize) -> usize {
    let slots = (RING_BYTES / slot_bytes(max_frame)).max(16);
    1 << slots.ilog2()
}

fn ring_bytes(max_frame: usize) -> usize {
    SLOTS + slots(max_frame) * slot_bytes(max_frame)
}

impl Direct {
    /// Memory for a new link, all zero, its length fixed for good.
    pub fn memory(max_frame: usize) -> io::Result<File> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = rustix::fs::memfd_create("nile-link", flags)?;
        rustix::fs::ftruncate(&memory, 2 * ring_bytes(max_frame) as u64)?;
        let fixed = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&memory, fixed)?;
        Ok(memory.into())
    }

    /// One end of a link whose memory is `memory`. `InvalidData` if that is not what
    /// [`Direct::memory`] gives.
    pub fn map(
        memory: &File,
        max_frame: usize,
        first: bool,
        peer: MacAddress,
    ) -> io::Result<Direct> {
        let bytes = 2 * ring_bytes(max_frame);
        let sealed = rustix::fs::fcntl_get_seals(memory)?.contains(SealFlags::SHRINK);
        if memory.metadata()?.len() != bytes as u64 || !sealed {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the mapping is new, at an address of Linux's choice; the file cannot shrink.
        let base = unsafe {
            rustix::mm::mmap(ptr::null_mut(), bytes, rights, MapFlags::SHARED, memory, 0)
        }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let dead = AtomicBool::new(false);
        Ok(Direct { base, bytes, max_frame, first, peer, pool: None, dead })
    }

    fn word(&self, ring: usize, at: usize) -> &AtomicU32 {
        // SAFETY: the offset lies in the mapping, is aligned, and is only used as an atomic.
        unsafe { &*self.base.as_ptr().add(ring * ring_bytes(self.max_frame) + at).cast() }
    }

    /// Where a slot's frame lies, and the word that says how long it is.
    fn slot(&self, ring: usize, number: u32) -> (*mut u8, &AtomicU32) {
        let place = number as usize & (slots(self.max_frame) - 1);
        let at = SLOTS + place * slot_bytes(self.max_frame);
        let length = self.word(ring, at);
        // SAFETY: the slot lies in the mapping.
        (unsafe { self.base.as_ptr().add(ring * ring_bytes(self.max_frame) + at + LINE) }, length)
    }

    fn outward(&self) -> usize {
        usize::from(!self.first)
    }

    fn inward(&self) -> usize {
        usize::from(self.first)
    }

    /// Whether a frame has come.
    pub fn is_ready(&self) -> bool {
        let ring = self.inward();
        let put = self.word(ring, PUT).load(Ordering::Acquire);
        put != self.word(ring, TAKEN).load(Ordering::Relaxed)
    }

    /// Gives at most `limit` frames to `take`; how many. `dropped` counts what is no frame.
    pub fn receive(&self, limit: usize, take: &mut dyn FnMut(&[u8]), dropped: &mut u64) -> usize {
        let ring = self.inward();
        let put = self.word(ring, PUT).load(Ordering::Acquire);
        let taken = self.word(ring, TAKEN);
        let mut number = taken.load(Ordering::Relaxed);
        let mut given = 0;
        while number != put && given < limit {
            let (frame, length) = self.slot(ring, number);
            let length = length.load(Ordering::Relaxed) as usize;
            if length <= self.max_frame {
                // SAFETY: the slot has room for so much, and is this end's until it is counted as
                // taken.
                take(unsafe { slice::from_raw_parts(frame, length) });
            } else {
                *dropped += 1;
            }
            number = number.wrapping_add(1);
            given += 1;
        }
        if given > 0 {
            taken.store(number, Ordering::Release);
        }
        given
    }

    /// A place for one more frame, if there is one.
    fn room(&self, put: u32) -> bool {
        let taken = self.word(self.outward(), TAKEN).load(Ordering::Acquire);
        (put.wrapping_sub(taken) as usize) < slots(self.max_frame)
    }

    /// Puts a frame in, seen by the other end only after [`Direct::show`]. `false` if there is no
    /// room.
    pub fn put(&self, frame: &[u8], put: &mut u32) -> bool {
        if !self.room(*put) || frame.len() > self.max_frame {
            return false;
        }
        let (place, length) = self.slot(self.outward(), *put);
        // SAFETY: the slot has room for so much, and is this end's until it is counted as put.
        unsafe { ptr::copy_nonoverlapping(frame.as_ptr(), place, frame.len()) };
        length.store(frame.len() as u32, Ordering::Relaxed);
        *put = put.wrapping_add(1);
        true
    }

    /// Has `fill` write the next frame where it is going to lie, and puts it in if it is for the
    /// other end; what is not is given to `other`, and its place stays free. Seen by the other end
    /// only after [`Direct::show`].
    pub fn fill(
        &self,
        put: &mut u32,
        fill: &mut dyn FnMut(&mut [u8]) -> Option<usize>,
        other: &mut dyn FnMut(&[u8]),
    ) -> Filled {
        if !self.room(*put) {
            return Filled::NoRoom;
        }
        let (place, word) = self.slot(self.outward(), *put);
        // SAFETY: the slot has room for so much, and is this end's until it is counted as put; one
        // thread drives an end, and it lends the slot to nobody else meanwhile.
        let frame = unsafe { slice::from_raw_parts_mut(place, self.max_frame) };
        let Some(length) = fill(frame) else { return Filled::Nothing };
        if frame.first_chunk() != Some(&self.peer.0) {
            other(&frame[..length]);
            return Filled::Other;
        }
        word.store(length as u32, Ordering::Relaxed);
        *put = put.wrapping_add(1);
        Filled::Put(length)
    }

    /// Frames that were put in so far, and seen by the other end.
    pub fn put_before(&self) -> u32 {
        self.word(self.outward(), PUT).load(Ordering::Relaxed)
    }

    /// Shows the other end what was put in, and wakes it if it sleeps.
    pub fn show(&self, put: u32) {
        let ring = self.outward();
        self.word(ring, PUT).store(put, Ordering::Release);
        fence(Ordering::SeqCst);
        let asleep = self.word(ring, ASLEEP);
        if asleep.load(Ordering::Relaxed) == 1 && asleep.swap(0, Ordering::AcqRel) == 1 {
            // Nobody waiting is no error.
            let _ = futex::wake(asleep, futex::Flags::empty(), 1);
        }
    }

    /// Says that this end is about to sleep, and gives the futex to wait for while it is 1; `None`
    /// if a frame has come.
    pub fn prepare(&self) -> Option<&AtomicU32> {
        let asleep = self.word(self.inward(), ASLEEP);
        asleep.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.is_ready() {
            asleep.store(0, Ordering::Relaxed);
            return None;
        }
        Some(asleep)
    }

    /// Says that this end is awake.
    pub fn awake(&self) {
        self.word(self.inward(), ASLEEP).store(0, Ordering::Relaxed);
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and nothing of it is lent any more.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(max_frame: usize) -> (Direct, Direct) {
        let memory = Direct::memory(max_frame).expect("memory");
        let end = |first| Direct::map(&memory, max_frame, first, MacAddress::BROADCAST);
        (end(true).expect("an end"), end(false).expect("an end"))
    }

    fn send(end: &Direct, frame: &[u8]) -> bool {
        let mut put = end.put_before();
        let sent = end.put(frame, &mut put);
        end.show(put);
        sent
    }

    fn frames(end: &Direct, limit: usize) -> Vec<Vec<u8>> {
        let (mut got, mut dropped) = (Vec::new(), 0);
        end.receive(limit, &mut |frame| got.push(frame.to_vec()), &mut dropped);
        assert_eq!(dropped, 0);
        got
    }

    #[test]
    fn frames_go_both_ways_in_order() {
        let (a, b) = ends(1514);
        assert!(!a.is_ready() && !b.is_ready());
        for round in 0..5000u32 {
            let frame = vec![round as u8; (round % 1515) as usize];
            assert!(send(&a, &frame) && send(&b, &frame));
            assert!(a.is_ready() && b.is_ready());
            assert_eq!((frames(&a, 9), frames(&b, 9)), (vec![frame.clone()], vec![frame]));
        }
    }

    #[test]
    fn a_full_ring_takes_no_more_and_loses_nothing() {
        let (a, b) = ends(1514);
        let mut sent = 0u32;
        while send(&a, &sent.to_le_bytes()) {
            sent += 1;
        }
        assert_eq!(sent as usize, slots(1514));
        assert_eq!(frames(&b, 1), [0u32.to_le_bytes()]);
        assert!(send(&a, &sent.to_le_bytes()) && !send(&a, b"none"));
        let rest: Vec<Vec<u8>> = (1..=sent).map(|it| it.to_le_bytes().to_vec()).collect();
        assert_eq!(frames(&b, usize::MAX), rest);
    }

    #[test]
    fn a_frame_is_written_where_it_lies_if_it_is_for_the_other_end() {
        let memory = Direct::memory(1514).expect("memory");
        let peer = MacAddress([2, 0, 0, 0, 0, 9]);
        let a = Direct::map(&memory, 1514, true, peer).expect("an end");
        let b = Direct::map(&memory, 1514, false, MacAddress::BROADCAST).expect("an end");
        let mut put = a.put_before();
        let mut others = Vec::new();
        let mut fill = |first: u8| {
            let mut write = |frame: &mut [u8]| {
                frame[..8].copy_from_slice(&[first, 0, 0, 0, 0, 9, 7, 7]);
                Some(8)
            };
            a.fill(&mut put, &mut write, &mut |frame| others.push(frame.to_vec()))
        };
        assert_eq!([fill(2), fill(4), fill(2)], [Filled::Put(8), Filled::Other, Filled::Put(8)]);
        while fill(2) == Filled::Put(8) {}
        assert_eq!(fill(4), Filled::NoRoom);
        assert_eq!(others, [[4, 0, 0, 0, 0, 9, 7, 7]]);
        assert_eq!(a.fill(&mut 0, &mut |_| None, &mut |_| ()), Filled::Nothing);
        a.show(put);
        let came = frames(&b, usize::MAX);
        assert_eq!(came.len(), slots(1514));
        assert!(came.iter().all(|frame| frame == &[2, 0, 0, 0, 0, 9, 7, 7]));
    }

    #[test]
    fn who_sleeps_is_woken_once() {
        let (a, b) = ends(9014);
        assert_eq!(b.prepare().expect("nothing came").load(Ordering::Relaxed), 1);
        assert!(send(&a, b"wake"));
        assert_eq!(b.word(b.inward(), ASLEEP).load(Ordering::Relaxed), 0);
        assert!(b.prepare().is_none(), "there is a frame");
        assert_eq!(frames(&b, 9), [b"wake"]);
    }

    #[test]
    fn other_memory_is_refused() {
        let memory = Direct::memory(1514).expect("memory");
        assert!(Direct::map(&memory, 9014, true, MacAddress::BROADCAST).is_err());
        let short: File =
            rustix::fs::memfd_create("x", MemfdFlags::CLOEXEC).expect("memory").into();
        assert!(Direct::map(&short, 1514, true, MacAddress::BROADCAST).is_err());
    }

    #[test]
    fn a_length_that_is_none_is_dropped() {
        let (a, b) = ends(1514);
        assert!(send(&a, b"frame"));
        b.slot(b.inward(), 0).1.store(u32::MAX, Ordering::Relaxed);
        let mut dropped = 0;
        let given = b.receive(9, &mut |_| panic!("it is no frame"), &mut dropped);
        assert_eq!((given, dropped), (1, 1));
    }
}
