//! A core: its loop and what runs on it.
//!
//! One pass of the loop ([`Loop::turn`]) drains inbound channels, polls ready tasks and fires due
//! timers. Nothing in a pass blocks, so kernel code of a core is never preempted by kernel code of
//! that core. When a pass finds nothing, the core polls a configured number of times and then
//! sleeps by the doorbell's protocol: say "sleeping", look once more, wait.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, OnceCell, RefCell};
use core::future::Future;
use core::ops::Deref;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use nile_abi::call::UserSlot;
use nile_abi::{CoreId, Generation, Instant, RoleSet, Window};
use nile_device::{DrivenDisk, DrivenInterface, DrivenSeat};
use nile_order::SortedMap;
use nile_platform::{
    CorePhase, Hosting, Line, Load, Loop, Machine, NodePhase, Outcome, Queue, Sleeper, Turn,
};
use nile_ring::Doorbell;
use nile_stl::node::Stay;

use crate::client::Client;
use crate::config::Config;
use crate::device::Devices;
use crate::executor::{Executor, Join};
use crate::images::Upload;
use crate::input::Input;
use crate::leave::Leaving;
use crate::lines::Lines;
use crate::manager::{Manager, watch};
use crate::membership::Membership;
use crate::packages::{self, Most, Neighbours};
use crate::pool::{Pool, PoolConfig};
use crate::sampling::Sampling;
use crate::services::{Desk, Services};
use crate::timers::{Counts, TimerId, Timers};

/// Task polls in one pass, so that a busy core still looks at its channels and timers.
const POLLS_PER_TURN: u32 = 64;

/// The subjects of a core's packages, for policies: by their slots.
pub(crate) const PACKAGES: [&str; UserSlot::COUNT] =
    ["package", "package.1", "package.2", "package.3"];

/// Passes in a row that find nothing after which a core counts as idle, should it not sleep
/// before: shorter gaps are not worth a look at the clock.
const IDLE_AFTER: u32 = 64;

/// Timers that fire in one pass; the rest fires in the next.
const TIMERS_PER_TURN: usize = 64;

/// A core as its tasks see it: cheap to clone, never leaves the core.
pub struct Core<M: Machine>(Rc<Inner<M>>);

impl<M: Machine> Clone for Core<M> {
    fn clone(&self) -> Core<M> {
        Core(self.0.clone())
    }
}

impl<M: Machine> Deref for Core<M> {
    type Target = Inner<M>;

    fn deref(&self) -> &Inner<M> {
        &self.0
    }
}

/// What a core consists of.
pub struct Inner<M: Machine> {
    pub(crate) machine: M,
    pub(crate) bell: Doorbell,
    pub(crate) executor: Executor,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) inputs: RefCell<Vec<Rc<Input>>>,
    devices: Devices,
    pub(crate) client: Client,
    pub(crate) manager: Option<RefCell<Manager<M>>>,
    /// The packages that the node was started with.
    pub(crate) packages: nile_package::Store,
    /// The files whose text waits in the slots of the user half for the next packages.
    pub(crate) texts: [Cell<Option<Rc<[u8]>>>; UserSlot::COUNT],
    pub(crate) services: Services<M>,
    /// The packages that have turns here.
    pub(crate) neighbours: Neighbours<M>,
    /// What is offered and called of each package that stays.
    pub(crate) desks: RefCell<SortedMap<Stay, Rc<RefCell<Desk>>>>,
    /// What the node is in a cluster, if it is in one.
    pub(crate) membership: Option<Membership>,
    /// The node's pool, from the first pass on, and how it is formatted.
    pool: OnceCell<Option<Pool>>,
    pool_config: Option<PoolConfig>,
    /// What the file gives packages.
    pub(crate) package_limits: Most,
    /// Who gives out roles while the node runs.
    pub(crate) role_policy: Option<String>,
    /// Empty passes before it sleeps; `None` if it never does.
    polls: Option<u32>,
    /// The most that a timer may be late because its window says so.
    longest_slack: Duration,
    pub(crate) sampling: Sampling<M>,
    ended: Cell<Option<Outcome>>,
    pub(crate) leaving: Leaving,
    /// A kernel image that comes, for another core.
    pub(crate) upload: RefCell<Option<Upload<M>>>,
}

impl<M: Machine> Inner<M> {
    /// The machine beneath.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// This core.
    pub fn id(&self) -> CoreId {
        self.machine.core()
    }

    /// What this core is for.
    pub fn roles(&self) -> RoleSet {
        self.machine.board().record(self.id()).roles()
    }

