//! A job's master without a record, driven by the scenario: what it says goes to the workers, what
//! they say comes by a service of the name that masters have.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::{CoreId, Generation, NodeId, Status};
use nile_bosml::{Blob, Bytes};
use nile_interfaces::worker::WorkerClient;
use nile_job::master::Action;
use nile_job::{
    Bounds, End, Epoch, Job, JobId, Master, Phase, Progress, Settings, Split, Standing, ToMaster,
    ToWorker, Verdict, WorkerId,
};
use nile_stl::{At, CallError, CallResult, Place, Start, Stl, service};

/// How often it is looked what came, and how often whether workers are still who they were.
const LOOK: Duration = Duration::from_micros(200);
const CENSUS: Duration = Duration::from_millis(20);

/// How long a job may take.
const LIMIT: Duration = Duration::from_secs(40);

/// Where workers say what they have to say.
pub struct Notes {
    heard: RefCell<VecDeque<ToMaster>>,
    /// The jobs that are over.
    over: RefCell<Vec<u64>>,
}

/// The same, as the driver finds it.
pub struct NotesClient(job::JobClient);

/// The service of masters.
mod job {
    use super::*;

    /// What workers have said.
    pub struct Job(Notes);

    impl Start for Job {
        fn start(_: &Stl) -> Job {
            Job(Notes { heard: RefCell::default(), over: RefCell::default() })
        }
    }

    /// Masters of jobs.
    #[service(subsystem = "jobs", capability = "masters", layer = high, on = manager,
        keywords(job = 1))]
    impl Job {
        /// What a worker says.
        #[stl_k(allow(package, operator, peer))]
        fn notes(&self, message: Bytes<'_>) -> CallResult<()> {
            self.0.heard.borrow_mut().push_back(ToMaster::decode(&message.0)?);
            Ok(())
        }

        /// How the job stands.
        #[stl_k(reply = "standing", allow(package, operator, peer))]
        fn standing(&self, job: u64, _keepers: u32) -> CallResult<Blob> {
            let is_over = self.0.over.borrow().contains(&job);
            let standing = if is_over { Standing::Unknown } else { Standing::Open(Epoch::FIRST) };
            Ok(Blob(standing.encode()?))
        }

        /// A job is over.
        #[stl_k(allow(package, operator, peer))]
        fn close(&self, job: u64) {
            self.0.over.borrow_mut().push(job);
        }

        /// What was said to a job's master and not taken.
        #[stl_k(reply = "messages", allow(package, operator, peer))]
        fn take(&self, job: u64) -> CallResult<Vec<Blob>> {
            let mut heard = self.0.heard.borrow_mut();
            let place = heard.iter().position(|message| message.job.0 == job);
            let message = place.and_then(|place| heard.remove(place));
            Ok(message.map(|it| it.encode()).transpose()?.map(Blob).into_iter().collect())
        }
    }
}

impl NotesClient {
    /// Makes the service callable on this core.
    pub async fn publish(stl: &Stl) -> CallResult<NotesClient> {
        let missing = || CallError::new(Status::NotFound, "no kernel half");
        let make = job::REGISTRATION.kernel.ok_or_else(missing)?;
        loop {
            match stl.publish(&job::REGISTRATION, make).await {
                Ok(place) => return Ok(NotesClient(job::JobClient::at(stl, place))),
                // The registry is not there yet.
                Err(error) if error.status == Status::Dead => super::pause(stl).await,
                Err(error) => return Err(error),
            }
        }
    }
}

/// What became of a job.
pub struct Ended {
    /// Its end.
    pub end: End,
    /// What its master had counted.
    pub progress: Progress,
}

/// Runs a master.
pub struct Driver {
    stl: Stl,
    notes: NotesClient,
    workers: Vec<(NodeId, CoreId)>,
    /// The core of this node that is to end when some map task is done.
    kill: Option<(CoreId, u64)>,
    has_killed: Cell<bool>,
}

/// The workers that have joined and are not gone, and where each is: what is meant for one that has
/// gone must not get to its successor.
type Known = Rc<RefCell<Vec<(WorkerId, Place)>>>;

