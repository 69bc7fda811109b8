//! A core whose time passes only as its tasks work: they run, yield, wait and end as they draw, and
//! meanwhile their subjects are bound to whatever there is.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use nile_abi::Instant;
use nile_policy::{ClassId, Next, Parameters, Picked, Refusal, Scheduler, Stop, Subject};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::hostile::{Hostile, Manner};
use super::{Conduct, LONGEST_WAIT, Seen, scheduler};
use crate::draw::{below, span};
use crate::trace::Trace;

/// How long a core runs.
const END: Instant = Instant::from_nanos(3_000_000_000);

/// The longest turn of most tasks; some take ten times that.
const TURN: Duration = Duration::from_micros(1_500);

/// Subjects at once.
const MOST_SUBJECTS: u64 = 8;

/// Tasks at once.
const MOST_TASKS: usize = 40;

struct Core {
    random: ChaCha8Rng,
    conduct: Conduct,
    scheduler: Scheduler<u64>,
    classes: Vec<ClassId>,
    /// The hostile ones among them.
    hostile: BTreeMap<ClassId, Manner>,
    now: Instant,
    /// The model: what each subject has ready, oldest first.
    ready: Vec<VecDeque<u64>>,
    /// Tasks that wait: until when, and whose they are.
    waiting: BTreeMap<(Instant, u64), u32>,
    /// Since when each class has been ready without a turn, by its place.
    hungry: BTreeMap<ClassId, Instant>,
    tasks: u64,
}

/// Runs one core; the first invariant that is broken, if one is.
pub fn run(seed: u64, conduct: Conduct, trace: &mut Trace, seen: &mut Seen) -> Result<(), String> {
    let mut core = Core::new(seed, conduct);
    let mut next_blow = core.now;
    while core.now < END {
        if core.now >= next_blow {
            core.befall(trace, seen)?;
            next_blow = core.now + span(&mut core.random, Duration::from_millis(20));
        }
        core.wake();
        core.turn(trace, seen)?;
    }
    core.finish(trace, seen)
}

impl Core {
    fn new(seed: u64, conduct: Conduct) -> Core {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (mut scheduler, classes) = scheduler();
        let mut classes = Vec::from(classes);
        let mut hostile = BTreeMap::new();
        for name in ["hostile", "enemy"].iter().take(below(&mut random, 3) as usize) {
            let manner = Manner::ALL[below(&mut random, Manner::ALL.len() as u64) as usize];
            let priority = 1 + below(&mut random, 60) as i64;
            let id = scheduler.install(*name, priority, Box::new(Hostile::new(manner)));
            classes.push(id);
            hostile.insert(id, manner);
        }
        let subjects = 2 + below(&mut random, MOST_SUBJECTS - 1) as usize;
        let mut core = Core {
            random,
            conduct,
            scheduler,
            classes,
            hostile,
            now: Instant::START,
            ready: vec![VecDeque::new(); subjects],
            waiting: BTreeMap::new(),
            hungry: BTreeMap::new(),
            tasks: 0,
        };
        for subject in 0..subjects {
            for _ in 0..=below(&mut core.random, 3) {
                core.spawn(subject);
            }
        }
        core
    }

    fn draw_subject(&mut self) -> usize {
        below(&mut self.random, self.ready.len() as u64) as usize
    }

    fn spawn(&mut self, subject: usize) {
        self.tasks += 1;
        self.enqueue(subject, self.tasks);
    }

    fn enqueue(&mut self, subject: usize, task: u64) {
        self.ready[subject].push_back(task);
        self.scheduler.enqueue(subject_of(subject), task, self.now);
        let class = self.scheduler.class_of(subject_of(subject));
        self.hungry.entry(class).or_insert(self.now);
    }

    /// Tasks whose wait is over are ready.
    fn wake(&mut self) {
        while let Some((&(at, task), &subject)) = self.waiting.first_key_value() {
            if at > self.now {
                break;
            }
            self.waiting.remove(&(at, task));
            self.enqueue(subject as usize, task);
        }
    }

