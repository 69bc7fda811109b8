//! A node that is none: what services and the transport layer stand on, as little as they can do
//! with. Its time passes when everything waits.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use nile_abi::{
    CoreId, CorePhase, Generation, Instant, KeepName, PageSize, PhysAddr, RoleSet, Status, VirtAddr,
};
use nile_policy::{Manager, Parameters, Refusal, Scheduling, Statistics, SubjectState};
use nile_stl::frame::{CallId, Header, MAX_DATA};
use nile_stl::node::{
    Buffer, CoreState, DeviceLine, DrivenInterface, Frame, FromPackage, Grant, Line, MOST_HERTZ,
    Member, Memory, Node, NodeFuture, PackageLimits, PackageSource, Pool, PoolDisk, Region,
    RegionShare, RegionUse, RunningPackage, Samples, TimerSource, TimerState, ToPackage,
};
use nile_stl::{Host, LocalFuture, Place, Stl};

/// Cores of the node; the first is this one.
pub const CORES: usize = 4;

/// How often whatever waits is looked at, and how far time goes on in between.
const ROUNDS: u32 = 8;
const ROUND: Duration = Duration::from_millis(1);

/// Frames that the node has.
const FRAMES: u64 = 8;

/// A core with all services on it.
pub struct TestHost {
    now: Cell<Instant>,
    tasks: RefCell<Vec<LocalFuture<'static, ()>>>,
    /// Frames that went to other cores: to whom, what.
    pub sent: RefCell<Vec<(CoreId, Header)>>,
    /// What is logged is formatted, as on a machine.
    logged: Cell<usize>,
    frames: Rc<Cell<u64>>,
}

impl TestHost {
    /// A core without services.
    pub fn new() -> Rc<TestHost> {
        Rc::new(TestHost {
            now: Cell::new(Instant::START),
            tasks: RefCell::default(),
            sent: RefCell::default(),
            logged: Cell::new(0),
            frames: Rc::new(Cell::new(FRAMES)),
        })
    }

    /// The transport layer of this core, with the kernel half of every service: where each is.
    pub fn serve(self: &Rc<Self>) -> (Stl, Vec<Place>) {
        let stl = Stl::kernel(self.clone());
        let install = |registration: &&'static nile_stl::Registration| {
            let make = registration.kernel.expect("every default service has a kernel half");
            stl.install(registration, make).expect("no two have one name")
        };
        let places = nile_services::ALL.iter().map(install).collect();
        (stl, places)
    }

    /// Polls every task once.
    pub fn poll_tasks(&self) {
        let mut context = Context::from_waker(Waker::noop());
        for mut task in self.tasks.take() {
            if task.as_mut().poll(&mut context).is_pending() {
                self.tasks.borrow_mut().push(task);
            }
        }
    }

    /// What comes of a future in a few rounds; nothing if it waits for more than time.
    pub fn run<T>(&self, mut future: LocalFuture<'_, T>) -> Option<T> {
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..ROUNDS {
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                return Some(value);
            }
            self.poll_tasks();
            self.now.set(self.now.get() + ROUND);
        }
        None
    }

    /// The end of the core: whatever holds it is dropped.
    pub fn close(&self, stl: &Stl) {
        stl.close();
        let tasks = self.tasks.take();
        drop(tasks);
        assert_eq!(self.frames.get(), FRAMES, "frames are not given back");
    }
}

impl Host for TestHost {
    fn core(&self) -> CoreId {
        CoreId::BOOT
    }

    fn generation(&self) -> Generation {
        Generation::FIRST
    }

    fn cores(&self) -> usize {
        CORES
    }

    fn generation_of(&self, core: CoreId) -> Generation {
        if core.index() < CORES { Generation::FIRST } else { Generation(0) }
    }

    fn now(&self) -> Instant {
        self.now.get()
    }

    fn spawn(&self, task: LocalFuture<'static, ()>) {
        self.tasks.borrow_mut().push(task);
    }

