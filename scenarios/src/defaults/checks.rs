//! What each core checks of every default service.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;
use core::time::Duration;

use nile_abi::{CoreId, Status};
use nile_interfaces::core_manager::{CoreManagerClient, CorePhase};
use nile_interfaces::heap::HeapClient;
use nile_interfaces::interrupt::InterruptClient;
use nile_interfaces::log::LogClient;
use nile_interfaces::physical_memory::PhysicalMemoryClient;
use nile_interfaces::time::TimeClient;
use nile_interfaces::timer::{Sources, TimerClient};
use nile_interfaces::virtual_memory::VirtualMemoryClient;
use nile_registry::Caller as Binder;
use nile_stl::{CallResult, Stl};

/// No page has this size.
const NO_SIZE: u64 = 5;

/// How far the clocks of two cores may be apart: the simulator runs a pass of one at a time, and
/// real counters are set by hand.
const SKEW_NANOS: u64 = 1000;

/// What was found on one core.
pub struct Checks {
    stl: Stl,
    cores: u16,
    wrong: RefCell<Vec<String>>,
}

impl Checks {
    pub fn new(stl: Stl, cores: u16) -> Checks {
        Checks { stl, cores, wrong: RefCell::default() }
    }

    /// What did not hold.
    pub fn wrong(&self) -> Vec<String> {
        self.wrong.borrow().clone()
    }

    pub fn check(&self, holds: bool, what: fmt::Arguments<'_>) {
        if !holds {
            self.wrong.borrow_mut().push(format!("{what}"));
        }
    }

    /// A call that has to fail so.
    fn fails<T>(&self, result: CallResult<T>, with: Status, what: &str) {
        let got = result.map(|_| ()).map_err(|error| error.status);
        self.check(got == Err(with), format_args!("{what}: {got:?}, not {with}"));
    }

    /// What is given back twice. Nobody else may use memory meanwhile, or it is theirs by then.
    pub async fn alone(&self) -> CallResult<()> {
        let physical = PhysicalMemoryClient::find(&self.stl).await?;
        let frame = physical.allocate(4096).await?;
        physical.free(frame).await?;
        self.fails(physical.free(frame).await, Status::NotFound, "freeing twice");
        for target in (0..self.cores).map(CoreId) {
            crate::calls::probe_on(&self.stl, target).await?;
            let memory = VirtualMemoryClient::find_at(&self.stl, target).await?;
            let page = memory.map(4096).await?;
            memory.unmap(page).await?;
            self.fails(memory.unmap(page).await, Status::NotFound, "unmapping twice");
        }
        Ok(())
    }

    /// The services that every core has, on `target`.
    pub async fn on(&self, target: CoreId) -> CallResult<()> {
        self.virtual_memory(target).await?;
        self.heap(target).await?;
        self.time(target).await?;
        self.timer(target).await
    }

    async fn virtual_memory(&self, target: CoreId) -> CallResult<()> {
        let memory = VirtualMemoryClient::find_at(&self.stl, target).await?;
        let elsewhere = CoreId((target.0 + 1) % self.cores);
        crate::calls::probe_on(&self.stl, elsewhere).await?;
        let wrong = VirtualMemoryClient::find_at(&self.stl, elsewhere).await?;
        self.fails(memory.map(NO_SIZE).await, Status::Invalid, "mapping 5 bytes");
        let mut mapped = Vec::new();
        for size in [4096, 2 << 20, 4096] {
            let at = memory.map(size).await?;
            self.check(at % size == 0, format_args!("{at:#x} is no page of {size} bytes"));
            self.check(!mapped.contains(&at), format_args!("{at:#x} is mapped twice"));
            mapped.push(at);
        }
        self.check(memory.tables().await? > 0, format_args!("no last-level table is free"));
        if elsewhere != target {
            let result = wrong.unmap(mapped[0]).await;
            self.fails(result, Status::NotFound, "unmapping what another core has");
        }
        for at in mapped {
            self.fails(memory.unmap(at + 8).await, Status::NotFound, "unmapping within a page");
            memory.unmap(at).await?;
        }
        Ok(())
    }

    /// A kernel is no package: nothing grows for it, and the user half is not here.
    async fn heap(&self, target: CoreId) -> CallResult<()> {
        let heap = HeapClient::find_at(&self.stl, target).await?;
        self.fails(heap.grow(4096).await, Status::Denied, "a kernel's heap grows");
        self.fails(heap.allocate(16, 16).await, Status::Denied, "a kernel calls the user half");
        Ok(())
    }

