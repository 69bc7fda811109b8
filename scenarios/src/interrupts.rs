//! The lines by which disks interrupt. The service `interrupt` lists them; requests go on while a
//! line interrupts another core, while it is masked, while it interrupts for nothing, and when the
//! core that drives the disk begins anew. What there is not is refused.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

use nile_abi::{CoreId, PageSize, Role, Status};
use nile_interfaces::interrupt::{DeviceInterrupts, Gate, InterruptClient};
use nile_kernel::Core;
use nile_platform::{Line, Misbehave};
use nile_stl::{CallError, CallResult};

use crate::arguments::Arguments;
use crate::conduct::{Findings, conduct, conducts};
use crate::restart::wait_for;
use crate::talk::Talk;

const MOVE: u32 = 24;

/// Has a driver end its incarnation, in place of moving data.
const PANIC: u64 = u64::MAX;

/// Bytes of a request: many enough that no machine has moved them before the core sleeps.
const BYTES: u64 = 1 << 20;

/// Writes and reads between two looks at the counters.
const ROUNDS: u64 = 6;

/// For how long that is tried until the line interrupts, and the rest between tries. A core may
/// find its device done each time, where the host takes the processor away.
const TRIED: Duration = Duration::from_secs(60);
const REST: Duration = Duration::from_millis(1);

/// Interrupts for nothing, one after the other.
const BURST: u64 = 100;

/// Storms that are wanted, and bursts against a line that is masked.
const STORMS: u32 = 3;
const HELD_BACK: u64 = 3;

/// What may still come of a burst when the line is masked.
const LATE: u64 = 2;

/// How long a core may take to publish its services.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts this core's part.
pub fn start<M: Misbehave>(core: &Core<M>, arguments: &Arguments<'_>) {
    nile_node::deploy(core);
    if core.roles().contains(Role::Disk) {
        let driver = core.clone();
        core.spawn(async move {
            while let Ok(talk) = Talk::answer(&driver, MOVE).await {
                let driver = driver.clone();
                driver.clone().spawn(async move { serve(&driver, &talk).await });
            }
        });
    }
    let ends = arguments.number("ends", 1) != 0;
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "interrupts", move |findings| async move {
            if let Err(error) = judge(&core, ends, &findings).await {
                findings.check(false, format_args!("{error}"));
            }
        });
    }
}

/// Moves data as often as it is told, and tells how often they came back wrong.
async fn serve<M: Misbehave>(core: &Core<M>, talk: &Talk<M>) {
    while let Ok(rounds) = talk.listen().await {
        assert!(rounds != PANIC, "the conductor asked for it");
        let mut wrong = 0;
        for round in 0..rounds {
            let moved = move_once(core, round).await;
            if let Err(why) = &moved {
                core.machine().log(format_args!("round {round}: {why}"));
            }
            wrong += u64::from(moved.is_err());
        }
        if talk.tell(wrong).await.is_err() {
            break;
        }
    }
}

async fn move_once<M: Misbehave>(core: &Core<M>, salt: u64) -> Result<(), String> {
    let disk = core.disks().first().ok_or("no disk")?;
    let no_memory = |status| format!("no memory: {status}");
    let frame = core.allocate(PageSize::Large).await.map_err(no_memory)?;
    let word = |place: usize| (place as u64 ^ salt << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let words = |frame: &nile_kernel::Frame<M>, each: &mut dyn FnMut(usize, u64) -> u64| {
        let cells = frame.words()[..BYTES as usize / 8].iter().enumerate();
        cells.for_each(|(place, cell)| cell.store(each(place, cell.load(Relaxed)), Relaxed));
    };
    words(&frame, &mut |place, _| word(place));
    let pieces: Vec<_> = frame.piece(0, BYTES).into_iter().collect();
    let (written, frame) = disk.write(0, pieces.clone(), frame).await;
    words(&frame, &mut |_, _| 0);
    let (read, frame) = disk.read(0, pieces, frame).await;
    let mut is_right = true;
    words(&frame, &mut |place, is| {
        is_right &= is == word(place);
        is
    });
    frame.release().await.map_err(|status| format!("memory is not taken back: {status}"))?;
    written.and(read).map_err(|error| format!("{error}"))?;
    if is_right { Ok(()) } else { Err(String::from("what was read is not what was written")) }
}

/// The conductor and what it has.
struct Bench<'a, M: Misbehave> {
    core: &'a Core<M>,
    findings: &'a Findings,
    service: InterruptClient,
}

