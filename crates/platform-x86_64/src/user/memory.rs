//! Which user memory this core's package has, and how the kernel copies from and to it.
//!
//! Nothing is tried out: a copy is made when every byte of it lies in pieces that were mapped with
//! the access it needs, and then it cannot fault. Where the processor has SMAP, user pages are out
//! of the kernel's reach but in the few instructions of the copy itself.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use nile_abi::VirtAddr;
use nile_platform::AttachError;
use nile_platform::user::{Access, BadAddress};

use crate::cpu::Features;
use crate::layout::Span;
use crate::privileged;

/// Whether this core's kernel must ask before it touches user pages. Set once, when the core
/// begins.
static GUARDED: AtomicBool = AtomicBool::new(false);

pub(super) fn install(features: &Features) {
    GUARDED.store(features.smap, Ordering::Relaxed);
}

/// Puts user pages out of the kernel's reach: a package can set the flag that allows it, and an
/// interrupt does not clear it.
pub(crate) fn guard() {
    if GUARDED.load(Ordering::Relaxed) {
        // SAFETY: the processor has SMAP.
        unsafe { privileged::forbid_user_access() }
    }
}

/// Memory that was mapped in one step.
#[derive(Clone, Debug)]
struct Piece {
    span: Span,
    access: Access,
}

/// The user memory of one package.
#[derive(Clone, Debug)]
pub struct UserMemory {
    /// Where it may be.
    within: Span,
    /// In rising order; none overlaps another.
    pieces: Vec<Piece>,
}

impl UserMemory {
    /// None yet, and all of it within these addresses.
    pub fn new(within: Span) -> UserMemory {
        UserMemory { within, pieces: Vec::new() }
    }

    /// Adds `bytes` bytes at `at`, which are mapped there with this access. `OutOfRange` if there
    /// is something already, or where no package's memory may be.
    pub fn add(&mut self, at: VirtAddr, bytes: u64, access: Access) -> Result<(), AttachError> {
        let span = at..at.checked_add(bytes).ok_or(AttachError::OutOfRange)?;
        let index = self.pieces.partition_point(|piece| piece.span.end <= at);
        let free = self.pieces.get(index).is_none_or(|next| span.end <= next.span.start);
        let fits = span.start >= self.within.start && span.end <= self.within.end;
        if span.is_empty() || !fits || !free {
            return Err(AttachError::OutOfRange);
        }
        self.pieces.insert(index, Piece { span, access });
        Ok(())
    }

    /// Takes away what was added at `at`, if something was.
    pub fn remove(&mut self, at: VirtAddr) {
        self.pieces.retain(|piece| piece.span.start != at);
    }

    /// Copies from memory that the package may read.
    pub fn read(&self, from: VirtAddr, into: &mut [u8]) -> Result<(), BadAddress> {
        self.check(from, into.len(), false)?;
        // SAFETY: every byte is mapped readable, and `into` is the kernel's.
        unsafe { copy(from.0 as *const u8, into.as_mut_ptr(), into.len()) }
        Ok(())
    }

    /// Copies to memory that the package may write.
    pub fn write(&mut self, to: VirtAddr, from: &[u8]) -> Result<(), BadAddress> {
        self.check(to, from.len(), true)?;
        // SAFETY: every byte is mapped writable, and `from` is the kernel's.
        unsafe { copy(from.as_ptr(), to.0 as *mut u8, from.len()) }
        Ok(())
    }

    /// The memory without a gap that ends at `end`.
    pub fn below(&self, end: VirtAddr) -> Span {
        let pieces = self.pieces.iter().rev().skip_while(|piece| piece.span.end > end);
        let start =
            pieces.fold(
                end,
                |start, piece| {
                    if piece.span.end == start { piece.span.start } else { start }
                },
            );
        start..end
    }

    /// Whether the package may read, or write, `bytes` bytes at `at`. It always may none at all.
    fn check(&self, at: VirtAddr, bytes: usize, write: bool) -> Result<(), BadAddress> {
        let end = at.checked_add(bytes as u64).ok_or(BadAddress)?;
        let first = self.pieces.partition_point(|piece| piece.span.end <= at);
        let mut reached = at;
        for Piece { span, access } in &self.pieces[first..] {
            let allowed = !write || *access == Access::Write;
            if reached >= end || span.start > reached || !allowed {
                break;
            }
            reached = span.end;
        }
        (reached >= end).then_some(()).ok_or(BadAddress)
    }
}

/// # Safety
/// The bytes at `from` are mapped readable and those at `to` writable; they do not overlap, and
/// no Rust reference is to the user's.
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    let guarded = GUARDED.load(Ordering::Relaxed);
    // SAFETY: the caller's promise; the processor has SMAP where it says so.
    unsafe {
        if guarded {
            privileged::allow_user_access();
        }
        privileged::copy_bytes(from, to, bytes);
        if guarded {
            privileged::forbid_user_access();
        }
    }
}

