//! A graph that this core has open: its tasks sweep over it, put what comes into its log, and its
//! generations on disks.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use core::cell::{Cell, Ref, RefCell, RefMut};
use core::time::Duration;

use nile_abi::{Instant, Status};
use nile_graph::{Broken, Graph, Kept, Live, Settings};
use nile_interfaces::graph::GraphState;
use nile_stl::{CallError, CallResult, Stl};
use nile_sync::{Notify, yield_now};

use super::parts::Parts;
use super::searches::Searches;
use super::shelf::Datasets;
use super::{micros, no_graph};

/// About how many edges a turn sweeps over.
pub(super) const TURN: usize = 4096;

/// It is a flood when so many events have come since the last publication, one at least in so long:
/// about as many as take a quarter of the core's time. Then sweeps rest for so long, or until none
/// has come for a moment: they would take the time that the events want, and be wrong soon.
const FLOOD: u64 = 512;
const EACH: Duration = Duration::from_micros(4);
const REST: Duration = Duration::from_millis(100);
const QUIET: Duration = Duration::from_millis(10);

/// How long until something is put again that could not be.
const AGAIN: Duration = Duration::from_secs(1);

/// How long until it is looked again whether the log has room.
const FULL: Duration = Duration::from_millis(5);

/// Where a graph is.
pub enum Home {
    /// In memory only.
    Memory(Box<RefCell<Live>>),
    /// On disks, too.
    Disks(Box<Kept<Datasets>>),
}

impl Home {
    fn cell(&self) -> &RefCell<Live> {
        match self {
            Home::Memory(live) => live,
            Home::Disks(kept) => &kept.live,
        }
    }
}

/// A graph, and what is known of its publications.
pub struct Opened {
    name: String,
    pub(super) stl: Stl,
    home: Home,
    /// The others, of a part of a graph.
    parts: Option<Parts>,
    pub(super) searches: Searches,
    published: Cell<Instant>,
    /// When the last sweep was over.
    swept: Cell<Instant>,
    /// When the first event came that the publication lacks, and the first that the next one will.
    lacks: Cell<Option<Instant>>,
    will_lack: Cell<Option<Instant>>,
    /// A task sweeps over it, or rests until then.
    is_swept: Cell<bool>,
    rests: Cell<Option<Instant>>,
    /// When the last event came, and how many had by the last publication.
    came: Cell<Instant>,
    came_before: Cell<u64>,
    is_gone: Cell<bool>,
    /// How often the log has failed, and why it fails now.
    failures: Cell<u64>,
    fails: RefCell<Option<CallError>>,
    /// Notified when anything of this changes, or anything is kept or published.
    pub changes: Notify,
}

impl Opened {
    /// A graph that is open from now on; its tasks begin.
    pub fn begin(stl: &Stl, name: &str, home: Home) -> Rc<Opened> {
        let part = home.cell().borrow().graph.settings().part;
        let opened = Rc::new(Opened {
            name: name.into(),
            stl: stl.clone(),
            home,
            parts: part.is_divided().then(|| Parts::new(stl, name, part)),
            searches: Searches::default(),
            published: Cell::new(stl.host().now()),
            swept: Cell::new(stl.host().now()),
            lacks: Cell::default(),
            will_lack: Cell::default(),
            is_swept: Cell::default(),
            rests: Cell::default(),
            came: Cell::default(),
            came_before: Cell::default(),
            is_gone: Cell::default(),
            failures: Cell::default(),
            fails: RefCell::default(),
            changes: Notify::default(),
        });
        let published = opened.graph().published();
        opened.came_before.set(published.events + published.behind);
        if matches!(opened.home, Home::Disks(_)) {
            let (log, generations) = (opened.clone(), opened.clone());
            stl.host().spawn(Box::pin(async move { log.keep_log().await }));
            stl.host().spawn(Box::pin(async move { generations.keep_generations().await }));
        }
        for part in opened.parts().into_iter().flat_map(Parts::others) {
            let letters = opened.clone();
            stl.host().spawn(Box::pin(async move { letters.send_letters(part).await }));
        }
        if opened.parts.is_some() {
            let reminded = opened.clone();
            stl.host().spawn(Box::pin(async move { reminded.remind().await }));
        }
        opened.sweep();
        opened
    }

    fn cell(&self) -> &RefCell<Live> {
        self.home.cell()
    }

    /// The other parts, of a part of a graph.
    pub fn parts(&self) -> Option<&Parts> {
        self.parts.as_ref()
    }

