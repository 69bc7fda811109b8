//! One core's view of a hosted node: [`Hosted`] is what the kernel runs on.
//!
//! Two kinds of core share this type. The cores with a system role are threads of one process:
//! each has a mapping of the whole arena, so attaching and detaching only check the range. A core
//! that is a worker and nothing else is a process: it has mapped what it was granted, no more.
//!
//! Linux still interrupts both for reasons of its own (its scheduler's tick, other processes). A
//! node counts what NileOS causes: ticks, its own deadlines, signals from other cores.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::hint::{black_box, spin_loop};
use std::num::NonZero;
use std::panic;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nile_abi::call::UserSlot;
use nile_abi::{CoreId, Generation, Instant, PhysAddr, Role, RoleSet, Status, VirtAddr};
use nile_platform::user::Access;
use nile_platform::{
    AttachError, Board, Cause, Disk, Grant, Interface, Line, MOST_OF_A_KIND, Machine, Misbehave,
    Sleeper, TimerSource, WakeMode,
};
use nile_ring::{PoolMemory, Region, SLEEPING, Signal, Sleep};
use rustix::io::Errno;
use rustix::rand::GetRandomFlags;
use rustix::thread::futex;
use rustix::time::ClockId;

use crate::alarm::Alarm;
use crate::checksum::checksum;
use crate::disk::{HostedDisk, Opened};
use crate::layout::end;
use crate::manager::HostedManager;
use crate::network::{Link, Port, line_of_thread, wait_with_directs};
use crate::node::{Node, log};
use crate::package;
use crate::shared::SharedMemory;
use crate::tick::Tick;
use crate::user::HostedUser;

/// A core of a hosted node, in one of its incarnations.
pub struct Hosted {
    node: &'static Node,
    core: CoreId,
    generation: Generation,
    tick: RefCell<Option<Tick>>,
    alarm: Alarm,
    /// Whether this core is a process of its own.
    isolated: bool,
    manager: Option<HostedManager>,
    /// Whether its right to the pool was asked for.
    pooled: Cell<bool>,
}

/// What a core unwinds with that leaves as planned.
pub(crate) struct Left;

/// Frees the buffers of a core whose incarnation is over: it may not have another one soon.
pub(crate) fn give_buffers_back(node: &Node, core: CoreId) {
    let buffers = node.record.layout.buffers();
    if buffers.bytes > 0
        && let Ok(region) = node.arena.region(buffers)
    {
        // SAFETY: as for [`Machine::pool`]; the incarnation has unwound, and its process does
        // nothing but end.
        let memory = unsafe { PoolMemory::new(region, core) };
        if let Err(error) = memory.give_back() {
            log(&core.to_string(), format_args!("its buffers are not given back: {error}"));
        }
    }
}

/// Whether a core with these roles is a process of its own: a worker and nothing else.
pub(crate) fn is_isolated(roles: RoleSet) -> bool {
    roles == RoleSet::EMPTY.with(Role::Worker)
}

impl Hosted {
    /// The calling thread as `core`; `manager` if it manages the node.
    pub(crate) fn new(
        node: &'static Node,
        core: CoreId,
        generation: Generation,
        manager: Option<HostedManager>,
    ) -> Hosted {
        let isolated = is_isolated(node.board.record(core).roles());
        let (tick, pooled) = (RefCell::new(None), Cell::new(false));
        let alarm = Alarm::default();
        Hosted { node, core, generation, tick, alarm, isolated, manager, pooled }
    }

    /// Those of the node's devices of a kind that this core drives, with their numbers. What comes
    /// after the last that has a line goes with those that have.
    fn own<'a, T>(
        &self,
        line: impl Fn(usize) -> Option<Line>,
        all: &'a [T],
    ) -> impl Iterator<Item = (usize, &'a T)> {
        let board = &self.node.board;
        let driver = move |number| line(number % MOST_OF_A_KIND).and_then(|it| board.driver(it));
        all.iter().enumerate().filter(move |(number, _)| driver(*number) == Some(self.core))
    }

    /// Whether `grant` is memory that is ever granted: not the board, not the control rings.
    fn check(&self, grant: Grant) -> Result<(), AttachError> {
        if grant.start >= end(self.node.record.layout.reserved()) {
            Ok(())
        } else {
            Err(AttachError::OutOfRange)
        }
    }
}

impl Machine for Hosted {
    type Manager = HostedManager;
    type User = HostedUser;

    fn core(&self) -> CoreId {
        self.core
    }

    fn generation(&self) -> Generation {
        self.generation
    }

    fn now(&self) -> Instant {
        self.node.record.clock.now()
    }

    fn board(&self) -> &Board {
        &self.node.board
    }

