//! Tasks of subjects that are bound, beside those of subjects that are not.

use alloc::rc::Rc;
use core::time::Duration;

use nile_policy::policies::{EarliestDeadline, Fair, Fifo, RealTime};
use nile_policy::{Answer, Ready};
use nile_sync::yield_now;

use super::*;

/// An executor with the usual policies, whose time passes by a microsecond whenever it is asked.
struct Bench {
    executor: Rc<Executor>,
    now: Rc<Cell<u64>>,
    log: Rc<RefCell<Vec<&'static str>>>,
}

impl Bench {
    fn new() -> Bench {
        let executor = Rc::new(Executor::default());
        executor.install("fifo", Fifo::PRIORITY, Box::<Fifo>::default());
        executor.install("fair", Fair::PRIORITY, Box::<Fair>::default());
        let deadline = Box::<EarliestDeadline>::default();
        executor.install("earliest_deadline", EarliestDeadline::PRIORITY, deadline);
        executor.install("real_time", RealTime::PRIORITY, Box::<RealTime>::default());
        Bench { executor, now: Rc::default(), log: Rc::default() }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.now.get())
    }

    /// A task of this subject, which logs its name in each of its turns.
    fn spawn(&self, subject: &'static str, turns: usize) {
        let log = self.log.clone();
        let before = self.executor.act_as(self.executor.subject(subject));
        self.executor.spawn(async move {
            for _ in 0..turns {
                log.borrow_mut().push(subject);
                yield_now().await;
            }
        });
        self.executor.act_as(before);
    }

    fn bind(&self, subject: &str, policy: &str) {
        self.executor.bind(subject, policy, &Parameters::none(), self.now()).unwrap();
    }

    fn bind_new(&self, subject: &str, policy: &str) {
        self.executor.subject(subject);
        self.bind(subject, policy);
    }

    /// A task of this subject that says how urgent its timers are.
    fn urgency(&self, subject: &'static str) -> u32 {
        let before = self.executor.act_as(self.executor.subject(subject));
        let own = self.executor.clone();
        let told = self.executor.spawn(async move { own.priority() });
        self.executor.act_as(before);
        self.run(1);
        told.take().expect("it has run")
    }

    /// Runs as a pass of the loop does; who had turns.
    fn pass(&self, most: u32) -> Vec<&'static str> {
        let now = self.now.clone();
        let mut left = most;
        while left > 0 {
            let clock = || {
                now.set(now.get() + 1_000);
                Instant::from_nanos(now.get())
            };
            match self.executor.poll_some(left, clock) {
                0 => break,
                polls => left -= polls,
            }
        }
        self.log.take()
    }

    /// How many answers a policy has given.
    fn decisions(&self, policy: &str) -> u64 {
        let all = self.executor.policies();
        all.iter().find(|it| it.name == policy).map_or(0, |it| it.decisions)
    }

    fn run(&self, turns: usize) -> Vec<&'static str> {
        let now = self.now.clone();
        for _ in 0..turns {
            let clock = || {
                now.set(now.get() + 1_000);
                Instant::from_nanos(now.get())
            };
            self.executor.poll_some(1, clock);
        }
        self.log.take()
    }
}

#[test]
fn a_bound_subject_goes_before_the_default_or_behind_it() {
    let bench = Bench::new();
    for subject in ["batch", "usual", "urgent"] {
        bench.spawn(subject, 2);
    }
    bench.bind("batch", "fifo");
    bench.bind("urgent", "real_time");
    assert_eq!(bench.run(9), ["urgent", "urgent", "usual", "usual", "batch", "batch"]);
    let bound: Vec<_> =
        bench.executor.subjects().into_iter().map(|it| (it.name, it.policy)).collect();
    let expected = [("kernel", "default"), ("batch", "fifo"), ("usual", "default")];
    let expected = expected.into_iter().chain([("urgent", "real_time")]);
    let expected: Vec<_> = expected.map(|(name, policy)| (name.into(), policy.into())).collect();
    assert_eq!(bound, expected);
}

#[test]
fn tasks_are_their_spawners_subjects() {
    let bench = Bench::new();
    let (executor, log) = (bench.executor.clone(), bench.log.clone());
    let before = bench.executor.act_as(bench.executor.subject("urgent"));
    bench.executor.spawn(async move {
        let log = log.clone();
        executor.spawn(async move { log.borrow_mut().push("child") });
    });
    bench.executor.act_as(before);
    bench.spawn("usual", 1);
    bench.bind("urgent", "real_time");
    assert_eq!(bench.run(9), ["child", "usual"]);
}

