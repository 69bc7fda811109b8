//! Policies that do wrong: beside each, others run as if it were not there, and it is expelled
//! within three decisions.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::Instant;

use super::bench::{Bench, micros, scheduler};
use crate::class::GUARD;
use crate::{
    Answer, ClassId, Decision, Expulsion, MOST_DECISIONS, Parameters, Ready, Refusal, Scheduling,
    Subject, Token,
};

/// Answers nothing, ever.
struct Silent;

impl Scheduling for Silent {
    fn enqueue(&mut self, _: &Ready) {}
    fn dequeue(&mut self, _: &Ready) {}
    fn next(&mut self, _: Instant) -> Option<Answer> {
        None
    }
}

/// Answers tokens that nobody has given it.
struct Liar(u32);

impl Scheduling for Liar {
    fn enqueue(&mut self, _: &Ready) {}
    fn dequeue(&mut self, _: &Ready) {}
    fn next(&mut self, _: Instant) -> Option<Answer> {
        self.0 += 1;
        Some(Answer::Run(Token { slot: self.0 % 7, generation: self.0 * 31 }, None))
    }
}

/// Answers each token twice.
#[derive(Default)]
struct Twin(Vec<Token>, Option<Token>);

impl Scheduling for Twin {
    fn enqueue(&mut self, it: &Ready) {
        self.0.push(it.token);
    }
    fn dequeue(&mut self, it: &Ready) {
        self.0.retain(|token| *token != it.token);
    }
    fn next(&mut self, _: Instant) -> Option<Answer> {
        let token = self.1.take().or_else(|| {
            self.1 = self.0.first().copied();
            (!self.0.is_empty()).then(|| self.0.remove(0))
        });
        token.map(|token| Answer::Run(token, None))
    }
}

/// Forgets every other token that it is given.
#[derive(Default)]
struct Forgetful(Vec<Token>, bool);

impl Scheduling for Forgetful {
    fn enqueue(&mut self, it: &Ready) {
        self.1 = !self.1;
        if self.1 {
            self.0.push(it.token);
        }
    }
    fn dequeue(&mut self, it: &Ready) {
        self.0.retain(|token| *token != it.token);
    }
    fn next(&mut self, _: Instant) -> Option<Answer> {
        self.0.pop().map(|token| Answer::Run(token, None))
    }
}

/// Answers what was dequeued: it was bound elsewhere.
#[derive(Default)]
struct Thief(Vec<Token>);

impl Scheduling for Thief {
    fn enqueue(&mut self, it: &Ready) {
        self.0.push(it.token);
    }
    fn dequeue(&mut self, _: &Ready) {}
    fn next(&mut self, _: Instant) -> Option<Answer> {
        self.0.first().map(|token| Answer::Run(*token, None))
    }
}

/// Gives slices of no time, and of all time.
#[derive(Default)]
struct Slices(Vec<Token>, bool);

impl Scheduling for Slices {
    fn enqueue(&mut self, it: &Ready) {
        self.0.push(it.token);
    }
    fn dequeue(&mut self, it: &Ready) {
        self.0.retain(|token| *token != it.token);
    }
    fn next(&mut self, _: Instant) -> Option<Answer> {
        self.1 = !self.1;
        let slice = if self.1 { Duration::ZERO } else { Duration::MAX };
        (!self.0.is_empty()).then(|| Answer::Run(self.0.remove(0), Some(slice)))
    }
}

/// Always has its subjects wait.
struct Hoarder(Instant);

impl Scheduling for Hoarder {
    fn enqueue(&mut self, _: &Ready) {}
    fn dequeue(&mut self, _: &Ready) {}
    fn next(&mut self, now: Instant) -> Option<Answer> {
        self.0 = now + Duration::from_secs(3_600);
        Some(Answer::Wait(self.0))
    }
}

/// Ten seconds of a hostile policy of high priority with two subjects, a fair one with two, and one
/// that is bound to nothing.
fn beside(policy: Box<dyn Scheduling>) -> (Bench, ClassId) {
    let (mut it, [_, fair, ..]) = scheduler();
    let hostile = it.install("hostile", 90, policy);
    for subject in [0, 1] {
        it.bind(Subject(subject), hostile, &Parameters::none(), Instant::START).unwrap();
    }
    for subject in [2, 3] {
        it.bind(Subject(subject), fair, &Parameters::none(), Instant::START).unwrap();
    }
    let mut bench = Bench::new(it, 5);
    bench.run(micros(200), Instant::from_nanos(10_000_000_000));
    (bench, hostile)
}

