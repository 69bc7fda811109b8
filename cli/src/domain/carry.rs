//! Carries out what the supervisor decides, on Linux: domains are processes of their own, which
//! outlive the command. Each command is a supervisor that begins on the ledger and ends with its
//! command, which no domain notices; one command at a time has the cluster's claim.

use std::fs;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nile_abi::{Instant as Moment, NodeId};
use nile_domain::{
    Action, Command, DOMAINS, Deadlines, DomainId, Extent, Happened, Holding, Ledger, Lifecycle,
    Limits, Message, Name, Outcome, Party, Plan, Refused, Share, Supervisor, Thing, UNIT,
};

use super::ledger::{self, FileWords};
use super::{cores, disks, memory};
use crate::advice;
use crate::cluster::args::Kind;
use crate::cluster::folder::{self, Claim, Disk, Folder, Node, Record};
use crate::cluster::node::{self, Prepared};
use crate::cluster::process;
use crate::cluster::ready::Waiting;
use crate::failure::Failure;
use crate::peer::Peer;

/// How long a domain may take until it runs, and to end by itself.
pub const START: Duration = Duration::from_secs(30);
pub const STOP: Duration = Duration::from_secs(5);

/// How long the news of a domain's end may take to be told.
const TELL: Duration = Duration::from_secs(1);

/// Nothing here waits for a deadline of the supervisor's: each action is done when it returns.
const DEADLINES: Deadlines =
    Deadlines { ask: STOP, force: STOP, build: START, start: START, stop: STOP };

/// The supervisor of a hosted machine, while a command has its claim.
pub struct Carrier {
    folder: Folder,
    record: Record,
    supervisor: Supervisor<FileWords>,
    _claim: Claim,
    /// Its place in the cluster, once there is something to say to nodes.
    peer: Option<Peer>,
    /// The domain that can be started.
    prepared: Option<Prepared>,
    /// What a domain can have, and its disks, if one is made.
    limits: Limits,
    disk: Option<Disk>,
    /// Why something was not done, more closely than the supervisor knows.
    failure: Option<Failure>,
    outcome: Option<Outcome>,
}

/// The node that a domain is: the supervisor's is n1, and places are counted from 1.
pub fn node_of(id: DomainId) -> u32 {
    node_of_place(id.slot)
}

/// The same by its place.
pub fn node_of_place(place: u8) -> u32 {
    1 + u32::from(place)
}

/// Whether a node of a machine with a supervisor has the number of a domain.
pub fn is_place(node: NodeId) -> bool {
    (2..=1 + DOMAINS as u32).contains(&node.0)
}

impl Carrier {
    /// Takes the cluster's claim, and undoes what an earlier command left half done.
    pub fn begin(folder: Folder) -> Result<Carrier, Failure> {
        let gone = || Failure::request("the cluster has just gone");
        let claim = folder.claim()?.ok_or_else(gone)?;
        let record = folder.record()?;
        let ledger = ledger::open(&folder)?;
        let half_done: Vec<DomainId> =
            ledger.domains().filter(|it| it.state == Lifecycle::Starting).map(|it| it.id).collect();
        let supervisor = Supervisor::recover(ledger, DEADLINES, 0, now());
        let mut carrier = Carrier {
            folder,
            record,
            supervisor,
            _claim: claim,
            peer: None,
            prepared: None,
            limits: Limits { cores: (1, 1), units: (1, 1), priority: 0 },
            disk: None,
            failure: None,
            outcome: None,
        };
        for id in half_done {
            carrier.supervisor.happened(now(), Happened::Ended(id));
        }
        // What was lent comes back that is due.
        carrier.supervisor.tick(now());
        carrier.act()?;
        carrier.mend_memory();
        (carrier.failure, carrier.outcome) = (None, None);
        Ok(carrier)
    }

    /// Who has what.
    pub fn ledger(&self) -> &Ledger<FileWords> {
        self.supervisor.ledger()
    }

    /// The cluster's folder.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// What the cluster consists of.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// What a command would do.
    pub fn plan(&self, command: &Command) -> Result<Plan, Failure> {
        self.supervisor.plan(command).map_err(|why| refused(&why))
    }

    /// The domain that is made next gets these disks.
    pub fn give_disk(&mut self, disk: Option<Disk>) {
        self.disk = disk;
    }

