//! A worker service without packages: attempts take a while and then have done what they should.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use nile_abi::{CoreId, NodeId, Status};
use nile_bosml::{Blob, Bytes};
use nile_interfaces::dataset::DatasetClient;
use nile_interfaces::dataset::records::Decider;
use nile_interfaces::job::JobClient;
use nile_interfaces::network::NetworkClient;
use nile_interfaces::registry::RegistryClient;
use nile_job::job::MOST_SAMPLE;
use nile_job::worker::Action;
use nile_job::{
    AttemptId, JobId, Kind, Peer, Settings, Standing, Summary, ToWorker, Work, Worker as Machine,
    WorkerId,
};
use nile_stl::{
    At, CallError, CallResult, Caller, Dispatched, Half, MethodNumber, Place, Record, Service,
    Start, Stl, service,
};

/// How long an attempt takes.
const EFFORT: Duration = Duration::from_millis(60);

/// How long the reduce tasks of jobs take that are given this.
const LONG: Duration = Duration::from_secs(200);
pub const IS_LONG: &str = "long";

/// How often machines are called.
const TICK: Duration = Duration::from_millis(20);

/// The machines of a core.
pub struct Worker {
    bench: Rc<Bench>,
}

struct Bench {
    stl: Stl,
    machines: RefCell<BTreeMap<JobId, Machine>>,
    made: RefCell<u32>,
}

/// Which worker it is.
#[derive(Record)]
pub struct Identity {
    /// Its node.
    pub node: u32,
    /// The node's incarnation.
    pub life: u32,
    /// The core.
    pub core: u16,
    /// The core's incarnation.
    pub generation: u32,
}

/// Bounds.
#[derive(Record)]
pub struct Bounds {
    /// They.
    pub bounds: Blob,
    /// How many slices partitions have.
    pub slices: u32,
}

/// Makes it known, as the service of the node that it stands for: other nodes know what methods
/// that has, and by which numbers.
pub async fn publish(stl: &Stl) -> CallResult<()> {
    let make = |stl: &Stl| {
        let make = REGISTRATION.kernel.expect("it has a kernel half");
        let half = make(stl);
        Half { service: Rc::new(InPlace(half.service)), ..half }
    };
    stl.publish(&nile_services::worker::REGISTRATION, make).await.map(drop)
}

/// Has calls of the node's service go to the methods of the same names here.
struct InPlace(Rc<dyn Service>);

impl Service for InPlace {
    fn dispatch(&self, caller: &Caller, method: MethodNumber, arguments: &[u8]) -> Dispatched {
        let known =
            nile_services::worker::REGISTRATION.interface.schema.methods.get(usize::from(method.0));
        let name = known.map(|it| &it.name);
        let here =
            REGISTRATION.interface.schema.methods.iter().position(|it| Some(&it.name) == name);
        match here {
            Some(here) => self.0.dispatch(caller, MethodNumber(here as u16), arguments),
            None => Dispatched::Done(Err(Status::NotFound.into())),
        }
    }
}

impl Start for Worker {
    fn start(stl: &Stl) -> Worker {
        let stl = stl.acting_as(nile_registry::Caller::Operator);
        let (machines, made) = (RefCell::default(), RefCell::default());
        let bench = Rc::new(Bench { stl, machines, made });
        let ticking = bench.clone();
        bench.stl.host().spawn(Box::pin(async move {
            loop {
                super::wait(&ticking.stl, TICK).await;
                let jobs: Vec<JobId> = ticking.machines.borrow().keys().copied().collect();
                for job in jobs {
                    ticking.with(job, |machine, now| machine.act(now));
                }
            }
        }));
        Worker { bench }
    }
}

/// Runs attempts that do nothing.
#[service(subsystem = "jobs", capability = "work", layer = high, on = worker, keywords(worker = 5))]
impl Worker {
    /// Which worker it is.
    #[stl_k(reply = "worker", allow(package, operator, peer))]
    async fn identity(&self) -> CallResult<Identity> {
        let WorkerId { node, life, core, generation } = self.bench.identity().await?;
        Ok(Identity { node: node.0, life: life.0, core: core.0, generation: generation.0 })
    }