    /// Every core of the node.
    pub fn peers(&self) -> impl Iterator<Item = CoreId> + use<M> {
        self.machine.board().core_ids()
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.machine.now()
    }

    /// The buffers that all cores of the node share; `None` if it has none, or is not up yet.
    pub fn pool(&self) -> Option<&Pool> {
        if self.manager.is_none() && self.machine.board().phase() == NodePhase::Starting {
            // It may not be formatted.
            return None;
        }
        let open = || Pool::open(&self.machine, self.pool_config.as_ref());
        self.pool.get_or_init(open).as_ref()
    }

    /// The network interfaces that this core drives.
    pub(crate) fn interfaces(&self) -> &[Rc<DrivenInterface>] {
        self.devices.interfaces(&self.machine)
    }

    /// The seat of the domain that this core manages, if it does.
    pub(crate) fn seat(&self) -> Option<Rc<DrivenSeat>> {
        self.devices.seat(&self.machine)
    }

    /// The disks that this core drives.
    pub fn disks(&self) -> &[Rc<DrivenDisk>] {
        self.devices.disks(&self.machine)
    }

    /// Whether none of them has a request under way.
    pub(crate) fn disks_are_drained(&self) -> bool {
        self.devices.are_drained()
    }

    /// Whether this core looks at any device or file.
    pub(crate) fn has_devices(&self) -> bool {
        self.devices.is_any()
    }

    /// The file that another program of this machine has handed to the node under this name.
    pub(crate) fn file(&self, name: u64) -> Option<Rc<DrivenDisk>> {
        self.devices.file(&self.machine, name)
    }

    /// The lines by which the devices that this core drives interrupt.
    pub(crate) fn lines(&self) -> &Lines {
        &self.devices.lines
    }

    /// What this core's timers have done.
    pub fn timer_counts(&self) -> Counts {
        self.timers.borrow().counts()
    }

    /// Starts a task on this core.
    pub fn spawn<F>(&self, future: F) -> Join<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.executor.spawn(future)
    }

    /// Ends this core's loop after the present turn; on the management core, the node.
    pub fn finish(&self, outcome: Outcome) {
        self.ended.set(Some(outcome));
    }
}

impl<M: Machine> Core<M> {
    /// A core on `machine`, which is the calling one, with what `program` starts on it.
    pub fn start(machine: M, config: &Config, program: impl FnOnce(&Core<M>)) -> CoreLoop<M> {
        let id = machine.core();
        let bell = machine.board().notifier().doorbells().of(id);
        let bell = bell.expect("the board has a doorbell for each of its cores");
        let record = machine.board().record(id);
        record.set_phase(CorePhase::Starting);
        record.set_hosting(Hosting::Nothing);
        // Its last incarnation may have driven more.
        let others = Line::all().filter(|it| machine.board().driver(*it) != Some(id));
        others.for_each(|line| record.forget_line(line));
        let roles = record.roles();
        let ticks = roles.contains(nile_abi::Role::Management) || config.tick_workers;
        let tick = config.tick.filter(|_| ticks);
        machine.set_tick(tick);
        let manager = machine.manager().map(|node| Manager::new(&machine, node, config));
        let client = Client::attach(&machine);
        let core = Core(Rc::new(Inner {
            machine,
            bell,
            executor: Executor::default(),
            timers: RefCell::default(),
            inputs: RefCell::default(),
            devices: Devices::default(),
            client,
            manager: manager.map(RefCell::new),
            packages: config.packages,
            texts: Default::default(),
            services: Services::new(config, id),
            neighbours: Neighbours::default(),
            desks: RefCell::default(),
            membership: config.membership.clone(),
            pool: OnceCell::new(),
            pool_config: config.pool.clone(),
            package_limits: config.package_limits,
            role_policy: config.role_policy.as_ref().map(|it| it.name.clone()),
            polls: (!config.is_dedicated(id)).then_some(config.polls),
            longest_slack: config.longest_slack,
            sampling: Sampling::new(tick),
            ended: Cell::new(None),
            leaving: Leaving::default(),
            upload: RefCell::default(),
        }));
        // Memory of the last incarnation may be somebody else's once this one has said that it is
        // there: until then its disks must have forgotten what they were to do with it.
        core.disks();
        if let Some(manager) = &core.manager {
            // Formatted before any other core's first pass.
            let pool = core.pool().map(Pool::memory);
            manager.borrow_mut().open_for_business(&core.machine, pool);
            if core.machine.generation() != Generation::FIRST {
                core.recover_images();
            }
        }
        core.bar_policy();
        core.start_services();
        // Who may be bound before it runs.
        if roles.contains(nile_abi::Role::Worker) {
            core.executor.subject(PACKAGES[UserSlot::FIRST.index()]);
        }
        program(&core);
        CoreLoop { core, empty_passes: 0, is_idle: false, running: false }
    }

