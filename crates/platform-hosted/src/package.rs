//! A package's code in a worker process: a coroutine of the worker's loop, on the stack that the
//! kernel made in user memory. Here are all ways in and out of it:
//!
//! * it calls the gate, an address that it was told;
//! * it faults: Linux's signal, handled on a stack of our own, ends the coroutine;
//! * the core is signalled, or a timer ends the turn: the handler of SIGURG suspends the coroutine.
//!   The next turn returns from the handler, and Linux restores every register. (Linux ignores
//!   SIGURG where nobody handles it, so one that comes late harms no process.)
//!
//! A signal that comes while the kernel runs is kept. Each way in first says that the package
//! runs and then looks for such a signal, as the coroutine already: one that comes before is
//! seen, one that comes after suspends the package on the spot, so none is lost in between.

use std::ffi::c_void;
use std::num::NonZero;
use std::ops::Range;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use corosensei::stack::{Stack, StackPointer};
use corosensei::trap::CoroutineTrapHandler;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use nile_abi::call::Answer;
use nile_abi::{PageSize, VirtAddr};
use nile_platform::user::{Ask, Exit};
use nile_platform::{Cause, Fault};

use crate::handlers::LeftHandler;
use crate::{context, dispatch, fault, handlers, signals, timer};

/// The least stack that a package can start on.
pub(crate) const LEAST_STACK: u64 = corosensei::stack::MIN_STACK_SIZE as u64;

/// The package of this process that has, or had last, a turn, for the gate and for signal handlers;
/// null if it has none.
static PACKAGE: AtomicPtr<Inside> = AtomicPtr::new(ptr::null_mut());

/// Whether the core was signalled and no turn has ended for it yet.
static SIGNALLED: AtomicBool = AtomicBool::new(false);

/// What the gate and the handlers need of a package.
struct Inside {
    /// The way out of the coroutine; null until its first turn.
    yielder: AtomicPtr<Yielder<Answer, Exit>>,
    trap: CoroutineTrapHandler<Fault>,
    /// Whether it was suspended by the handler that interrupted it.
    interrupted: AtomicBool,
    /// Where it begins, and its stack.
    entry: usize,
    stack: Range<usize>,
}

/// A package that has been started. Dropping it forgets it where it stands: nothing on its stack
/// is the kernel's.
pub(crate) struct Package {
    coroutine: Coroutine<Answer, Exit, Fault, UserStack>,
    inside: Box<Inside>,
    /// The handler that has interrupted it, if the next turn goes on there.
    left: Option<LeftHandler>,
    /// What this thread blocks, but in handlers.
    mask: libc::sigset_t,
    /// How it ended, once it has.
    fault: Option<Fault>,
}

/// A stack in user memory, which the kernel mapped and unmaps.
struct UserStack {
    base: StackPointer,
    limit: StackPointer,
}

// SAFETY: `Package::new`'s caller vouches for the memory and for the unmapped page below it.
unsafe impl Stack for UserStack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.limit
    }
}

impl Package {
    /// A package that starts at `entry` with one argument, on the stack between `lowest` and
    /// `top`; `None` if there can be no stack.
    ///
    /// # Safety
    ///
    /// The stack is user memory, [`LEAST_STACK`] bytes at least, that can be written and stays
    /// mapped as long as the package; the page below it is not mapped. `entry` lies in user
    /// memory. This process is a worker and has one thread.
    pub unsafe fn new(
        entry: VirtAddr,
        argument: VirtAddr,
        (lowest, top): (VirtAddr, VirtAddr),
    ) -> Option<Package> {
        let guard = lowest.0.checked_sub(PageSize::Small.bytes())?;
        let stack =
            UserStack { base: NonZero::new(top.0 as usize)?, limit: NonZero::new(guard as usize)? };
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<_, _>, _| {
            if let Some(inside) = inside() {
                inside.yielder.store(ptr::from_ref(yielder).cast_mut(), Ordering::SeqCst);
            }
            go_on(yielder);
            let entry: *const () = ptr::with_exposed_provenance(entry.0 as usize);
            // SAFETY: whatever is there runs as the package; nothing on this stack is needed
            // again but to say that it returned.
            let entry: extern "C" fn(u64) = unsafe { std::mem::transmute(entry) };
            entry(argument.0);
            dispatch::leave_package();
            context::take_modes();
            RETURNED
        });
        let trap = coroutine.trap_handler();
        let inside = Box::new(Inside {
            yielder: AtomicPtr::default(),
            trap,
            interrupted: AtomicBool::new(false),
            entry: entry.0 as usize,
            stack: lowest.0 as usize..top.0 as usize,
        });
        let mask = handlers::usual_mask();
        Some(Package { coroutine, inside, left: None, mask, fault: None })
    }

    /// One turn.
    pub fn run(&mut self, answer: Answer) -> Exit {
        if let Some(fault) = self.fault {
            return Exit::Fault(fault);
        }
        PACKAGE.store(ptr::from_ref(&*self.inside).cast_mut(), Ordering::SeqCst);
        if let Some(handler) = self.left.take() {
            handlers::go_back(handler);
        }
        let result = self.coroutine.resume(answer);
        if self.inside.interrupted.swap(false, Ordering::SeqCst) {
            self.left = Some(handlers::leave(&self.mask));
        }
        match result {
            CoroutineResult::Yield(exit) => exit,
            CoroutineResult::Return(fault) => {
                self.fault = Some(fault);
                Exit::Fault(fault)
            }
        }
    }
}

