//! What the kernel gives to the kernel halves of services: [`Node`] for one core.
//!
//! Whatever talks to the management core does so in a task of its own, so that a call that is
//! cancelled leaves nothing half done: memory that comes for nobody goes back by being dropped.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::Future;
use core::time::Duration;

use nile_abi::{
    CoreId, ImageRefused, Instant, KeepName, PageSize, PhysAddr, Role, RoleSet, Status, VirtAddr,
};
use nile_package::Image;
use nile_platform::samples::Sample;
use nile_platform::{Cause, Domains, Grant, Machine, Manager, Outcome, Queue, Seated};
use nile_stl::LocalFuture;
use nile_stl::node::{
    self, Buffer, CoreState, DeviceLine, DrivenInterface, FromPackage, Line, Member, Memory, Node,
    NodeFuture, PackageEnd, PackageLimits, PackageSource, PackageUsage, Pool, PoolDisk, Region,
    RegionShare, RegionUse, RunningPackage, Stay, TimerSource, TimerState, ToPackage,
};

use super::desk::Desk;
use super::host::CoreHost;
use super::package::{ServiceCalls, end_offers};
use crate::core::Core;
use crate::memory::Frame;
use crate::packages::{Ended, Package, PackageId};

/// Runs a request to its end, whoever still waits for it.
fn whole<M: Machine, T: 'static>(
    core: &Core<M>,
    request: impl Future<Output = Result<T, Status>> + 'static,
) -> NodeFuture<T> {
    Box::pin(core.spawn(request))
}

impl<M: Machine> CoreHost<M> {
    /// Where the node's pool begins for a device. Nobody has a buffer of a node without one.
    fn pool_start(&self) -> PhysAddr {
        self.0.pool().map_or(PhysAddr(0), |pool| pool.memory().start)
    }
}

impl<M: Machine> Node for CoreHost<M> {
    fn memory(&self) -> NodeFuture<Memory> {
        let core = self.0.clone();
        whole(&self.0, async move {
            let now = core.memory_statistics().await?;
            Ok(Memory {
                total_bytes: now.total_bytes,
                free_bytes: now.free_bytes,
                free: now.free,
                free_tables: now.free_tables,
            })
        })
    }

    fn region(&self, index: u64) -> NodeFuture<Region> {
        let core = self.0.clone();
        whole(&self.0, async move {
            let region = core.memory_region(index).await?;
            Ok(Region { start: region.start, bytes: region.bytes, usable: region.usable })
        })
    }

    fn give_up_memory(&self, collections: u64) -> NodeFuture<Vec<Grant>> {
        let own = self.0.clone();
        whole(&self.0, async move { own.give_up_memory(collections).await })
    }

    fn get_memory(&self, grant: Grant) -> NodeFuture<()> {
        let own = self.0.clone();
        whole(&self.0, async move { own.get_memory(grant).await })
    }

    fn call_back_memory(&self, collections: u64) -> NodeFuture<u64> {
        let own = self.0.clone();
        whole(&self.0, async move { own.call_back_memory(collections).await })
    }

    fn allocate(&self, size: PageSize) -> NodeFuture<Box<dyn node::Frame>> {
        let core = self.0.clone();
        whole(&self.0, async move {
            let frame = core.allocate(size).await?;
            Ok(Box::new(Mapped { core: core.clone(), size, frame }) as Box<dyn node::Frame>)
        })
    }

    fn accept_package(&self, tag: u32) -> NodeFuture<Box<dyn FromPackage>> {
        let core = self.0.clone();
        let accepted = async move { core.accept_from_package(tag).await };
        // A channel that comes for nobody is closed by being dropped.
        Box::pin(async move { Ok(Box::new(accepted.await?) as Box<dyn FromPackage>) })
    }

    fn open_package(&self, to: CoreId, tag: u32, cells: u32) -> NodeFuture<Box<dyn ToPackage>> {
        let core = self.0.clone();
        whole(&self.0, async move {
            let end = core.open_to_package(to, tag, cells).await?;
            Ok(Box::new(end) as Box<dyn ToPackage>)
        })
    }

    fn pool(&self) -> Option<Pool> {
        self.0.pool().map(|pool| Pool::clone(pool))
    }

    fn address_of(&self, buffer: &Buffer) -> Option<PhysAddr> {
        Some(self.0.pool()?.address_of(buffer))
    }

