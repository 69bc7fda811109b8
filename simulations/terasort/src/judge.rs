//! Who has the input made and sorted, and has the plot happen.

use std::fmt::{Arguments, Display};
use std::time::Duration;

use nile_abi::{CoreId, Instant, NodeId};
use nile_interfaces::job::JobClient;
use nile_interfaces::job::records::{JobEnd, JobPhase, JobPolicy, JobRequest, ProgressEntry};
use nile_interfaces::registry::RegistryClient;
use nile_platform_sim::Deed;
use nile_stl::{At, CallResult, Place, Stl};

use crate::absences::Absences;
use crate::expected::Expected;
use crate::holdings::{Holders, Holdings};
use crate::plot::{Blow, PHASES, Plot, WORKERS, What, When, Work};
use crate::stage::Stage;
use crate::verdict::LOST;

/// How often the judge looks while something is to happen, and otherwise: so, too, when for a
/// while nothing has changed, and the sort waits for a node.
const LOOK: Duration = Duration::from_micros(500);
pub const GLANCE: Duration = Duration::from_millis(50);
const WHILE: Duration = Duration::from_millis(300);

/// How long an answer may take that is asked for again and again.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long nodes may take to meet, and a job to be taken in and to end.
const MEETING: Duration = Duration::from_secs(20);
const JOB: Duration = Duration::from_secs(100);

/// How long a node is cut off that nobody says how long it is to be away.
const APART: Duration = Duration::from_secs(4);

/// How often in a row nobody knows of a job that was not begun.
const UNKNOWN: u32 = 10;

/// What jobs beside the sort make.
const OTHERS: [&str; 2] = ["beside.pairs", "beside.made"];

pub type Found<T> = Result<T, String>;

/// The judge of a run.
pub struct Judge<'s> {
    pub stage: &'s Stage,
    stl: Stl,
    /// When nodes were away.
    pub absences: Absences,
}

/// An error of a call as a verdict.
pub fn said<E: Display>(what: &'static str) -> impl Fn(E) -> String {
    move |error| format!("{what}: {error}")
}

impl<'s> Judge<'s> {
    /// The judge, on the core of `stl`.
    pub fn new(stage: &'s Stage, stl: Stl) -> Judge<'s> {
        Judge { stage, stl, absences: Absences::default() }
    }

    pub fn plot(&self) -> &'s Plot {
        &self.stage.plot
    }

    pub fn now(&self) -> Instant {
        self.stl.host().now()
    }

    pub async fn wait(&self, time: Duration) {
        self.stl.host().sleep_until(self.now() + time).await;
    }

    fn note(&self, what: Arguments<'_>) {
        self.stl.host().log(what);
    }

    /// Runs everything; what is wrong, if something is.
    pub async fn run(mut self) -> Found<()> {
        let plot = self.plot();
        let jobs = JobClient::find_at(&self.stl, CoreId::BOOT).await.map_err(said("jobs"))?;
        self.meet(&jobs).await?;
        // The generator is begun by the first node, whoever is asked; the sort by another.
        for node in [0, plot.via] {
            self.meet(&self.jobs_of(node).await.map_err(said("jobs"))?).await?;
        }
        let expected = self.generate(&jobs).await?;
        let holders = self.holdings().await.map_err(said("stores"))?.parts("input");
        if plot.is_full {
            self.stage.count("full disks");
            self.fill().await.map_err(said("ballast"))?;
        }
        let since = self.now();
        let Some(job) = self.submit(&jobs, &holders).await? else {
            self.stage.count("refused");
            return self.check_rest(None).await;
        };
        self.submit_others(&jobs).await;
        let ended = self.watch(&jobs, job).await?;
        let is_done = ended.ended == JobEnd::Made;
        self.stage.count(match (is_done, plot.work) {
            (true, Work::Sort) => "sorted",
            (true, Work::Pairs { .. }) => "counted",
            (false, _) => "failed",
        });
        self.check_end(&ended, since, &holders, &expected)?;
        if is_done {
            self.check_seen().await?;
        }
        self.check_rest(is_done.then_some(&expected)).await
    }

    /// The job service of a node with disks.
    async fn jobs_of(&self, node: usize) -> CallResult<JobClient> {
        let at = At { node: NodeId(node as u32 + 1), core: CoreId::BOOT };
        JobClient::find_at(&self.stl.with_patience(PATIENCE), at).await
    }