impl Drop for Package {
    fn drop(&mut self) {
        let mine = ptr::from_ref(&*self.inside).cast_mut();
        // It is another's if that had a turn since.
        let _ = PACKAGE.compare_exchange(mine, ptr::null_mut(), Ordering::SeqCst, Ordering::SeqCst);
        // SAFETY: a package's frames own nothing of the kernel's, and the frames of the gate and
        // of the handlers have nothing to drop.
        unsafe { self.coroutine.force_reset() };
    }
}

/// What it is to return from the entry point: there is nothing to return to.
const RETURNED: Fault = Fault { kind: Fault::EXCEPTION, code: 0, at: 0, address: 0 };

/// The package of this process that runs, or ran last.
fn inside() -> Option<&'static Inside> {
    // SAFETY: who drops a package takes it out of PACKAGE first; only code that runs between its
    // start and its end, in this one thread, comes here.
    unsafe { PACKAGE.load(Ordering::SeqCst).as_ref() }
}

/// The way out of the package that runs.
fn yielder() -> Option<&'static Yielder<Answer, Exit>> {
    // SAFETY: the yielder lies on the coroutine's stack for as long as the package.
    inside().and_then(|inside| unsafe { inside.yielder.load(Ordering::SeqCst).as_ref() })
}

/// Where the package begins that runs here, or ran last, if there is one. May be called in a signal
/// handler.
pub(crate) fn entry() -> Option<usize> {
    inside().map(|inside| inside.entry)
}

/// The stack of the package that runs here, if there is one: it can be read then. May be called in
/// a signal handler.
pub(crate) fn stack() -> Option<Range<usize>> {
    inside().map(|inside| inside.stack.clone())
}

/// The address of the gate.
pub(crate) fn gate_address() -> VirtAddr {
    VirtAddr(gate as *const () as u64)
}

/// Where a package comes to ask something of its kernel.
extern "C" fn gate(
    number: u64,
    word: u64,
    input: u64,
    input_bytes: u64,
    output: u64,
    output_bytes: u64,
) -> Answer {
    dispatch::leave_package();
    let modes = context::take_modes();
    let Some(yielder) = yielder() else {
        return Answer::failed(nile_abi::Status::Denied);
    };
    let ask = Ask {
        number,
        word,
        input: (VirtAddr(input), input_bytes),
        output: (VirtAddr(output), output_bytes),
    };
    let answer = yielder.suspend(Exit::Call(ask));
    go_on(yielder);
    // Not before: the kernel may have gone on once more.
    context::give_modes(modes);
    answer
}

/// Lets the package's code run from here on: called by its coroutine, last thing before it does.
fn go_on(yielder: &Yielder<Answer, Exit>) {
    loop {
        dispatch::enter_package();
        if !SIGNALLED.swap(false, Ordering::SeqCst) {
            return;
        }
        dispatch::leave_package();
        yielder.suspend(Exit::Interrupted);
    }
}

/// Forgets a signal that no turn has ended for: its core looks around anyhow.
pub(crate) fn forget_signal() {
    SIGNALLED.store(false, Ordering::SeqCst);
}

/// Makes SIGURG end the turns of packages in this process.
pub(crate) fn handle_interruptions() {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| {
        // SAFETY: in the kernel's code the handler only writes atomics; in a package's code it
        // may do anything, because nothing there is the kernel's.
        unsafe { signals::handle(libc::SIGURG, interrupt) };
        signals::unblock(libc::SIGURG);
    });
}

/// The core was signalled, or the turn's end has come.
extern "C" fn interrupt(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    let in_package = dispatch::leave_package();
    // Linux gives them back to whom it has interrupted.
    context::take_modes();
    let is_timer = timer::expiry(info).is_some();
    fault::count_interrupt(if is_timer { Cause::Timer } else { Cause::Signal });
    let (Some(inside), Some(yielder), true) = (inside(), yielder(), in_package) else {
        return SIGNALLED.store(true, Ordering::SeqCst);
    };
    loop {
        inside.interrupted.store(true, Ordering::SeqCst);
        yielder.suspend(Exit::Interrupted);
        if !SIGNALLED.swap(false, Ordering::SeqCst) {
            break;
        }
    }
    // No signal arrives before Linux is back in the package.
    dispatch::enter_package();
}

/// Ends the package with `fault` if it is the package's, and says so: then the handler is to
/// return at once, into the kernel. `in_package` is what [`dispatch::leave_package`] said at the
/// handler's start. Code of the kernel's that runs on the package's stack counts as its own:
/// there it fails only because of that stack.
pub(crate) fn take_fault(fault: Fault, in_package: bool, context: *mut c_void) -> bool {
    let Some(inside) = inside() else { return false };
    if !in_package && !inside.trap.stack_ptr_in_bounds(context::stack_pointer(context)) {
        return false;
    }
    // SAFETY: the package's coroutine is the one that runs, as was just checked.
    unsafe { context::leave(context, &inside.trap, fault) };
    true
}
