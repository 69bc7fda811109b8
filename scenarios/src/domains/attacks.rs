//! A domain reaches for what it has not been given: memory of its supervisor, of the ledger and of
//! another domain, that one's core, the board, the machine's power. Each attack is made twice: the
//! guard leaves what it aims at as it was, and the attacker goes on; by the same domain without a
//! guard, the control, it is harmed. Controls that end the machine are asked for one by one. What
//! no guard is asked about has other controls (`shared`).

mod shared;

use alloc::format;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use nile_abi::{PageSize, VirtAddr};
use nile_domain::{Command, Create, Limits, Name, Phase};
use nile_kernel::{Core, Frame};
use nile_platform::{Attack, Manager, Misbehave, Target, Tried};
use nile_ring::Region;

use super::guest::{KEPT, Say};
use super::supervise::Running;
use super::tell;
use crate::arguments::Arguments;
use crate::conduct::{Findings, conduct, conducts};

/// Memory of a domain, in units: enough for one core without a pool.
const UNITS: u32 = 8;

/// How long an attack may take that is not answered, as it ended whoever made it, and how long
/// whoever was harmed may take to say that it was not.
const MOMENT: Duration = Duration::from_millis(500);

/// How long whoever was not harmed may take: its managing core may begin anew meanwhile.
const LONG: Duration = Duration::from_secs(5);

/// The places of the two domains.
const ATTACKER: u8 = 1;
const VICTIM: u8 = 2;

/// The disk that the attacker has.
const DISK: u16 = 0;

/// No attack has this number: all of them.
const ALL: u64 = u64::MAX;

/// What is attacked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Aim {
    Supervisor,
    Ledger,
    Domain,
    Core,
    Machine,
    Seat,
    Messages,
    Frames,
    Parked,
    Hold,
}

impl Aim {
    fn name(self) -> &'static str {
        match self {
            Aim::Supervisor => "supervisor",
            Aim::Ledger => "ledger",
            Aim::Domain => "domain",
            Aim::Core => "core",
            Aim::Machine => "machine",
            Aim::Seat => "seat",
            Aim::Messages => "messages",
            Aim::Frames => "frames",
            Aim::Parked => "parked",
            Aim::Hold => "hold",
        }
    }

    fn of(attack: Attack) -> &'static [Aim] {
        match attack.target() {
            Target::Memory | Target::Secret => &[Aim::Supervisor, Aim::Ledger, Aim::Domain],
            Target::Core => &[Aim::Core],
            Target::Machine | Target::Power => &[Aim::Machine],
            Target::Seat => &[Aim::Seat],
            Target::Messages => &[Aim::Messages],
            Target::Frames => &[Aim::Frames],
            Target::Parked => &[Aim::Parked],
            Target::Hold => &[Aim::Hold],
        }
    }
}

/// Whether the attacker is guarded, in the names of figures.
fn guarded(is_control: bool) -> &'static str {
    if is_control { "without" } else { "guarded" }
}

/// Starts this core's part: all attacks, or the one with the number `attack`; `control=1`: that one
/// without a guard alone, which ends the machine if it leads to its power.
pub fn start<M: Misbehave>(core: &Core<M>, arguments: &Arguments<'_>) {
    if !conducts(core) {
        return;
    }
    let core = core.clone();
    let (only, control) = (arguments.number("attack", ALL), arguments.number("control", 0) != 0);
    conduct(&core.clone(), "domain-attacks", move |findings| async move {
        let Some(running) = Running::new(&core) else {
            return findings.check(false, format_args!("this node supervises no machine"));
        };
        let Ok(page) = core.allocate(PageSize::Small).await else {
            return findings.check(false, format_args!("no memory for what is attacked"));
        };
        let Some(domains) = core.machine().manager().and_then(|it| it.domains()) else { return };
        let (Some(red), Some(blue)) = (Name::new(b"red"), Name::new(b"blue")) else { return };
        let (ledger, base) = (domains.ledger(), M::Manager::SHARED_BASE);
        running.all_parked(LONG).await;
        let mut attacks = Attacks {
            running,
            base,
            findings,
            page,
            ledger,
            victim: 0,
            names: [red, blue],
            kept_off: 0,
        };
        let kept = if control { 0 } else { attacks.all(only, false).await };
        let broken = attacks.all(only, true).await;
        attacks.findings.figure("attacks_contained", kept);
        attacks.findings.figure("controls_broken", broken);
    });
}