/// Nobody has waited for more than twice the guard for a turn, but for whoever is the policy's.
fn nobody_else_has_waited(bench: &Bench) {
    let others = &bench.waited[2..];
    assert!(others.iter().all(|waited| *waited <= 2 * GUARD), "{others:?}");
}

fn expelled(bench: &Bench) -> Option<Expulsion> {
    bench.scheduler.statistics().find(|it| it.name == "hostile").and_then(|it| it.why())
}

#[test]
fn who_answers_wrong_is_expelled_and_its_subjects_go_on_by_the_default() {
    let hostile: [(Box<dyn Scheduling>, Expulsion); 5] = [
        (Box::new(Silent), Expulsion::Silent),
        (Box::new(Liar(0)), Expulsion::Wrong),
        (Box::<Twin>::default(), Expulsion::Wrong),
        (Box::<Forgetful>::default(), Expulsion::Silent),
        (Box::<Thief>::default(), Expulsion::Wrong),
    ];
    for (policy, why) in hostile {
        let (mut bench, id) = beside(policy);
        assert_eq!(expelled(&bench), Some(why));
        nobody_else_has_waited(&bench);
        let it = bench.scheduler.statistics().find(|it| it.name == "hostile").unwrap();
        assert_eq!((it.refused, it.subjects, it.ready), (3, 0, 0), "{why:?}");
        let expelled = it.expelled.unwrap();
        let wrong = |it: &&Decision| !matches!(it, Decision::Run(_));
        assert_eq!((expelled.subjects, expelled.last.iter().filter(wrong).count()), (2, 3));
        assert!(expelled.last.len() <= MOST_DECISIONS);
        assert!(expelled.last.last().is_some_and(|last| wrong(&last)), "{expelled:?}");
        assert!(bench.had.iter().all(|had| *had >= Duration::from_millis(150)), "{:?}", bench.had);
        assert_eq!(bench.scheduler.class_of(Subject(0)), ClassId::DEFAULT);
        let again = bench.scheduler.bind(Subject(0), id, &Parameters::none(), bench.now);
        assert_eq!(again, Err(Refusal::Expelled));
        // Published anew, it is a policy like any other.
        bench.scheduler.install("hostile", 90, Box::<Slices>::default());
        bench.scheduler.bind(Subject(0), id, &Parameters::none(), bench.now).unwrap();
    }
}

#[test]
fn who_ended_its_core_is_bound_to_by_nobody_before_it_is_published_anew() {
    let (mut it, _) = scheduler::<u32>();
    it.bar("fatal", Instant::START);
    let id = it.class_named("fatal").unwrap();
    let none = Parameters::none();
    assert_eq!(it.bind(Subject(0), id, &none, Instant::START), Err(Refusal::Expelled));
    let fatal = it.statistics().find(|it| it.name == "fatal").unwrap();
    assert_eq!(fatal.why(), Some(Expulsion::Fatal));
    it.install("fatal", 7, Box::<Slices>::default());
    it.bind(Subject(0), id, &none, Instant::START).unwrap();
}

#[test]
fn slices_are_bounded() {
    let (bench, _) = beside(Box::<Slices>::default());
    assert_eq!(expelled(&bench), None);
    nobody_else_has_waited(&bench);
    assert!(bench.had.iter().all(|had| *had >= Duration::from_millis(150)), "{:?}", bench.had);
}

#[test]
fn who_has_its_subjects_wait_for_ever_starves_nobody() {
    let (bench, _) = beside(Box::new(Hoarder(Instant::START)));
    assert_eq!(expelled(&bench), None);
    nobody_else_has_waited(&bench);
    let shares: Vec<_> = bench.had.iter().map(|had| had.as_secs_f64() / 10.0).collect();
    assert!(
        shares[0] > 0.02 && shares[1] > 0.02 && shares[4] > 0.04 && shares[2] > 0.4,
        "{shares:?}"
    );
}