    /// Something happens that is no turn.
    fn befall(&mut self, trace: &mut Trace, seen: &mut Seen) -> Result<(), String> {
        let subject = self.draw_subject();
        let what = below(&mut self.random, 10);
        trace.note(self.now, subject as u64, 1, what);
        match what {
            0..=5 => self.bind(subject, seen)?,
            6 => drop(self.scheduler.unbind(subject_of(subject))),
            7 => {
                let removed = self.scheduler.remove_all(subject_of(subject));
                let expected = Vec::from(std::mem::take(&mut self.ready[subject]));
                if removed != expected {
                    return Err(format!("taken back were {removed:?}, not {expected:?}"));
                }
                self.spawn(subject);
            }
            8 => {
                let tasks: usize = self.ready.iter().map(VecDeque::len).sum();
                for _ in tasks + self.waiting.len()..MOST_TASKS.min(tasks + 5) {
                    self.spawn(subject);
                }
            }
            // Published anew.
            _ => {
                for (id, manner) in self.hostile.clone() {
                    let name = self.scheduler.name_of(id).to_string();
                    self.scheduler.install(name, 40, Box::new(Hostile::new(manner)));
                }
            }
        }
        self.check()
    }

    fn bind(&mut self, subject: usize, seen: &mut Seen) -> Result<(), String> {
        let place = below(&mut self.random, self.classes.len() as u64) as usize;
        let to = self.classes[place];
        let parameters = self.draw_parameters(place);
        if self.conduct.loses_at_bind && !self.ready[subject].is_empty() {
            self.scheduler.remove_all(subject_of(subject));
        }
        if self.conduct.doubles_at_bind
            && let Some(task) = self.ready[subject].front()
        {
            self.scheduler.enqueue(subject_of(subject), *task, self.now);
        }
        let was = self.scheduler.class_of(subject_of(subject));
        let expelled = self.expelled(to);
        let bound = self.scheduler.bind(subject_of(subject), to, &parameters, self.now);
        let is = self.scheduler.class_of(subject_of(subject));
        if (bound == Err(Refusal::Expelled)) != expelled {
            return Err(format!("{bound:?} of a policy whose expulsion is {expelled}"));
        }
        if is != if bound.is_ok() { to } else { was } {
            return Err(format!("bound to {is:?} after {bound:?}"));
        }
        seen.moved += u64::from(was != is && !self.ready[subject].is_empty());
        Ok(())
    }

    fn expelled(&self, class: ClassId) -> bool {
        let name = self.scheduler.name_of(class);
        self.scheduler.statistics().any(|it| it.name == name && it.expelled.is_some())
    }

    /// What a subject says to a policy: mostly what it takes.
    fn draw_parameters(&mut self, place: usize) -> Parameters {
        let value = 1 + below(&mut self.random, 20_000) as i64;
        let none = Parameters::none();
        match (place, below(&mut self.random, 4)) {
            (1, 0) => none.with("weight", value),
            (2, 0 | 1) => none.with("deadline_us", value),
            (2, 2) => none.with("period_us", 10_000 + value).with("budget_us", value),
            (3, 0) => none.with("local_priority", value % 150),
            _ => none,
        }
    }

    /// One turn, or a wait until something is ready.
    fn turn(&mut self, trace: &mut Trace, seen: &mut Seen) -> Result<(), String> {
        let due = self.waiting.first_key_value().map(|((at, _), _)| *at);
        match self.scheduler.next(self.now) {
            Next::Run(picked) => {
                seen.turns += 1;
                trace.note(self.now, picked.task, 2, u64::from(picked.turn.subject.0));
                self.run(picked, seen)?;
            }
            Next::Wait(until) => {
                if until <= self.now {
                    return Err(format!("nothing may run until {until:?}, which is past"));
                }
                self.now = due.map_or(until, |due| due.min(until)).max(self.now);
            }
            Next::Nothing => {
                if self.ready.iter().any(|ready| !ready.is_empty()) {
                    return Err("nothing is ready, it said, but something is".into());
                }
                match due {
                    Some(due) => self.now = due,
                    None => {
                        let subject = self.draw_subject();
                        self.spawn(subject);
                    }
                }
            }
        }
        self.check()
    }

