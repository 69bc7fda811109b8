//! The jobs of this node, and whoever does what their machines want.

use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::task::Poll;
use core::time::Duration;

use nile_abi::{Instant, Status, Window};
use nile_job::{
    Answer, AttemptId, Epoch, JobId, Keeper, Kind, Note, Settings, Standing, ToKeeper, ToMaster,
    Word, keeper, master,
};
use nile_order::SortedMap;
use nile_stl::Stl;

use super::cluster::{Cluster, spawn};
use super::found::Arriving;
use super::hosted::Hosted;
use super::post::Post;
use super::shelf::Shelf;
use crate::alarm::Alarm;
use crate::missed::Missed;
use crate::sweeping::Sweeping;
use nile_interfaces::name::RENEWAL;

/// How often it is looked who is there, while there are jobs.
pub(super) const LOOK: Duration = Duration::from_millis(250);

/// How long until what failed on this node's disk is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// How long until a node's disk is looked for again that was not there: so long, then twice as
/// long, until it is longer than the last.
const LOAD_AGAIN: Duration = Duration::from_millis(50);
const LOAD_LAST: Duration = Duration::from_secs(2);

/// How long the core of a job's master stays when that is over.
const NEXT_JOB: Duration = Duration::from_secs(1);

/// The most jobs at a time that have not ended.
pub const MOST_OPEN: usize = 32;

/// The jobs of this node.
pub struct Board {
    /// This core's transport layer.
    pub stl: Stl,
    /// Who is there.
    pub cluster: Rc<Cluster>,
    /// Records on this node's disks.
    pub shelf: Shelf,
    /// Records that come in pieces.
    pub arriving: RefCell<Arriving>,
    post: Rc<Post>,
    jobs: RefCell<SortedMap<JobId, Rc<Hosted>>>,
    /// Whether it is known which records the disks have.
    is_loaded: Cell<bool>,
    is_loading: Cell<bool>,
    /// Whether the node turned out to have no disk: it keeps no records.
    has_no_disk: Cell<bool>,
    is_watching: Cell<bool>,
    /// Whether it will be looked for parts that nobody takes care of.
    pub(super) sweeping: Sweeping,
    pub(super) missed: Rc<Missed>,
    /// Whether it is looked which jobs to forget.
    pub(super) is_forgetting: Cell<bool>,
    /// Whether it is looked whose turn it is, and the pause in between.
    pub(super) is_taking_turns: Cell<bool>,
    pub(super) turn: Alarm,
    clock: Alarm,
}

impl Board {
    /// The board of the core of `stl`, whose tasks begin.
    pub fn new(stl: &Stl) -> Rc<Board> {
        let cluster = Rc::new(Cluster::new(stl));
        let board = Rc::new(Board {
            stl: stl.clone(),
            shelf: Shelf::new(&cluster),
            post: Rc::new(Post::new(stl, &cluster)),
            arriving: RefCell::default(),
            jobs: RefCell::default(),
            is_loaded: Cell::new(false),
            is_loading: Cell::new(false),
            has_no_disk: Cell::new(false),
            is_watching: Cell::new(false),
            sweeping: Sweeping::default(),
            missed: Missed::of(stl),
            is_forgetting: Cell::new(false),
            is_taking_turns: Cell::new(false),
            turn: Alarm::default(),
            clock: Alarm::default(),
            cluster,
        });
        let clock = board.clone();
        spawn(stl, async move { clock.keep_time().await });
        board.is_loaded();
        let told = Rc::downgrade(&board);
        let sweep = move || told.upgrade().iter().for_each(Board::sweep_soon);
        board.missed.on(sweep.clone());
        stl.on_death(move |_, _| sweep());
        board
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.stl.host().now()
    }

    /// Whether it is known which records this node has. If not, it is looked.
    pub fn is_loaded(self: &Rc<Self>) -> bool {
        if !self.is_loaded.get() && !self.is_loading.replace(true) {
            let board = self.clone();
            spawn(&self.stl, async move {
                board.load().await;
                board.is_loading.set(false);
            });
        }
        self.is_loaded.get()
    }

    /// A job of this node.
    pub fn job(&self, id: JobId) -> Option<Rc<Hosted>> {
        self.jobs.borrow().get(&id).cloned()
    }

    /// All jobs of this node.
    pub fn jobs(&self) -> Vec<Rc<Hosted>> {
        self.jobs.borrow().values().cloned().collect()
    }

    /// How many of them have not ended.
    pub fn open(&self) -> usize {
        self.jobs.borrow().values().filter(|hosted| hosted.is_open()).count()
    }