    fn policies(&self) -> Rc<dyn nile_policy::Manager> {
        Rc::new(CoreHost(self.0.clone()))
    }

    fn state_of(&self, core: CoreId) -> Option<CoreState> {
        let board = self.0.machine.board();
        let record = (core.index() < board.cores()).then(|| board.record(core))?;
        let (busy, idle) = record.times(self.0.now());
        let interrupts = Cause::ALL.map(|cause| (cause.name(), record.interrupts(cause)));
        Some(CoreState {
            roles: record.roles(),
            hardware_id: record.hardware_id(),
            generation: record.generation(),
            phase: record.phase(),
            interrupts: interrupts.into(),
            wakes: record.wakes(),
            turns: record.turns(),
            sleeps: record.sleeps(),
            polls: record.polls(),
            system_calls: record.system_calls(),
            load: record.busy().percent(self.0.now()),
            busy,
            idle,
            queues: Queue::ALL.map(|queue| (queue.name(), record.queue(queue))).into(),
        })
    }

    fn answers(&self) -> Vec<(Duration, u64)> {
        let board = self.0.machine.board();
        let mut all: Vec<(Duration, u64)> = Vec::new();
        let records = board.core_ids().map(|core| board.record(core));
        for record in records.filter(|it| it.roles().contains(Role::Worker)) {
            for (at, (bound, count)) in record.answers().enumerate() {
                match all.get_mut(at) {
                    Some((_, sum)) => *sum += count,
                    None => all.push((bound, count)),
                }
            }
        }
        all
    }

    fn timers(&self, most: usize) -> TimerState {
        let timers = self.0.timers.borrow();
        let counts = timers.counts();
        let record = self.0.machine.board().record(self.0.id());
        TimerState {
            armed: counts.armed,
            fired: counts.fired,
            coalesced: counts.coalesced,
            waiting: counts.waiting,
            interrupts: record.interrupts(Cause::Timer),
            wakes: record.wakes(),
            ends: timers.ends(most),
        }
    }

    fn timer_sources(&self) -> (Vec<TimerSource>, usize) {
        let machine = &self.0.machine;
        (machine.timer_sources(), machine.timer_source())
    }

    fn take_timer_source(&self, place: usize) -> Result<(), Status> {
        self.0.machine.take_timer_source(place)
    }

    fn line_of(&self, line: Line) -> Option<DeviceLine> {
        let board = self.0.machine.board();
        let driver = board.driver(line)?;
        let state = board.record(driver).line(line)?;
        let interrupts = board.core_ids().map(|it| board.record(it).line_interrupts(line)).sum();
        Some(DeviceLine { driver, state, interrupts })
    }

    fn route_line(&self, line: Line, core: CoreId) -> Result<(), Status> {
        self.0.lines().route(&self.0.machine, line, core)
    }

    fn mask_line(&self, line: Line, is_masked: bool) -> Result<(), Status> {
        self.0.lines().mask(&self.0.machine, line, is_masked)
    }

    fn grow_package(&self, bytes: u64) -> NodeFuture<(VirtAddr, u64)> {
        let package = self.0.services.package.borrow().clone();
        Box::pin(async move { package.ok_or(Status::NotFound)?.grow(bytes).await })
    }

    fn member(&self) -> Option<Member> {
        let membership = self.0.membership.as_ref()?;
        let machine = &self.0.machine;
        let running = machine.now().since(Instant::START);
        let started = machine.calendar().map(|now| now.saturating_sub(running));
        Some(Member {
            node: membership.node,
            generation: membership.generation(started, machine.generation()),
            key: membership.key,
            keepers: membership.keepers.clone(),
            cluster: membership.cluster,
            plain_disk: membership.plain_disk,
            addresses: membership.addresses,
            leases: membership.leases,
            wide: membership.wide,
            rules: membership.rules.clone(),
        })
    }

    fn domains(&self) -> Option<&dyn Domains> {
        self.0.machine.manager()?.domains()
    }

    fn seated(&self) -> Option<Seated> {
        self.0.machine.seated()
    }