    /// Carries a command out. Blocks until it has ended: done, or undone.
    pub fn carry_out(&mut self, command: &Command) -> Result<(), Failure> {
        if let Command::Create(create) = command {
            self.limits = create.limits;
        }
        self.supervisor.command(now(), command).map_err(|why| refused(&why))?;
        self.act()?;
        match (self.failure.take(), self.outcome.take()) {
            (Some(failure), _) => Err(failure),
            (None, Some(Err(why))) => Err(Failure::failed(why.to_string())),
            (None, Some(Ok(()))) => Ok(()),
            (None, None) => Err(Failure::failed("the supervisor waits for nobody")),
        }
    }

    /// Has domains share memory.
    pub fn share(&mut self, name: Name, units: u32, with: &[Name]) -> Result<Share, Failure> {
        let share = self.supervisor.share(name, units, with).map_err(|why| refused(&why))?;
        ledger::check(&self.folder, self.supervisor.ledger())?;
        Ok(share)
    }

    /// These domains, or all, share it no more.
    pub fn unshare(&mut self, name: Name, from: &[Name]) -> Result<(), Failure> {
        self.supervisor.unshare(name, from).map_err(|why| refused(&why))?;
        self.act()
    }

    /// Whether the processes of a domain are there.
    pub fn runs(&self, node: &Node) -> bool {
        !process::of(self.folder.path(), &node.name()).is_empty()
    }

    /// Does all that the supervisor says.
    fn act(&mut self) -> Result<(), Failure> {
        while let Some(action) = self.supervisor.take_action() {
            let happened = match action {
                Action::Build(id) => Some(match self.build(id) {
                    Ok(()) => Happened::Built(id),
                    Err(failure) => {
                        self.failure = Some(failure);
                        Happened::NotBuilt(id)
                    }
                }),
                Action::Start(id) => match self.start(id) {
                    Ok(()) => {
                        self.supervisor.heard(now(), id, Message::Hello);
                        None
                    }
                    Err(failure) => {
                        self.failure = Some(failure);
                        Some(Happened::Ended(id))
                    }
                },
                Action::Send(id, Message::Stop) => {
                    self.stop(id);
                    Some(Happened::Ended(id))
                }
                Action::Send(id, Message::OfferCore(core)) => {
                    let told = match self.settle(id) {
                        true => Message::CoreTaken(core),
                        false => Message::CoreRefused(core),
                    };
                    self.supervisor.heard(now(), id, told);
                    None
                }
                Action::Send(id, Message::TakeCore(core)) => match self.settle(id) {
                    true => Some(Happened::Parked(core)),
                    false => {
                        self.supervisor.heard(now(), id, Message::CoreRefused(core));
                        None
                    }
                },
                Action::Send(id, Message::OfferMemory(extent)) => {
                    // What it could not be told, the next command offers it again.
                    if self.settle_memory(id, 0) {
                        self.supervisor.heard(now(), id, Message::MemoryTaken(extent));
                    }
                    None
                }
                Action::Send(id, Message::WantMemory(units)) => {
                    match self.settle_memory(id, units) {
                        true => self.give(id, units),
                        false => self.supervisor.heard(now(), id, Message::MemoryRefused(units)),
                    }
                    None
                }
                Action::Send(..) => None,
                Action::Force(core) => {
                    if let Some(id) = self.force(core) {
                        self.supervisor.happened(now(), Happened::Ended(id));
                    }
                    Some(Happened::Parked(core))
                }
                // Linux gives no process what another had, but for what they shared.
                Action::Scrub(extent) => {
                    let ledger = self.supervisor.ledger();
                    let owner = |unit| ledger.holding(Thing::Unit(unit)).owner;
                    if extent.units().any(|unit| owner(unit) == Party::Supervisor) {
                        ledger::zero_shared(&self.folder, extent)?;
                    }
                    Some(Happened::Scrubbed(extent))
                }
                Action::Reset(device) => Some(Happened::Reset(device)),
                Action::Forget(id) => {
                    self.tell_end(id);
                    self.record.nodes.retain(|node| node.id != node_of(id));
                    self.folder.set_record(&self.record)?;
                    disks::remove(&self.folder, &part(id));
                    None
                }
                Action::Tell(_, outcome) => {
                    self.outcome = Some(outcome);
                    None
                }
            };
            if let Some(happened) = happened {
                self.supervisor.happened(now(), happened);
            }
        }
        ledger::check(&self.folder, self.supervisor.ledger())
    }

