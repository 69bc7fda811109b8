//! User mode: ring 3 on this core ([`nile_platform::User`]).
//!
//! A *turn* is one stay of the package in ring 3. Whatever ends it, the kernel goes on as if a
//! function had returned: on its own stack, with its own registers, and with nothing live of the
//! package but what [`turn`] keeps of it. At most one package is in a core at a time.
//!
//! What keeps a package in its place:
//!
//! | what it tries                       | what stops it                                          |
//! | ----------------------------------- | ------------------------------------------------------ |
//! | memory that is not its own          | its pages alone have the user bit                      |
//! | privileged instructions             | ring 3; UMIP where there is one                        |
//! | I/O ports                           | IOPL 0, and no I/O map in the task state segment       |
//! | gates of the interrupt table        | all are for the kernel alone                           |
//! | a stack pointer that points nowhere | no entry to the kernel uses it: interrupts have stacks |
//! |                                     | of their own, the system call brings the kernel's      |
//! | flags that confuse the kernel       | masked at every entry, made anew for every return      |
//! | an address where the kernel is      | every address is checked before a copy ([`memory`]);   |
//! |                                     | SMAP refuses what the kernel touches otherwise         |
//! | reading what the kernel left behind | registers, vectors too, are its own or zero            |
//! | never giving the core back          | a signal ends the turn, and the timer if others wait   |
//!
//! * [`memory`]: which user memory there is, and how the kernel copies from and to it.
//! * [`turn`]: the way into ring 3 and back.

pub mod memory;
pub mod turn;

use nile_abi::call::{Answer, POOL_BASE, USER_BASE, USER_BYTES};
use nile_abi::{Instant, PageSize, Status, VirtAddr};
use nile_platform::user::{Access, BadAddress, Exit, Gateway, Start, User};
use nile_platform::{AttachError, Fault, Grant};

use crate::cpu::Features;
use crate::layout::Span;
use crate::machine::frames_of;
use crate::node::Node;
use crate::private::Private;
use crate::privileged;
use crate::samples::{self, Code};
use crate::timer;

use memory::UserMemory;
use turn::Left;

/// All addresses that a package may have: its own, and behind them those of the pool.
pub const SPAN: Span = VirtAddr(USER_BASE)..VirtAddr(POOL_BASE + USER_BYTES);

/// The gate's code: `mov r10, rcx; syscall; ret`. A C call's registers are the system call's, but
/// for RCX, which the instruction itself needs. It runs wherever it is copied to.
const GATE: [u8; 6] = [0x49, 0x89, 0xca, 0x0f, 0x05, 0xc3];

/// Whether this core has a package's user half already.
static TAKEN: Private<bool> = Private::new(false);

/// Readies this core for packages: how they enter the kernel, and how the kernel reaches them.
///
/// # Safety
/// [`crate::gdt::install`] was run on this core, and SMAP is on if `features` has it.
pub(crate) unsafe fn install(features: &Features) {
    memory::install(features);
    // SAFETY: the caller's promise.
    unsafe { turn::install() }
}

/// What the package's next turn begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The whole state: it was interrupted, or has not run yet.
    Interrupted,
    /// The answer, which has yet to be given.
    Called,
    /// The answer.
    Answered,
    /// There is no next turn.
    Over(Fault),
}

/// The user half of this core. Until it is started, its package begins at address zero, where
/// nothing ever is.
pub struct UserHalf {
    node: &'static Node,
    memory: UserMemory,
    stage: Stage,
}

impl UserHalf {
    /// This core's user half, empty; `Exists` while there is one already.
    pub(crate) fn new(node: &'static Node) -> Result<UserHalf, Status> {
        if TAKEN.get() {
            return Err(Status::Exists);
        }
        TAKEN.set(true);
        turn::begin(VirtAddr(0), VirtAddr(0), VirtAddr(0));
        Ok(UserHalf { node, memory: UserMemory::default(), stage: Stage::Interrupted })
    }
}

impl Drop for UserHalf {
    fn drop(&mut self) {
        // What is still in the tables the processor may look up again, even unasked: the kernel
        // has it taken out first.
        privileged::invalidate_all();
        timer::set_turn_end(None);
        samples::set_code(None);
        TAKEN.set(false);
    }
}

impl User for UserHalf {
    fn gateway(&self) -> Gateway {
        Gateway::Code(&GATE)
    }

    fn map(&mut self, grant: Grant, at: VirtAddr, access: Access) -> Result<(), AttachError> {
        if !self.node.has(frames_of(grant)) || !at.is_aligned(PageSize::Small) {
            return Err(AttachError::OutOfRange);
        }
        self.memory.add(at, grant.bytes, access)
    }

    fn map_pool(&mut self) -> Result<(), AttachError> {
        let buffers = self.node.buffers.ok_or(AttachError::OutOfRange)?;
        self.memory.add(VirtAddr(POOL_BASE), buffers.bytes, Access::Write)
    }

    fn read(&self, from: VirtAddr, into: &mut [u8]) -> Result<(), BadAddress> {
        self.memory.read(from, into)
    }

    fn write(&mut self, to: VirtAddr, from: &[u8]) -> Result<(), BadAddress> {
        self.memory.write(to, from)
    }

    fn start(&mut self, start: Start) -> Result<(), Status> {
        let Start::At { entry, stack, argument } = start else { return Err(Status::NotFound) };
        if !SPAN.contains(&entry) || stack.0 % 16 != 0 {
            return Err(Status::Invalid);
        }
        // The function returns to address zero, where nothing is. It finds its stack as after a
        // call: with the return address on it, 8 bytes off a multiple of 16.
        let top = VirtAddr(stack.0.wrapping_sub(8));
        self.write(top, &[0; 8]).map_err(|BadAddress| Status::Invalid)?;
        turn::begin(entry, top, argument);
        self.stage = Stage::Interrupted;
        let memory = self.memory.below(stack);
        samples::set_code(Some(Code { entry, stack: (memory.start, memory.end) }));
        Ok(())
    }

    fn run(&mut self, answer: Answer, until: Option<Instant>) -> Exit {
        if self.stage == Stage::Called {
            turn::answer(answer);
            self.stage = Stage::Answered;
        }
        let by_call = match self.stage {
            Stage::Over(fault) => return Exit::Fault(fault),
            stage => stage == Stage::Answered,
        };
        // From here on an interrupt stays pending until the package runs, and interrupts that. A
        // signal that came before is remembered: perhaps the kernel had looked around already.
        let left = privileged::without_interrupts(|| {
            timer::set_turn_end(until);
            // SAFETY: interrupts are masked; `by_call` says how the last turn ended.
            (!turn::forget_signal()).then(|| unsafe { turn::enter(by_call) })
        });
        match left {
            None => Exit::Interrupted,
            Some(Left::Interrupted) => {
                self.stage = Stage::Interrupted;
                Exit::Interrupted
            }
            Some(Left::Called) => {
                self.stage = Stage::Called;
                Exit::Call(turn::ask())
            }
            Some(Left::Faulted) => {
                let fault = turn::fault();
                self.stage = Stage::Over(fault);
                Exit::Fault(fault)
            }
        }
    }
}