    /// What a master says.
    #[stl_k(allow(package, operator, peer))]
    async fn orders(&self, message: Bytes<'_>) -> CallResult<()> {
        let message = ToWorker::decode(&message.0)?;
        let id = self.bench.identity().await?;
        let job = message.job;
        self.bench.machines.borrow_mut().entry(job).or_insert_with(|| {
            *self.bench.made.borrow_mut() += 1;
            let number = *self.bench.made.borrow();
            Machine::new(self.bench.stl.host().now(), id, number, job, Settings::default())
        });
        self.bench.with(job, |machine, now| machine.receive(now, message));
        Ok(())
    }

    /// Cuts bounds.
    #[stl_k(reply = "bounds", allow(package, operator, peer))]
    fn cut(&self, job: u64, index: u32, of: u32, sample: Bytes<'_>) -> CallResult<Option<Bounds>> {
        if !self.bench.machines.borrow().contains_key(&JobId(job)) {
            return Err(CallError::new(Status::NotFound, "the job has not come here"));
        }
        let cut = Bounds { bounds: Blob(sample.0.to_vec()), slices: 1 };
        Ok((index + 1 == of).then_some(cut))
    }
}

impl Bench {
    async fn identity(&self) -> CallResult<WorkerId> {
        let host = self.stl.host();
        let (core, generation) = (host.core(), host.generation());
        let member = self.stl.node()?.member();
        let (node, life) = match member {
            None => (NodeId(1), nile_abi::Generation::FIRST),
            Some(_) => {
                let own = NetworkClient::find(&self.stl).await?.identity().await?;
                (NodeId(own.node), nile_abi::Generation(own.generation))
            }
        };
        Ok(WorkerId { node, life, core, generation })
    }

    /// How long a reduce task of a job takes.
    fn effort(&self, job: JobId) -> Duration {
        let machines = self.machines.borrow();
        let given = machines.get(&job).and_then(|it| it.job()).map(|it| &it.arguments);
        let is_long = given.is_some_and(|it| it.iter().any(|it| it == IS_LONG));
        if is_long { LONG } else { EFFORT }
    }

    fn with(self: &Rc<Self>, job: JobId, act: impl FnOnce(&mut Machine, nile_abi::Instant)) {
        let now = self.stl.host().now();
        if let Some(machine) = self.machines.borrow_mut().get_mut(&job) {
            act(machine, now);
        }
        loop {
            let next = |machine: &mut Machine| {
                // Attempts of several jobs do not get in each other's way here.
                if machine.wants() {
                    machine.go(now);
                }
                machine.poll()
            };
            let action = self.machines.borrow_mut().get_mut(&job).and_then(next);
            let Some(action) = action else { break };
            self.act(job, action);
        }
    }