    fn knocked(&self) -> LocalFuture<'static, ()> {
        match self.0.seat() {
            Some(seat) => Box::pin(core::future::poll_fn(move |context| seat.poll_knock(context))),
            None => Box::pin(core::future::pending()),
        }
    }

    fn interfaces(&self) -> Vec<Rc<DrivenInterface>> {
        self.0.interfaces().to_vec()
    }

    fn disks(&self) -> Vec<PoolDisk> {
        let disks = self.0.disks().iter().cloned();
        disks.map(|disk| PoolDisk::new(disk, self.pool_start())).collect()
    }

    fn file(&self, name: u64) -> Option<PoolDisk> {
        Some(PoolDisk::new(self.0.file(name)?, self.pool_start()))
    }

    fn entropy(&self, bytes: &mut [u8]) -> bool {
        self.0.machine.entropy(bytes)
    }

    fn give_up(&self) {
        self.0.finish(Outcome::Failure);
    }

    fn end(&self) {
        self.0.finish(Outcome::Success);
    }

    fn checksum(&self) -> Option<fn(u32, &[u8]) -> u32> {
        self.0.machine.checksum()
    }

    fn sample(&self, hertz: u32) -> NodeFuture<()> {
        let core = self.0.clone();
        let period = Duration::from_secs(1).checked_div(hertz);
        whole(&self.0, async move {
            if hertz > node::MOST_HERTZ {
                return Err(Status::Invalid);
            }
            core.sample(period).await
        })
    }

    fn samples(&self, from: u64, most: usize) -> node::Samples {
        let (samples, next, lost) = self.0.samples(from, most);
        let mut words = Vec::new();
        for Sample { mode, frames, .. } in samples {
            words.push(mode.word() << 32 | frames.len() as u64);
            words.extend(frames.into_iter().map(|frame| frame.word()));
        }
        node::Samples { words, next, lost }
    }

    fn run_package(
        &self,
        source: PackageSource<'_>,
        argument: &[u8],
        limits: PackageLimits,
    ) -> Result<Rc<dyn RunningPackage>, Status> {
        let core = &self.0;
        let image = match source {
            PackageSource::Named(name) => core.find_package(name).ok_or(Status::NotFound)?,
            PackageSource::File(file) => Image::Shipped(file),
        };
        let desk = match limits.stays {
            Some(stay) => core.desks.borrow_mut().entry(stay).or_default().clone(),
            None => Rc::default(),
        };
        let calls = ServiceCalls::at(&core.stl(), desk.clone(), limits.stays.is_some());
        let package = core.run_package(image, argument, limits, calls)?;
        Ok(Rc::new(Hosted { package, desk }))
    }

    fn end_stay(&self, stay: Stay) {
        let desk = self.0.desks.borrow_mut().remove(&stay);
        if let Some(desk) = desk {
            end_offers(&self.0.stl(), &desk, false);
        }
    }

    fn keeps(&self) -> Vec<(KeepName, u64, u16)> {
        let keeps = self.0.machine.board().keeps();
        let keeps = keeps.filter(|(_, keep)| keep.name.as_region().is_none());
        keeps.map(|(_, keep)| (keep.name, keep.bytes, keep.version)).collect()
    }

    fn regions(&self) -> Vec<RegionUse> {
        self.0.regions()
    }

    fn make_region(&self, name: String, bytes: u64, share: Option<RegionShare>) -> NodeFuture<()> {
        let own = self.0.clone();
        whole(&self.0, async move {
            match share {
                Some(share) => own.share_region(&name, bytes, share),
                None => own.make_region(&name, bytes).await,
            }
        })
    }

    fn drop_keep(&self, name: KeepName) -> NodeFuture<()> {
        let own = self.0.clone();
        whole(&self.0, async move { own.drop_keep(name).await })
    }

    fn may_run_packages(&self) -> bool {
        self.0.machine.may_run_packages()
    }

    fn stop_package(&self, core: CoreId, package: u32) -> NodeFuture<()> {
        let own = self.0.clone();
        whole(&self.0, async move { own.stop_package(core, PackageId(package)).await })
    }

    fn end_core(&self, core: CoreId) -> NodeFuture<()> {
        let own = self.0.clone();
        whole(&self.0, async move { own.end_core(core).await })
    }

    fn leave_core(&self, core: CoreId, patience: Duration, is_away: bool) -> NodeFuture<()> {
        let own = self.0.clone();
        whole(&self.0, async move { own.leave_core(core, patience, is_away).await })
    }

    fn call_back_core(&self, core: CoreId) -> NodeFuture<()> {
        let own = self.0.clone();
        whole(&self.0, async move { own.call_back_core(core).await })
    }

    fn lose_core(&self, core: CoreId) -> Result<(), Status> {
        let manager = self.0.machine.manager().ok_or(Status::Denied)?;
        self.0.machine.board().record(self.0.id()).set_away(core, true);
        manager.lose(core)
    }

    fn role_policy(&self) -> Option<String> {
        self.0.role_policy.clone()
    }

    fn assign_core(&self, core: CoreId, roles: RoleSet) -> NodeFuture<()> {
        let own = self.0.clone();
        whole(&self.0, async move { own.assign_core(core, roles).await })
    }

    fn image_of(&self, core: CoreId) -> u64 {
        self.0.machine.manager().map_or(0, |manager| manager.image(core))
    }

    fn may_have_image(&self, core: CoreId) -> bool {
        self.0.machine.manager().is_some_and(|manager| manager.may_have_image(core))
    }

    fn load_image(&self, core: CoreId, file: u64) -> Result<u64, ImageRefused> {
        self.0.load_image(core, file)
    }

    fn unload_image(&self, core: CoreId) {
        self.0.unload_image(core);
    }

    fn take_image(
        &self,
        core: CoreId,
        bytes: u64,
        at: u64,
        piece: &[u8],
    ) -> LocalFuture<'static, Result<(), ImageRefused>> {
        let (own, piece) = (self.0.clone(), Vec::from(piece));
        Box::pin(self.0.spawn(async move { own.take_image(core, bytes, at, &piece).await }))
    }

    fn begin_image(&self, core: CoreId) -> NodeFuture<()> {
        let own = self.0.clone();
        whole(&self.0, async move { own.begin_image(core).await })
    }

    fn renew_own(&self, patience: Duration) -> Result<(), Status> {
        self.0.renew_own(patience)
    }

    fn driver_of(&self, line: Line) -> Option<CoreId> {
        self.0.machine.board().driver(line)
    }

    fn move_device(&self, line: Line, core: CoreId) -> NodeFuture<()> {
        let own = self.0.clone();
        whole(&self.0, async move { own.move_device(line, core).await })
    }
}