    /// The policy in which the last incarnation has ended is asked no more.
    fn bar_policy(&self) {
        let board = self.machine.board();
        let (record, last) = (board.record(self.id()), self.machine.generation().0.wrapping_sub(1));
        let policy = record.policy_name(record.policy());
        record.set_policy(0);
        record.set_bound(false);
        // Who was ended from outside may have been in any.
        let is_endless = board.record(CoreId::BOOT).is_endless(self.id(), Generation(last));
        let is_its = record.fault().is_some_and(|fault| fault.is_its_own()) || is_endless;
        if let Some(policy) = policy.filter(|_| is_its) {
            self.machine.log(format_args!("policy {policy} is expelled: the core ended in it"));
            self.executor.bar(&policy, self.now());
        }
    }

    /// Waits for `span`.
    pub fn sleep(&self, span: Duration) -> SleepIn<M> {
        self.sleep_until(self.now() + span)
    }

    /// Waits until `due`.
    pub fn sleep_until(&self, due: Instant) -> SleepIn<M> {
        SleepIn { core: self.clone(), window: Window::at(due), timer: None }
    }

    /// Waits until the core is awake in this window, which it is at its end at the latest; its
    /// slack counts up to the longest that the node's configuration allows.
    pub fn sleep_in(&self, window: Window) -> SleepIn<M> {
        let window = window.bounded(self.longest_slack);
        SleepIn { core: self.clone(), window, timer: None }
    }
}

/// A wait for a moment.
pub struct SleepIn<M: Machine> {
    core: Core<M>,
    window: Window,
    timer: Option<TimerId>,
}

impl<M: Machine> Future for SleepIn<M> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // The core is awake: what has begun is over at once, and has no slack.
        if self.core.now() >= self.window.from() {
            return Poll::Ready(());
        }
        let priority = self.core.executor.priority();
        let mut timers = self.core.timers.borrow_mut();
        let armed = self.timer.filter(|timer| timers.rewake(*timer, context.waker()));
        let timer =
            armed.unwrap_or_else(|| timers.arm(self.window, priority, context.waker().clone()));
        drop(timers);
        self.timer = Some(timer);
        Poll::Pending
    }
}

impl<M: Machine> Drop for SleepIn<M> {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.core.timers.borrow_mut().cancel(timer);
        }
    }
}

/// The loop of a core.
pub struct CoreLoop<M: Machine> {
    core: Core<M>,
    empty_passes: u32,
    is_idle: bool,
    running: bool,
}

impl<M: Machine> CoreLoop<M> {
    /// Before the node is up a core only waits; its first pass after that says that it runs.
    fn wait_for_node(&mut self) -> Option<Turn> {
        let core = &self.core;
        match core.machine.board().phase() {
            NodePhase::Starting => Some(Turn::Idle(None)),
            NodePhase::Stopping => Some(self.stop()),
            NodePhase::Up => {
                if !self.running {
                    self.running = true;
                    // Its last incarnation's buffers are free from here on.
                    core.pool();
                    core.client.introduce(core);
                    let record = core.machine.board().record(core.id());
                    record.set_busy(Load::starting(core.now()));
                    record.set_phase(CorePhase::Running);
                    core.client.wake_manager(core);
                }
                None
            }
        }
    }

    fn stop(&self) -> Turn {
        self.core.machine.set_tick(None);
        self.core.machine.board().record(self.core.id()).set_phase(CorePhase::Stopped);
        // If the node goes on without this core, its peers are to know.
        self.core.client.wake_manager(&self.core);
        Turn::Stopped(self.core.ended.get().unwrap_or(Outcome::Success))
    }

    /// Says that the core is idle, or busy, from a moment on.
    fn note_idle(&mut self, is_idle: bool, since: Instant) {
        self.is_idle = is_idle;
        self.core.machine.board().record(self.core.id()).turn(is_idle, since);
    }

    /// Says how long the core's queues are.
    fn note_queues(&self) {
        let core = &self.core;
        let record = core.machine.board().record(core.id());
        let (serving, calls) = core.services.open_calls();
        record.set_queue(Queue::Tasks, core.executor.ready());
        record.set_queue(Queue::Serving, serving);
        record.set_queue(Queue::Calls, calls);
    }

