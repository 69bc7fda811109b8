//! What the machines of a node want done, and attempts that run.

use std::time::Duration;

use nile_abi::NodeId;
use nile_bosml::Blob;
use nile_job::{
    AttemptId, End, Failure, Fault, Kind, PieceId, Standing, Summary, Work, WorkerId, keeper,
    master, worker,
};

use super::cluster::{Cluster, Event};
use super::letters::Letter;
use super::node::{Exec, Part};
use super::work::{self, Record};
use crate::draw::{below, span};

/// How long a task may do nothing: longer than a worker may be silent.
const TIMEOUT: Duration = Duration::from_secs(3);

/// How long it takes to stop one that does not listen.
const FORCE: Duration = Duration::from_secs(1);

impl Cluster {
    /// Does what a node's machines want, and sets its timer.
    pub fn pump(&mut self, id: NodeId) -> Result<(), String> {
        if !self.node(id).lives {
            return Ok(());
        }
        for core in 0..self.node(id).cores.len() {
            loop {
                let worker = self.node(id).cores[core].worker.as_mut();
                match worker.and_then(|it| it.poll()) {
                    Some(action) => self.do_for_worker(id, core, action)?,
                    None if self.has_its_turn(id, core) => {}
                    None => break,
                }
            }
        }
        if let Some(master) = &self.node(id).master {
            let phase = master.progress().phase;
            self.note_phase(phase);
        }
        loop {
            let node = self.node(id);
            if let Some(action) = node.master.as_mut().and_then(|it| it.poll()) {
                self.do_for_master(id, action);
            } else if let Some(action) = node.keeper.as_mut().and_then(|it| it.poll()) {
                self.do_for_keeper(id, action)?;
            } else {
                break;
            }
        }
        self.set_wake(id);
        Ok(())
    }

    fn do_for_master(&mut self, id: NodeId, action: master::Action) {
        let Some(master) = &self.node(id).master else { return };
        let epoch = master.epoch();
        match action {
            master::Action::Send(to, message) => {
                self.post(id, to.node, Letter::ToWorker(to, message));
            }
            master::Action::Cut(samples) => {
                let bounds = work::cut(&samples, self.work.job.reducers);
                let delay = span(&mut self.random, Duration::from_millis(5));
                self.plan(self.now + delay, Event::Cut(id, epoch, bounds));
            }
            master::Action::Decide(end) => {
                let now = self.now;
                self.node(id).keeper.iter_mut().for_each(|it| it.decide(now, epoch, end.clone()));
            }
            master::Action::Over(_) | master::Action::Superseded(_) => {
                let counters = master.progress().counters;
                self.ledger.master_ends(counters);
                self.node(id).master = None;
            }
        }
    }

    fn do_for_keeper(&mut self, id: NodeId, action: keeper::Action) -> Result<(), String> {
        let (now, forgets) = (self.now, self.conduct.forgets_promises);
        match action {
            keeper::Action::Store => {
                let node = self.node(id);
                let record = node.keeper.as_ref().map(|it| it.record().clone());
                let end = record.as_ref().and_then(|it| it.end().cloned());
                if !forgets {
                    node.disk.record = record;
                }
                return end.map_or(Ok(()), |end| self.learn(id, end));
            }
            keeper::Action::Send(to, message) => self.post(id, to, Letter::Keep(message)),
            keeper::Action::Appoint(epoch) => self.appoint(id, epoch)?,
            keeper::Action::Verdict(epoch, verdict) => {
                let master = self.node(id).master.as_mut().filter(|it| it.epoch() == epoch);
                master.into_iter().for_each(|it| it.decided(now, verdict.clone()));
            }
            keeper::Action::Forget => return Err(format!("{id} is to forget the job")),
        }
        Ok(())
    }

    /// Somebody wants to know how the job stands.
    pub fn ask_keepers(&mut self, who: WorkerId) {
        for keeper in self.work.job.keepers.clone() {
            self.post(who.node, keeper, Letter::Ask(who));
        }
    }