struct Attacks<M: Misbehave> {
    running: Running<M>,
    /// How far a supervisor sees its memory from where it is.
    base: VirtAddr,
    findings: Findings,
    /// The supervisor's memory that is attacked.
    page: Frame<M>,
    ledger: Region,
    /// Where the other domain's is.
    victim: u64,
    names: [Name; 2],
    /// From how many accesses to other memory the attacker's disk was kept.
    kept_off: u64,
}

impl<M: Misbehave> Attacks<M> {
    /// How many attacks ended as they should: without harm, or with it if nobody is guarded.
    async fn all(&mut self, only: u64, is_control: bool) -> u64 {
        let how = if is_control { "without a guard" } else { "guarded" };
        for slot in [ATTACKER, VICTIM] {
            self.make(slot, is_control).await;
        }
        let page = tell(&mut self.running, ATTACKER, &Say::Pages.cell(&[])).await;
        self.findings.figure(format!("page_ns {}", guarded(is_control)), page.unwrap_or_default());
        let mut right = 0;
        let wanted = |it: &Attack| match only {
            // What ends the machine leaves nobody who could tell.
            ALL => !is_control || it.target() != Target::Power,
            only => *it as u64 == only,
        };
        let can_confine = self.can_confine();
        let is_by_disk = |it: &Attack| matches!(it, Attack::DiskOverwrites | Attack::DiskCopies);
        // Its control would be another supervisor.
        let has_control = |it: &Attack| !is_control || it.target() != Target::Seat;
        for attack in Attack::ALL.into_iter().filter(wanted).filter(has_control) {
            // Without an IOMMU nothing contains it.
            if is_by_disk(&attack) && !can_confine {
                continue;
            }
            for aim in Aim::of(attack).iter().copied() {
                let (tried, harm) = match aim {
                    Aim::Messages | Aim::Frames | Aim::Parked | Aim::Hold => {
                        self.shared(attack, aim, is_control).await
                    }
                    _ => (self.attempt(attack, aim).await, None),
                };
                let is_read = attack.target() == Target::Secret && tried == Some(Tried::Done);
                let harm = match harm {
                    Some(harm) => Some(harm),
                    None if is_read => Some("the word is read"),
                    None => self.harm(aim, tried, is_control).await,
                };
                if is_by_disk(&attack) && !is_control {
                    let kept_off = self.running.engine.kept_off(ATTACKER);
                    let is_told = kept_off > self.kept_off;
                    self.kept_off = kept_off;
                    self.findings.check(is_told, format_args!("{attack} on {aim:?}: not counted"));
                }
                self.findings.check(
                    harm.is_some() == is_control,
                    format_args!("{attack} on {aim:?}, {how}: {tried:?}, {harm:?}"),
                );
                let is_made = tried != Some(Tried::Unknown);
                self.findings.check(is_made, format_args!("{attack} on {aim:?}, {how}: not made"));
                let what = guarded(is_control);
                let aimed = aim.name();
                self.findings.figure(format!("{attack} {aimed} {what}"), u64::from(harm.is_some()));
                right += u64::from(harm.is_some() == is_control);
                if !is_control && !matches!(aim, Aim::Seat | Aim::Hold) {
                    let goes_on = self.answers(ATTACKER, LONG).await;
                    self.findings.check(
                        goes_on,
                        format_args!("{attack} on {aim:?}: the attacker does not go on"),
                    );
                }
                // Its tables may be what the attack made of them; and a core that ends too often
                // is stopped.
                if is_control || tried.is_none() || aim == Aim::Seat {
                    self.end(ATTACKER).await;
                    self.make(ATTACKER, is_control).await;
                }
                if is_control && matches!(aim, Aim::Core | Aim::Domain | Aim::Messages) {
                    self.end(VICTIM).await;
                    self.make(VICTIM, is_control).await;
                }
            }
        }
        for slot in [ATTACKER, VICTIM] {
            self.end(slot).await;
        }
        right
    }

    /// Whether the machine can keep the attacker's disk to its memory.
    fn can_confine(&self) -> bool {
        let core = &self.running.core;
        let domains = core.machine().manager().and_then(|it| it.domains());
        domains.is_some_and(|it| it.confines(DISK))
    }

    fn name(&self, slot: u8) -> Name {
        self.names[usize::from(slot - 1)]
    }

