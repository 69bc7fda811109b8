//! A domain's end of domcon: its managing core tells the supervisor when the domain runs, takes and
//! gives cores and memory, and ends the domain when it is told to. The domain never waits for its
//! supervisor.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::time::Duration;

use nile_abi::{CoreId, CorePhase, PhysAddr, Role, RoleSet};
use nile_domain::{Act, DomainId, Extent, Managing, Message, UNIT};
use nile_stl::Stl;
use nile_stl::node::domains::SeatLink;
use nile_stl::node::{Grant, Seated};
use nile_sync::{Notify, first};

/// How often it looks for messages though nobody knocks, and, before it runs, for its cores.
const LOOK: Duration = Duration::from_millis(100);
const STARTING: Duration = Duration::from_millis(1);

/// How long what a core works on may take that is to leave: less than the supervisor waits.
const PATIENCE: Duration = Duration::from_millis(300);

/// Answers the supervisor, if this is the managing core of a domain.
pub fn start(stl: &Stl) {
    let Some(seated) = stl.node().ok().and_then(|node| node.seated()) else { return };
    let own = stl.clone();
    stl.host().spawn(Box::pin(async move {
        let Ok(link) = seated.seat.domain_end(seated.generation) else { return };
        Domain { stl: own, seated }.answer(link).await;
    }));
}

#[derive(Clone)]
struct Domain {
    stl: Stl,
    seated: Seated,
}

/// Hardware that was asked to leave, and what came of that.
#[derive(Default)]
struct Leavers {
    /// Of which it is not known yet, and whether each is to come back.
    asked: RefCell<Vec<(u16, bool)>>,
    /// Of which it is known whether they have left.
    ended: RefCell<Vec<(u16, bool)>>,
    news: Notify,
}

/// What came of hardware that was asked to leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leaver {
    Left(u16),
    Stayed(u16),
    /// It has left or stayed, and is to come back since.
    Returns(u16),
}

impl Leavers {
    /// Notes that this one is to leave; whether it was not asked already.
    fn ask(&self, hardware: u16) -> bool {
        let mut asked = self.asked.borrow_mut();
        let known = asked.iter_mut().find(|it| it.0 == hardware);
        if let Some((_, returns)) = known {
            *returns = false;
            return false;
        }
        asked.push((hardware, false));
        true
    }

    /// Notes that this one is to come back, if it is not known yet whether it has left.
    fn returns(&self, hardware: u16) -> bool {
        let mut asked = self.asked.borrow_mut();
        let known = asked.iter_mut().find(|it| it.0 == hardware);
        known.map(|it| it.1 = true).is_some()
    }

    /// It has left, or has not.
    fn end(&self, hardware: u16, has_left: bool) {
        self.ended.borrow_mut().push((hardware, has_left));
        self.news.notify();
    }

    /// All of which it is known, once.
    fn take(&self) -> Vec<Leaver> {
        let mut asked = self.asked.borrow_mut();
        let outcome = |(hardware, has_left)| {
            let place = asked.iter().position(|it| it.0 == hardware);
            match place.map(|place| asked.swap_remove(place)) {
                Some((_, true)) => Leaver::Returns(hardware),
                _ if has_left => Leaver::Left(hardware),
                _ => Leaver::Stayed(hardware),
            }
        };
        self.ended.take().into_iter().map(outcome).collect()
    }

    /// Waits until it is known of one.
    async fn some(&self) {
        self.news.until(|| (!self.ended.borrow().is_empty()).then_some(())).await;
    }
}