/// Bounds that a task of its own has cut.
type Cut = Rc<RefCell<Option<CallResult<Bounds>>>>;

impl Driver {
    /// A driver of these workers' cores; node zero is this one.
    pub fn new(
        stl: &Stl,
        notes: NotesClient,
        workers: Vec<(NodeId, CoreId)>,
        kill: Option<(CoreId, u64)>,
    ) -> Driver {
        Driver { stl: stl.clone(), notes, workers, kill, has_killed: Cell::new(false) }
    }

    /// Whether a core was ended.
    pub fn has_killed(&self) -> bool {
        self.has_killed.get()
    }

    /// Runs a job to its end; others may run at the same time.
    pub async fn run(&self, job: Job, splits: Vec<Split>, settings: Settings) -> CallResult<Ended> {
        self.run_until(job, splits, settings, async |_| Ok(false)).await
    }

    /// The same, but the job is cancelled when `is_enough`.
    pub async fn run_until(
        &self,
        job: Job,
        splits: Vec<Split>,
        settings: Settings,
        is_enough: impl AsyncFn(&Progress) -> CallResult<bool>,
    ) -> CallResult<Ended> {
        let host = self.stl.host();
        let node = self.stl.node()?.member().map_or(NodeId(1), |member| member.node);
        let (id, cut) = (job.id, Cut::default());
        let mut master = Master::new(host.now(), node, Epoch::FIRST, job, splits, settings);
        let (known, mut census) = (Known::default(), host.now());
        let limit = host.now() + LIMIT;
        let mut last = master.progress();
        loop {
            if census <= host.now() {
                self.count(&mut master, &known).await;
                census = host.now() + CENSUS;
            }
            for Blob(note) in self.notes.0.take(id.0).await? {
                master.receive(host.now(), ToMaster::decode(&note)?);
            }
            if let Some(cut) = cut.borrow_mut().take() {
                master.cut(host.now(), cut?);
            }
            if master.next_due().is_some_and(|due| due <= host.now()) {
                master.act(host.now());
            }
            while let Some(action) = master.poll() {
                match action {
                    Action::Send(to, message) => self.send(&known, to, message),
                    Action::Cut(samples) => self.have_cut(id, samples, &known, &cut),
                    Action::Decide(end) => {
                        last = master.progress();
                        master.decided(host.now(), Verdict::Ended(end));
                    }
                    Action::Over(end) => {
                        self.notes.0.close(id.0).await?;
                        return Ok(Ended { end, progress: last });
                    }
                    Action::Superseded(epoch) => {
                        let text = format!("superseded by {epoch}");
                        return Err(CallError::new(Status::Failed, text));
                    }
                }
            }
            let progress = master.progress();
            self.kill_if_it_is_time(&progress).await;
            if is_enough(&progress).await? {
                master.cancel(host.now());
            }
            if host.now() > limit {
                let text = format!("not over: {:?}", master.progress());
                return Err(CallError::new(Status::Timeout, text));
            }
            host.sleep_until(host.now() + LOOK).await;
        }
    }

    /// Tells the master who has come and who is gone.
    async fn count(&self, master: &mut Master, known: &Known) {
        let host = self.stl.host();
        for (node, core) in &self.workers {
            let at = At { node: *node, core: *core };
            let identity = async {
                let worker = WorkerClient::find_at(&self.stl, at).await?;
                let missing = || CallError::new(Status::NotFound, "it is in no kernel");
                Ok::<_, CallError>((worker.identity().await?, worker.place().ok_or_else(missing)?))
            };
            let (identity, place) = match identity.await {
                Ok(found) => found,
                Err(error) => {
                    let is_withdrawn = error.status == Status::NotFound;
                    self.see_gone(master, &mut known.borrow_mut(), at, is_withdrawn);
                    continue;
                }
            };
            let known = &mut *known.borrow_mut();
            let id = WorkerId {
                node: NodeId(identity.node),
                life: Generation(identity.life),
                core: CoreId(identity.core),
                generation: Generation(identity.generation),
            };
            if known.iter().any(|(known, _)| *known == id) {
                continue;
            }
            let is_former = |(it, _): &(WorkerId, _)| it.node == id.node && it.core == id.core;
            if let Some(at) = known.iter().position(is_former) {
                master.leave(host.now(), known.swap_remove(at).0);
            }
            known.push((id, place));
            master.join(host.now(), id);
        }
    }