    /// Makes the domain of a place; the attacker has no guard in controls.
    async fn make(&mut self, slot: u8, is_control: bool) {
        // An attacker may have a core more, which is parked.
        let most = if slot == ATTACKER { 2 } else { 1 };
        let (name, limits) =
            (self.name(slot), Limits { cores: (1, most), units: (1, UNITS), priority: 0 });
        let has_disks = self.running.ledger().sizes().devices > 0;
        let device = (slot == ATTACKER && has_disks).then_some(DISK);
        let create = Create { name, cores: 1, units: UNITS, limits, device };
        self.running.has_no_guard = is_control && slot == ATTACKER;
        self.running.engine.confines_disks = !self.running.has_no_guard;
        self.kept_off = 0;
        let made = self.running.carry_out(&Command::Create(create)).await;
        self.findings.expect(made, &format!("{name} is made"));
        if slot == VICTIM {
            let kept = tell(&mut self.running, VICTIM, &Say::Keep.cell(&[])).await;
            self.victim = kept.unwrap_or_default();
        }
    }

    async fn end(&mut self, slot: u8) {
        let name = self.name(slot);
        let destroy = Command::Destroy { name, force: true };
        // One whose seat says so has ended by itself.
        let _ = self.running.carry_out(&destroy).await;
        let is_gone = |it: &Running<M>| it.ledger().named(name).is_none();
        let gone = self.running.until(LONG, is_gone).await;
        self.findings.check(gone, format_args!("{name} is not gone"));
    }

    /// Has the attacker try it. `None` if that ended its managing core.
    async fn attempt(&mut self, attack: Attack, aim: Aim) -> Option<Tried> {
        self.word(aim).into_iter().for_each(|it| it.store(KEPT, Ordering::SeqCst));
        let at = match aim {
            Aim::Domain => self.victim,
            Aim::Supervisor | Aim::Ledger => {
                let seen = self.word(aim).map_or(0, |it| it.as_ptr().addr() as u64);
                seen.saturating_sub(self.base.0)
            }
            // The victim tells by what name the machine knows its core.
            Aim::Core => tell(&mut self.running, VICTIM, &Say::Hardware.cell(&[])).await?,
            _ => 0,
        };
        self.tell_attack(attack, at);
        self.running.until(MOMENT, |it| it.answer.is_some()).await;
        self.tried()
    }

    /// Has a domain do something that it answers then.
    fn tell(&mut self, slot: u8, cell: &[u8]) {
        self.running.answer = None;
        self.running.say(slot, cell);
    }

    /// Has the attacker try it.
    fn tell_attack(&mut self, attack: Attack, aim: u64) {
        let mut cell = [0; 9];
        cell[0] = attack as u8;
        cell[1..].copy_from_slice(&aim.to_le_bytes());
        self.tell(ATTACKER, &Say::Attack.cell(&cell));
    }

    /// What came of it, as the attacker says.
    fn tried(&self) -> Option<Tried> {
        let all = [Tried::Refused, Tried::Done, Tried::Unknown];
        self.running.answer.and_then(|answer| all.into_iter().find(|it| *it as u64 == answer))
    }

    /// The word that is attacked, where the supervisor sees it.
    fn word(&self, aim: Aim) -> Option<&AtomicU64> {
        match aim {
            Aim::Supervisor => self.page.words().first(),
            // Nothing stands at its end.
            Aim::Ledger => self.ledger.words().last(),
            _ => None,
        }
    }

    /// What an attack has done, if it did harm.
    async fn harm(
        &mut self,
        aim: Aim,
        tried: Option<Tried>,
        is_control: bool,
    ) -> Option<&'static str> {
        let word = match aim {
            Aim::Domain => tell(&mut self.running, VICTIM, &Say::Look.cell(&[])).await,
            _ => self.word(aim).map(|it| it.load(Ordering::SeqCst)),
        };
        if word.is_some_and(|it| it != KEPT) {
            return Some("the word is another");
        }
        if aim == Aim::Machine && tried == Some(Tried::Done) {
            return Some("it is changed");
        }
        let span = if is_control { MOMENT } else { LONG };
        if !self.answers(VICTIM, span).await {
            return Some("the victim does not answer");
        }
        if !self.running.engine.last_words(VICTIM).is_empty() {
            return Some("the victim began anew");
        }
        let unmasked = tell(&mut self.running, VICTIM, &Say::Unmasked.cell(&[])).await;
        if unmasked != Some(0) {
            return Some("the victim was interrupted");
        }
        let ledger = self.running.ledger();
        let damaged = ledger.units_with(|it| it.phase == Phase::Held && it.is_of(VICTIM)) != UNITS;
        damaged.then_some("the victim lacks memory")
    }

    /// Whether a domain calls a service through its registry, and finds the right answer.
    async fn answers(&mut self, slot: u8, span: Duration) -> bool {
        self.running.answer = None;
        self.running.say(slot, &Say::Compute.cell(&[2, 3]));
        self.running.until(span, |it| it.answer.is_some()).await;
        self.running.answer == Some(9)
    }
}