    /// What this node knows of how a job stands; none if it has to look first.
    pub fn standing(self: &Rc<Self>, id: JobId) -> Option<Standing> {
        match self.job(id) {
            Some(hosted) => Some(hosted.with(nile_job::Record::standing)),
            None => (self.is_loaded() || self.has_no_disk.get()).then_some(Standing::Unknown),
        }
    }

    /// Takes in the records that the disks have; over when this node turns out to have no disk.
    async fn load(self: &Rc<Self>) {
        let mut told = None;
        let mut pause = LOAD_AGAIN;
        let records = loop {
            match self.shelf.load().await {
                Ok(records) => break records,
                Err(error) if error.status == Status::NotFound && pause > LOAD_LAST => {
                    self.has_no_disk.set(true);
                    return;
                }
                Err(error) => {
                    if told.as_ref() != Some(&error.status) && error.status != Status::NotFound {
                        self.stl.host().log(format_args!("records of jobs wait: {error}"));
                    }
                    told = Some(error.status);
                }
            }
            self.stl.host().pause(pause).await;
            pause = (pause * 2).min(LOAD_LAST * 2);
        };
        let node = self.cluster.node();
        for record in records {
            let keeper = Keeper::restore(self.now(), node, record, Settings::default());
            if let Some(keeper) = keeper {
                self.host(keeper);
            }
        }
        self.is_loaded.set(true);
        self.sweep_first();
    }

    /// Takes a job in whose record is durable here.
    pub fn host(self: &Rc<Self>, keeper: Keeper) -> Rc<Hosted> {
        let hosted = Rc::new(Hosted::new(self.now(), keeper));
        self.jobs.borrow_mut().insert(hosted.id, hosted.clone());
        self.watch();
        self.kick(&hosted);
        hosted
    }

    /// Forgets a job, and its record.
    pub async fn forget(&self, id: JobId) {
        if let Some(hosted) = self.jobs.borrow_mut().remove(&id) {
            hosted.is_dropped.set(true);
            self.end_master(&hosted);
        }
        if let Err(error) = self.shelf.remove(id).await {
            self.stl.host().log(format_args!("the record of {id} stays: {error}"));
        }
    }

    /// A worker's message to its master.
    pub fn notes(self: &Rc<Self>, message: ToMaster) {
        let Some(hosted) = self.job(message.job) else { return };
        let is_sample = |id: &AttemptId| id.task.kind == Kind::Sample;
        let mut notes = message.notes.items.iter();
        if notes.any(|note| matches!(note, Note::Done { attempt, .. } if is_sample(attempt))) {
            hosted.samplers.borrow_mut().push(message.worker);
        }
        let now = self.now();
        hosted.master.borrow_mut().iter_mut().for_each(|it| it.receive(now, message.clone()));
        self.kick(&hosted);
    }

    /// A keeper's message to a keeper of this node.
    pub fn keep(self: &Rc<Self>, message: ToKeeper) {
        if let Some(hosted) = self.job(message.job) {
            if message.word == Word::Answer(Answer::Unknown) {
                self.give_late(&hosted, message.from);
            }
            hosted.keeper.borrow_mut().receive(self.now(), message);
            self.kick(&hosted);
        } else if self.is_loaded() {
            let answer = Keeper::stranger(self.cluster.node(), &message);
            answer.into_iter().for_each(|answer| self.post.to_keeper(message.from, &answer));
        }
    }

    /// Does what a job's machines want.
    pub fn kick(self: &Rc<Self>, hosted: &Rc<Hosted>) {
        self.pump_master(hosted);
        if !hosted.is_driven.replace(true) {
            let (board, hosted) = (self.clone(), hosted.clone());
            spawn(&self.stl, async move {
                board.drive(&hosted).await;
                hosted.is_driven.set(false);
                board.clock.plan(hosted.next_due().map(Window::at));
            });
        }
        self.clock.plan(hosted.next_due().map(Window::at));
    }

    /// Drops a job's master. The core stays a moment: who has waited for a job may have another.
    fn end_master(&self, hosted: &Hosted) {
        let engaged = hosted.end_master();
        let stl = self.stl.clone();
        spawn(&self.stl, async move {
            stl.host().pause(NEXT_JOB).await;
            drop(engaged);
        });
    }

