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

/// How often it looks for messages though nobody knocks, as a former incarnation may have heard a
/// knock; and, before it runs, for its cores.
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

/// Hardware that was asked to leave, and what came of that where it is known.
#[derive(Default)]
struct Leavers {
    asked: RefCell<Vec<u16>>,
    ended: RefCell<Vec<(u16, bool)>>,
    news: Notify,
}

impl Leavers {
    /// It has left, or stays.
    fn end(&self, hardware: u16, is_left: bool) {
        self.ended.borrow_mut().push((hardware, is_left));
        self.news.notify();
    }

    /// All of which it is known.
    fn take(&self) -> Vec<(u16, bool)> {
        let all = self.ended.take();
        self.asked.borrow_mut().retain(|asked| all.iter().all(|it| it.0 != *asked));
        all
    }

    /// Waits until it is known of one.
    async fn some(&self) {
        self.news.until(|| (!self.ended.borrow().is_empty()).then_some(())).await;
    }

    /// Waits until it is known of this one whether it has left; `None` if it was not asked.
    async fn outcome(&self, hardware: u16) -> Option<bool> {
        let asked = self.asked.borrow().iter().position(|it| *it == hardware)?;
        self.asked.borrow_mut().swap_remove(asked);
        let known = || {
            let mut ended = self.ended.borrow_mut();
            let place = ended.iter().position(|it| it.0 == hardware)?;
            Some(ended.swap_remove(place).1)
        };
        Some(self.news.until(known).await)
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
        loop {
            for (hardware, is_left) in leavers.take() {
                match is_left {
                    true => managing.left(hardware),
                    false => managing.kept(hardware),
                }
            }
            while let Some(act) = managing.take_act() {
                match act {
                    Act::Send(message) => {
                        // A supervisor that takes nothing is told again by the next incarnation,
                        // and asks for what it misses.
                        link.send(&message.encode(id));
                    }
                    Act::Start(hardware) => {
                        // It may be on its way out, and has stayed or is to come back then.
                        let stayed = leavers.outcome(hardware).await == Some(false);
                        match stayed || self.let_in(hardware).await {
                            true => managing.started(hardware),
                            false => managing.not_started(hardware),
                        }
                    }
                    // That may take a while, and the supervisor may take it meanwhile.
                    Act::Leave(hardware) => {
                        let (own, leavers) = (self.clone(), leavers.clone());
                        leavers.asked.borrow_mut().push(hardware);
                        self.stl.host().spawn(Box::pin(async move {
                            let is_left = own.send_away(hardware).await;
                            leavers.end(hardware, is_left);
                        }));
                    }
                    Act::Lost(hardware) => self.lose(hardware),
                    Act::Use(extent) => get(&self.stl, &self.seated, extent).await,
                    Act::Find(units) => {
                        managing.found(give_up(&self.stl, &self.seated, units).await);
                    }
                    Act::Stop => self.stl.node().into_iter().for_each(|node| node.end()),
                }
            }
            let mut has_heard = false;
            while let Ok(Some(message)) = link.receive() {
                has_heard = true;
                if let Ok((to, said)) = Message::decode(message.payload())
                    && to == id
                {
                    managing.heard(said);
                }
            }
            // What was heard is acted upon first.
            if has_heard {
                continue;
            }
            let news = first(self.knocked(), leavers.some());
            first(self.stl.host().pause(LOOK), news).await;
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