    /// Everything that a pass does; whether there was anything to do.
    fn pass(&self) -> bool {
        let core = &self.core;
        let mut found = core.client.drain(core);
        if let Some(manager) = &core.manager {
            if manager.borrow_mut().turn(&core.machine) {
                found = true;
                if manager.borrow_mut().begins_to_watch() {
                    core.spawn(watch(core.clone()));
                }
            }
            found |= core.client.take_local(core);
        }
        for input in core.inputs.borrow().iter() {
            found |= input.wake_if_ready();
        }
        found |= core.devices.turn(&core.machine);
        let mut left = POLLS_PER_TURN;
        while left > 0 {
            let polls = core.executor.poll_some(left, || core.now());
            if polls == 0 {
                break;
            }
            core.machine.board().record(core.id()).count_polls(polls);
            left -= polls;
            found = true;
        }
        if core.timers.borrow().next_due().is_some() {
            let now = core.now();
            for _ in 0..TIMERS_PER_TURN {
                if !core.timers.borrow_mut().fire_one(now) {
                    break;
                }
                found = true;
            }
        }
        found
    }
}

impl<M: Machine> Drop for CoreLoop<M> {
    fn drop(&mut self) {
        self.core.executor.close();
        self.core.services.close();
    }
}

impl<M: Machine> Loop for CoreLoop<M> {
    fn turn(&mut self) -> Turn {
        if let Some(turn) = self.wait_for_node() {
            return turn;
        }
        let core = &self.core;
        core.machine.board().record(core.id()).count_turn();
        // A pass may be long: a task computes, a package has its turn.
        let woken = self.is_idle.then(|| core.now());
        let found = self.pass();
        if core.ended.get().is_some() {
            if let Some(manager) = &core.manager {
                manager.borrow_mut().stop_node(&core.machine);
            }
            return self.stop();
        }
        if core.may_leave() {
            core.machine.set_tick(None);
            core.machine.leave();
        }
        if found {
            self.note_queues();
            if let Some(woken) = woken {
                self.note_idle(false, woken);
            }
            self.empty_passes = 0;
            return Turn::Busy;
        }
        if core.polls.is_none_or(|polls| self.empty_passes < polls) {
            core.machine.relax();
            self.empty_passes = self.empty_passes.saturating_add(1);
            if self.empty_passes >= IDLE_AFTER && !self.is_idle {
                self.note_idle(true, self.core.now());
            }
            return Turn::Busy;
        }
        if !self.is_idle {
            self.note_idle(true, self.core.now());
        }
        let core = &self.core;
        // `None` is later than any moment here.
        let look = core.devices.next_look(|| core.now(), core.id());
        let due = [core.timers.borrow().next_due(), core.executor.next_due(), look];
        Turn::Idle(due.into_iter().flatten().min())
    }

    fn has_work(&self) -> bool {
        let core = &self.core;
        match core.machine.board().phase() {
            NodePhase::Starting => return false,
            NodePhase::Stopping => return true,
            NodePhase::Up => {}
        }
        !self.running
            || core.client.is_ready()
            || core.client.queue.waits()
            || core.executor.is_ready(|| core.now())
            || core.manager.as_ref().is_some_and(|m| m.borrow().is_ready(&core.machine))
            || core.inputs.borrow().iter().any(|input| input.is_ready())
            || core.devices.is_ready()
            || core.timers.borrow().next_due().is_some_and(|due| due <= core.now())
    }

    fn is_waited_for(&self) -> bool {
        packages::is_waited_for(&self.core)
    }
}

/// One core's whole life, on a machine whose cores run their own loops: starts what `program`
/// starts, runs until the node stops, and tells how.
pub fn run<M: Sleeper>(machine: M, config: &Config, program: impl FnOnce(&Core<M>)) -> Outcome {
    let mut body = Core::start(machine, config, program);
    let outcome = loop {
        match body.turn() {
            Turn::Busy => {}
            Turn::Idle(until) => {
                let core = &body.core;
                let sleep = core.bell.prepare();
                if !body.has_work() {
                    core.machine.board().record(core.id()).count_sleep();
                    core.machine.sleep(&sleep, until);
                }
            }
            Turn::Stopped(outcome) => break outcome,
        }
    };
    if let Some(manager) = body.core.machine.manager() {
        use nile_platform::Manager as _;
        manager.power_off(outcome);
    }
    outcome
}