    /// The graph, and its log. Nobody holds it while they wait.
    pub fn live(&self) -> RefMut<'_, Live> {
        self.cell().borrow_mut()
    }

    /// The graph, to be looked at.
    pub fn graph(&self) -> Ref<'_, Graph> {
        Ref::map(self.cell().borrow(), |live| &live.graph)
    }

    /// Whether this core has it no more.
    pub fn is_gone(&self) -> bool {
        self.is_gone.get()
    }

    /// Whether a task sweeps over it.
    pub fn is_swept(&self) -> bool {
        self.is_swept.get()
    }

    /// What it is called here.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lets time pass.
    pub async fn wait(&self, time: Duration) {
        self.stl.host().pause(time).await;
    }

    fn now(&self) -> Instant {
        self.stl.host().now()
    }

    /// Something new has come: it is swept over, and goes into the log.
    pub fn comes(self: &Rc<Self>, is_new: bool) {
        if is_new {
            let now = self.now();
            let is_swept = self.is_swept.get() && self.rests.get().is_none();
            let lacks = if is_swept { &self.will_lack } else { &self.lacks };
            lacks.set(lacks.get().or(Some(now)));
            self.came.set(now);
            self.sweep();
        }
        if let Home::Memory(live) = &self.home {
            live.borrow_mut().forget_waiting();
        }
        self.changes.notify();
    }

    /// Waits until the log has come to this mark. Fails as the log does, if it does so meanwhile.
    pub async fn kept(&self, mark: u64) -> CallResult<()> {
        let before = self.failures.get();
        let end = || {
            if self.cell().borrow().kept() >= mark {
                return Some(Ok(()));
            }
            if self.is_gone() {
                return Some(Err(no_graph(&self.name)));
            }
            let fails = self.fails.borrow();
            let failed = fails.as_ref().filter(|_| self.failures.get() > before);
            failed.map(|it| Err(CallError::new(it.status, self.not_kept(it))))
        };
        self.changes.until(end).await
    }

    fn not_kept(&self, why: &CallError) -> String {
        let (name, why) = (&self.name, &why.message);
        alloc::format!("the log of {name} takes nothing now, say it again later: {why}")
    }

    /// Waits until a publication has all that has been taken so far, and ranks are as good as they
    /// are to be, or as they can be, if `are_good`.
    pub async fn ranked(&self, are_good: bool) {
        let events = self.graph().published();
        let events = events.events + events.behind;
        let is_in = || {
            let published = self.graph().published();
            let is_good = published.error <= self.graph().settings().error
                || !self.is_swept() && self.graph().rests();
            let is_in = published.events >= events && (is_good || !are_good);
            (is_in || self.is_gone()).then_some(())
        };
        self.changes.until(is_in).await;
    }

    /// Sees to it that a task sweeps over the graph until there is nothing to do.
    pub fn sweep(self: &Rc<Self>) {
        if self.is_swept.replace(true) {
            return;
        }
        let opened = self.clone();
        self.stl.host().spawn(Box::pin(async move {
            while !opened.is_gone() {
                let had_generation = opened.graph().has_generation();
                match opened.rests_until() {
                    Some(until) if !opened.live().graph.prepare(TURN) => {
                        opened.stl.host().sleep_until(until).await;
                    }
                    Some(_) => yield_now().await,
                    None if opened.step() => yield_now().await,
                    None => break,
                }
                let is_part = opened.parts.is_some();
                if is_part || opened.graph().has_generation() != had_generation {
                    opened.changes.notify();
                }
            }
            opened.is_swept.set(false);
            opened.changes.notify();
        }));
    }

    /// Until when the task looks at nothing but what has come, if sweeps rest.
    fn rests_until(&self) -> Option<Instant> {
        let until = self.rests.get()?.min(self.came.get() + QUIET);
        let rests = Some(until).filter(|until| self.now() < *until);
        if rests.is_none() {
            self.rests.set(None);
        }
        rests
    }

    /// Sweeps on; whether there is more to be done.
    fn step(&self) -> bool {
        let before = self.graph().published();
        let step = self.live().graph.step(micros(self.now()), TURN);
        let published = self.graph().published();
        let now = self.now();
        if step == Some(true) {
            let span = now.since(self.swept.replace(now));
            let all = published.events + published.behind;
            let came = all - self.came_before.replace(all);
            if came >= FLOOD && span < EACH * u32::try_from(came).unwrap_or(u32::MAX) {
                self.live().graph.take_in();
                self.rests.set(Some(now + REST));
            }
        }
        if published.number != before.number {
            self.published.set(now);
            // What waits for good ranks goes on to lack.
            let lacking = self.lacks.get().filter(|_| published.events == before.events);
            self.lacks.set(lacking.or(self.will_lack.take()));
            self.changes.notify();
        }
        step.is_some()
    }

    fn disks(&self) -> Option<&Kept<Datasets>> {
        match &self.home {
            Home::Memory(_) => None,
            Home::Disks(kept) => Some(kept),
        }
    }

    /// Puts what comes into the log, as long as this core has the graph.
    async fn keep_log(self: Rc<Self>) {
        let Some(kept) = self.disks() else { return };
        while !self.is_gone() {
            match kept.commit().await {
                Ok(true) => {
                    self.fails.replace(None);
                    if kept.wants_generation() {
                        kept.begin_generation();
                        self.sweep();
                    }
                    self.changes.notify();
                }
                Ok(false) => {
                    let waits = || (kept.live.borrow().waits() || self.is_gone()).then_some(());
                    self.changes.until(waits).await;
                }
                Err(Broken::Full) => {
                    kept.begin_generation();
                    self.sweep();
                    self.stl.host().pause(FULL).await;
                }
                Err(broken) => self.fails(broken).await,
            }
        }
    }

    /// Puts generations on disks, as long as this core has the graph.
    async fn keep_generations(self: Rc<Self>) {
        let Some(kept) = self.disks() else { return };
        while !self.is_gone() {
            match kept.save().await {
                Ok(true) => {}
                Ok(false) => {
                    let is_made = || kept.live.borrow().graph.has_generation();
                    let waits = || (is_made() || self.is_gone()).then_some(());
                    self.changes.until(waits).await;
                }
                Err(broken) => self.fails(broken).await,
            }
        }
    }

    /// Something could not be put: it is tried again in a while, unless the graph is another's now.
    async fn fails(&self, broken: Broken<CallError>) {
        match broken {
            Broken::Shelf(error) => {
                let what = self.not_kept(&error);
                if self.fails.borrow().as_ref() != Some(&error) {
                    self.stl.host().log(format_args!("{what}"));
                }
                self.fails.replace(Some(error));
                self.failures.set(self.failures.get() + 1);
                self.changes.notify();
                self.stl.host().pause(AGAIN).await;
            }
            _ => self.is_elsewhere(),
        }
    }

    /// Looks whether this core still has the graph, as far as the keepers of names answer.
    pub async fn look(&self) -> CallResult<()> {
        if let Some(kept) = self.disks()
            && let Err(Broken::Superseded) = kept.look().await
        {
            self.is_elsewhere();
        }
        if self.is_gone() { Err(no_graph(&self.name)) } else { Ok(()) }
    }

    /// Another core has opened the graph since this one did.
    pub fn is_elsewhere(&self) {
        let name = &self.name;
        if !self.is_gone() {
            self.stl.host().log(format_args!("the graph {name} was opened elsewhere"));
        }
        self.leave();
    }

    /// This core has the graph no more.
    pub fn leave(&self) {
        self.is_gone.set(true);
        self.changes.notify();
    }

    /// The graph is no more anywhere.
    pub async fn remove(&self) -> CallResult<()> {
        if let Some(kept) = self.disks() {
            kept.remove().await.map_err(|broken| broken_error(&self.name, broken))?;
        }
        self.leave();
        Ok(())
    }

    /// How it stands.
    pub fn state(&self) -> GraphState {
        let now = self.now();
        let graph = self.graph();
        let it = graph.published();
        let since = |then: Instant| now.since(then).as_micros() as u64;
        let fails = self.fails.borrow();
        GraphState {
            name: self.name.clone(),
            parts: graph.settings().part.of,
            life: graph.life(),
            publication: it.number,
            age_us: since(self.published.get()),
            watermark: it.watermark,
            events: it.events,
            behind: it.behind,
            staleness_us: self.lacks.get().filter(|_| it.behind > 0).map_or(0, since),
            refused: it.refused,
            rejected: graph.rejected() as u64,
            copies: self.disks().map_or(0, Kept::copies),
            log_fails: fails.as_ref().map_or(String::new(), |it| it.message.clone().into()),
            vertices: it.vertices,
            edges: it.edges,
            error: it.error,
            wanted_error: graph.settings().error,
        }
    }
}

/// A graph in memory only.
pub fn in_memory(settings: Settings, number: u64) -> Home {
    let mut graph = Graph::new(settings);
    graph.join(number, 1);
    Home::Memory(Box::new(RefCell::new(Live::new(graph, number))))
}

/// Why a graph could not be made, opened or removed.
pub fn broken_error(name: &str, broken: Broken<CallError>) -> CallError {
    match broken {
        Broken::No => CallError::new(
            Status::NotFound,
            alloc::format!("no graph {name} is kept, or there is one already"),
        ),
        Broken::Superseded | Broken::Full => CallError::new(
            Status::Busy,
            alloc::format!("others open the graph {name} at this moment; try again"),
        ),
        Broken::Damaged(damaged) => CallError::new(
            Status::Failed,
            alloc::format!("what is kept of the graph {name} is damaged: {damaged}"),
        ),
        Broken::Shelf(error) => error,
    }
}