    fn run(&mut self, picked: Picked<u64>, seen: &mut Seen) -> Result<(), String> {
        let Picked { task, turn, slice } = picked;
        let subject = turn.subject.0 as usize;
        let ready = &mut self.ready[subject];
        let Some(place) = ready.iter().position(|it| *it == task) else {
            return Err(format!("task {task} ran, which is not ready as {subject}'s"));
        };
        ready.remove(place);
        let class = self.scheduler.class_of(turn.subject);
        if place != 0 && !self.hostile.contains_key(&class) {
            let policy = self.scheduler.name_of(class);
            return Err(format!("by {policy} task {task} ran before an older one of its subject"));
        }
        if let Some(since) = self.hungry.remove(&class) {
            seen.waited = seen.waited.max(self.now.since(since));
        }
        let start = self.now;
        let most = if below(&mut self.random, 50) == 0 { TURN * 10 } else { TURN };
        let wanted = span(&mut self.random, most);
        let had = slice.min(wanted);
        self.now = self.now + had;
        let is_cut = had < wanted;
        let fate = below(&mut self.random, 10);
        let why = match fate {
            _ if is_cut => Stop::Preempted,
            0..=5 => Stop::Yields,
            6..=8 => Stop::Waits,
            _ => Stop::Ended,
        };
        self.scheduler.ran(turn, start, self.now, why);
        match why {
            Stop::Yields | Stop::Preempted => {
                let subject = match self.conduct.mixes_subjects {
                    true => (subject + 1) % self.ready.len(),
                    false => subject,
                };
                self.scheduler.enqueue(subject_of(subject), task, self.now);
                self.ready[turn.subject.0 as usize].push_back(task);
            }
            Stop::Waits => {
                let until = self.now + span(&mut self.random, Duration::from_millis(10));
                self.waiting.insert((until, task), turn.subject.0);
            }
            // Mostly another takes its place.
            Stop::Ended if below(&mut self.random, 10) > 0 => self.spawn(subject),
            Stop::Ended => {}
        }
        Ok(())
    }

    /// What must hold after every step.
    fn check(&mut self) -> Result<(), String> {
        let model: usize = self.ready.iter().map(VecDeque::len).sum();
        if self.scheduler.ready() != model {
            let ready = self.scheduler.ready();
            return Err(format!("{ready} tasks are ready, which should be {model}"));
        }
        for it in self.scheduler.statistics() {
            let Some(id) = self.scheduler.class_named(&it.name) else { continue };
            let manner = self.hostile.get(&id);
            let failed = it.refused > 0 || it.expelled.is_some();
            if manner.is_none() && failed {
                return Err(format!("{} failed {} times", it.name, it.refused));
            }
            if (it.refused >= 3) != it.expelled.is_some() {
                return Err(format!("{} failed {} times: {:?}", it.name, it.refused, it.expelled));
            }
            if manner.is_some_and(|it| it.is_wrong()) && it.decisions > 0 {
                return Err(format!("{} has {} right answers", it.name, it.decisions));
            }
            if it.expelled.is_some() && (it.ready, it.subjects) != (0, 0) {
                return Err(format!("{} was expelled and has {} ready", it.name, it.ready));
            }
            // From here on it is ready without a turn, should it not have been.
            match it.ready {
                0 => drop(self.hungry.remove(&id)),
                _ => {
                    let since = *self.hungry.entry(id).or_insert(self.now);
                    let waited = self.now.since(since);
                    if waited > LONGEST_WAIT {
                        return Err(format!(
                            "{} was ready and had no turn for {waited:?}",
                            it.name
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Everything that is ready runs once more, and nothing besides.
    fn finish(&mut self, trace: &mut Trace, seen: &mut Seen) -> Result<(), String> {
        let mut left: usize = self.ready.iter().map(VecDeque::len).sum();
        let last = self.now + 100 * LONGEST_WAIT;
        while left > 0 {
            match self.scheduler.next(self.now) {
                Next::Run(picked) => {
                    trace.note(self.now, picked.task, 3, u64::from(picked.turn.subject.0));
                    let ready = &mut self.ready[picked.turn.subject.0 as usize];
                    let Some(place) = ready.iter().position(|it| *it == picked.task) else {
                        return Err(format!("task {} ran in the end, not ready", picked.task));
                    };
                    ready.remove(place);
                    let start = self.now;
                    self.now = self.now + Duration::from_micros(100);
                    self.scheduler.ran(picked.turn, start, self.now, Stop::Ended);
                    left -= 1;
                }
                Next::Wait(until) => self.now = until,
                Next::Nothing => return Err(format!("{left} tasks were lost")),
            }
            if self.now > last {
                return Err(format!("{left} tasks never run"));
            }
        }
        seen.turns += 1;
        match self.scheduler.next(self.now) {
            Next::Nothing => Ok(()),
            other => Err(format!("everything has run, and there is {other:?}")),
        }
    }
}

fn subject_of(place: usize) -> Subject {
    Subject(u32::try_from(place).unwrap_or(u32::MAX))
}