    /// Waits until the node of this job service knows all nodes with disks.
    async fn meet(&self, jobs: &JobClient) -> Found<()> {
        let limit = self.now() + MEETING;
        let workers = self.plot().nodes * WORKERS as usize;
        loop {
            let known = jobs.workers().await.map_or(0, |it| it.len());
            let stores = self.stores().await.map_or(0, |it| it.len());
            if known == workers && stores == self.plot().nodes {
                return Ok(());
            }
            if self.now() > limit {
                return Err(format!("{known} worker cores and {stores} stores have met"));
            }
            self.wait(GLANCE).await;
        }
    }

    /// Where the stores are.
    pub async fn stores(&self) -> CallResult<Vec<Place>> {
        let stl = self.stl.with_patience(PATIENCE);
        RegistryClient::find(&stl).await?.places("dataset").await
    }

    pub async fn holdings(&self) -> CallResult<Holdings> {
        self.holdings_of(self.stores().await?).await
    }

    /// What the stores at these places have.
    pub async fn holdings_of(&self, stores: Vec<Place>) -> CallResult<Holdings> {
        Holdings::gather(&self.stl.with_patience(PATIENCE), stores).await
    }

    /// Has the input made; what is expected of it.
    async fn generate(&self, jobs: &JobClient) -> Found<Expected> {
        let plot = self.plot();
        let request = JobRequest {
            name: "generate".into(),
            package: "tera".into(),
            arguments: vec!["gen".into(), plot.rows.to_string()],
            input: Vec::new(),
            output: "input".into(),
            reducers: (WORKERS as usize * plot.nodes) as u32,
            samples: 0,
            copies: Some(plot.input_copies),
            conserves: false,
            ..JobRequest::default()
        };
        let parts = request.reducers;
        let job = jobs.submit(request).await.map_err(said("submit"))?;
        let ended = self.end_of(jobs, job).await?;
        if ended.ended != JobEnd::Made {
            return Err(format!("the input could not be made: {}", ended.error));
        }
        let holdings = self.holdings().await.map_err(said("stores"))?;
        let input = holdings.read("input", parts, |_| ()).await.map_err(said("input"))??;
        Expected::of(&plot.work, &input)
    }

    /// How a job ends.
    async fn end_of(&self, jobs: &JobClient, job: u64) -> Found<ProgressEntry> {
        let limit = self.now() + JOB;
        loop {
            match jobs.progress(job).await {
                Ok(entry) if !entry.ended.is_open() => return Ok(entry),
                it if self.now() > limit => return Err(format!("a job never ends: {it:?}")),
                _ => self.wait(GLANCE).await,
            }
        }
    }

    fn request(&self) -> JobRequest {
        let plot = self.plot();
        let (name, package, arguments) = match plot.work {
            // The data are so few that the sort itself would take partitions as a whole.
            Work::Sort => ("sort", "tera", vec!["sort".into(), (1 + plot.rows % 4).to_string()]),
            Work::Pairs { keys, collected, combines } => {
                let mut words = vec![format!("keys={keys}"), format!("collect={collected}")];
                words.extend(combines.then(|| "combine".into()));
                words.extend(plot.conduct.leaves_values_out.then(|| "wrong".into()));
                ("pairs", "pairs", words)
            }
        };
        JobRequest {
            name: name.into(),
            package: package.into(),
            arguments,
            input: vec!["input".into()],
            output: "output".into(),
            reducers: plot.reducers,
            samples: if plot.work == Work::Sort { 4 } else { 0 },
            memory: (plot.memory > 0).then_some(plot.memory),
            copies: Some(plot.output_copies),
            conserves: plot.work == Work::Sort,
            ..JobRequest::default()
        }
    }

    /// Has other jobs begun beside the sort, if the plot has them: one that reads its input, and
    /// one that reads nothing. Whether they were in fact begun turns out in the end.
    async fn submit_others(&self, jobs: &JobClient) {
        if !self.plot().has_others {
            return;
        }
        let pairs = JobRequest {
            name: OTHERS[0].into(),
            package: "pairs".into(),
            arguments: vec!["keys=3".into(), "collect=2048".into()],
            output: OTHERS[0].into(),
            policy: JobPolicy::Fair { weight: 300 },
            samples: 0,
            reducers: 1,
            conserves: false,
            ..self.request()
        };
        let dated = JobRequest {
            name: OTHERS[1].into(),
            package: "tera".into(),
            arguments: vec!["gen".into(), "300".into()],
            input: Vec::new(),
            output: OTHERS[1].into(),
            policy: JobPolicy::EarliestDeadline { deadline_ms: 5000 },
            ..pairs.clone()
        };
        for request in [pairs, dated] {
            let name = request.name.clone();
            match jobs.submit(request).await {
                Ok(_) => self.stage.count("jobs beside"),
                Err(error) => self.note(format_args!("submit {name}: {error}")),
            }
        }
    }