    fn do_for_worker(
        &mut self,
        id: NodeId,
        core: usize,
        action: worker::Action,
    ) -> Result<(), String> {
        let me = self.node(id).worker_id(core);
        match action {
            worker::Action::Send(to, message) => self.post(id, to, Letter::ToMaster(message)),
            worker::Action::Peer(to, message) => self.post(id, to.node, Letter::Peer(to, message)),
            worker::Action::Start(attempt, work) => return self.begin(me, core, attempt, work),
            worker::Action::Stop(attempt) => {
                if self.conduct.is_hasty {
                    let now = self.now;
                    self.worker(&me).into_iter().for_each(|it| it.stopped(now, attempt));
                }
                let most = if self.loops(attempt) { FORCE } else { Duration::from_millis(5) };
                let delay = span(&mut self.random, most);
                self.plan(self.now + delay, Event::Step(me, attempt, true));
            }
            worker::Action::Deliver { piece, to, by } => {
                let outputs = &self.node(id).cores[core].outputs;
                let pieces = outputs.get(&piece.output);
                let records = pieces.and_then(|pieces| pieces.get(piece.partition as usize));
                let Some(records) = records.cloned() else {
                    return Err(format!("{me} is to deliver {piece}, which it does not have"));
                };
                self.post(id, to.node, Letter::Piece { to, piece, by, records });
            }
            worker::Action::Gathered(attempt) => {
                let delay = self.effort(id, core);
                let slices = self.worker(&me).map_or(1, |it| it.slices());
                let exec = self.node(id).cores[core].exec.as_mut();
                let Some(exec) = exec.filter(|exec| exec.attempt == attempt) else { return Ok(()) };
                exec.slices += 1;
                let event = match exec.slices {
                    slice if slice < slices => Event::Takes(me, attempt, slice),
                    _ => Event::Step(me, attempt, false),
                };
                self.plan(self.now + delay, event);
            }
            worker::Action::Drop(attempt) => {
                if !self.conduct.hoards {
                    let node = self.node(id);
                    node.cores[core].outputs.remove(&attempt);
                    node.disk.parts.remove(&attempt);
                }
            }
            worker::Action::Commit(attempt) => match self.node(id).disk.parts.get_mut(&attempt) {
                Some(part) => part.is_committed = true,
                None => return Err(format!("{me} is to commit {attempt}, which it does not have")),
            },
            // Here input is read in no time.
            worker::Action::Expect(..) => {}
            worker::Action::Ask => self.ask_keepers(me),
            worker::Action::Over => self.node(id).cores[core].worker = None,
        }
        Ok(())
    }

    /// Lets the attempt that waits for a core begin, if no other job has the core: if one has, it
    /// begins when that is done. Whether it did.
    fn has_its_turn(&mut self, id: NodeId, core: usize) -> bool {
        let (now, me) = (self.now, self.node(id).worker_id(core));
        let shares = self.shares;
        let Some(worker) = self.worker(&me).filter(|it| it.wants()) else { return false };
        if !shares {
            worker.go(now);
            return true;
        }
        if !std::mem::replace(&mut self.node(id).cores[core].is_waiting, true) {
            let most = [0, 0, 20, 200, 1500][below(&mut self.random, 5) as usize];
            let delay = span(&mut self.random, Duration::from_millis(most));
            self.plan(now + delay, Event::Turn(me));
        }
        false
    }

    /// How long something takes on a core.
    fn effort(&mut self, id: NodeId, core: usize) -> Duration {
        let slowness = self.node(id).cores[core].slowness;
        let effort = Duration::from_millis(2) + span(&mut self.random, Duration::from_millis(30));
        effort * slowness
    }

    fn begin(
        &mut self,
        me: WorkerId,
        core: usize,
        attempt: AttemptId,
        work: Work,
    ) -> Result<(), String> {
        let id = me.node;
        self.ledger.starts(me, attempt)?;
        let delay = if self.loops(attempt) { TIMEOUT } else { self.effort(id, core) };
        let waits = matches!(work, Work::Pieces(_));
        let exec = &mut self.node(id).cores[core].exec;
        if let Some(other) = exec {
            let other = other.attempt;
            return Err(format!("{me} starts {attempt} while {other} runs there"));
        }
        *exec = Some(Exec { attempt, work, slices: 0, taken: Vec::new() });
        if self.shares && below(&mut self.random, 16) == 0 {
            let at = self.now + span(&mut self.random, Duration::from_millis(40));
            self.plan(at, Event::GiveWay(me, attempt));
        }
        if !waits {
            self.plan(self.now + delay, Event::Step(me, attempt, false));
        }
        Ok(())
    }

    pub fn piece_arrives(
        &mut self,
        id: WorkerId,
        piece: PieceId,
        by: AttemptId,
        records: Vec<Record>,
    ) {
        let (now, greedy) = (self.now, self.conduct.takes_twice);
        let Some(worker) = self.worker(&id) else { return };
        let is_taken = worker.arrived(now, piece, by) || greedy;
        let node = self.node(id.node);
        let Some(core) = node.core_of(&id) else { return };
        let exec = node.cores[core].exec.as_mut();
        if let Some(exec) = exec.filter(|exec| is_taken && exec.attempt == by) {
            exec.taken.extend(records);
        }
    }