#[test]
fn when_nobody_is_bound_any_more_tasks_take_turns_as_before() {
    let bench = Bench::new();
    for subject in ["a", "b", "c"] {
        bench.spawn(subject, 3);
    }
    bench.bind("c", "real_time");
    assert_eq!(bench.run(1), ["c"]);
    assert!(bench.executor.unbind("c"));
    assert!(!bench.executor.unbind("c"));
    assert_eq!(bench.run(20), ["a", "b", "c", "a", "b", "c", "a", "b"]);
    assert!(!bench.executor.managed.is_used());
}

#[test]
fn what_has_used_its_budget_up_waits_and_the_core_may_sleep() {
    let bench = Bench::new();
    bench.spawn("periodic", 1_000);
    let parameters = Parameters::none().with("period_us", 10_000).with("budget_us", 100);
    bench.executor.bind("periodic", "earliest_deadline", &parameters, bench.now()).unwrap();
    let turns = bench.run(1_000).len();
    assert!((90..=110).contains(&turns), "{turns} turns of a microsecond, of a budget of 100");
    assert!(!bench.executor.is_ready(|| bench.now()));
    let due = bench.executor.next_due().expect("it waits for its next period");
    assert!(bench.executor.is_ready(|| due));
    bench.now.set(due.as_nanos());
    assert!(bench.run(1_000).len() >= 90);
}

/// Has its subjects wait for ever.
struct Hoarder;

impl Scheduling for Hoarder {
    fn enqueue(&mut self, _: &Ready) {}
    fn dequeue(&mut self, _: &Ready) {}
    fn next(&mut self, now: Instant) -> Option<Answer> {
        Some(Answer::Wait(now + Duration::from_secs(3_600)))
    }
}

#[test]
fn who_is_made_to_wait_for_ever_has_turns_though_the_core_sleeps() {
    let bench = Bench::new();
    bench.executor.install("hoarder", 50, Box::new(Hoarder));
    bench.spawn("victim", 5);
    bench.executor.bind("victim", "hoarder", &Parameters::none(), bench.now()).unwrap();
    let mut turns = 0;
    while turns < 5 && bench.now() < Instant::START + Duration::from_secs(1) {
        turns += bench.run(10).len();
        // The core sleeps until something may run.
        if let Some(due) = bench.executor.next_due() {
            bench.now.set(due.as_nanos());
        }
    }
    assert_eq!(turns, 5);
}

#[test]
fn what_is_unknown_is_refused() {
    let bench = Bench::new();
    bench.spawn("known", 1);
    let bind =
        |subject, policy| bench.executor.bind(subject, policy, &Parameters::none(), Instant::START);
    assert_eq!(bind("unknown", "fifo"), Err(Refusal::NoSubject));
    assert_eq!(bind("known", "unknown"), Err(Refusal::NoPolicy));
    assert!(!bench.executor.managed.is_used());
}

/// Answers nothing.
struct Silent;

impl Scheduling for Silent {
    fn enqueue(&mut self, _: &Ready) {}
    fn dequeue(&mut self, _: &Ready) {}
    fn next(&mut self, _: Instant) -> Option<Answer> {
        None
    }
}

#[test]
fn an_expelled_policy_is_told_of() {
    let bench = Bench::new();
    bench.executor.install("silent", 50, Box::new(Silent));
    let (executor, log) = (bench.executor.clone(), bench.log.clone());
    bench.executor.spawn(async move {
        let name = core::future::poll_fn(|context| executor.poll_expelled(context)).await;
        assert_eq!(name, "silent");
        log.borrow_mut().push("told");
    });
    bench.spawn("victim", 5);
    bench.bind("victim", "silent");
    let mut log = bench.run(20);
    log.sort();
    assert_eq!(log, ["told", "victim", "victim", "victim", "victim", "victim"]);
    let silent = bench.executor.policies().into_iter().find(|it| it.name == "silent").unwrap();
    assert_eq!((silent.subjects, silent.refused), (0, 3));
    assert!(silent.expelled.is_some());
    assert!(bench.now() < Instant::START + Duration::from_millis(1));
}

/// A task that says when its slice would end.
fn slice_of(bench: &Bench, subject: &'static str) -> Rc<Cell<Option<Duration>>> {
    let (executor, now, seen) = (bench.executor.clone(), bench.now.clone(), Rc::default());
    let told: Rc<Cell<_>> = Rc::clone(&seen);
    let before = executor.act_as(executor.subject(subject));
    let asked = executor.clone();
    executor.spawn(async move {
        let now = Instant::from_nanos(now.get());
        told.set(asked.slice_ends(false, || now).map(|end| end.since(now)));
        asked.note_preempted();
    });
    executor.act_as(before);
    seen
}