    /// The domain is a node of the cluster, with its configuration.
    fn build(&mut self, id: DomainId) -> Result<(), Failure> {
        let ledger = self.supervisor.ledger();
        let gone = || Failure::failed("the domain has just gone");
        let domain = ledger.domain(id).ok_or_else(gone)?;
        let own = folder::Domain {
            name: domain.name.to_string(),
            cores: ledger.cores_with(|it| it.is_own(id.slot)),
            bounds: self.limits.cores,
            memory: u64::from(ledger.units_with(|it| it.is_own(id.slot))) * UNIT,
            most_memory: u64::from(self.limits.units.1) * UNIT,
            is_guarded: false,
            disk: self.disk.clone(),
        };
        let node = Node {
            id: node_of(id),
            machine: Kind::Hosted,
            generation: node::next_generation(0),
            domain: Some(own),
        };
        // An earlier domain of this place has nothing to do with it.
        let _ = fs::remove_file(self.folder.log_path(&part(id)));
        disks::remove(&self.folder, &part(id));
        self.record.nodes.retain(|it| it.id != node.id);
        self.record.nodes.push(node.clone());
        self.record.nodes.sort_by_key(|it| it.id);
        self.prepared = Some(node::prepare(&self.folder, &self.record, &node, None)?);
        self.folder.set_record(&self.record)
    }

    /// Starts the domain's process and waits until it is up.
    fn start(&mut self, id: DomainId) -> Result<(), Failure> {
        let gone = || Failure::failed("the domain has just gone");
        let prepared = self.prepared.take().ok_or_else(gone)?;
        let mut child = prepared.start(&self.folder)?;
        // The others are as they are; only of this one must all be known.
        let mut alone = self.record.clone();
        alone.nodes.retain(|it| it.id == node_of(id));
        let logs = || self.folder.log_path(&part(id)).display().to_string();
        let mut waiting = Waiting::new(&self.folder, &alone)?;
        let deadline = Instant::now() + START;
        while !waiting.look()? {
            if let Ok(Some(status)) = child.try_wait() {
                let last = last_line(&self.folder, id);
                let why = format!("the domain ended ({status}): {last}; see {}", logs());
                return Err(Failure::failed(why));
            }
            if Instant::now() >= deadline {
                let reason = waiting.reason();
                let why = format!("the domain is not up ({reason}); see {}", logs());
                return Err(Failure::failed(why));
            }
        }
        match &alone.nodes[..] {
            [node] if node.has_cores_away() => self.settle_cores(node),
            _ => Ok(()),
        }
    }

    /// The command's place in the cluster, which it takes once.
    fn peer(&mut self) -> Result<&mut Peer, Failure> {
        let peer = match self.peer.take() {
            Some(peer) => peer,
            None => Peer::join(&self.folder, &self.record)?,
        };
        Ok(self.peer.insert(peer))
    }

    fn settle_cores(&mut self, node: &Node) -> Result<(), Failure> {
        self.peer()?;
        let Carrier { folder, record, peer: Some(peer), .. } = self else { return Ok(()) };
        cores::settle(peer, folder, record, node)
    }

    /// Has a domain use the cores that it has now; whether it does. Why it does not is told in the
    /// end.
    fn settle(&mut self, id: DomainId) -> bool {
        let settled = self.node_with_cores(id).and_then(|node| {
            self.settle_cores(&node)?;
            self.folder.set_record(&self.record)
        });
        settled.map_err(|failure| self.failure = Some(failure)).is_ok()
    }

    /// Has a domain use the memory that it has now, but for so many units; whether it does. The
    /// record says so before, so that the next command finds what one that was killed has left.
    fn settle_memory(&mut self, id: DomainId, less: u32) -> bool {
        let has = |it: &Holding| it.is_of(id.slot) && it.is_had();
        let units = self.supervisor.ledger().units_with(has);
        let mut settle = |units: u32| {
            let gone = || Failure::failed("the domain has just gone");
            let mut nodes = self.record.nodes.iter_mut();
            let node = nodes.find(|node| node.id == node_of(id)).ok_or_else(gone)?;
            node.domain.as_mut().ok_or_else(gone)?.memory = u64::from(units) * UNIT;
            let node = node.clone();
            self.folder.set_record(&self.record)?;
            memory::settle(self.peer()?, &node)
        };
        let settled = settle(units.saturating_sub(less));
        if settled.is_err() && less > 0 {
            // It gives all that is asked for or nothing, and this is what it has.
            let _ = settle(units);
        }
        settled.map_err(|failure| self.failure = Some(failure)).is_ok()
    }

    /// A domain has given so many units: which of its own, nobody knows but the ledger.
    fn give(&mut self, id: DomainId, units: u32) {
        let own = self.supervisor.ledger().extents_with(|it| it.is_own(id.slot));
        let given: Vec<u32> =
            own.iter().rev().flat_map(|it| it.units().rev()).take(units as usize).collect();
        for start in given {
            let given = Message::MemoryGiven(Extent { start, count: 1 });
            self.supervisor.heard(now(), id, given);
        }
    }