    fn pump_master(self: &Rc<Self>, hosted: &Rc<Hosted>) {
        let now = self.now();
        let poll = || {
            let master = &mut *hosted.master.borrow_mut();
            let master = master.as_mut()?;
            Some((master.epoch(), master.poll()?))
        };
        while let Some((epoch, action)) = poll() {
            match action {
                master::Action::Send(worker, message) => self.post.to_worker(worker, &message),
                master::Action::Cut(samples) => {
                    let (board, hosted) = (self.clone(), hosted.clone());
                    spawn(&self.stl, async move { board.cut(&hosted, epoch, samples).await });
                }
                master::Action::Decide(end) => hosted.keeper.borrow_mut().decide(now, epoch, end),
                master::Action::Over(_) | master::Action::Superseded(_) => {
                    self.end_master(hosted);
                    self.sweep_soon();
                    self.turn.ring();
                }
            }
        }
        if let Some(master) = &*hosted.master.borrow() {
            hosted.account.borrow_mut().note(now, master);
        }
        hosted.tell();
    }

    /// Does what a keeper wants, one thing after the other.
    async fn drive(self: &Rc<Self>, hosted: &Rc<Hosted>) {
        let poll = || hosted.keeper.borrow_mut().poll();
        while let Some(action) = poll() {
            if hosted.is_dropped.get() {
                return;
            }
            match action {
                keeper::Action::Store => self.store(hosted).await,
                keeper::Action::Send(node, message) => self.post.to_keeper(node, &message),
                keeper::Action::Appoint(Epoch::FIRST) => self.queue(hosted),
                keeper::Action::Appoint(epoch) => {
                    self.begin_master(hosted, epoch);
                    hosted.feed(self.now(), &self.cluster);
                }
                keeper::Action::Verdict(epoch, verdict) => {
                    let now = self.now();
                    // Whatever it says, this node does not begin the job any more.
                    hosted.turn.set(None);
                    let master = &mut *hosted.master.borrow_mut();
                    if let Some(master) = master.as_mut().filter(|it| it.epoch() == epoch) {
                        master.decided(now, verdict);
                    }
                }
                keeper::Action::Forget => {
                    let host = self.stl.host();
                    host.log(format_args!("{}: most of its keepers do not know it", hosted.id));
                    return self.forget(hosted.id).await;
                }
            }
            self.pump_master(hosted);
        }
    }

    /// Makes a job's record durable, however long it takes: nobody hears before what it says.
    async fn store(self: &Rc<Self>, hosted: &Rc<Hosted>) {
        while !hosted.is_dropped.get() {
            let record = hosted.with(Clone::clone);
            // What changed twice was made durable once.
            if hosted.stored.borrow().as_ref() == Some(&record) {
                break;
            }
            match self.shelf.save(&record).await {
                Ok(()) => {
                    hosted.account.borrow_mut().trouble.clear();
                    *hosted.stored.borrow_mut() = Some(record);
                }
                Err(error) => {
                    let text = format!("the record cannot be kept: {error}");
                    self.stl.host().log(format_args!("{}: {text}", hosted.id));
                    hosted.account.borrow_mut().trouble = text;
                    self.stl.host().pause(AGAIN).await;
                }
            }
        }
        if !hosted.is_open() && hosted.account.borrow().ended.is_none() {
            hosted.account.borrow_mut().ended = Some(self.now());
            if hosted.master.borrow().is_some() {
                self.publish(hosted);
            }
            self.forget_old_soon();
            self.sweep_soon();
        }
    }

    /// Calls machines when their time comes.
    async fn keep_time(self: Rc<Self>) {
        loop {
            let now = self.now();
            let mut due = None;
            for hosted in self.jobs() {
                if hosted.next_due().is_some_and(|due| due <= now) {
                    hosted.act(now);
                    self.kick(&hosted);
                }
                due = [due, hosted.next_due()].into_iter().flatten().min();
            }
            self.clock.wait(&self.stl, due.map(Window::at), |_| Poll::Pending).await;
        }
    }

    /// Looks who is there, again and again, as long as there are jobs that have not ended.
    fn watch(self: &Rc<Self>) {
        if self.is_watching.replace(true) {
            return;
        }
        let board = self.clone();
        spawn(&self.stl, async move {
            let mut renewed = board.now();
            while board.jobs().iter().any(|it| it.is_open() || it.master.borrow().is_some()) {
                if board.now().since(renewed) >= RENEWAL {
                    renewed = board.now();
                    board.renew_names();
                }
                // What cannot be asked now is as it was.
                let _ = board.cluster.look().await;
                for hosted in board.jobs() {
                    hosted.feed(board.now(), &board.cluster);
                    board.kick(&hosted);
                }
                board.stl.host().pause(LOOK).await;
            }
            board.is_watching.set(false);
        });
    }
}