    /// Waits for the ends of jobs beside the sort; the outputs that they have made.
    pub async fn ended_others(&self) -> Found<Vec<&'static str>> {
        if !self.plot().has_others {
            return Ok(Vec::new());
        }
        let jobs = JobClient::find_at(&self.stl, CoreId::BOOT).await.map_err(said("jobs"))?;
        let limit = self.now() + JOB;
        loop {
            let listed = jobs.list_all().await.unwrap_or_default();
            let others: Vec<_> =
                listed.iter().filter(|it| OTHERS.contains(&it.output.as_str())).collect();
            let open = others.iter().find(|it| it.ended.is_open());
            match open {
                Some(open) if self.now() > limit => {
                    let entry = jobs.progress(open.job).await;
                    return Err(format!("{} never ends: {entry:?}", open.output));
                }
                None if !listed.is_empty() => {
                    for it in others.iter().filter(|it| it.ended == JobEnd::Failed) {
                        self.may_have_failed(&jobs, it.job).await?;
                    }
                    let is_made = |name: &&str| {
                        others.iter().any(|it| it.output == **name && it.ended == JobEnd::Made)
                    };
                    return Ok(OTHERS.into_iter().filter(is_made).collect());
                }
                _ => self.wait(GLANCE * 4).await,
            }
        }
    }

    /// A job beside the sort may fail only because blocks of its input were lost for long. Whoever
    /// has run its master may still be ending it.
    async fn may_have_failed(&self, jobs: &JobClient, job: u64) -> Found<()> {
        let entry = self.end_of(jobs, job).await?;
        self.note(format_args!("{} has failed: {}", entry.output, entry.error));
        self.stage.count("jobs beside failed");
        match entry.output == OTHERS[0] && entry.error.starts_with(LOST) {
            true => Ok(()),
            false => Err(format!("{} has failed: {}", entry.output, entry.error)),
        }
    }

    /// Has the sort begun, by a node that may die over it: then the others are asked whether it
    /// was, and if not, whoever lives is asked again. None if it was rightly refused.
    async fn submit(&mut self, jobs: &JobClient, holders: &Holders) -> Found<Option<u64>> {
        let limit = self.now() + JOB;
        let via = self.plot().via;
        let there = self.jobs_of(via).await.map_err(said("jobs"))?;
        for blow in self.plot().blows.clone() {
            if let When::Submitted(after) = blow.when {
                self.strike(self.now() + after, blow.what, blow.away, via, "submitted");
            }
        }
        let mut submitted = there.submit(self.request()).await;
        loop {
            let error = match submitted {
                Ok(job) => return Ok(Some(job)),
                Err(error) if self.is_refusal(&error, holders) => return Ok(None),
                Err(error) => error,
            };
            self.note(format_args!("submit: {error}"));
            if self.now() > limit {
                return Err(format!("submit: {error}"));
            }
            self.stage.count("submitted again");
            if let Some(job) = self.begun(jobs, limit).await {
                return Ok(Some(job));
            }
            submitted = jobs.submit(self.request()).await;
        }
    }

    /// The sort, if it turns out to have been begun.
    async fn begun(&self, jobs: &JobClient, limit: Instant) -> Option<u64> {
        let mut unknown = 0;
        while unknown < UNKNOWN && self.now() < limit {
            let listed = jobs.list_all().await;
            let found = listed.map(|all| all.into_iter().find(|it| it.output == "output"));
            match found {
                Ok(Some(it)) if it.master.is_some() || !it.ended.is_open() => return Some(it.job),
                // Its keepers will find out.
                Ok(Some(_)) | Err(_) => unknown = 0,
                Ok(None) => unknown += 1,
            }
            self.wait(GLANCE * 4).await;
        }
        None
    }

    /// Watches the sort, and strikes when it is time; how it ended.
    async fn watch(&mut self, jobs: &JobClient, job: u64) -> Found<ProgressEntry> {
        let limit = self.now() + JOB;
        let mut blows: Vec<Blow> = self.plot().blows.iter().rev().cloned().collect();
        blows.retain(|blow| !matches!(blow.when, When::Submitted(_)));
        let has_begun = blows.len() < self.plot().blows.len();
        let mut first = has_begun.then(|| self.now());
        let mut master = self.plot().via;
        let mut last = ProgressEntry::default();
        let mut changed = self.now();
        loop {
            if let Some(entry) = self.progress(jobs, job, master).await {
                if entry.phase != last.phase {
                    let master = entry.master.unwrap_or(0);
                    self.note(format_args!("the sort is {} on n{master}", entry.phase));
                }
                if !entry.ended.is_open() {
                    return Ok(entry);
                }
                if how_far(&entry) != how_far(&last) {
                    changed = self.now();
                }
                last = entry;
            }
            if let Some(node) = last.master {
                master = node as usize - 1;
            }
            let now = self.now();
            let phase = PHASES.iter().position(|phase| *phase == last.phase);
            while let Some(Blow { when, what, away }) = blows.last().cloned() {
                let is_now = |(wanted, percent)| {
                    phase.is_some_and(|phase| {
                        phase > wanted || phase == wanted && has_done(&last, percent)
                    })
                };
                let after = match when {
                    When::In { phase, percent, after } => is_now((phase, percent)).then_some(after),
                    When::Later(after) => {
                        first.filter(|first| *first + after <= now).map(|_| Duration::ZERO)
                    }
                    When::Submitted(_) => None,
                };
                let Some(after) = after else { break };
                first = first.or(Some(now + after));
                blows.pop();
                let phase = phase.map_or(JobPhase::Waiting, |phase| PHASES[phase]).name();
                self.strike(now + after, what, away, master, phase);
            }
            if now > limit {
                return Err(format!("the sort never ends: {last:?}"));
            }
            let is_tense = !blows.is_empty() && now < changed + WHILE;
            self.wait(if is_tense { LOOK } else { GLANCE }).await;
        }
    }

    /// How far the sort is, if somebody says so: its master first.
    async fn progress(&self, jobs: &JobClient, job: u64, master: usize) -> Option<ProgressEntry> {
        if !self.absences.is_away(master, self.now()) {
            let stl = self.stl.with_patience(GLANCE);
            let at = At { node: NodeId(master as u32 + 1), core: CoreId::BOOT };
            if let Ok(there) = JobClient::find_at(&stl, at).await
                && let Ok(entry) = there.progress_here(job).await
                && entry.master == Some(at.node.0)
            {
                return Some(entry);
            }
        }
        jobs.progress(job).await.ok()
    }

    fn strike(
        &mut self,
        at: Instant,
        what: What,
        away: Option<Duration>,
        master: usize,
        phase: &str,
    ) {
        let deeds = &self.stage.deeds;
        let node = match what {
            What::Core(node, core) => {
                self.stage.count(format!("cores ended while {phase}"));
                self.note(format_args!("c{core} of n{} ends at {at}", node + 1));
                return deeds.add(at, Deed::EndCore(node, CoreId(core)));
            }
            What::Node(node) | What::Apart(node) => node,
            What::Master => master,
        };
        if self.absences.is_away(node, at) {
            return;
        }
        if let What::Apart(_) = what {
            self.stage.count(format!("nodes cut off while {phase}"));
            self.note(format_args!("n{} is cut off at {at}", node + 1));
            let back = at + away.unwrap_or(APART);
            let others = (0..=self.plot().nodes).filter(|other| *other != node).collect();
            deeds.add(at, Deed::Partition(vec![others, vec![node]]));
            deeds.add(back, Deed::Heal);
            return self.absences.add(node, at, Some(back));
        }
        let kind = if node == master { "master's nodes" } else { "nodes" };
        self.stage.count(format!("{kind} killed while {phase}"));
        deeds.add(at, Deed::Kill(node));
        let back = away.map(|away| at + away);
        back.into_iter().for_each(|back| deeds.add(back, Deed::Start(node)));
        self.absences.add(node, at, back);
    }
}

fn how_far(entry: &ProgressEntry) -> (JobPhase, u32, u32) {
    (entry.phase, entry.maps_done, entry.reduces_done)
}

/// Whether the phase has done so many hundredths of its tasks.
fn has_done(entry: &ProgressEntry, percent: u64) -> bool {
    let (done, of) = match entry.phase {
        JobPhase::Mapping => (entry.maps_done, entry.maps),
        JobPhase::Reducing => (entry.reduces_done, entry.reduces),
        _ => (1, 1),
    };
    u64::from(done) * 100 >= u64::from(of) * percent
}
