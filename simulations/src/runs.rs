//! Many seeds of one scenario, on as many threads as the machine has cores. The report does not
//! depend on how many those are.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::options::Options;
use crate::report::{Failure, Figure, Report};
use crate::trace::Trace;

/// How one run ended.
#[derive(Clone, Default, Debug)]
pub struct Outcome {
    /// The hash of its events.
    pub trace_hash: u64,
    /// The first invariant that it broke, and how. A figure that misses its target need not be
    /// named here.
    pub broken: Option<String>,
    /// What was measured: the same figures in every run.
    pub figures: Vec<Figure>,
}

/// Calls `simulate` with every seed that `options` ask for and puts the outcomes into one report.
/// A run that panics has failed, like one that breaks an invariant. Blocks until all are done.
pub fn run_seeds(
    scenario: &str,
    options: &Options,
    nodes: u32,
    simulate: impl Fn(u64) -> Outcome + Sync,
) -> Report {
    let seeds: Vec<u64> =
        (0..options.runs).map(|run| options.seed.wrapping_add(u64::from(run))).collect();
    let outcomes: Vec<Mutex<Option<Outcome>>> = seeds.iter().map(|_| Mutex::default()).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(&seed) = seeds.get(place) else { break };
            let outcome = catch_unwind(AssertUnwindSafe(|| simulate(seed)));
            let outcome = outcome.unwrap_or_else(|cause| Outcome {
                broken: Some(format!("it panicked: {}", said(&*cause))),
                ..Outcome::default()
            });
            // Nothing panics while it holds the lock.
            if let Ok(mut slot) = outcomes[place].lock() {
                *slot = Some(outcome);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(seeds.len());
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let outcomes = outcomes.into_iter().map(|slot| slot.into_inner().ok().flatten());
    collect(
        scenario,
        options,
        nodes,
        seeds.iter().copied().zip(outcomes.map(Option::unwrap_or_default)),
    )
}

fn collect(
    scenario: &str,
    options: &Options,
    nodes: u32,
    outcomes: impl Iterator<Item = (u64, Outcome)>,
) -> Report {
    let mut trace = Trace::default();
    let mut report = Report {
        scenario: scenario.into(),
        seed: options.seed,
        nodes,
        runs: options.runs,
        failed: Vec::new(),
        trace_hash: String::new(),
        senders: options.senders,
        figures: Vec::new(),
    };
    for (seed, outcome) in outcomes {
        trace.note_bytes(&outcome.trace_hash.to_le_bytes());
        let missed = outcome.figures.iter().filter(|figure| !figure.holds()).map(missed);
        let reasons: Vec<String> = outcome.broken.into_iter().chain(missed).collect();
        if !reasons.is_empty() {
            report.failed.push(Failure { seed, invariant: reasons.join("; ") });
        }
        for figure in outcome.figures {
            match report.figures.iter_mut().find(|known| known.name == figure.name) {
                Some(known) if known.is_count => known.value += figure.value,
                Some(known) if known.worse(figure.value) => *known = figure,
                Some(_) => {}
                None => report.figures.push(figure),
            }
        }
    }
    report.trace_hash = format!("{:016x}", trace.hash());
    report
}

fn missed(figure: &Figure) -> String {
    let Figure { name, value, unit, target, .. } = figure;
    let target = target.map(|target| target.to_string()).unwrap_or_default();
    format!("{name} is {value:.4} {unit} and must be {target}")
}

fn said(cause: &(dyn std::any::Any + Send)) -> String {
    let text = cause.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| cause.downcast_ref::<String>().cloned()).unwrap_or_else(|| "silently".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Target;

    fn odd_seeds_fail(seed: u64) -> Outcome {
        Outcome {
            trace_hash: seed * 7,
            broken: (seed % 2 == 1).then(|| "parity".into()),
            figures: vec![Figure::new("seed", seed as f64, "").with_target(Target::AtMost(5.0))],
        }
    }

    #[test]
    fn failures_come_in_the_order_of_their_seeds() {
        let options = Options { seed: 3, runs: 4, ..Options::default() };
        let report = run_seeds("parity", &options, 9, odd_seeds_fail);
        let failed: Vec<_> =
            report.failed.iter().map(|one| (one.seed, one.invariant.as_str())).collect();
        let too_large = "seed is 6.0000  and must be at most 5.0000";
        assert_eq!(failed, [(3, "parity"), (5, "parity"), (6, too_large)]);
        assert_eq!((report.figures.len(), report.figures[0].value), (1, 6.0));
        assert_eq!(report, run_seeds("parity", &options, 9, odd_seeds_fail));
        let other = run_seeds("parity", &Options { seed: 4, ..options }, 9, odd_seeds_fail);
        assert_ne!(report.trace_hash, other.trace_hash);
    }

    #[test]
    fn a_panic_is_a_failed_run() {
        let options = Options { runs: 2, ..Options::default() };
        let report = run_seeds("panics", &options, 1, |seed| match seed {
            1 => panic!("seed {seed} cannot be"),
            _ => Outcome::default(),
        });
        let invariant = "it panicked: seed 1 cannot be".into();
        assert_eq!(report.failed, [Failure { seed: 1, invariant }]);
    }

    #[test]
    fn what_is_counted_is_that_of_all_runs() {
        let options = Options { seed: 3, runs: 4, ..Options::default() };
        let report = run_seeds("counts", &options, 1, |seed| Outcome {
            figures: vec![Figure::count("seeds", seed)],
            ..Outcome::default()
        });
        assert_eq!(report.figures, [Figure::count("seeds", 3 + 4 + 5 + 6)]);
    }

    #[test]
    fn the_document_has_the_promised_fields() {
        let report = run_seeds("parity", &Options::default(), 9, odd_seeds_fail);
        let text = serde_json::to_string(&report).unwrap();
        let start = r#"{"scenario":"parity","seed":1,"nodes":9,"runs":1,"failed":[{"seed":1,"#;
        assert!(text.starts_with(start), "{text}");
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    }
}