    /// Tells the master of a core of this node that it is not who it was, or can be used no more:
    /// one that is to leave says nothing until it has left, or is found again.
    fn see_gone(
        &self,
        master: &mut Master,
        known: &mut Vec<(WorkerId, Place)>,
        at: At,
        is_withdrawn: bool,
    ) {
        let Ok(node) = self.stl.node() else { return };
        let Some(state) = node.state_of(at.core).filter(|_| at.node == NodeId(0)) else { return };
        let is_gone = |(it, place): &(WorkerId, Place)| {
            let is_it = place.core == at.core && place.node == at.node;
            is_it && (is_withdrawn || it.generation != state.generation)
        };
        if let Some(at) = known.iter().position(is_gone) {
            master.leave(self.stl.host().now(), known.swap_remove(at).0);
        }
    }

    /// Says something to a worker; what does not arrive is said again.
    fn send(&self, known: &Known, to: WorkerId, message: ToWorker) {
        let known = known.borrow();
        let Some((_, place)) = known.iter().find(|(id, _)| *id == to) else { return };
        let worker = WorkerClient::at(&self.stl, *place);
        self.stl.host().spawn(Box::pin(async move {
            let Ok(bytes) = message.encode() else { return };
            let _ = worker.orders(Bytes::from(&bytes[..])).await;
        }));
    }

    /// Has the first worker that can cut bounds, of those that are there by then. None can where
    /// none has heard of the job yet.
    fn have_cut(&self, job: JobId, samples: Vec<Vec<u8>>, known: &Known, cut: &Cut) {
        let (stl, known, cut) = (self.stl.clone(), known.clone(), cut.clone());
        self.stl.host().spawn(Box::pin(async move {
            let mut end = Err(CallError::new(Status::NotFound, "nobody cuts"));
            let until = stl.host().now() + LIMIT;
            let mut asked = 0;
            while end.is_err() && stl.host().now() < until {
                let place = {
                    let known = known.borrow();
                    known.get(asked % known.len().max(1)).map(|(_, place)| *place)
                };
                asked += 1;
                if let Some(place) = place {
                    end = cut_at(&stl, place, job, &samples).await;
                }
                super::pause(&stl).await;
            }
            *cut.borrow_mut() = Some(end);
        }));
    }

    async fn kill_if_it_is_time(&self, progress: &Progress) {
        let Some((core, planned)) = self.kill else { return };
        let is_time = progress.maps.0 > 1 && progress.phase == Phase::Mapping;
        if is_time
            && !self.has_killed.replace(true)
            && let Ok(node) = self.stl.node()
        {
            if planned == 0 {
                let _ = node.end_core(core).await;
                return;
            }
            let host = self.stl.host().clone();
            self.stl.host().spawn(Box::pin(async move {
                let left = node.leave_core(core, LIMIT, planned > 1).await;
                host.log(format_args!("core {core} leaves: {left:?}"));
            }));
        }
    }
}

async fn cut_at(stl: &Stl, at: Place, job: JobId, samples: &[Vec<u8>]) -> CallResult<Bounds> {
    let worker = WorkerClient::at(stl, at);
    let of = samples.len() as u32;
    // Where there are none, that is said once.
    let none = [Vec::new()];
    let samples = if samples.is_empty() { &none } else { samples };
    for (sample, index) in samples.iter().zip(0..) {
        if let Some(cut) = worker.cut(job.0, index, of, Bytes::from(&sample[..])).await? {
            return Ok(Bounds { bytes: cut.bounds, slices: cut.slices });
        }
    }
    Err(CallError::new(Status::Failed, "not cut, though all samples are there"))
}
