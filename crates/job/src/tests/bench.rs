//! A master and its workers without a network: what is said is heard at once, and attempts are
//! done as soon as nothing is left to be heard.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Generation, Instant, NodeId};
use nile_bosml::Blob;

use crate::{
    AttemptId, Bounds, End, Epoch, Failure, Fault, Job, JobId, Keeper, Kind, Master, Peer, PieceId,
    Record, Settings, Split, Summary, ToMaster, ToWorker, Worker, WorkerId, keeper, master, worker,
};

/// What is on its way.
enum Said {
    ToWorker(WorkerId, ToWorker),
    ToMaster(ToMaster),
    Peer(WorkerId, Peer),
    Piece(WorkerId, PieceId, AttemptId),
}

pub struct Bench {
    pub now: Instant,
    pub keeper: Keeper,
    pub master: Master,
    pub workers: BTreeMap<WorkerId, Worker>,
    said: VecDeque<Said>,
    /// Attempts that run, in the order in which they will be done.
    pub running: VecDeque<(WorkerId, AttemptId)>,
    /// What each attempt comes to.
    pub outcome: fn(WorkerId, AttemptId) -> Result<Summary, Failure>,
    /// Whether a piece gets to who has asked for it.
    pub delivers: fn(PieceId) -> bool,
    /// Attempts that were started, and messages that were sent.
    pub started: Vec<(WorkerId, AttemptId)>,
    pub messages: usize,
    /// Whether the job's code cuts bounds, and how many slices it wants then.
    pub cuts: bool,
    pub slices: u32,
    /// Slices that running reduce attempts have taken.
    taken: BTreeMap<AttemptId, u32>,
    /// Pieces that were delivered.
    pub pieces: Vec<PieceId>,
    /// Whether bounds are still to be cut, by whoever does it; in the end by nobody.
    pub is_cut_late: bool,
    pub ended: Option<End>,
}

/// The worker on a core of a node.
pub fn worker_id(node: u32, core: u16) -> WorkerId {
    let (life, generation) = (Generation::FIRST, Generation::FIRST);
    WorkerId { node: NodeId(node), life, core: CoreId(core), generation }
}

/// A job with this many reduce tasks, without bounds.
pub fn job(reducers: u32) -> Job {
    Job {
        id: JobId(7),
        name: "count".into(),
        package: "count".into(),
        arguments: vec![],
        input: vec![String::from("text")],
        output: "counts".into(),
        reducers,
        copies: 1,
        keepers: vec![NodeId(1)],
        samples: 0,
        memory: Some(1 << 20),
        bytes: 0,
        blocks: 0,
        conserves: true,
        task_timeout: None,
        share: crate::Share::default(),
        on: vec![],
    }
}

/// Splits with `copies` copies each, spread over `nodes` nodes.
pub fn splits(count: u32, nodes: u32, copies: u32) -> Vec<Split> {
    let holders = |block: u32| (0..copies).map(move |copy| NodeId((block + copy) % nodes + 1));
    let split = |block| {
        let nodes = holders(block).collect();
        Split { dataset: 0, block, blocks: 1, bytes: 100, nodes }
    };
    (0..count).map(split).collect()
}

/// A map task of one record; reduce tasks have them all in partition 0.
pub fn one_record(_: WorkerId, attempt: AttemptId) -> Result<Summary, Failure> {
    let records = u64::from(attempt.task.kind == Kind::Map);
    Ok(Summary { read: 100, written: 100, records, ..Summary::default() })
}

impl Bench {
    /// A job over these splits on `nodes` nodes with `cores` worker cores each.
    pub fn new(job: Job, splits: Vec<Split>, nodes: u32, cores: u16) -> Bench {
        let now = Instant::from_nanos(1_000_000);
        let (record, settings) = (Record::new(job.clone(), splits.clone()), Settings::default());
        let mut keeper = Keeper::found(now, NodeId(1), record, settings).unwrap();
        assert_eq!(keeper.poll(), Some(keeper::Action::Appoint(Epoch::FIRST)));
        let master = Master::new(now, NodeId(1), Epoch::FIRST, job, splits, settings);
        let mut bench = Bench {
            now,
            keeper,
            master,
            workers: BTreeMap::new(),
            said: VecDeque::new(),
            running: VecDeque::new(),
            outcome: one_record,
            delivers: |_| true,
            started: Vec::new(),
            messages: 0,
            cuts: true,
            slices: 1,
            taken: BTreeMap::new(),
            pieces: Vec::new(),
            is_cut_late: false,
            ended: None,
        };
        for node in 1..=nodes {
            (0..cores).for_each(|core| bench.join(worker_id(node, core)));
        }
        bench
    }

    /// A worker joins.
    pub fn join(&mut self, id: WorkerId) {
        let worker = Worker::new(self.now, id, 1, self.keeper.record().job.id, Settings::default());
        self.workers.insert(id, worker);
        self.master.join(self.now, id);
    }

    /// What runs on a worker gives way to another job's.
    pub fn give_way(&mut self, id: WorkerId) {
        self.workers.get_mut(&id).unwrap().give_way(self.now);
        self.pump(id);
    }

    /// A worker's incarnation ends, and everybody knows.
    pub fn kill(&mut self, id: WorkerId) {
        self.workers.remove(&id);
        self.running.retain(|(worker, _)| *worker != id);
        self.master.leave(self.now, id);
    }