/// A package as a service has it.
struct Hosted<M: Machine> {
    package: Package<M>,
    desk: Rc<RefCell<Desk>>,
}

impl<M: Machine> RunningPackage for Hosted<M> {
    fn id(&self) -> u32 {
        self.package.id().0
    }

    fn stop(&self) {
        self.package.stop();
    }

    fn buffers(&self) -> usize {
        self.package.kept_buffers()
    }

    fn uses_frames(&self) -> bool {
        self.package.uses_frames()
    }

    fn usage(&self) -> PackageUsage {
        self.package.usage()
    }

    fn pause(&self) {
        self.desk.borrow_mut().pause();
    }

    fn works_on(&self) -> usize {
        self.desk.borrow().works_on()
    }

    fn ended(&self) -> LocalFuture<'static, PackageEnd> {
        let package = self.package.clone();
        Box::pin(async move {
            let report = package.ended().await;
            let code = if let Ended::Exited(code) = report.ended { Some(code) } else { None };
            let words = package.last_words();
            let text = match code {
                Some(_) if !words.is_empty() => words,
                _ => report.ended.to_string(),
            };
            PackageEnd {
                code,
                kind: report.ended.kind_name(),
                text,
                memory_bytes: report.memory_bytes,
            }
        })
    }
}

/// A frame as a service has it.
struct Mapped<M: Machine> {
    core: Core<M>,
    size: PageSize,
    frame: Frame<M>,
}

impl<M: Machine> node::Frame for Mapped<M> {
    fn start(&self) -> PhysAddr {
        self.frame.grant().start
    }

    fn at(&self) -> VirtAddr {
        let grant = self.frame.grant();
        if grant.is_huge() {
            // Where that is depends on what the machine can do, which only its manager can ask.
            return VirtAddr(self.frame.words().as_ptr() as u64);
        }
        VirtAddr(M::Manager::SHARED_BASE.0 + grant.start.0)
    }

    fn size(&self) -> PageSize {
        self.size
    }

    fn release(self: Box<Self>) -> NodeFuture<()> {
        let Mapped { core, frame, .. } = *self;
        whole(&core, async move { frame.release().await })
    }
}
