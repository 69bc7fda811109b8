//! Sampling: where a core is, noted time and again while it computes. A timer runs with the
//! processor time of the core's thread, so that one which sleeps is left alone, and its signal
//! notes what it interrupts (`samples`): of a package all frames, of the kernel, which is compiled
//! without frame pointers, the instruction alone. Linux looks at that clock at its own ticks, as a
//! rule 250 or 1000 a second: a timer that has gone round more often since is told once, with how
//! often.
//!
//! The handler reads registers, the package's stack, and what never changes while it runs; it makes
//! no system call, which a package's thread might not be let make, and leaves alone what says whose
//! code runs.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use nile_abi::CoreId;
use nile_platform::samples::walk;

use crate::node::{Node, log};
use crate::samples::{DEPTH, Frame, Mode};
use crate::timer::{self, Timer};
use crate::{context, dispatch, image, package, signals, user};

/// Samples the thread that started it, until it is dropped.
pub(crate) struct Sampler {
    _timer: Timer,
}

/// Where the program is in this process.
static PROGRAM: OnceLock<Range<usize>> = OnceLock::new();

impl Sampler {
    /// Samples the calling thread, which is the one of `core`, if the node is to be sampled. What
    /// Linux refuses is a line in the log.
    pub fn start(node: &'static Node, core: CoreId) -> Option<Sampler> {
        static HANDLER: Once = Once::new();
        let hertz = node.samples.as_ref()?.hertz;
        PROGRAM.get_or_init(image::range);
        // SAFETY: the handler writes atomics in memory that stays mapped, and reads what is there.
        HANDLER.call_once(|| unsafe { signals::handle(signal(), sample) });
        let period = Duration::from_secs(1) / hertz.max(1);
        match Timer::start(libc::CLOCK_THREAD_CPUTIME_ID, signal(), core, period) {
            Ok(timer) => Some(Sampler { _timer: timer }),
            Err(error) => {
                let core = core.to_string();
                log(&core, format_args!("is not sampled: Linux refuses a timer: {error}"));
                None
            }
        }
    }
}

/// The signal that samples: the one after that of ticks.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 1
}

/// Notes what was interrupted.
extern "C" fn sample(_: libc::c_int, info: *mut libc::siginfo_t, interrupted: *mut c_void) {
    let Some(expiry) = timer::expiry(info) else { return };
    let samples = Node::get().and_then(|node| node.samples.as_ref());
    let Some(ring) = samples.and_then(|samples| samples.ring(expiry.core)) else { return };
    let instruction = context::instruction(interrupted) as usize;
    let mut addresses = [0; DEPTH];
    addresses[0] = instruction;
    let (mode, found) = if dispatch::is_in_package() {
        let frame = context::frame_pointer(interrupted);
        let stack = stack(context::stack_pointer(interrupted));
        let found = walk(frame, stack, &mut addresses[1..], |frame| {
            let pair: *const [usize; 2] = ptr::with_exposed_provenance(frame);
            // SAFETY: both words are aligned and lie on the stack, which can be read from where its
            // pointer is to its end.
            unsafe { pair.read_volatile() }
        });
        (Mode::Package, found)
    } else {
        // SAFETY: the instruction was just run.
        let is_in_linux = unsafe { is_behind_call(instruction) };
        (if is_in_linux { Mode::Linux } else { Mode::Kernel }, 0)
    };
    ring.write(expiry.periods, mode, addresses[..=found].iter().map(|it| frame_at(*it)));
}

/// What of the package's stack is in use, if `pointer` is on it; else nothing.
fn stack(pointer: usize) -> Range<usize> {
    let package = package::stack().filter(|it| it.contains(&pointer));
    package.map_or(0..0, |it| pointer..it.end)
}

/// What an address is to whoever does not know where this process has its code.
fn frame_at(address: usize) -> Frame {
    let entry = package::entry();
    if let Some(program) = PROGRAM.get().filter(|it| it.contains(&address)) {
        Frame::Program((address - program.start) as u64)
    } else if let Some(entry) = entry.filter(|_| user::is_user_memory(address)) {
        Frame::Package((address as i64).wrapping_sub(entry as i64))
    } else {
        Frame::Elsewhere
    }
}

/// Whether the instruction before `instruction` calls Linux: then Linux was interrupted, or has
/// taken the time, and not what is behind it.
///
/// # Safety
///
/// The page of `instruction` can be read.
unsafe fn is_behind_call(instruction: usize) -> bool {
    const CALL: [u8; 2] = [0x0f, 0x05];
    const PAGE: usize = 4096;
    let is_known = cfg!(target_arch = "x86_64") && instruction % PAGE >= CALL.len();
    // SAFETY: both bytes lie on the page of the instruction.
    is_known && unsafe { ptr::with_exposed_provenance::<[u8; 2]>(instruction - 2).read() } == CALL
}