async fn judge<M: Misbehave>(core: &Core<M>, ends: bool, findings: &Findings) -> CallResult<()> {
    let service = service_at(core, core.id()).await?;
    let bench = Bench { core, findings, service };
    let drives = |peer: &CoreId| core.machine().board().record(*peer).roles().contains(Role::Disk);
    let drivers: Vec<CoreId> = core.peers().filter(drives).collect();
    let disks = bench.disks().await?;
    let mut first = Vec::new();
    for driver in &drivers {
        first.extend(disks.iter().find(|it| it.driver == driver.0).cloned());
    }
    findings.check(!first.is_empty(), format_args!("no disk interrupts: {disks:?}"));
    for it in first {
        let is_new = (it.core, it.gate, it.storms) == (it.driver, Gate::Open, 0);
        findings.check(is_new, format_args!("at first {it:?}"));
        let driver = CoreId(it.driver);
        service_at(core, driver).await?;
        bench.moves(&it, "at first").await?;
        let routed = bench.routes(&it, ends && driver != CoreId::BOOT).await?;
        bench.masks(&it).await?;
        bench.storms(&it).await?;
        bench.refuses(&it).await?;
        findings.figure(format!("routed_{}", it.device), routed);
    }
    Ok(())
}

impl<M: Misbehave> Bench<'_, M> {
    fn check(&self, holds: bool, what: core::fmt::Arguments<'_>) {
        self.findings.check(holds, what);
    }

    /// The disks that there are.
    async fn disks(&self) -> CallResult<Vec<DeviceInterrupts>> {
        let mut all = self.service.devices().await?;
        all.retain(|it| it.device.starts_with("disk"));
        Ok(all)
    }

    async fn look(&self, it: &DeviceInterrupts) -> CallResult<DeviceInterrupts> {
        let disks = self.disks().await?;
        let found = disks.into_iter().find(|now| now.device == it.device);
        found.ok_or_else(|| CallError::new(Status::NotFound, format!("{} is gone", it.device)))
    }

    async fn talk(&self, it: &DeviceInterrupts) -> CallResult<Talk<M>> {
        Ok(Talk::start(self.core, CoreId(it.driver), MOVE).await?)
    }

    /// How often its line has interrupted a core.
    fn of_core(&self, it: &DeviceInterrupts, core: u16) -> u64 {
        let line = line_of(it);
        line.map_or(0, |line| {
            self.core.machine().board().record(CoreId(core)).line_interrupts(line)
        })
    }

    /// Moves data; how many interrupts of the line that took.
    async fn moves(&self, it: &DeviceInterrupts, when: &str) -> CallResult<u64> {
        let before = self.look(it).await?.interrupts;
        let wrong = self.talk(it).await?.ask(ROUNDS).await?;
        self.check(wrong == 0, format_args!("{when}: {wrong} of {ROUNDS} went wrong"));
        Ok(self.look(it).await?.interrupts - before)
    }

    /// Moves data until the line has interrupted; how often it has.
    async fn moves_by_interrupt(&self, it: &DeviceInterrupts, when: &str) -> CallResult<u64> {
        let until = self.core.now() + TRIED;
        loop {
            let came = self.moves(it, when).await?;
            if came > 0 || self.core.now() >= until {
                return Ok(came);
            }
            self.core.sleep(REST).await;
        }
    }

    /// Data move while the line interrupts another core, if the machine can; whether it can. If the
    /// driver `ends`, the line is as it was.
    async fn routes(&self, it: &DeviceInterrupts, ends: bool) -> CallResult<u64> {
        let peers = self.core.peers().map(|peer| peer.0);
        let Some(other) = peers.filter(|peer| *peer != it.driver).last() else { return Ok(0) };
        match self.service.route(it.device.clone(), other).await {
            Err(error) if error.status == Status::Denied => {
                let now = self.look(it).await?;
                self.check(now.core == it.driver, format_args!("denied, and yet {now:?}"));
                return Ok(0);
            }
            routed => routed?,
        }
        let now = self.look(it).await?;
        self.check(now.core == other, format_args!("routed to {other}, but {now:?}"));
        for round in 0..=u32::from(ends) {
            let (own, its) = (self.of_core(it, it.driver), self.of_core(it, other));
            self.moves_by_interrupt(it, "routed").await?;
            let (own, its) = (self.of_core(it, it.driver) - own, self.of_core(it, other) - its);
            let are_right = own == 0 && its > 0;
            self.check(are_right, format_args!("{other} has {its} interrupts, the driver {own}"));
            if ends && round == 0 {
                let driver = CoreId(it.driver);
                let generation = self.core.machine().board().record(driver).generation();
                let lost = self.talk(it).await?.ask(PANIC).await;
                let is_lost = lost == Err(Status::Dead);
                self.check(is_lost, format_args!("the driver answers {lost:?}"));
                wait_for(self.core, driver, generation.next()).await;
                service_at(self.core, driver).await?;
                let now = self.look(it).await?;
                self.check(now.core == other, format_args!("the next incarnation has {now:?}"));
            }
        }
        self.service.route(it.device.clone(), it.driver).await?;
        let (own, its) = (self.of_core(it, it.driver), self.of_core(it, other));
        self.moves_by_interrupt(it, "routed back").await?;
        let are_right = self.of_core(it, it.driver) > own && self.of_core(it, other) == its;
        self.check(are_right, format_args!("it is not back"));
        Ok(1)
    }

    /// Data move while the line is masked, without an interrupt.
    async fn masks(&self, it: &DeviceInterrupts) -> CallResult<()> {
        self.service.mask(it.device.clone()).await?;
        let now = self.look(it).await?;
        self.check(now.gate == Gate::Masked, format_args!("masked, but {now:?}"));
        let came = self.moves(it, "masked").await?;
        self.check(came == 0, format_args!("{came} interrupts of a line that is masked"));
        self.service.unmask(it.device.clone()).await?;
        let came = self.moves_by_interrupt(it, "unmasked").await?;
        self.check(came > 0, format_args!("no interrupt of a line that is open again"));
        Ok(())
    }

    /// Data move while the line interrupts for nothing and is masked for it, time and again. A line
    /// that is masked lets nothing through.
    async fn storms(&self, it: &DeviceInterrupts) -> CallResult<()> {
        let Some(line) = line_of(it) else { return Ok(()) };
        let (talk, beside) = (self.talk(it).await?, self.talk(it).await?);
        talk.tell(ROUNDS).await?;
        let (mut held_back, mut most_late) = (0, 0);
        loop {
            let before = self.look(it).await?;
            if before.storms >= STORMS && held_back >= HELD_BACK {
                break;
            }
            for _ in 0..BURST {
                self.core.machine().interrupt_for_nothing(line);
            }
            // It has looked at its devices before it answers a second time.
            beside.ask(0).await?;
            beside.ask(0).await?;
            let after = self.look(it).await?;
            let is_masked = |it: &DeviceInterrupts| it.gate == Gate::Storm;
            if is_masked(&before) && is_masked(&after) && before.storms == after.storms {
                held_back += 1;
                most_late = most_late.max(after.interrupts - before.interrupts);
            }
        }
        self.check(most_late <= LATE, format_args!("{most_late} came through a masked line"));
        let wrong = talk.listen().await?;
        self.check(wrong == 0, format_args!("in the storm {wrong} of {ROUNDS} went wrong"));
        let after = loop {
            let now = self.look(it).await?;
            if now.gate == Gate::Open {
                break now;
            }
            self.core.sleep(Duration::from_millis(1)).await;
        };
        let came = self.moves_by_interrupt(it, "after the storm").await?;
        self.check(came > 0, format_args!("no interrupt after the storm"));
        self.findings.figure(format!("storms_{}", it.device), after.storms.into());
        Ok(())
    }

    /// What there is not is refused, and changes nothing.
    async fn refuses(&self, it: &DeviceInterrupts) -> CallResult<()> {
        let before = self.look(it).await?;
        let cores = self.core.machine().board().cores() as u16;
        let refused = [
            self.service.route("toaster0".into(), it.driver).await,
            self.service.route("disk99".into(), it.driver).await,
            self.service.route(it.device.clone(), cores).await,
            self.service.mask("toaster0".into()).await,
            self.service.unmask(String::new()).await,
        ];
        for result in refused {
            let status = result.map_err(|error| error.status);
            self.check(status == Err(Status::NotFound), format_args!("not refused: {status:?}"));
        }
        let after = self.look(it).await?;
        let is_same = (after.core, after.gate) == (before.core, before.gate);
        self.check(is_same, format_args!("{before:?} has become {after:?}"));
        Ok(())
    }
}

fn line_of(it: &DeviceInterrupts) -> Option<Line> {
    Line::all().find(|line| format!("{line}") == it.device)
}

/// The service of a core, once it is published.
async fn service_at<M: Misbehave>(core: &Core<M>, at: CoreId) -> CallResult<InterruptClient> {
    let (stl, deadline) = (core.stl(), core.now() + PATIENCE);
    loop {
        match InterruptClient::find_at(&stl, at).await {
            Err(CallError { status: Status::NotFound | Status::Dead, .. })
                if core.now() < deadline =>
            {
                core.sleep(Duration::from_micros(200)).await;
            }
            result => return result,
        }
    }
}