    /// An attempt ends, or stops.
    pub fn step(&mut self, me: WorkerId, attempt: AttemptId, stops: bool) -> Result<(), String> {
        let now = self.now;
        let Some(core) = self.node(me.node).core_of(&me) else { return Ok(()) };
        let exec = &mut self.node(me.node).cores[core].exec;
        let Some(exec) = exec.take_if(|exec| exec.attempt == attempt) else { return Ok(()) };
        if stops {
            self.worker(&me).into_iter().for_each(|it| it.stopped(now, attempt));
            return self.pump(me.node);
        }
        let came_of_it = match exec.work {
            Work::Split(split) => self.map(me, core, attempt, &split.nodes),
            Work::Pieces(_) => self.reduce(me, attempt, exec.taken),
        };
        if let Some(worker) = self.worker(&me) {
            match came_of_it {
                Ok(summary) => worker.done(now, attempt, summary),
                Err(failure) => worker.failed(now, attempt, failure),
            }
        }
        self.pump(me.node)
    }

    fn map(
        &mut self,
        me: WorkerId,
        core: usize,
        attempt: AttemptId,
        holders: &[NodeId],
    ) -> Result<Summary, Failure> {
        let index = attempt.task.index;
        let can_read = |cluster: &Cluster, id: NodeId| {
            let node = &cluster.nodes[id.0 as usize - 1];
            node.lives && cluster.reaches(me.node, id) && node.disk.blocks.contains(&index)
        };
        if !holders.iter().any(|holder| can_read(self, *holder)) {
            let text = format!("no copy of block {index} can be read");
            return Err(Failure { fault: Fault::Input, text });
        }
        self.may_fail(attempt)?;
        let records = self.work.records[index as usize].clone();
        if attempt.task.kind == Kind::Sample {
            return Ok(Summary {
                sample: Blob(work::sample(&records, attempt.epoch)),
                ..Summary::default()
            });
        }
        let plan = self.worker(&me).and_then(|it| it.plan().cloned());
        let bounds = plan.map(|plan| plan.bounds);
        let pieces = work::divide(&records, bounds.as_ref(), self.work.job.reducers);
        self.node(me.node).cores[core].outputs.insert(attempt, pieces);
        Ok(summary(&records))
    }

    fn reduce(
        &mut self,
        me: WorkerId,
        attempt: AttemptId,
        mut records: Vec<Record>,
    ) -> Result<Summary, Failure> {
        self.may_fail(attempt)?;
        let under = self.worker(&me).map(|it| it.epoch()).unwrap_or_default();
        let disk = &mut self.node(me.node).disk;
        if disk.is_full {
            let text = format!("the disk of {} is full", me.node);
            return Err(Failure { fault: Fault::Space, text });
        }
        records.sort_unstable();
        let summary = summary(&records);
        disk.parts.insert(attempt, Part { owner: me, under, records, is_committed: false });
        Ok(summary)
    }

    /// Whether this is the task that always comes to nothing.
    fn is_bad(&self, attempt: AttemptId) -> bool {
        attempt.task.kind == Kind::Map && self.code.bad_task == Some(attempt.task.index)
    }

    /// Whether it does so because it loops.
    fn loops(&self, attempt: AttemptId) -> bool {
        self.code.loops && self.is_bad(attempt)
    }

    /// The job's code, which may be bad.
    fn may_fail(&mut self, attempt: AttemptId) -> Result<(), Failure> {
        let is_bad = self.is_bad(attempt);
        if is_bad || below(&mut self.random, 1000) < self.code.flaky {
            return Err(Failure { fault: Fault::Code, text: "the code panicked".into() });
        }
        Ok(())
    }

    /// What the record says of parts whose worker is no more.
    pub fn settle_parts(&mut self, id: NodeId, owner: WorkerId, standing: Standing) {
        let hoards = self.conduct.hoards;
        let node = self.node(id);
        // It may have begun again, and takes care of them itself.
        if !node.orphans().contains(&owner) {
            return;
        }
        let listed = |attempt: &AttemptId| match &standing {
            Standing::Ended(End::Published(parts)) => {
                parts.iter().any(|part| part.attempt == *attempt && part.at == owner)
            }
            _ => false,
        };
        if matches!(standing, Standing::Open(_)) {
            return;
        }
        for (attempt, part) in &mut node.disk.parts {
            part.is_committed |= part.owner == owner && listed(attempt);
        }
        node.disk.parts.retain(|_, part| part.owner != owner || part.is_committed || hoards);
    }
}

fn summary(records: &[Record]) -> Summary {
    let bytes = 8 * records.len() as u64;
    Summary {
        read: bytes,
        written: bytes,
        records: records.len() as u64,
        checksum: work::checksum(records),
        spilled: 0,
        sample: Blob::default(),
    }
}