/// Two words of user memory, for handlers of interrupts.
///
/// # Safety
/// The words at `at`, which is aligned, are mapped readable, and no Rust reference is to the
/// user's.
pub(crate) unsafe fn pair(at: usize) -> [usize; 2] {
    let mut words = [0; 2];
    let from = core::ptr::with_exposed_provenance(at);
    // SAFETY: the caller's promise.
    unsafe { copy(from, words.as_mut_ptr().cast(), size_of_val(&words)) };
    words
}

#[cfg(test)]
mod tests {
    use nile_abi::call::UserSlot;

    use super::*;

    const PAGE: u64 = 4096;
    const SPAN: Span = UserSlot::FIRST.base()..UserSlot::FIRST.end();
    const AT: u64 = SPAN.start.0;

    #[test]
    fn a_stack_is_all_that_lies_below_its_end_without_a_gap() {
        let mut memory = UserMemory::new(SPAN);
        for (place, pages) in [(0, 1), (4, 2), (6, 1), (9, 1)] {
            memory.add(VirtAddr(AT + place * PAGE), pages * PAGE, Access::Write).unwrap();
        }
        let at = |place: u64| VirtAddr(AT + place * PAGE);
        assert_eq!(memory.below(at(7)), at(4)..at(7));
        assert_eq!(memory.below(at(10)), at(9)..at(10));
        assert_eq!(memory.below(at(1)), at(0)..at(1));
        assert!(memory.below(at(3)).is_empty());
    }

    fn memory() -> UserMemory {
        let mut memory = UserMemory::new(SPAN);
        memory.add(VirtAddr(AT + 4 * PAGE), PAGE, Access::Write).expect("it is free");
        memory.add(VirtAddr(AT), PAGE, Access::Execute).expect("it is free");
        memory.add(VirtAddr(AT + 3 * PAGE), PAGE, Access::Read).expect("it is free");
        memory.add(VirtAddr(AT + 5 * PAGE), 2 * PAGE, Access::Write).expect("it is free");
        memory
    }

    #[test]
    fn what_may_be_read_or_written_is_what_was_mapped_so_to_the_byte() {
        let memory = memory();
        let reads = |page: u64, offset: u64, bytes| {
            memory.check(VirtAddr(AT + page * PAGE + offset), bytes, false).is_ok()
        };
        let writes = |page: u64, offset: u64, bytes| {
            memory.check(VirtAddr(AT + page * PAGE + offset), bytes, true).is_ok()
        };
        assert!(reads(0, 0, 4096) && !reads(0, 1, 4096) && !reads(1, 0, 1));
        assert!(reads(2, 4096, 4 * 4096) && !reads(2, 4095, 2) && !reads(3, 0, 4 * 4096 + 1));
        assert!(reads(6, 4095, 1) && !reads(6, 4095, 2) && !reads(7, 0, 1));
        assert!(!writes(0, 0, 1) && !writes(3, 0, 1) && !writes(3, 4095, 2));
        assert!(writes(4, 0, 3 * 4096) && !writes(4, 0, 3 * 4096 + 1));
    }

    #[test]
    fn what_is_taken_away_is_reached_no_more_and_its_place_is_free() {
        let mut memory = memory();
        let at = VirtAddr(AT + 5 * PAGE);
        memory.remove(VirtAddr(at.0 + PAGE));
        assert_eq!(memory.check(at, 8, true), Ok(()), "nothing begins there");
        memory.remove(at);
        assert_eq!(memory.check(at, 8, false), Err(BadAddress));
        assert_eq!(memory.check(VirtAddr(AT + 4 * PAGE), 4096, true), Ok(()));
        memory.add(at, PAGE, Access::Read).expect("it is free");
    }

    #[test]
    fn no_bytes_are_allowed_everywhere_and_no_length_wraps_around() {
        let memory = memory();
        assert_eq!(memory.check(VirtAddr(0), 0, true), Ok(()));
        for at in [0, AT, AT + 4 * PAGE, u64::MAX] {
            assert_eq!(memory.check(VirtAddr(at), usize::MAX, false), Err(BadAddress));
            assert_eq!(memory.check(VirtAddr(at), usize::MAX, true), Err(BadAddress));
        }
        assert_eq!(memory.check(VirtAddr(0xffff_8000_0000_0000), 8, false), Err(BadAddress));
        assert_eq!(UserMemory::new(SPAN).check(VirtAddr(AT), 1, false), Err(BadAddress));
    }

    #[test]
    fn pieces_overlap_nothing_and_stay_in_user_addresses() {
        let mut memory = memory();
        let mut refuses = |at, bytes| memory.add(VirtAddr(at), bytes, Access::Read).is_err();
        assert!(refuses(AT, PAGE) && refuses(AT + 2 * PAGE, 2 * PAGE));
        assert!(refuses(AT + 6 * PAGE, PAGE) && refuses(AT + PAGE, 9 * PAGE));
        assert!(refuses(AT - PAGE, PAGE) && refuses(SPAN.end.0, PAGE));
        assert!(refuses(SPAN.end.0 - PAGE, 2 * PAGE) && refuses(AT + 8 * PAGE, 0));
        assert!(refuses(AT, u64::MAX) && refuses(u64::MAX - PAGE + 1, PAGE));
        assert!(!refuses(AT + PAGE, 2 * PAGE) && !refuses(SPAN.end.0 - PAGE, PAGE));
    }
}