    fn sleep_until(&self, due: Instant) -> LocalFuture<'static, ()> {
        // The future may outlive what it asks: it is told the time by whoever polls it.
        let mut rounds = due.since(self.now.get()).as_nanos().div_ceil(ROUND.as_nanos());
        Box::pin(poll_fn(move |_| {
            let over = rounds == 0;
            rounds = rounds.saturating_sub(1);
            if over { Poll::Ready(()) } else { Poll::Pending }
        }))
    }

    fn send(&self, to: CoreId, header: &Header, data: &[u8]) -> Result<(), Status> {
        assert!(data.len() <= MAX_DATA, "{header:?} has {} bytes", data.len());
        if to.index() >= CORES {
            return Err(Status::NotFound);
        }
        self.sent.borrow_mut().push((to, *header));
        Ok(())
    }

    fn log(&self, line: fmt::Arguments<'_>) {
        self.logged.set(self.logged.get() + line.to_string().len());
    }

    fn working_for(&self, _: Option<(CoreId, CallId)>) {}

    fn node(&self) -> Option<Rc<dyn Node>> {
        Some(Rc::new(TestNode(self.frames.clone())))
    }
}

/// The kernel beneath.
struct TestNode(Rc<Cell<u64>>);

/// A core on which nobody can be bound.
struct NoPolicies;

impl Manager for NoPolicies {
    fn subjects(&self) -> Vec<SubjectState> {
        let (name, policy) = ("kernel".into(), "default".into());
        vec![SubjectState { name, policy }]
    }

    fn policies(&self) -> Vec<Statistics> {
        Vec::new()
    }

    fn install(&self, _: &str, _: i64, _: Box<dyn Scheduling>) {}

    fn bind(&self, _: &str, _: &str, _: &Parameters) -> Result<(), Refusal> {
        Err(Refusal::NoPolicy)
    }

    fn unbind(&self, _: &str) -> bool {
        false
    }

    fn poll_expelled(&self, _: &mut Context<'_>) -> Poll<String> {
        Poll::Pending
    }
}

struct TestFrame {
    number: u64,
    size: PageSize,
    free: Rc<Cell<u64>>,
}

impl Drop for TestFrame {
    fn drop(&mut self) {
        self.free.set(self.free.get() + 1);
    }
}

fn ready<T: 'static>(result: Result<T, Status>) -> NodeFuture<T> {
    Box::pin(std::future::ready(result))
}

impl Node for TestNode {
    fn memory(&self) -> NodeFuture<Memory> {
        let free = self.0.get();
        let sizes = [free, 0, 0];
        ready(Ok(Memory { total_bytes: FRAMES, free_bytes: free, free: sizes, free_tables: free }))
    }

    fn region(&self, index: u64) -> NodeFuture<Region> {
        let region = Region { start: PhysAddr(index << 20), bytes: 1 << 20, usable: index > 0 };
        ready(if index < 3 { Ok(region) } else { Err(Status::NotFound) })
    }

    fn give_up_memory(&self, _: u64) -> NodeFuture<Vec<Grant>> {
        ready(Err(Status::NoMemory))
    }

    fn call_back_memory(&self, _: u64) -> NodeFuture<u64> {
        ready(Err(Status::NotFound))
    }

    fn get_memory(&self, _: Grant) -> NodeFuture<()> {
        ready(Err(Status::NotFound))
    }

    fn allocate(&self, size: PageSize) -> NodeFuture<Box<dyn Frame>> {
        let Some(number) = self.0.get().checked_sub(1) else {
            return ready(Err(Status::NoMemory));
        };
        self.0.set(number);
        let frame = TestFrame { number, size, free: self.0.clone() };
        ready(Ok(Box::new(frame)))
    }

    fn accept_package(&self, _: u32) -> NodeFuture<Box<dyn FromPackage>> {
        ready(Err(Status::NoTables))
    }

    fn open_package(&self, _: CoreId, _: u32, _: u32) -> NodeFuture<Box<dyn ToPackage>> {
        ready(Err(Status::NotFound))
    }

    fn pool(&self) -> Option<Pool> {
        None
    }

    fn address_of(&self, _: &Buffer) -> Option<PhysAddr> {
        None
    }

    fn policies(&self) -> Rc<dyn Manager> {
        Rc::new(NoPolicies)
    }

    fn timer_sources(&self) -> (Vec<TimerSource>, usize) {
        (Vec::new(), 0)
    }

    fn take_timer_source(&self, _: usize) -> Result<(), Status> {
        Err(Status::NotFound)
    }

    fn timers(&self, _most: usize) -> TimerState {
        TimerState::default()
    }