impl Domain {
    async fn answer(&self, mut link: SeatLink) {
        let id = DomainId { slot: self.seated.slot, generation: self.seated.generation };
        while !self.cores().all(|core| self.is_in(core) || self.is_away(core)) {
            self.stl.host().pause(STARTING).await;
        }
        let hardware = self.cores().filter_map(|core| self.seated.seat.hardware(core.0));
        let mut managing = Managing::new(hardware);
        managing.up();
        let leavers: Rc<Leavers> = Rc::default();
        let mut returning = Vec::new();
        loop {
            for hardware in returning.drain(..) {
                self.start(&mut managing, hardware).await;
            }
            while let Some(act) = managing.take_act() {
                match act {
                    Act::Send(message) => {
                        // A supervisor that takes nothing is told again by the next incarnation,
                        // and asks for what it misses.
                        link.send(&message.encode(id));
                    }
                    Act::Start(hardware) if leavers.returns(hardware) => {}
                    Act::Start(hardware) => self.start(&mut managing, hardware).await,
                    // That may take a while, and the supervisor may take it meanwhile.
                    Act::Leave(hardware) if leavers.ask(hardware) => {
                        let (own, leavers) = (self.clone(), leavers.clone());
                        self.stl.host().spawn(Box::pin(async move {
                            let has_left = own.send_away(hardware).await;
                            leavers.end(hardware, has_left);
                        }));
                    }
                    Act::Leave(_) => {}
                    Act::Lost(hardware) => self.lose(hardware),
                    Act::Use(extent) => get(&self.stl, &self.seated, extent).await,
                    Act::Find(units) => {
                        managing.found(give_up(&self.stl, &self.seated, units).await);
                    }
                    Act::Stop => self.stl.node().into_iter().for_each(|node| node.end()),
                }
            }
            let mut is_quiet = true;
            // What has become of hardware is older than what the supervisor says of it now.
            for leaver in leavers.take() {
                is_quiet = false;
                match leaver {
                    Leaver::Left(hardware) => managing.left(hardware),
                    Leaver::Stayed(hardware) => managing.kept(hardware),
                    Leaver::Returns(hardware) => returning.push(hardware),
                }
            }
            while let Ok(Some(message)) = link.receive() {
                is_quiet = false;
                if let Ok((to, said)) = Message::decode(message.payload())
                    && to == id
                {
                    managing.heard(said);
                }
            }
            // What is new is acted upon first.
            if is_quiet {
                let news = first(self.knocked(), leavers.some());
                first(self.stl.host().pause(LOOK), news).await;
            }
        }
    }

    /// Has hardware begin that was offered, unless it is in, or was taken since.
    async fn start(&self, managing: &mut Managing, hardware: u16) {
        if !managing.has(hardware) {
            return;
        }
        match self.on(hardware).is_some() || self.let_in(hardware).await {
            true => managing.started(hardware),
            false => managing.not_started(hardware),
        }
    }

    async fn knocked(&self) {
        if let Ok(node) = self.stl.node() {
            node.knocked().await;
        }
    }

    fn cores(&self) -> impl Iterator<Item = CoreId> + use<> {
        (0..self.stl.host().cores() as u16).map(CoreId)
    }

    fn phase(&self, core: CoreId) -> Option<CorePhase> {
        self.stl.node().ok()?.state_of(core).map(|it| it.phase)
    }

    fn is_in(&self, core: CoreId) -> bool {
        self.phase(core) == Some(CorePhase::Running)
    }

    fn is_away(&self, core: CoreId) -> bool {
        self.phase(core) == Some(CorePhase::Away)
    }

    /// Has a core of the node that is away begin on this hardware; whether it does.
    async fn let_in(&self, hardware: u16) -> bool {
        let seat = &self.seated.seat;
        let is_free = |core: &CoreId| self.is_away(*core) && seat.hardware(core.0).is_none();
        let Some(core) = self.cores().find(is_free) else { return false };
        let Ok(node) = self.stl.node() else { return false };
        seat.set_hardware(core.0, Some(hardware));
        let runs = node.call_back_core(core).await.is_ok();
        if !runs {
            seat.set_hardware(core.0, None);
        }
        runs
    }

