//! User mode: ring 3 on this core ([`nile_platform::User`]).
//!
//! A *turn* is one stay of the package in ring 3. Whatever ends it, the kernel goes on as if a
//! function had returned: on its own stack, with its own registers, and with nothing live of the
//! package but what [`turn`] keeps of it.
//!
//! A core may have several packages, each in a slot of the user half, of which one is *loaded*: its
//! registers are those of the next turn, and the core runs on the root that reaches its slot alone.
//! No page of another slot is mapped then, and no translation of one is kept, as loading a root
//! forgets those of the last.
//!
//! What keeps a package in its place:
//!
//! | what it tries                       | what stops it                                          |
//! | ----------------------------------- | ------------------------------------------------------ |
//! | memory that is not its own          | its pages alone have the user bit, and of all slots    |
//! |                                     | only its own is mapped while it runs                   |
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

use core::sync::atomic::{AtomicUsize, Ordering};

use nile_abi::call::{Answer, USER_BASE, UserSlot};
use nile_abi::{CoreId, Instant, PageSize, PhysAddr, Status, VirtAddr};
use nile_platform::user::{Access, BadAddress, Exit, Gateway, Start, User};
use nile_platform::{AttachError, Fault, Grant};

use crate::cpu::Features;
use crate::layout::Span;
use crate::machine::frames_of;
use crate::node::Node;
use crate::private::Private;
use crate::samples::{self, Code};
use crate::{images, privileged, timer};

use memory::UserMemory;
use turn::Left;

/// All addresses that packages may have: their own, and those of the pool.
pub const SPAN: Span = VirtAddr(USER_BASE)..VirtAddr(UserSlot::END);

/// The gate's code: `mov r10, rcx; syscall; ret`. A C call's registers are the system call's, but
/// for RCX, which the instruction itself needs. It runs wherever it is copied to.
const GATE: [u8; 6] = [0x49, 0x89, 0xca, 0x0f, 0x05, 0xc3];

/// The slots of this core that have a package.
static TAKEN: Private<[bool; UserSlot::COUNT]> = Private::new([false; UserSlot::COUNT]);

/// The number of the one whose package is loaded. No handler looks at it.
static LOADED: AtomicUsize = AtomicUsize::new(UserSlot::COUNT);

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

/// A slot of this core's user half. Until it is started, its package begins at address zero, where
/// nothing ever is.
pub struct UserHalf {
    node: &'static Node,
    slot: UserSlot,
    /// The root that reaches this slot alone.
    root: PhysAddr,
    memory: UserMemory,
    stage: Stage,
    code: Option<Code>,
}

impl UserHalf {
    /// A slot of `core`, which is this one, empty; `Exists` while there is one already.
    pub(crate) fn new(
        node: &'static Node,
        core: CoreId,
        slot: UserSlot,
    ) -> Result<UserHalf, Status> {
        let mut taken = TAKEN.get();
        if core::mem::replace(&mut taken[slot.index()], true) {
            return Err(Status::Exists);
        }
        TAKEN.set(taken);
        let half = UserHalf {
            node,
            slot,
            root: images::present(node, core).slots[slot.index()],
            memory: UserMemory::new(slot.base()..slot.end()),
            stage: Stage::Interrupted,
            code: None,
        };
        half.load();
        turn::begin(VirtAddr(0), VirtAddr(0), VirtAddr(0));
        Ok(half)
    }

    /// Makes the memory and the registers of this slot's package those that the core has.
    fn load(&self) {
        let loaded = LOADED.load(Ordering::Relaxed);
        if loaded == self.slot.index() {
            return;
        }
        turn::exchange(loaded, self.slot.index());
        // SAFETY: it maps of the kernel what every root of this core maps, and of user memory this
        // slot's.
        unsafe { privileged::load_root(self.root) };
        LOADED.store(self.slot.index(), Ordering::Relaxed);
        samples::set_code(self.code);
    }
}

impl Drop for UserHalf {
    fn drop(&mut self) {
        // What is still in the tables the processor may look up again, even unasked: the kernel
        // has it taken out first.
        privileged::invalidate_all();
        timer::set_turn_end(None);
        if LOADED.load(Ordering::Relaxed) == self.slot.index() {
            LOADED.store(UserSlot::COUNT, Ordering::Relaxed);
            samples::set_code(None);
        }
        let mut taken = TAKEN.get();
        taken[self.slot.index()] = false;
        TAKEN.set(taken);
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

    fn unmap(&mut self, at: VirtAddr) {
        self.memory.remove(at);
        privileged::invalidate_all();
    }

    fn map_pool(&mut self) -> Result<(), AttachError> {
        let buffers = self.node.buffers.ok_or(AttachError::OutOfRange)?;
        self.memory.add(self.slot.pool(), buffers.bytes, Access::Write)
    }

    fn read(&self, from: VirtAddr, into: &mut [u8]) -> Result<(), BadAddress> {
        self.load();
        self.memory.read(from, into)
    }

    fn write(&mut self, to: VirtAddr, from: &[u8]) -> Result<(), BadAddress> {
        self.load();
        self.memory.write(to, from)
    }

    fn start(&mut self, start: Start) -> Result<(), Status> {
        let Start::At { entry, stack, argument } = start else { return Err(Status::NotFound) };
        if !(self.slot.base()..self.slot.pool()).contains(&entry) || stack.0 % 16 != 0 {
            return Err(Status::Invalid);
        }
        // The function returns to address zero, where nothing is. It finds its stack as after a
        // call: with the return address on it, 8 bytes off a multiple of 16.
        let top = VirtAddr(stack.0.wrapping_sub(8));
        self.write(top, &[0; 8]).map_err(|BadAddress| Status::Invalid)?;
        turn::begin(entry, top, argument);
        self.stage = Stage::Interrupted;
        let memory = self.memory.below(stack);
        self.code = Some(Code { entry, stack: (memory.start, memory.end) });
        samples::set_code(self.code);
        Ok(())
    }

    fn run(&mut self, answer: Answer, until: Option<Instant>) -> Exit {
        self.load();
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