    fn state_of(&self, core: CoreId) -> Option<CoreState> {
        (core.index() < CORES).then(|| CoreState {
            roles: RoleSet::ALL,
            hardware_id: 7,
            generation: Generation::FIRST,
            phase: CorePhase::Running,
            interrupts: vec![("tick", 1)],
            wakes: 0,
            turns: 0,
            sleeps: 1,
            polls: u64::MAX,
            system_calls: 2,
            load: 100,
            busy: Duration::from_secs(1),
            idle: Duration::ZERO,
            queues: vec![("tasks", 3)],
        })
    }

    fn line_of(&self, _: Line) -> Option<DeviceLine> {
        None
    }

    fn route_line(&self, _: Line, _: CoreId) -> Result<(), Status> {
        Err(Status::NotFound)
    }

    fn mask_line(&self, _: Line, _: bool) -> Result<(), Status> {
        Err(Status::NotFound)
    }

    fn grow_package(&self, bytes: u64) -> NodeFuture<(VirtAddr, u64)> {
        ready(match bytes {
            0 => Err(Status::Invalid),
            1..=0x10_0000 => Ok((VirtAddr(1 << 40), bytes.next_multiple_of(4096))),
            _ => Err(Status::NoMemory),
        })
    }

    fn member(&self) -> Option<Member> {
        None
    }

    fn interfaces(&self) -> Vec<Rc<DrivenInterface>> {
        Vec::new()
    }

    fn disks(&self) -> Vec<PoolDisk> {
        Vec::new()
    }

    fn entropy(&self, _: &mut [u8]) -> bool {
        false
    }

    fn checksum(&self) -> Option<fn(u32, &[u8]) -> u32> {
        None
    }

    fn sample(&self, hertz: u32) -> NodeFuture<()> {
        ready(if hertz > MOST_HERTZ { Err(Status::Invalid) } else { Ok(()) })
    }

    fn samples(&self, from: u64, most: usize) -> Samples {
        let words = if from < 5 { vec![1; 2 * most.min(3)] } else { Vec::new() };
        Samples { words, next: from.saturating_add(most as u64), lost: 0 }
    }

    fn run_package(
        &self,
        _: PackageSource<'_>,
        _: &[u8],
        _: PackageLimits,
    ) -> Result<Rc<dyn RunningPackage>, Status> {
        Err(Status::Denied)
    }

    fn keeps(&self) -> Vec<(KeepName, u64, u16)> {
        Vec::new()
    }

    fn regions(&self) -> Vec<RegionUse> {
        Vec::new()
    }

    fn make_region(&self, _: String, _: u64, _: Option<RegionShare>) -> NodeFuture<()> {
        ready(Err(Status::NoMemory))
    }

    fn drop_keep(&self, _: KeepName) -> NodeFuture<()> {
        ready(Err(Status::NotFound))
    }

    fn stop_package(&self, core: CoreId, _: u32) -> NodeFuture<()> {
        ready(if core.index() < CORES { Ok(()) } else { Err(Status::NotFound) })
    }

    fn end_core(&self, core: CoreId) -> NodeFuture<()> {
        ready(if core.index() < CORES { Ok(()) } else { Err(Status::NotFound) })
    }

    fn leave_core(&self, core: CoreId, _: Duration, _: bool) -> NodeFuture<()> {
        ready(if core.index() < CORES { Ok(()) } else { Err(Status::NotFound) })
    }

    fn call_back_core(&self, core: CoreId) -> NodeFuture<()> {
        ready(if core.index() < CORES { Ok(()) } else { Err(Status::NotFound) })
    }

    fn answers(&self) -> Vec<(Duration, u64)> {
        Vec::from([(Duration::from_micros(1), 1)])
    }

    fn role_policy(&self) -> Option<String> {
        None
    }

    fn assign_core(&self, core: CoreId, _: RoleSet) -> NodeFuture<()> {
        ready(if core.index() < CORES { Ok(()) } else { Err(Status::NotFound) })
    }

    fn driver_of(&self, _: Line) -> Option<CoreId> {
        None
    }

    fn move_device(&self, _: Line, _: CoreId) -> NodeFuture<()> {
        ready(Err(Status::NotFound))
    }
}

impl Frame for TestFrame {
    fn start(&self) -> PhysAddr {
        PhysAddr(self.number << 12)
    }

    fn at(&self) -> VirtAddr {
        VirtAddr(self.number << 12)
    }

    fn size(&self) -> PageSize {
        self.size
    }

    fn release(self: Box<Self>) -> NodeFuture<()> {
        ready(Ok(()))
    }
}
