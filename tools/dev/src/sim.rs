//! `nile sim SCENARIO`: the cluster's protocols and whole jobs, simulated with faults. A seed that
//! fails is printed as the command that repeats it.

mod machines;
mod shifting;

use nile_simulations::{Options, Report, SCENARIOS, Scenario};

use nile_cli::args::Sim;
use nile_cli::failure::Failure;
use nile_cli::nearest::suggestion;
use nile_cli::table;

/// Failed runs that are shown with their commands; the document has them all.
const SHOWN: usize = 10;

/// Runs the scenario and prints what it found. Blocks until all runs are done.
pub fn run(options: &Sim) -> Result<(), Failure> {
    let scenario = find(options)?;
    let Sim { seed, runs, nodes, senders, .. } = *options;
    let report = (scenario.run)(&Options { seed, runs, nodes, senders });
    nile_cli::print(&match options.json {
        true => serde_json::to_string(&report)
            .map(|text| text + "\n")
            .map_err(|error| Failure::failed(format!("the report cannot be written: {error}")))?,
        false => describe(&report),
    })?;
    match report.failed.len() {
        0 => Ok(()),
        failed => Err(Failure::failed(format!(
            "{failed} of {} runs broke an invariant; repeat the first with: {}",
            report.runs,
            replay(&report, report.failed[0].seed)
        ))),
    }
}

/// Refuses a scenario that there is not.
pub fn check(options: &Sim) -> Result<(), Failure> {
    find(options).map(|_| ())
}

fn find(options: &Sim) -> Result<&'static Scenario, Failure> {
    let name = options.scenario.as_str();
    let kernels = [&machines::SCENARIO, &shifting::SCENARIO, &nile_terasort_simulation::SCENARIO];
    let all = || SCENARIOS.iter().chain(kernels);
    all().find(|scenario| scenario.name == name).ok_or_else(|| {
        let names: Vec<&str> = all().map(|scenario| scenario.name).collect();
        Failure::request(format!("no simulation `{name}`; {}", suggestion(name, names)))
    })
}

fn describe(report: &Report) -> String {
    let Report { scenario, seed, nodes, runs, failed, trace_hash, .. } = report;
    let mut text =
        format!("{scenario}: {nodes} nodes, {runs} runs from seed {seed}, trace {trace_hash}\n");
    let row = |figure: &nile_simulations::Figure| {
        let target = figure.target.map(|target| target.to_string()).unwrap_or_default();
        let digits = if figure.value.fract() == 0.0 { 0 } else { 3 };
        let value = format!("{:.digits$} {}", figure.value, figure.unit);
        vec![figure.name.clone(), value.trim_end().into(), target]
    };
    text += &table::columns("  ", &report.figures.iter().map(row).collect::<Vec<_>>());
    for one in failed.iter().take(SHOWN) {
        text += &format!("seed {}: {}\n  {}\n", one.seed, one.invariant, replay(report, one.seed));
    }
    if failed.len() > SHOWN {
        text += &format!("and {} more\n", failed.len() - SHOWN);
    }
    text + &format!("{} held, {} failed\n", *runs as usize - failed.len(), failed.len())
}

/// The command that repeats the run with `seed`.
fn replay(report: &Report, seed: u64) -> String {
    let senders = report.senders.map(|senders| format!(" --senders {senders}"));
    let Report { scenario, nodes, .. } = report;
    // What one node does cannot be done by more.
    let nodes = if *nodes > 1 { format!(" --nodes {nodes}") } else { String::new() };
    format!("./nile sim {scenario} --seed {seed}{nodes}{}", senders.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_simulations::{Figure, Outcome, Target, run_seeds};

    #[test]
    fn a_failed_seed_is_printed_as_a_command() {
        let options = Options { seed: 5, runs: 3, nodes: Some(4), senders: Some(2) };
        let report = run_seeds("bulk", &options, 4, |seed| Outcome {
            broken: (seed == 6).then(|| "a block came twice".into()),
            figures: vec![Figure::new("goodput", 0.95, "").with_target(Target::AtLeast(0.9))],
            ..Outcome::default()
        });
        let text = describe(&report);
        assert!(text.contains("seed 6: a block came twice\n"), "{text}");
        assert!(text.contains("  ./nile sim bulk --seed 6 --nodes 4 --senders 2\n"), "{text}");
        assert!(text.contains("  goodput  0.950  at least 0.9000\n"), "{text}");
        assert!(text.ends_with("2 held, 1 failed\n"), "{text}");
    }
}