    async fn time(&self, target: CoreId) -> CallResult<()> {
        let time = TimeClient::find_at(&self.stl, target).await?;
        let host = self.stl.host();
        let before = host.now();
        let there = time.now().await?;
        let (first, last) = (before.as_nanos(), host.now().as_nanos());
        let agree = first <= there + SKEW_NANOS && there <= last + SKEW_NANOS;
        self.check(agree, format_args!("the clock of {target} says {there}, it is {before:?}"));
        let due = there + 50_000;
        let woken = time.sleep_until(due).await?;
        self.check(woken >= due, format_args!("{target} wakes at {woken}, before {due}"));
        self.check(time.sleep_until(0).await? >= woken, format_args!("{target} goes back in time"));
        let (from, until) = (woken + 50_000, woken + 90_000);
        let within = time.sleep_in(from, until).await?;
        self.check(within >= from, format_args!("{target} wakes at {within}, before {from}"));
        let backwards = time.sleep_in(until, from).await;
        self.fails(backwards, Status::Invalid, "a window that ends before it begins");
        let up = time.uptime().await?;
        let now = host.now().as_nanos();
        self.check(up > 0 && up <= now, format_args!("{target} is up for {up} of {now} ns"));
        let hasty = self.stl.with_patience(Duration::from_micros(300));
        if target != host.core() {
            let never = TimeClient::find_at(&hasty, target).await?.sleep_until(u64::MAX).await;
            self.fails(never, Status::Timeout, "sleeping for ever");
        }
        Ok(())
    }

    /// What waits is listed, and counted when it has fired.
    async fn timer(&self, target: CoreId) -> CallResult<()> {
        let timer = TimerClient::find_at(&self.stl, target).await?;
        let before = timer.counts().await?;
        let sum = before.fired + before.waiting;
        self.check(sum <= before.armed, format_args!("{target} counts wrongly: {before:?}"));
        let time = TimeClient::find_at(&self.stl, target).await?;
        // What has begun before it is armed needs no timer: a slow machine is given more time.
        let mut after = before.clone();
        for span in (0..14).map(|it| 100_000 << it) {
            let due = time.now().await? + span;
            time.sleep_in(due, due + 1_000_000).await?;
            after = timer.counts().await?;
            if after.armed > before.armed && after.fired > before.fired {
                break;
            }
        }
        let grown = after.armed > before.armed && after.fired > before.fired;
        self.check(grown, format_args!("a timer of {target} is not counted: {after:?}"));
        self.timer_sources(target, &timer).await?;
        let list = timer.list().await?;
        self.check(list.is_sorted(), format_args!("timers of {target} are not in order: {list:?}"));
        Ok(())
    }

    /// A core is woken by the timer that is cheapest of those that will do.
    async fn timer_sources(&self, target: CoreId, timer: &TimerClient) -> CallResult<()> {
        let Sources { used, sources } = timer.sources().await?;
        let known = sources.iter().any(|it| it.name == used);
        self.check(known, format_args!("{target} has {used}, which is none of {sources:?}"));
        for it in &sources {
            // It, or one that is as good and cheaper.
            let chosen = timer.choose(it.resolution_ns, it.longest_ms).await?;
            let does = chosen.resolution_ns <= it.resolution_ns
                && chosen.longest_ms >= it.longest_ms
                && chosen.cost <= it.cost;
            self.check(does, format_args!("{target} has chosen {chosen:?}, not {it:?}"));
            let has = timer.sources().await?.used;
            self.check(has == chosen.name, format_args!("{target} has {has}, not {chosen:?}"));
            let taken = timer.take(it.name.clone()).await?;
            self.check(taken == *it, format_args!("{target} has taken {taken:?}, not {it:?}"));
        }
        let exact = timer.choose(0, 0).await;
        self.fails(exact, Status::NotFound, "a timer that is never late");
        let other = timer.take("sundial".into()).await;
        self.fails(other, Status::NotFound, "a timer that there is not");
        timer.take(used).await?;
        Ok(())
    }

    /// Every core's interrupts by cause, as the core manager has them.
    async fn interrupts(&self) -> CallResult<()> {
        let interrupt = InterruptClient::find(&self.stl).await?;
        let list = interrupt.list(0).await?;
        let known = usize::from(self.cores).min(nile_interfaces::interrupt::MOST_LISTED);
        self.check(list.len() == known, format_args!("{} of {known} cores", list.len()));
        for (core, it) in (0u16..).zip(&list) {
            let one = interrupt.counts(core).await?;
            let grown = it
                .causes
                .iter()
                .zip(&one.causes)
                .all(|(before, now)| before.cause == now.cause && before.count <= now.count);
            let right = it.core == core && one.core == core && grown;
            self.check(right, format_args!("interrupts of {core}: {it:?}, then {one:?}"));
        }
        self.check(interrupt.list(self.cores).await?.is_empty(), format_args!("too many cores"));
        let missing = interrupt.counts(self.cores).await;
        self.fails(missing, Status::NotFound, "interrupts of a core that there is not");
        Ok(())
    }

    /// The services of the managing core. `foreign` is a frame that the conductor holds.
    pub async fn of_the_node(&self, foreign: u64) -> CallResult<()> {
        self.physical_memory(foreign).await?;
        self.core_manager().await?;
        self.interrupts().await?;
        self.log().await?;
        self.layers().await
    }