#[test]
fn a_turn_has_an_end_while_others_wait() {
    let guard = Duration::from_millis(100);
    for (policy, slice) in [(None, SLICE), (Some("fair"), SLICE), (Some("fifo"), guard)] {
        let bench = Bench::new();
        if let Some(policy) = policy {
            bench.executor.subject("package");
            bench.bind("package", policy);
        }
        let alone = slice_of(&bench, "package");
        bench.run(2);
        assert_eq!(alone.get(), None, "{policy:?}");
        // Another one of the class, so that its turn does not come first.
        let beside = slice_of(&bench, "package");
        bench.spawn("package", 1);
        bench.run(3);
        assert_eq!(beside.get(), Some(slice), "{policy:?}");
    }
}

#[test]
fn a_turn_ends_when_a_higher_class_may_go_on() {
    let bench = Bench::new();
    bench.spawn("periodic", 1_000);
    let parameters = Parameters::none().with("period_us", 2_000).with("budget_us", 100);
    bench.executor.bind("periodic", "earliest_deadline", &parameters, bench.now()).unwrap();
    bench.run(200);
    assert!(bench.executor.next_due().is_some());
    bench.executor.subject("package");
    bench.bind("package", "fifo");
    let slice = slice_of(&bench, "package");
    bench.run(1);
    let slice = slice.get().expect("it has an end");
    assert!(slice < Duration::from_millis(2), "{slice:?}");
}

#[test]
fn timers_are_as_urgent_as_the_policy_of_their_subject() {
    let bench = Bench::new();
    for subject in ["log", "job"] {
        assert_eq!(bench.urgency(subject), 0, "nobody is bound");
    }
    bench.bind("log", "fair");
    bench.bind("job", "fifo");
    let usual = bench.urgency("heap");
    assert!(bench.urgency("log") > usual && usual > bench.urgency("job"));
    assert_eq!(bench.executor.priority(), usual, "the kernel's own");
}

#[test]
fn turns_of_who_is_alone_follow_each_other_by_one_answer() {
    for policy in ["fair", "real_time"] {
        let bench = Bench::new();
        bench.bind_new("a", policy);
        (0..3).for_each(|_| bench.spawn("a", 50));
        assert_eq!(bench.pass(20), ["a"; 20]);
        assert_eq!(bench.decisions(policy), 1);
        // Another's turns are asked for, and then the three that were handed over for that.
        bench.bind_new("b", policy);
        bench.spawn("b", 1);
        assert!(bench.pass(8).contains(&"b"), "{policy}");
        assert!(bench.decisions(policy) >= 4, "{policy}");
        let before = bench.decisions(policy);
        bench.pass(20);
        assert!(bench.decisions(policy) - before <= 3 + 1, "{policy}");
    }
}

#[test]
fn turns_do_not_follow_each_other_past_what_goes_before() {
    for (first, second) in [("real_time", "fair"), ("real_time", "fifo"), ("default", "fifo")] {
        let bench = Bench::new();
        bench.bind_new("second", second);
        if first != "default" {
            bench.bind_new("first", first);
        }
        bench.spawn("second", 5);
        let (log, flag) = (bench.log.clone(), nile_sync::OneShot::default());
        let before = bench.executor.act_as(bench.executor.subject("first"));
        let seen = flag.clone();
        bench.executor.spawn(async move {
            core::future::poll_fn(|context| seen.poll_take(context)).await;
            log.borrow_mut().push("first");
        });
        bench.executor.act_as(bench.executor.subject("second"));
        bench.executor.spawn(async move { flag.give(()) });
        bench.executor.act_as(before);
        let ran = bench.pass(20);
        assert_eq!(ran, ["second", "first", "second", "second", "second", "second"], "{second}");
    }
}

#[test]
fn who_was_alone_for_long_shares_evenly_from_then_on() {
    let bench = Bench::new();
    for subject in ["a", "b"] {
        bench.bind_new(subject, "fair");
    }
    bench.spawn("b", 1);
    bench.spawn("a", 5_000);
    bench.pass(1_000);
    bench.spawn("b", 5_000);
    let of_b = |ran: Vec<&str>| ran.iter().filter(|it| **it == "b").count();
    // A go is charged as one turn: so long may the other be ahead.
    assert!(of_b(bench.pass(100)) <= 66 + 1);
    let of_b = of_b(bench.pass(1_000));
    assert!((450..=550).contains(&of_b), "{of_b}");
}
