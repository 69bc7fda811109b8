//! `nile sim shifting`: one node whose cores leave, come back, begin anew and change roles and
//! kernel images at any moment, while calls, packages and jobs go on. The kernel runs in the
//! simulator.

use nile_kernel::Report as NodeReport;
use nile_platform_sim::Finished;
use nile_sim::Control;
use nile_simulations::{Figure, Options, Outcome, Report, Scenario, run_seeds};

/// The scenario.
pub const SCENARIO: Scenario = Scenario {
    name: "shifting",
    about: "cores that leave, come and change roles and images at any moment, under jobs",
    run,
};

fn run(options: &Options) -> Report {
    run_seeds(SCENARIO.name, options, 1, |seed| match nile_sim::shifting(seed, Control::Nothing) {
        Ok(finished) => judge(&finished),
        Err(stuck) => Outcome { broken: Some(stuck.to_string()), ..Outcome::default() },
    })
}

/// What came of a run.
fn judge(finished: &Finished) -> Outcome {
    let outcome = Outcome { trace_hash: finished.trace_hash, ..Outcome::default() };
    let report = finished.reports.first().and_then(|it| serde_json::from_str(it).ok());
    let Some(program) = report.and_then(|it: NodeReport| it.program) else {
        return Outcome { broken: Some("there is no report".into()), ..outcome };
    };
    let counts = program.figures.iter().map(|(name, count)| Figure::count(name, *count));
    let broken = (!program.passed).then(|| program.failures.join("; "));
    Outcome { broken, figures: counts.collect(), ..outcome }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_wrong_is_found_out() {
        for (control, found) in
            [(Control::Force, "has failed"), (Control::OwnImage, "runs 0, and not")]
        {
            let judged = |seed| judge(&nile_sim::shifting(seed, control).ok()?).broken;
            let broken: Vec<String> = (1..=4).filter_map(judged).collect();
            assert!(broken.iter().any(|it| it.contains(found)), "{broken:?}");
        }
    }

    #[test]
    fn a_seed_is_one_run() {
        let report = run(&Options { seed: 7, runs: 1, ..Options::default() });
        assert_eq!(report.failed, []);
        assert_eq!(report, run(&Options { seed: 7, runs: 1, ..Options::default() }));
    }
}
