//! One node: worker cores with their memory, a disk, and the machines of the job service.

use std::collections::{BTreeMap, BTreeSet};

use nile_abi::{CoreId, Generation, Instant, NodeId};
use nile_job::{AttemptId, Epoch, Keeper, Master, Work, Worker, WorkerId};

use super::work::Record;

/// A node.
pub struct Node {
    pub id: NodeId,
    pub life: Generation,
    pub lives: bool,
    pub cores: Vec<Core>,
    pub disk: Disk,
    pub keeper: Option<Keeper>,
    pub master: Option<Master>,
    /// When its machines want to be called.
    pub wake: Option<Instant>,
    /// When it asks about parts that nobody on it knows about.
    pub doubts: Instant,
    /// When it was last not there, or not reachable by all.
    pub away: Option<Instant>,
}

/// A worker core.
pub struct Core {
    pub generation: Generation,
    pub worker: Option<Worker>,
    /// How many machines this incarnation had.
    pub machines: u32,
    pub exec: Option<Exec>,
    /// Whether its turn is planned, while other jobs share the cores.
    pub is_waiting: bool,
    /// Pieces of map attempts, one for each partition: they go with the core.
    pub outputs: BTreeMap<AttemptId, Vec<Vec<Record>>>,
    /// How many times slower than others it is.
    pub slowness: u32,
}

/// The attempt that a core runs.
pub struct Exec {
    pub attempt: AttemptId,
    pub work: Work,
    /// What a reduce attempt has taken, and how many slices it has all pieces of.
    pub taken: Vec<Record>,
    pub slices: u32,
}

/// A disk: it outlives its node's incarnations.
#[derive(Default)]
pub struct Disk {
    pub blocks: BTreeSet<u32>,
    pub parts: BTreeMap<AttemptId, Part>,
    /// The job's record, on the disk of a keeper.
    pub record: Option<nile_job::Record>,
    pub is_full: bool,
}

/// A part that is durable.
pub struct Part {
    pub owner: WorkerId,
    /// The master that the worker obeyed when it was finished.
    pub under: Epoch,
    pub records: Vec<Record>,
    pub is_committed: bool,
}

impl Node {
    pub fn new(id: NodeId, cores: u32) -> Node {
        let core = |_| Core {
            generation: Generation::FIRST,
            worker: None,
            machines: 0,
            exec: None,
            is_waiting: false,
            outputs: BTreeMap::new(),
            slowness: 1,
        };
        Node {
            id,
            life: Generation::FIRST,
            lives: true,
            cores: (0..cores).map(core).collect(),
            disk: Disk::default(),
            keeper: None,
            master: None,
            wake: None,
            doubts: Instant::START,
            away: None,
        }
    }

    /// The worker of a core.
    pub fn worker_id(&self, core: usize) -> WorkerId {
        WorkerId {
            node: self.id,
            life: self.life,
            core: CoreId(core as u16),
            generation: self.cores[core].generation,
        }
    }

    /// The core of a worker, if this incarnation of it lives.
    pub fn core_of(&self, id: &WorkerId) -> Option<usize> {
        let core = id.core.index();
        let is_it = self.lives && core < self.cores.len() && self.worker_id(core) == *id;
        is_it.then_some(core)
    }

    /// A core's incarnation ends, and with it what is in its memory.
    pub fn restart_core(&mut self, core: usize) {
        let core = &mut self.cores[core];
        core.generation = core.generation.next();
        (core.worker, core.exec, core.machines) = (None, None, 0);
        core.is_waiting = false;
        core.outputs.clear();
    }

    /// The node's incarnation ends; its disk stays.
    pub fn die(&mut self) {
        self.lives = false;
        self.life = self.life.next();
        (self.keeper, self.master, self.wake) = (None, None, None);
        (0..self.cores.len()).for_each(|core| self.restart_core(core));
    }

    /// Parts that no machine on this node takes care of.
    pub fn orphans(&self) -> BTreeSet<WorkerId> {
        let parts = self.disk.parts.values().filter(|part| !part.is_committed);
        let owners = parts.map(|part| part.owner);
        owners.filter(|owner| !self.has_machine(owner)).collect()
    }

    fn has_machine(&self, id: &WorkerId) -> bool {
        self.core_of(id).is_some_and(|core| self.cores[core].worker.is_some())
    }

    /// When its machines want to be called next.
    pub fn next_due(&self) -> Option<Instant> {
        let workers = self.cores.iter().filter_map(|core| core.worker.as_ref()?.next_due());
        let master = self.master.as_ref().and_then(Master::next_due);
        let keeper = self.keeper.as_ref().and_then(Keeper::next_due);
        let doubts = (!self.orphans().is_empty()).then_some(self.doubts);
        workers.chain(master).chain(keeper).chain(doubts).min()
    }
}