    async fn physical_memory(&self, foreign: u64) -> CallResult<()> {
        let memory = PhysicalMemoryClient::find(&self.stl).await?;
        self.fails(memory.allocate(NO_SIZE).await, Status::Invalid, "a frame of 5 bytes");
        for size in [4096, 2 << 20] {
            let at = memory.allocate(size).await?;
            self.check(at % size == 0, format_args!("{at:#x} is no frame of {size} bytes"));
            let own = self.stl.host().core().0;
            let held = memory.statistics().await?.held;
            let own = held.iter().find(|share| share.core == own);
            let counted = own.is_some_and(|share| share.frames > 0 && share.bytes >= size);
            self.check(counted, format_args!("{size} bytes are not counted: {own:?}"));
            let within = memory.free(at + 8).await;
            self.fails(within, Status::NotFound, "freeing what was not allocated");
            memory.free(at).await?;
        }
        if self.stl.host().core() != CoreId::BOOT {
            self.fails(memory.free(foreign).await, Status::Denied, "freeing another core's frame");
        }
        let all = memory.statistics().await?;
        let usable = memory.regions().await?.iter().filter(|it| it.usable).map(|it| it.bytes).sum();
        let fits = all.free_bytes <= all.total_bytes && all.total_bytes <= usable;
        self.check(fits, format_args!("{all:?} in regions of {usable} bytes"));
        Ok(())
    }

    async fn core_manager(&self) -> CallResult<()> {
        let manager = CoreManagerClient::find(&self.stl).await?;
        let own = self.stl.host().core().0;
        let list = manager.list().await?;
        let numbers = list.iter().map(|entry| entry.core);
        self.check(numbers.eq(0..self.cores), format_args!("the cores are {list:?}"));
        let first = manager.statistics(own).await?;
        let entry = &first.entry;
        let right = entry.core == own
            && entry.phase == CorePhase::Running
            && !entry.roles.is_empty()
            && entry.generation == self.stl.host().generation().0;
        self.check(right, format_args!("core {own} is not {entry:?}"));
        let counted = first.turns > 0 && first.polls > 0 && !first.interrupts.is_empty();
        self.check(counted, format_args!("core {own} has done nothing: {first:?}"));
        let later = manager.statistics(own).await?;
        let more = later.polls >= first.polls && later.turns >= first.turns;
        self.check(more, format_args!("core {own} counts down: {first:?}, {later:?}"));
        for nobody in [self.cores, u16::MAX] {
            self.fails(manager.statistics(nobody).await, Status::NotFound, "counts of no core");
            let stopped = manager.stop_package(nobody, 1).await;
            self.fails(stopped, Status::NotFound, "stopping a package of no core");
            self.fails(manager.end_core(nobody).await, Status::NotFound, "ending no core");
        }
        // A number that no package has: it stops nothing.
        manager.stop_package(own, u32::MAX).await
    }

    async fn log(&self) -> CallResult<()> {
        let log = LogClient::find(&self.stl).await?;
        let own = self.stl.host().core().0;
        let number = log.write("one\nline").await?;
        let called =
            log.call("ackermann", "compute", nile_bosml::Bytes::from(&[0; 16][..])).await?;
        self.check(called > number, format_args!("line {called} is not after {number}"));
        let lines = log.tail(256).await?;
        let line = |number| lines.iter().find(|line| line.number == number);
        let says = |number, text: &str| {
            line(number).is_some_and(|it| it.core == own && !it.from_package && it.text == text)
        };
        self.check(says(number, "one\u{fffd}line"), format_args!("{:?}", line(number)));
        let text = "ackermann: <compute><m>0</m><n>0</n></compute>";
        self.check(says(called, text), format_args!("{:?}", line(called)));
        let long = "x".repeat(2000);
        self.fails(log.write(&long).await, Status::Invalid, "a line of 2000 bytes");
        self.fails(log.tail(257).await, Status::Invalid, "257 lines of the log");
        self.check(log.tail(1).await?.len() == 1, format_args!("the last line is not one"));
        let none = nile_bosml::Bytes::from(&[][..]);
        let short = log.call("ackermann", "compute", none.clone()).await;
        self.fails(short, Status::Invalid, "logging a call without its arguments");
        let unknown = log.call("ackermann", "nothing", none).await;
        self.fails(unknown, Status::NotFound, "logging a call of no method");
        Ok(())
    }

    /// What an application reaches: the high layer alone.
    async fn layers(&self) -> CallResult<()> {
        let user = self.stl.acting_as(Binder::User);
        for (service, reached) in [
            ("heap", true),
            ("log", true),
            ("core_manager", true),
            ("physical_memory", false),
            ("virtual_memory", false),
            ("time", false),
            ("timer", false),
            ("interrupt", false),
        ] {
            let result = user.discover(service).await.map_err(|error| error.status);
            let right = if reached { result.is_ok() } else { result == Err(Status::Denied) };
            self.check(right, format_args!("an application binds {service}: {result:?}"));
        }
        Ok(())
    }
}