    fn wake_mode(&self) -> WakeMode {
        WakeMode::Signalled
    }

    /// Interrupts system calls too, so that a sleeping core looks around at every tick. A tick
    /// that Linux refuses is a line in the log.
    fn set_tick(&self, period: Option<Duration>) {
        // The old timer stops before the new one starts: no tick is counted twice.
        *self.tick.borrow_mut() = None;
        let Some(period) = period else { return };
        match Tick::start(self.core, period) {
            Ok(tick) => *self.tick.borrow_mut() = Some(tick),
            Err(error) => self.log(format_args!("no tick: Linux refuses a timer: {error}")),
        }
    }

    fn timer_sources(&self) -> Vec<TimerSource> {
        Alarm::sources().into()
    }

    fn timer_source(&self) -> usize {
        self.alarm.place()
    }

    fn take_timer_source(&self, place: usize) -> Result<(), Status> {
        self.alarm.take(place, self.core)
    }

    fn relax(&self) {
        spin_loop();
    }

    fn control(&self, peer: CoreId) -> Region {
        assert!(
            peer == self.core || self.manager.is_some(),
            "{} has no control rings with {peer}",
            self.core
        );
        let rings = self.node.record.layout.control(peer);
        self.node.arena.region(rings).expect("control rings lie in the node's memory")
    }

    fn attach(&self, grant: Grant) -> Result<Region, AttachError> {
        self.check(grant)?;
        if self.isolated {
            self.node.arena.map(grant, Access::Write)
        } else {
            self.node.arena.region(grant)
        }
    }

    /// On a core that is a thread nothing faults afterwards: other cores of its process may have
    /// the grant, and they share one mapping.
    fn detach(&self, grant: Grant) {
        if self.isolated
            && let Err(error) = self.check(grant).and_then(|()| self.node.arena.unmap(grant))
        {
            self.log(format_args!("{grant:?} is not detached: {error:?}"));
        }
    }

    /// Linux forgets a translation when what it belongs to is unmapped.
    fn flush(&self) {}

    fn log(&self, line: fmt::Arguments<'_>) {
        log(&self.core.to_string(), line);
    }

    fn compute(&self, span: Duration) {
        let until = self.now() + span;
        let mut value = 1u64;
        while self.now() < until {
            for step in 0..1000 {
                value = black_box(value.wrapping_mul(6_364_136_223_846_793_005) ^ step);
            }
        }
    }

    /// `Denied` on a core that is a thread: others share its process.
    fn user(&self, slot: UserSlot) -> Result<HostedUser, Status> {
        match self.isolated {
            true => HostedUser::new(self.node, self.core, slot),
            false => Err(Status::Denied),
        }
    }

    fn may_run_packages(&self) -> bool {
        self.isolated
    }

    /// Cores that are processes have none.
    fn interfaces(&self) -> Vec<Box<dyn Interface>> {
        let port = |(number, link): (usize, &Link)| {
            let port = Port::new(self.node, self.core, link.clone(), Line::interface(number));
            Box::new(port) as Box<dyn Interface>
        };
        self.own(Line::interface, &self.node.links).map(port).collect()
    }

    fn disks(&self) -> Vec<Box<dyn Disk>> {
        let open = |(number, opened): (usize, &Opened)| match HostedDisk::new(
            self.node,
            self.core,
            opened,
            Line::disk(number),
        ) {
            Ok(disk) => Some(Box::new(disk) as Box<dyn Disk>),
            Err(error) => {
                self.log(format_args!("disk {opened}: it is not used: {error}"));
                None
            }
        };
        self.own(Line::disk, &self.node.disks).filter_map(open).collect()
    }

    fn shared_memory(&self) -> Option<Grant> {
        self.node.arena.shared().map(SharedMemory::all)
    }

    fn file(&self, name: u64) -> Option<Box<dyn Disk>> {
        let file = self.node.handed.as_ref()?.find(name)?;
        match HostedDisk::of_file(self.node, self.core, &file) {
            Ok(disk) => Some(Box::new(disk)),
            Err(error) => {
                self.log(format_args!("a file of another program is not used: {error}"));
                None
            }
        }
    }

    fn has_file(&self, name: u64) -> bool {
        self.node.handed.as_ref().is_some_and(|it| it.find(name).is_some())
    }

    fn mask(&self, line: Line, is_masked: bool) {
        self.node.mask(line, is_masked);
    }

    fn checksum(&self) -> Option<fn(u32, &[u8]) -> u32> {
        Some(checksum)
    }