    /// Has the core that runs on this hardware leave, if it is a worker and nothing else; whether
    /// it does. The hardware parks itself.
    async fn send_away(&self, hardware: u16) -> bool {
        let seat = &self.seated.seat;
        let (Some(core), Ok(node)) = (self.on(hardware), self.stl.node()) else { return false };
        let roles = node.state_of(core).map(|it| it.roles);
        if roles != Some(RoleSet::EMPTY.with(Role::Worker)) {
            return false;
        }
        let left = node.leave_core(core, PATIENCE, true).await.is_ok();
        // It may have been taken meanwhile, and another one have its place.
        if left && seat.hardware(core.0) == Some(hardware) {
            seat.set_hardware(core.0, None);
        }
        left
    }

    /// The core that runs on this hardware.
    fn on(&self, hardware: u16) -> Option<CoreId> {
        self.cores().find(|core| self.seated.seat.hardware(core.0) == Some(hardware))
    }

    /// This hardware was taken. A worker is away then; without another core the node is none.
    fn lose(&self, hardware: u16) {
        let (Some(core), Ok(node)) = (self.on(hardware), self.stl.node()) else { return };
        self.seated.seat.set_hardware(core.0, None);
        let roles = node.state_of(core).map(|it| it.roles);
        let is_worker = roles == Some(RoleSet::EMPTY.with(Role::Worker));
        if !is_worker || node.lose_core(core).is_err() {
            self.stl.host().log(format_args!("core {core} was taken, which the node needs"));
            node.give_up();
        }
    }
}

/// These units are the node's from now on.
pub async fn get(stl: &Stl, seated: &Seated, Extent { start, count }: Extent) {
    let Ok(node) = stl.node() else { return };
    let start = PhysAddr(seated.memory.start.0 + u64::from(start) * UNIT);
    let grant = Grant { start, bytes: u64::from(count) * UNIT };
    if let Err(status) = node.get_memory(grant).await {
        stl.host().log(format_args!("it cannot use the memory at {start}: {status}"));
    }
}

/// So many free units that are no longer the node's; or how many are missing, and all is as it was.
pub async fn give_up(stl: &Stl, seated: &Seated, units: u32) -> Result<Vec<Extent>, u32> {
    let node = stl.node().map_err(|_| units)?;
    let Ok(given) = node.give_up_memory(units.into()).await else {
        let free = node.memory().await.map_or(0, |memory| memory.free[1]);
        return Err(units.saturating_sub(free.try_into().unwrap_or(u32::MAX)).max(1));
    };
    let extent = |grant: Grant| Extent {
        start: ((grant.start.0 - seated.memory.start.0) / UNIT) as u32,
        count: (grant.bytes / UNIT) as u32,
    };
    Ok(given.into_iter().map(extent).collect())
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn what_becomes_of_hardware_that_is_to_leave_is_told_once() {
        let leavers = Leavers::default();
        assert!(!leavers.returns(3), "it was not asked: it can begin at once");
        assert!(leavers.ask(3) && leavers.ask(4));
        assert!(!leavers.ask(3), "one is asked already");
        assert_eq!(leavers.take(), []);
        leavers.end(3, true);
        leavers.end(4, false);
        assert_eq!(leavers.take(), [Leaver::Left(3), Leaver::Stayed(4)]);
        assert_eq!(leavers.take(), []);
        assert!(leavers.ask(3), "it may leave again");
    }

    #[test]
    fn hardware_that_is_offered_while_it_leaves_returns_when_it_is_known() {
        for has_left in [true, false] {
            for is_known_before in [true, false] {
                let leavers = Leavers::default();
                assert!(leavers.ask(3));
                if is_known_before {
                    leavers.end(3, has_left);
                }
                assert!(leavers.returns(3));
                if !is_known_before {
                    assert_eq!(leavers.take(), []);
                    leavers.end(3, has_left);
                }
                assert_eq!(leavers.take(), vec![Leaver::Returns(3)]);
                assert!(!leavers.returns(3));
            }
        }
    }

    #[test]
    fn hardware_that_is_taken_once_more_does_not_return() {
        let leavers = Leavers::default();
        assert!(leavers.ask(3) && leavers.returns(3) && !leavers.ask(3));
        leavers.end(3, true);
        assert_eq!(leavers.take(), [Leaver::Left(3)]);
    }
}