    fn act(self: &Rc<Self>, job: JobId, action: Action) {
        let bench = self.clone();
        let spawn = |task| self.stl.host().spawn(task);
        match action {
            Action::Send(node, message) => spawn(Box::pin(async move {
                let bytes = message.encode().expect("it fits");
                if let Ok(client) = bench.jobs_of(node).await {
                    let _ = client.notes(Bytes::from(&bytes[..])).await;
                }
            })),
            Action::Peer(_, Peer::Fetch { piece, by, .. }) => spawn(Box::pin(async move {
                super::wait(&bench.stl, Duration::from_micros(10)).await;
                bench.with(job, |machine, now| {
                    machine.arrived(now, piece, by);
                });
            })),
            Action::Start(attempt, Work::Split(split)) => spawn(Box::pin(async move {
                super::wait(&bench.stl, EFFORT).await;
                let is_sample = attempt.task.kind == Kind::Sample;
                let sample = vec![1; if is_sample { MOST_SAMPLE } else { 0 }];
                let summary = Summary {
                    read: split.bytes,
                    records: 1,
                    sample: Blob(sample),
                    ..Summary::default()
                };
                bench.with(job, |machine, now| machine.done(now, attempt, summary));
            })),
            Action::Gathered(attempt) => spawn(Box::pin(async move {
                super::wait(&bench.stl, bench.effort(job)).await;
                let bytes = bench.write(job, attempt).await.expect("a part can be written");
                let summary =
                    Summary { written: bytes, records: 1, checksum: 5, ..Summary::default() };
                bench.with(job, |machine, now| machine.done(now, attempt, summary));
            })),
            Action::Stop(attempt) => spawn(Box::pin(async move {
                super::wait(&bench.stl, EFFORT * 2).await;
                bench.with(job, |machine, now| machine.stopped(now, attempt));
            })),
            Action::Ask => spawn(Box::pin(async move {
                let keepers = bench.keepers(job);
                let Ok(client) = bench.jobs_of(bench.node()).await else { return };
                let Ok(standing) = client.standing(job.0, keepers).await else { return };
                let standing = Standing::decode(&standing.0).expect("it is one");
                bench.with(job, |machine, now| machine.resolve(now, standing));
            })),
            Action::Commit(attempt) | Action::Drop(attempt) => {
                let is_kept = matches!(action, Action::Commit(_));
                if attempt.task.kind == Kind::Reduce
                    && let Some(name) = self.part(job, attempt)
                {
                    spawn(Box::pin(async move {
                        let version = attempt.version().expect("it is low");
                        let Ok(store) = bench.store().await else { return };
                        let _ = match is_kept {
                            true => store.confirm(&name, job.0, version).await,
                            false => store.remove(&name, job.0, version).await,
                        };
                    }));
                }
            }
            Action::Over => drop(self.machines.borrow_mut().remove(&job)),
            _ => {}
        }
    }

    fn node(&self) -> NodeId {
        let member = self.stl.node().ok().and_then(|node| node.member());
        member.map_or(NodeId(1), |it| it.node)
    }

    async fn jobs_of(&self, node: NodeId) -> CallResult<JobClient> {
        let node = if node == self.node() { Place::HERE } else { node };
        let stl = self.stl.with_patience(Duration::from_secs(2));
        JobClient::find_at(&stl, At { node, core: CoreId::BOOT }).await
    }

    fn keepers(&self, job: JobId) -> u32 {
        let machines = self.machines.borrow();
        let known = machines.get(&job).and_then(|machine| machine.job());
        known.map_or(0, nile_job::Job::keepers_in_manifest)
    }

    fn part(&self, job: JobId, attempt: AttemptId) -> Option<String> {
        let machines = self.machines.borrow();
        let known = machines.get(&job)?.job()?;
        Some(format!("{}/{}-of-{}", known.output, attempt.task.index, known.reducers))
    }

    async fn store(&self) -> CallResult<DatasetClient> {
        let found = RegistryClient::find(&self.stl).await?.instances("dataset", 0, 0).await?;
        let here = found.into_iter().map(Place::from).find(Place::is_here);
        let missing = || CallError::new(Status::NotFound, "no disk here");
        Ok(DatasetClient::at(&self.stl, here.ok_or_else(missing)?))
    }

    /// Writes a part; gives how long it is.
    async fn write(&self, job: JobId, attempt: AttemptId) -> CallResult<u64> {
        let name = self.part(job, attempt).expect("the job is known");
        let owner = Decider::Job { keepers: self.keepers(job) };
        let version = attempt.version().expect("it is low");
        let store = self.store().await?;
        let draft = store.create(&name, job.0, version, owner, 0).await?.draft;
        let bytes = vec![7; 1 + attempt.task.index as usize];
        store.write(draft, 0, Bytes::from(&bytes[..])).await?;
        store.prepare(draft, vec![self.node().0]).await?;
        Ok(bytes.len() as u64)
    }
}
