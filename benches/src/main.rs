//! The benchmarks of NileOS. Each stands beside a peer that is measured in the same run, so that
//! a figure means something on any machine, and has a *control*: the same benchmark with something
//! made worse on purpose, which must miss the target (`--control`).
//!
//! `nile-benches [--control] [NAME…]` runs the benchmarks of these names, or all but the long ones.
//! Each result goes to standard output as one report (the byte 0x1E, a JSON document, a line's
//! end); what a person wants to know besides goes to standard error. Exit status 0: all ran, 1: one
//! could not be run, 2: the request was wrong.
//!
//! * [`figure`]: a result and its target.
//! * [`place`], [`duel`], [`rounds`]: measuring in turns, on two threads or on one.
//! * [`poll`], [`sleep`], [`throughput`]: channels; [`ends`] are two of them between two threads.
//! * [`mapping`], [`frames`], [`tables`]: memory; [`private`] and [`scan`] are the naive peers.
//! * [`bosml`]: messages, beside an XML parser.
//! * [`registry`]: finding services.
//! * [`node`]: a booted node; [`boot_time`], [`image_size`], [`tickless`] and [`idle`] measure it,
//!   [`cluster_up`] three of them.
//! * [`disk`]: a hosted disk, beside plain reads and writes.
//! * [`sort`]: the sort job, beside a sort in one process.
//! * [`rpc`], [`bulk`]: calls and transfers between nodes; [`sims`]: what simulations measure.
//! * [`call`]: calls to services, on booted nodes; [`system_call`]: and to the kernel.
#![forbid(unsafe_code)]

mod boot_time;
mod bosml;
mod bulk;
mod call;
mod cluster_up;
mod disk;
mod duel;
mod ends;
mod figure;
mod frames;
mod idle;
mod image_size;
mod mapping;
mod node;
mod pair;
mod place;
mod poll;
mod private;
mod registry;
mod rounds;
mod rpc;
mod scan;
mod sims;
mod sleep;
mod sort;
mod system_call;
mod tables;
mod throughput;
mod tickless;

use std::env;
use std::process::ExitCode;

use figure::{Failure, Figure};

/// Whether a benchmark runs as it is, or as its control.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// It must meet its target.
    Real,
    /// Made worse on purpose: it must miss its target. It takes fewer rounds.
    Control,
}

/// One benchmark.
struct Benchmark {
    name: &'static str,
    /// Measures and gives the results, of which there is at least one.
    run: fn(Mode) -> Result<Vec<Figure>, Failure>,
    /// Whether it takes so long that it runs only if it is named.
    long: bool,
}

/// One that takes a minute or two at most.
const fn usual(name: &'static str, run: fn(Mode) -> Result<Vec<Figure>, Failure>) -> Benchmark {
    Benchmark { name, run, long: false }
}

/// Every benchmark, the quick ones first.
const BENCHMARKS: [Benchmark; 20] = [
    usual("ring-poll", poll::run),
    usual("ring-sleep", sleep::run),
    usual("ring-throughput", throughput::run),
    usual("mapping", mapping::run),
    usual("frames", frames::run),
    usual("tables", tables::run),
    usual("bosml", bosml::run),
    usual("registry", registry::run),
    usual("image-size", image_size::run),
    usual("boot-time", boot_time::run),
    usual("cluster-up", cluster_up::run),
    usual("idle", idle::run),
    usual("tickless", tickless::run),
    usual("disk", disk::run),
    usual("call", call::run),
    usual("rpc", rpc::run),
    usual("bulk", bulk::run),
    usual("gossip", sims::run_gossip),
    usual("sort", sort::run),
    Benchmark { name: "sort-scaling", run: sort::run_scaling, long: true },
];

fn main() -> ExitCode {
    let (mode, chosen) = match request(env::args().skip(1)) {
        Ok(request) => request,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let mut all_ran = true;
    for Benchmark { name, run, .. } in chosen {
        eprintln!("{name}:");
        match run(mode) {
            Ok(figures) => figures.iter().for_each(Figure::send),
            Err(failure) => {
                eprintln!("  {name} could not be run: {failure}");
                all_ran = false;
            }
        }
    }
    if all_ran { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the command line asks for.
fn request(
    arguments: impl Iterator<Item = String>,
) -> Result<(Mode, Vec<&'static Benchmark>), String> {
    let (mut mode, mut chosen) = (Mode::Real, Vec::new());
    for argument in arguments {
        match BENCHMARKS.iter().find(|benchmark| benchmark.name == argument) {
            Some(benchmark) => chosen.push(benchmark),
            None if argument == "--control" => mode = Mode::Control,
            None => {
                let names: Vec<_> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
                return Err(format!("no benchmark `{argument}`; there are: {}", names.join(", ")));
            }
        }
    }
    if chosen.is_empty() {
        chosen.extend(BENCHMARKS.iter().filter(|benchmark| !benchmark.long));
    }
    Ok((mode, chosen))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &[&str]) -> Result<(Mode, Vec<&'static str>), String> {
        let (mode, chosen) = request(words.iter().map(|word| word.to_string()))?;
        Ok((mode, chosen.into_iter().map(|benchmark| benchmark.name).collect()))
    }

    #[test]
    fn names_choose_and_none_is_all() {
        let (mode, all) = asked(&[]).unwrap();
        assert!(mode == Mode::Real && all.len() < BENCHMARKS.len());
        assert!(!all.contains(&"sort-scaling") && all.contains(&"sort"));
        let (mode, some) = asked(&["tables", "--control", "frames"]).unwrap();
        assert!(mode == Mode::Control);
        assert_eq!(some, ["tables", "frames"]);
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_there_are() {
        let Err(message) = asked(&["tables", "tabels"]) else { panic!("it is refused") };
        assert!(message.contains("`tabels`") && message.contains("ring-poll"), "{message}");
    }
}