    /// Has domains use what the ledger says that they have, if a command that was killed has told
    /// them otherwise.
    fn mend_memory(&mut self) {
        let running = self.supervisor.ledger().domains().filter(|it| it.state.is_running());
        for id in running.map(|it| it.id).collect::<Vec<_>>() {
            let units = self.supervisor.ledger().units_with(|it| it.is_own(id.slot));
            let node = self.record.nodes.iter().find(|node| node.id == node_of(id));
            let told = node.and_then(|node| node.domain.as_ref()).map(|it| it.memory);
            if told.is_some_and(|told| told != u64::from(units) * UNIT) {
                self.settle_memory(id, 0);
            }
        }
    }

    /// A domain's node, which is to use the cores that the ledger gives it now.
    fn node_with_cores(&mut self, id: DomainId) -> Result<Node, Failure> {
        let gone = || Failure::failed("the domain has just gone");
        let has = |it: &Holding| it.is_of(id.slot) && it.is_had();
        let cores = self.supervisor.ledger().cores_with(has);
        let mut nodes = self.record.nodes.iter_mut();
        let node = nodes.find(|node| node.id == node_of(id)).ok_or_else(gone)?;
        node.domain.as_mut().ok_or_else(gone)?.cores = cores;
        Ok(node.clone())
    }

    /// Parks a core, whatever it does: a dead domain's processes are killed, and of one that runs
    /// those of the cores that it is not to use. Gives a domain that could only be killed whole.
    fn force(&mut self, core: u16) -> Option<DomainId> {
        let holding = self.supervisor.ledger().holding(Thing::Core(core));
        let Party::Domain(slot) = holding.owner else { return None };
        let id = DomainId { slot, generation: holding.generation };
        let domain = self.supervisor.ledger().domain(id);
        if domain.is_some_and(|it| it.state.is_running())
            && let Ok(node) = self.node_with_cores(id)
        {
            cores::break_off(&self.folder, &node);
            if self.settle(id) {
                self.failure = None;
                return None;
            }
        }
        process::kill(|| process::of(self.folder.path(), &part(id)));
        domain.filter(|it| it.state.is_running()).map(|it| it.id)
    }

    /// Ends a domain's processes. What there is to be told of its end it says best itself, before.
    fn stop(&mut self, id: DomainId) {
        let node = NodeId(node_of(id));
        if node::listens(&self.folder, node) {
            // If nobody can be told of it, they miss the domain after a while.
            drop(self.peer().and_then(|peer| peer.hears_of(node, TELL)));
        }
        process::end(self.folder.path(), |it| it == part(id), STOP);
    }

    /// Tells the other nodes that a domain has ended: they would miss it after a while. If they
    /// cannot be told, they do.
    fn tell_end(&mut self, id: DomainId) {
        drop(self.peer().and_then(|peer| peer.tell_end(NodeId(node_of(id)), TELL)));
    }
}

/// The same by a place in the cluster that is taken for it.
pub fn tell_end(folder: &Folder, record: &Record, node: u32) {
    let told = Peer::join(folder, record).and_then(|mut peer| peer.tell_end(NodeId(node), TELL));
    drop(told);
}

/// The moment, the same for all commands: when what is lent is due stands in the ledger.
pub fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_nanos(since.as_nanos() as u64)
}

/// What the processes of a domain are called among those of the cluster.
pub fn part(id: DomainId) -> String {
    format!("n{}", node_of(id))
}

/// The last line of a domain's log.
pub fn last_line(folder: &Folder, id: DomainId) -> String {
    let lines = crate::cluster::logs::of_file(&folder.log_path(&part(id))).unwrap_or_default();
    lines.into_iter().rfind(|line| !line.is_empty()).unwrap_or_default()
}

fn refused(why: &Refused) -> Failure {
    Failure::request(why.to_string())
}

/// The folder of the cluster that is meant, which must have a supervisor.
pub fn folder_with_supervisor(
    which: &crate::cluster::args::Which,
) -> Result<(Folder, Record), Failure> {
    let (folder, record) = Folder::open(which)?;
    if record.shared.is_none() {
        return Err(Failure::request(format!(
            "this cluster has no supervisor; end it with `{}`, and start one with \
             `{} --supervisor`",
            advice::on(&folder, "down", &[]),
            advice::on(&folder, "up", &[])
        )));
    }
    Ok((folder, record))
}
