//! Attacks by what a domain shares with its supervisor: messages, frames, cores that it asks for,
//! and time. No guard is asked about these, so each control is another: that who may do so does it,
//! or that a reader believes what it reads.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use core::time::Duration;

use nile_domain::{Command, DomainId, Message, Phase, Resize};
use nile_platform::domains::{FrameLoop, SEAT_CELLS, rfloop};
use nile_platform::{Attack, Interface, Manager, Misbehave, Tried};

use super::super::flood::{bridge, flood};
use super::super::guest::Say;
use super::super::red::unit_of;
use super::{ATTACKER, Aim, Attacks, LONG, MOMENT, UNITS, VICTIM};

/// How long what is wrong may take to show.
const SOON: Duration = Duration::from_millis(20);

/// What came of an attack: what whoever made it says, and the harm.
pub type Came = (Option<Tried>, Option<&'static str>);

impl<M: Misbehave> Attacks<M> {
    /// Makes an attack of this kind, and looks for the harm that it alone can do.
    pub(super) async fn shared(&mut self, attack: Attack, aim: Aim, is_control: bool) -> Came {
        match aim {
            Aim::Messages if attack == Attack::FloodMessages => self.flood(is_control).await,
            Aim::Messages => self.lie(attack, is_control).await,
            Aim::Frames if attack == Attack::FloodFrames => self.flood_frames(is_control).await,
            Aim::Frames => self.miscount(attack, is_control).await,
            Aim::Parked => self.enter(is_control).await,
            _ => self.hold(is_control).await,
        }
    }

    fn id(&self, slot: u8) -> Option<DomainId> {
        self.running.ledger().named(self.name(slot)).map(|it| it.id)
    }

    /// A message that changes the ledger if it is believed. The control: whose memory it is says
    /// it.
    async fn lie(&mut self, attack: Attack, is_control: bool) -> Came {
        let is_foreign = matches!(attack, Attack::ForgedSender | Attack::GiveForeign);
        let owner = if is_foreign { VICTIM } else { ATTACKER };
        let ledger = self.running.ledger();
        let (Some(id), Some(unit)) =
            (self.id(owner), ledger.extents_with(|it| it.is_own(owner)).first().map(|it| it.start))
        else {
            return (None, None);
        };
        let aim = unit_of(id, unit);
        match is_control {
            true => self.tell(owner, &Say::Give.cell(&aim.to_le_bytes())),
            false => self.tell_attack(attack, aim),
        }
        let is_changed = |it: &super::super::supervise::Running<M>| {
            let has =
                |slot| it.ledger().units_with(|it| it.is_own(slot) && it.phase == Phase::Held);
            has(ATTACKER) != UNITS || has(VICTIM) != UNITS
        };
        self.running.until(MOMENT, |it| it.answer.is_some() || is_changed(it)).await;
        let tried = self.tried();
        let is_changed = self.running.until(SOON, is_changed).await;
        (tried, is_changed.then_some("the ledger is changed"))
    }

    /// Messages without end. The control: a supervisor that reads as long as some come, and does
    /// nothing else.
    async fn flood(&mut self, is_control: bool) -> Came {
        let Some(id) = self.id(ATTACKER) else { return (None, None) };
        self.running.most_heard = 0;
        self.tell_attack(Attack::FloodMessages, 0);
        let mut heard = 0;
        if is_control {
            let (core, limit) = (self.running.core.clone(), self.running.core.now() + MOMENT);
            let domains = core.machine().manager().and_then(|it| it.domains());
            let seat = domains.and_then(|it| it.seat(ATTACKER));
            let link = seat.and_then(|it| it.supervisor_end(id.generation).ok());
            let Some(mut link) = link else { return (None, None) };
            while heard <= SEAT_CELLS && core.now() < limit {
                heard += usize::from(matches!(link.receive(), Ok(Some(_))));
            }
        } else {
            self.running.until(LONG, |it| it.answer.is_some()).await;
            heard = self.running.most_heard;
        }
        let is_held_up = heard > SEAT_CELLS;
        (self.tried(), is_held_up.then_some("the supervisor reads without end"))
    }

    /// Frames to another domain without end. The control: nothing limits them.
    async fn flood_frames(&mut self, is_control: bool) -> Came {
        let name = self.name(ATTACKER);
        let Some(flooded) = flood(&mut self.running, name, !is_control).await else {
            return (None, None);
        };
        let is_endless = flooded.moved > flooded.allowed;
        (self.tried(), is_endless.then_some("more frames are moved than it may send"))
    }

    /// Frames that are not what they say. The control: a reader that believes them.
    async fn miscount(&mut self, attack: Attack, is_control: bool) -> Came {
        let core = self.running.core.clone();
        let Some(domains) = core.machine().manager().and_then(|it| it.domains()) else {
            return (None, None);
        };
        let seats = [ATTACKER, VICTIM].into_iter().filter_map(|slot| domains.seat(slot));
        let loops: Vec<FrameLoop> = seats.map(|it| it.frames()).collect();
        let [red, blue] = &loops[..] else { return (None, None) };
        let Some(bridge) = bridge(&self.running, &[ATTACKER, VICTIM]) else { return (None, None) };
        let (others, own) = (blue.domain_end(0), red.address());
        self.tell_attack(attack, 0);
        self.running.until(MOMENT, |it| it.answer.is_some()).await;
        let tried = self.tried();
        if is_control {
            return (tried, believe(red));
        }
        let mut harm = None;
        let is_own = |frame: &[u8]| frame.get(6..12) == own.as_ref().map(|it| &it.0[..]);
        let mut look = |frame: &[u8]| {
            harm = harm.or((!is_own(frame)).then_some("the supervisor took it for another's"));
        };
        let mut taken = 0;
        while taken <= rfloop::SLOTS {
            match bridge.receive(rfloop::SLOTS as usize, &mut look) as u64 {
                0 => break,
                count => taken += count,
            }
        }
        let mut frame = rfloop::Frame::default();
        while let Some(length) = others.take(&mut frame) {
            look(frame.bytes(length));
        }
        let is_endless = taken > rfloop::SLOTS;
        (tried, harm.or(is_endless.then_some("there is no end to its frames")))
    }

    /// A core that was not offered. The control: it is.
    async fn enter(&mut self, is_control: bool) -> Came {
        let free = self.running.ledger().cores_with(|it| it.phase == Phase::Free);
        let Some(core) = free.first().copied() else { return (None, None) };
        let tried = match is_control {
            true => {
                let (name, cores) = (self.name(ATTACKER), Some(2));
                let resize = Resize { name, cores, units: None, force: false };
                let done = self.running.carry_out(&Command::Resize(resize)).await;
                done.is_ok().then_some(Tried::Done)
            }
            false => {
                self.tell_attack(Attack::EnterCore, core.into());
                self.running.until(MOMENT, |it| it.answer.is_some()).await;
                self.running.until(SOON, |_| false).await;
                self.tried()
            }
        };
        let kernel = self.running.core.clone();
        let domains = kernel.machine().manager().and_then(|it| it.domains());
        let is_parked = domains.is_some_and(|it| it.is_parked(core));
        (tried, (!is_parked).then_some("the core runs"))
    }

    /// A core that is never given back. The control: it is asked, and not taken.
    async fn hold(&mut self, is_control: bool) -> Came {
        let name = self.name(ATTACKER);
        self.running.say(ATTACKER, &Say::Hang.cell(&[]));
        self.running.until(SOON, |_| false).await;
        if is_control {
            let stop = self.id(ATTACKER).map(|id| Message::Stop.encode(id));
            let _ = stop.map(|cell| self.running.say(ATTACKER, &cell));
        } else {
            let destroy = Command::Destroy { name, force: true };
            let _ = self.running.carry_out(&destroy).await;
        }
        let is_gone = |it: &super::super::supervise::Running<M>| it.ledger().named(name).is_none();
        let is_gone = self.running.until(MOMENT, is_gone).await;
        (None, (!is_gone).then_some("its core does not come back"))
    }
}

/// Reads a loop's frames as they say that they are: what harm that does.
fn believe(frames: &FrameLoop) -> Option<&'static str> {
    let (ring, own) = (frames.to_supervisor(), frames.address()?);
    let put = ring.put().load(Ordering::Acquire);
    let taken = ring.taken().load(Ordering::Relaxed);
    for count in 0..=rfloop::SLOTS + 1 {
        let at = taken.wrapping_add(count);
        if at == put {
            return None;
        }
        if count > rfloop::SLOTS {
            return Some("there is no end to its frames");
        }
        let [length, words @ ..] = ring.slot(at) else { return None };
        if length.load(Ordering::Relaxed) as usize > rfloop::MAX_FRAME {
            return Some("a frame is longer than the room for it");
        }
        let bytes: Vec<u8> =
            words[..2].iter().flat_map(|it| it.load(Ordering::Relaxed).to_le_bytes()).collect();
        if bytes[6..12] != own.0 {
            return Some("the supervisor took it for another's");
        }
    }
    None
}
