//! The stacks on which a worker's signal handlers run. A package's own stack is nothing that a
//! handler could rely on.
//!
//! There is one more than a core may have packages. The handler that interrupts a package does not
//! return before the package goes on: what Linux has saved for it, all registers, stays on the
//! stack that it was handled on. Another one serves meanwhile. When that handler does return, Linux
//! goes back to the stacks, and the mask of blocked signals, of the moment in which it began.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use nile_abi::call::UserSlot;
use rustix::mm::{MapFlags, ProtFlags};

/// Bytes of each. Linux saves 3 to 11 KiB of registers, our handlers need little.
const BYTES: usize = 64 << 10;

/// How many there are.
const COUNT: usize = UserSlot::COUNT + 1;

/// The lowest address of each.
static STACKS: OnceLock<[usize; COUNT]> = OnceLock::new();

/// Which one serves.
static SERVING: AtomicUsize = AtomicUsize::new(0);

/// Those on which a handler is that was left, a bit each.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// A handler that was left on its stack. Dropped, it never goes on, and the stack is free.
pub(crate) struct LeftHandler(usize);

impl Drop for LeftHandler {
    fn drop(&mut self) {
        LEFT.fetch_and(!(1 << self.0), Ordering::Relaxed);
    }
}

/// Makes them, if there are none, and uses the first. The stacks are the calling thread's.
pub(crate) fn prepare() -> rustix::io::Result<()> {
    if STACKS.get().is_none() {
        let mut stacks = [0; COUNT];
        for stack in &mut stacks {
            *stack = map()?;
        }
        if STACKS.set(stacks).is_ok() {
            serve(0);
        }
    }
    Ok(())
}

/// The handler that has interrupted a package is left, on its stack, for a while: from here on
/// another stack serves, and what it blocked arrives again. `mask` is the thread's usual mask.
pub(crate) fn leave(mask: &libc::sigset_t) -> LeftHandler {
    let number = SERVING.load(Ordering::Relaxed);
    let left = LEFT.load(Ordering::Relaxed) | 1 << number;
    LEFT.store(left, Ordering::Relaxed);
    // A package has one handler at most that was left, and there are more stacks than packages.
    serve(left.trailing_ones() as usize);
    // SAFETY: the set is initialised, and the old one is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut()) };
    LeftHandler(number)
}

/// The handler that was left is about to go on, and to return: until then no signal arrives.
pub(crate) fn go_back(handler: LeftHandler) {
    let mut every = MaybeUninit::uninit();
    // SAFETY: sigfillset initialises the set; the old one is not asked for.
    unsafe {
        libc::sigfillset(every.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_BLOCK, every.as_ptr(), ptr::null_mut());
    }
    SERVING.store(handler.0, Ordering::Relaxed);
}

/// The signals that the calling thread blocks.
pub(crate) fn usual_mask() -> libc::sigset_t {
    let mut mask = MaybeUninit::uninit();
    // SAFETY: without a new set the call only writes the present one.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr());
        mask.assume_init()
    }
}

fn serve(number: usize) {
    let Some(stacks) = STACKS.get() else { return };
    SERVING.store(number, Ordering::Relaxed);
    let start = ptr::with_exposed_provenance_mut(stacks[number]);
    let stack = libc::stack_t { ss_sp: start, ss_flags: 0, ss_size: BYTES };
    // SAFETY: the memory was mapped for this alone, and stays. It cannot fail: the stack is large
    // enough, and no handler calls this.
    unsafe { libc::sigaltstack(&stack, ptr::null_mut()) };
}

fn map() -> rustix::io::Result<usize> {
    let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: Linux chooses an address at which nothing is mapped.
    let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), BYTES, rights, flags) }?;
    Ok(start.expose_provenance())
}