    fn pool(&self) -> Option<(PhysAddr, PoolMemory)> {
        let buffers = self.node.record.layout.buffers();
        if buffers.bytes == 0 || self.pooled.replace(true) {
            return None;
        }
        let region = self.node.arena.region(buffers).ok()?;
        // SAFETY: the pool is mapped in every process of the node for ever, and only here is it
        // reached. An incarnation of a core begins when its last one's thread has unwound or its
        // process has ended, has one value of this type, and asks once.
        Some((buffers.start, unsafe { PoolMemory::new(region, self.core) }))
    }

    fn entropy(&self, bytes: &mut [u8]) -> bool {
        matches!(rustix::rand::getrandom(&mut *bytes, GetRandomFlags::empty()),
            Ok(filled) if filled == bytes.len())
    }

    fn calendar(&self) -> Option<Duration> {
        SystemTime::now().duration_since(UNIX_EPOCH).ok()
    }

    /// Unwinds to whoever runs the incarnation, which drops what it had.
    fn leave(&self) -> ! {
        panic::resume_unwind(Box::new(Left))
    }

    fn manager(&self) -> Option<&HostedManager> {
        self.manager.as_ref()
    }
}

impl Misbehave for Hosted {
    /// In a worker process the write is real and hits or faults. A system core may write all of
    /// the node's memory, so there it hits; any other write of its would endanger cores that
    /// share its process, so it ends this core alone, by a panic.
    fn stray_write(&self, at: VirtAddr, value: u64) {
        let inside = self.node.arena.contains(at);
        assert!(self.isolated || inside, "a write of {value:#x} to {at}, which is not memory");
        let pointer: *mut u64 = ptr::with_exposed_provenance_mut(at.0 as usize);
        // SAFETY: in the arena lies nothing that a wrong value makes unsound. Anywhere else the
        // caller wants this process, which is a worker alone, to suffer what a stray write does.
        unsafe { pointer.write_volatile(value) };
    }

    fn interrupt_for_nothing(&self, line: Line) {
        let driver = self.node.board.driver(line);
        driver.into_iter().for_each(|driver| self.node.interrupt(driver, Some(line)));
    }

    fn overrun_stack(&self) {
        assert!(
            self.isolated,
            "a stack that is used up would end the cores that share the process"
        );
        nile_platform::recurse_for_ever(0);
    }
}

impl Sleeper for Hosted {
    /// The futex compares the state with SLEEPING and waits in one step, so a ring before the
    /// wait ends it at once. A wait that someone ended counts as an interrupt by a signal, one
    /// that its deadline ended as an interrupt by the core's own timer.
    fn sleep(&self, sleep: &Sleep<'_>, until: Option<Instant>) {
        if sleep.is_over() {
            return;
        }
        let deadline = until.map(|moment| self.node.record.clock.deadline(moment));
        // From here on the alarm rings the doorbell.
        let deadline = self.alarm.set(deadline);
        let mut wait = Err(Errno::AGAIN);
        wait_with_directs(self.node, |directs| {
            wait = if directs.is_empty() {
                let every_bit = NonZero::<u32>::MAX;
                let flags = futex::Flags::empty();
                let state = sleep.state();
                futex::wait_bitset(state, flags, SLEEPING, deadline.as_ref(), every_bit).map(|()| 0)
            } else {
                let mut futexes = vec![waiting_for(sleep.state(), SLEEPING)];
                futexes.extend(directs.iter().map(|word| waiting_for(word, 1)));
                let flags = futex::WaitvFlags::empty();
                futex::waitv(&futexes, flags, deadline.as_ref(), ClockId::Monotonic)
            };
        });
        let alarmed = self.alarm.place() != 0 && until.is_some_and(|until| self.now() >= until);
        self.alarm.set(None);
        let record = self.node.board.record(self.core);
        let cause = match wait {
            Ok(0) => Some(Cause::Signal),
            Ok(_) => {
                self.node.count_device(self.core, line_of_thread());
                record.count_wake();
                None
            }
            Err(Errno::TIMEDOUT) => Some(Cause::Timer),
            Err(_) if alarmed => Some(Cause::Timer),
            // Rung before it slept (AGAIN), or interrupted by a tick or by the signal for a
            // core with a package, which have counted themselves.
            Err(_) => None,
        };
        if let Some(cause) = cause {
            record.count_interrupt(cause);
            record.count_wake();
        }
        if self.isolated {
            package::forget_signal();
        }
    }
}

/// A futex of 32 bits that other processes share, to be waited for while it has a value.
fn waiting_for(word: &AtomicU32, value: u32) -> futex::Wait {
    let mut wait = futex::Wait::new();
    wait.val = value.into();
    wait.uaddr = futex::WaitPtr::new(word.as_ptr().cast());
    wait.flags = futex::WaitFlags::SIZE_U32;
    wait
}

impl Signal for Hosted {
    fn signal(&self, core: CoreId) {
        self.node.signal(core);
    }
}
