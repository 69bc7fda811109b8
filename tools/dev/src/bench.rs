//! `nile bench`: the benchmarks, each beside its peer in the same run. They are a program of
//! their own, so that this command does not carry their peers; it takes the names to run and
//! sends each result as a report (see [`serial`](nile_cli::serial)). Here the results become one
//! table or one document. Whole other systems are [`peers`] of another kind, [`paper`] is an
//! experiment with them, [`linux`] is one in a guest, [`stream`] is one with edges that come,
//! [`net`] is one of the network, and [`hotplug`] is one of machines that are divided.

pub mod hotplug;
pub mod linux;
pub mod net;
pub mod paper;
pub mod peers;
mod python;
mod record;
pub mod several;
pub mod stream;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use nile_cli::args::{Bench, Beside};
use nile_cli::child;
use nile_cli::failure::Failure;
use nile_cli::needs::{self, BENCHES};
use nile_cli::serial::Said;
use nile_cli::table;
use record::Record;

/// How long all benchmarks together may take.
const LIMIT: Duration = Duration::from_secs(60 * 60);

/// How long they may take to end clusters and to remove what lies on disks.
const GRACE: Duration = Duration::from_secs(30);

/// What every benchmark of a run measured.
#[derive(Default, Serialize)]
struct Results {
    benchmarks: Vec<Benchmark>,
}

/// What one benchmark measured.
#[derive(Serialize, Deserialize)]
struct Benchmark {
    name: String,
    /// What `ours` and the peer's value are counted in.
    unit: String,
    ours: f64,
    peer: Peer,
    /// Ours against the peer's, named so that `target` reads "at most" or "at least".
    ratio: f64,
    /// What the ratio must be, in words.
    target: String,
    /// Whether it is.
    pass: bool,
    /// What was measured at most in 1% to 100% of the rounds, and of whom, where that is said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    spread: Vec<(String, Vec<f64>)>,
}

/// What a benchmark is measured against.
#[derive(Serialize, Deserialize)]
struct Peer {
    name: String,
    value: f64,
}

/// Runs the benchmarks and prints what they measured; fails if one misses its target, or if a
/// control meets it.
pub fn run(options: &Bench) -> Result<(), Failure> {
    match &options.beside {
        Some(Beside::Peers(options)) => return peers::run(options),
        Some(Beside::Paper(options)) => return paper::run(options),
        Some(Beside::Linux(options)) => return linux::run(options),
        Some(Beside::Stream(options)) => return stream::run(options),
        Some(Beside::Net(options)) => return net::run(options),
        Some(Beside::Hotplug(options)) => return hotplug::run(options),
        None => {}
    }
    if let Some(all) = several::each(options)? {
        // The others are measured, too, when one has missed its target.
        let ends: Vec<_> = all.iter().map(run).collect();
        return ends.into_iter().collect();
    }
    let record = Record::of(&options.recorded, "bench")?;
    let spread = Record::of(&options.recorded, "spread")?;
    let mut command = child::command(needs::provided(BENCHES)?);
    command.args(options.control.then_some("--control"));
    command.args(options.quick.then_some("--quick")).args(&options.names);
    let mut results = Results::default();
    let mut damaged = None;
    let mut last = String::new();
    let status = child::listen_with(GRACE, &mut command, LIMIT, |said| match said {
        Said::Line(line) => {
            nile_cli::say(format_args!("{line}"));
            last = line;
        }
        Said::Report(document) => match serde_json::from_str(&document) {
            Ok(benchmark) => results.benchmarks.push(benchmark),
            Err(error) => damaged = Some(error),
        },
    })
    .map_err(|error| error.of("the benchmark program"))?;
    if status.code() == Some(2) {
        return Err(Failure::Request(last));
    }
    nile_cli::print(&match options.json {
        true => document(&results),
        false => describe(&results),
    })?;
    record.map_or(Ok(()), |it| it.append(&results.benchmarks))?;
    spread.map_or(Ok(()), |it| it.append_spread(&results.benchmarks))?;
    if let Some(error) = damaged {
        return Err(Failure::failed(format!("a benchmark's result is damaged: {error}")));
    }
    let wrong = results.benchmarks.iter().filter(|result| result.pass == options.control).count();
    match (status.success(), wrong, options.control) {
        (false, ..) => Err(Failure::failed(format!("the benchmark program failed ({status})"))),
        (true, 0, _) => Ok(()),
        (true, _, false) => Err(Failure::failed(format!("{wrong} benchmarks missed the target"))),
        (true, _, true) => Err(Failure::failed(format!(
            "{wrong} controls met the target: their benchmarks prove nothing"
        ))),
    }
}

fn document(results: &Results) -> String {
    let text = serde_json::to_string(results).expect("the fields are text, numbers and booleans");
    text + "\n"
}

fn describe(results: &Results) -> String {
    let title = ["benchmark", "ours", "peer", "", "unit", "ratio", "target", ""];
    let mut rows = vec![title.map(String::from).to_vec()];
    for benchmark in &results.benchmarks {
        rows.push(vec![
            benchmark.name.clone(),
            figure(benchmark.ours),
            figure(benchmark.peer.value),
            benchmark.peer.name.clone(),
            benchmark.unit.clone(),
            format!("{:.2}", benchmark.ratio),
            benchmark.target.clone(),
            if benchmark.pass { "met" } else { "MISSED" }.into(),
        ]);
    }
    table::columns("", &rows)
}

/// Three digits that matter, without an exponent.
fn figure(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"name":"round trip","unit":"ns","ours":161.2,
        "peer":{"name":"cache line","value":95.25},"ratio":1.69,"target":"at most 2.0",
        "pass":true}"#;

    #[test]
    fn a_result_goes_through_as_the_contract_says() {
        let results = Results { benchmarks: vec![serde_json::from_str(LINE).unwrap()] };
        let compact: String = LINE.split("\n        ").collect();
        assert_eq!(document(&results), format!("{{\"benchmarks\":[{compact}]}}\n"));
        let table = describe(&results);
        assert!(table.contains("round trip   161  95.2  cache line  ns     1.69"), "{table}");
        assert!(table.trim_end().ends_with("at most 2.0  met"), "{table}");
    }
}