    /// The master is gone with its keeper, which comes back; another takes its place, and has all
    /// workers.
    pub fn replace_master(&mut self) -> Epoch {
        let (record, settings) = (self.keeper.record().clone(), Settings::default());
        let (job, splits) = (record.job.clone(), record.splits.clone());
        self.keeper = Keeper::restore(self.now, NodeId(1), record, settings).unwrap();
        self.keeper.act(self.now);
        let mut actions = core::iter::from_fn(|| self.keeper.poll());
        let epoch = actions.find_map(|action| match action {
            keeper::Action::Appoint(epoch) => Some(epoch),
            _ => None,
        });
        let epoch = epoch.unwrap();
        self.master = Master::new(self.now, NodeId(1), epoch, job, splits, settings);
        let workers: Vec<WorkerId> = self.workers.keys().copied().collect();
        workers.into_iter().for_each(|id| self.master.join(self.now, id));
        epoch
    }

    /// Lets everything be heard, but no attempt be done.
    pub fn settle(&mut self) {
        self.pump_master();
        while let Some(said) = self.said.pop_front() {
            match said {
                Said::ToWorker(id, message) => {
                    if let Some(worker) = self.workers.get_mut(&id) {
                        worker.receive(self.now, message);
                    }
                    self.pump(id);
                }
                Said::ToMaster(message) => self.master.receive(self.now, message),
                Said::Peer(id, message) => {
                    if let Some(worker) = self.workers.get_mut(&id) {
                        worker.receive_peer(self.now, message);
                    }
                    self.pump(id);
                }
                Said::Piece(_, piece, _) if !(self.delivers)(piece) => {}
                Said::Piece(id, piece, by) => {
                    self.pieces.push(piece);
                    if let Some(worker) = self.workers.get_mut(&id) {
                        worker.arrived(self.now, piece, by);
                    }
                    self.pump(id);
                }
            }
            self.pump_master();
        }
    }

    /// Has the oldest attempt end. Gives whether there was one that could.
    pub fn step(&mut self) -> bool {
        self.settle();
        let Some((id, attempt)) = self.running.pop_front() else { return false };
        self.now = self.now + Duration::from_micros(10);
        let outcome = (self.outcome)(id, attempt);
        if let Some(worker) = self.workers.get_mut(&id) {
            match outcome {
                Ok(summary) => worker.done(self.now, attempt, summary),
                Err(failure) => worker.failed(self.now, attempt, failure),
            }
        }
        self.pump(id);
        self.settle();
        true
    }

    /// Lets some time pass, and whatever is due in it happen.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            let dues = self.workers.values().filter_map(Worker::next_due);
            let Some(due) = dues.chain(self.master.next_due()).min().filter(|due| *due <= end)
            else {
                break;
            };
            self.now = self.now.max(due);
            self.master.act(self.now);
            self.workers.values_mut().for_each(|worker| worker.act(self.now));
            self.pump_all();
        }
        self.now = end;
    }

    /// Runs the job to its end.
    pub fn run(&mut self) -> End {
        for _ in 0..1_000_000 {
            if self.ended.is_some() {
                break;
            }
            if !self.step() {
                self.wait(Duration::from_millis(50));
            }
        }
        self.ended.clone().expect("the job does not end")
    }

    fn pump_all(&mut self) {
        let workers: Vec<WorkerId> = self.workers.keys().copied().collect();
        workers.into_iter().for_each(|id| self.pump(id));
        self.pump_master();
    }

    fn pump_master(&mut self) {
        while let Some(action) = self.master.poll() {
            match action {
                master::Action::Send(id, message) => {
                    self.messages += 1;
                    self.said.push_back(Said::ToWorker(id, message));
                }
                master::Action::Cut(_) if self.is_cut_late => {}
                master::Action::Cut(samples) if self.cuts => {
                    let bounds = Bounds { bytes: Blob(samples.concat()), slices: self.slices };
                    self.master.cut(self.now, bounds);
                }
                master::Action::Cut(_) => {
                    let (fault, text) = (Fault::Code, String::from("not cut"));
                    self.master.cut_failed(self.now, Failure { fault, text });
                }
                master::Action::Decide(end) => {
                    self.keeper.decide(self.now, self.master.epoch(), end);
                    while let Some(action) = self.keeper.poll() {
                        if let keeper::Action::Verdict(_, verdict) = action {
                            self.master.decided(self.now, verdict);
                        }
                    }
                }
                master::Action::Over(end) => self.ended = Some(end),
                master::Action::Superseded(epoch) => panic!("superseded by {epoch}"),
            }
        }
    }

    fn pump(&mut self, id: WorkerId) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        loop {
            if worker.wants() {
                worker.go(self.now);
            }
            let Some(action) = worker.poll() else { break };
            match action {
                worker::Action::Send(_, message) => {
                    self.messages += 1;
                    self.said.push_back(Said::ToMaster(message));
                }
                worker::Action::Peer(to, message) => self.said.push_back(Said::Peer(to, message)),
                worker::Action::Start(attempt, _) => {
                    self.started.push((id, attempt));
                    if attempt.task.kind != Kind::Reduce {
                        self.running.push_back((id, attempt));
                    }
                }
                worker::Action::Gathered(attempt) => {
                    let taken = self.taken.entry(attempt).or_default();
                    *taken += 1;
                    if *taken == worker.slices() {
                        self.running.push_back((id, attempt));
                    } else {
                        worker.takes(self.now, attempt, *taken);
                    }
                }
                worker::Action::Stop(attempt) => {
                    self.running.retain(|(_, running)| *running != attempt);
                    worker.stopped(self.now, attempt);
                }
                worker::Action::Deliver { piece, to, by } => {
                    self.said.push_back(Said::Piece(to, piece, by));
                }
                worker::Action::Ask => worker.resolve(self.now, self.keeper.record().standing()),
                worker::Action::Expect(attempt, _) => assert!(worker.expects(attempt)),
                worker::Action::Drop(_) | worker::Action::Commit(_) | worker::Action::Over => {}
            }
        }
    }
}
