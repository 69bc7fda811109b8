//! The benchmarks of NileOS. Each stands beside a peer that is measured in the same run, so that
//! a figure means something on any machine, and has a *control*: the same benchmark with something
//! made worse on purpose, which must miss the target (`--control`).
//!
//! `nile-benches [--control] [--quick] [NAME…]` runs the benchmarks of these names, or all but the
//! long ones; `sort`, `sync` and `domain` are also the names of all whose names begin with `sort-`,
//! `sync-` and `domain-`. Those that take long work on less data with `--quick`, where targets are
//! no promise.
//! Each result goes to standard output as one report (the byte 0x1E, a JSON document, a line's
//! end); what a person wants to know besides goes to standard error. Exit status 0: all ran, 1: one
//! could not be run, 2: the request was wrong.
//!
//! * [`figure`]: a result and its target.
//! * [`place`], [`duel`], [`rounds`]: measuring in turns, on two threads or on one.
//! * [`poll`], [`sleep`], [`throughput`]: channels; [`ends`] are two of them between two threads.
//! * [`mapping`], [`frames`], [`tables`]: memory; [`private`] and [`scan`] are the naive peers.
//! * [`bosml`]: messages, beside an XML parser.
//! * [`registry`]: finding services; [`compose`]: planning compositions of them.
//! * [`node`]: a booted node; [`boot_time`], [`image_size`], [`tickless`], [`timers`] and [`idle`]
//!   measure it, [`cluster_up`] three of them.
//! * [`disk`]: a hosted disk, beside plain reads and writes; [`files`]: a file put and got, beside
//!   `cp`.
//! * [`domain`]: domains beside themselves, and beside containers.
//! * [`interrupt`]: Ctrl-C, upon which nothing is left behind.
//! * [`replace`]: a package that is replaced under its callers.
//! * [`roles`]: a core that gets another role.
//! * [`jobs_fair`]: a small job that begins while a large one runs.
//! * [`mixed_day`]: roles that follow the work of a day, beside roles that stay.
//! * [`sort`]: the sort job, beside a sort in one process.
//! * [`rpc`], [`bulk`]: calls and transfers between nodes; [`sims`]: what simulations measure.
//! * [`sync`]: what several cores share: a loop, and a map.
//! * [`store`]: records in memory, beside redis and memcached.
//! * [`call`]: calls to services, on booted nodes; [`system_call`]: and to the kernel.
#![forbid(unsafe_code)]

mod boot_time;
mod bosml;
mod bulk;
mod call;
mod cluster_up;
mod compose;
mod disk;
mod domain;
mod duel;
mod ends;
mod figure;
mod files;
mod frames;
mod idle;
mod image_size;
// Both programs end what they have started in the same way, and neither is a library.
#[path = "../../cli/src/interrupt.rs"]
mod interrupt;
mod jobs_fair;
mod mapping;
mod mixed_day;
mod node;
mod pair;
mod place;
mod policy;
mod poll;
mod private;
mod registry;
mod replace;
mod roles;
mod rounds;
mod rpc;
mod scan;
mod sims;
mod sleep;
mod sort;
mod store;
mod sync;
mod system_call;
mod tables;
mod throughput;
mod tickless;
mod timers;
mod words;

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

/// Measures and gives the results: one at least, but in a control of what has no target.
type Run = fn(Mode) -> Result<Vec<Figure>, Failure>;

/// One benchmark.
struct Benchmark {
    name: &'static str,
    run: Run,
    /// The same with less data, if that makes a difference.
    quick: Option<Run>,
    /// Whether it takes so long that it runs only if it is named.
    long: bool,
}

/// One that takes a minute or two at most.
const fn usual(name: &'static str, run: Run) -> Benchmark {
    Benchmark { name, run, quick: None, long: false }
}

/// One that takes minutes, or needs what not every machine has: it runs only if it is named.
const fn long(name: &'static str, run: Run) -> Benchmark {
    Benchmark { name, run, quick: None, long: true }
}

/// Every benchmark, the quick ones first.
const BENCHMARKS: [Benchmark; 41] = [
    usual("ring-poll", poll::run),
    usual("ring-sleep", sleep::run),
    usual("ring-throughput", throughput::run),
    usual("mapping", mapping::run),
    usual("frames", frames::run),
    usual("tables", tables::run),
    usual("bosml", bosml::run),
    usual("registry", registry::run),
    usual("compose", compose::run),
    usual("sync-spread", sync::spread::run),
    usual("sync-mix", sync::mix::run),
    usual("sync-scan", sync::scan::run),
    usual("image-size", image_size::run),
    usual("boot-time", boot_time::run),
    usual("cluster-up", cluster_up::run),
    usual("idle", idle::run),
    usual("tickless", tickless::run),
    usual("timers", timers::run),
    usual("disk", disk::run),
    usual("files", files::run),
    usual("call", call::run),
    usual("policy", policy::run),
    usual("roles", roles::run),
    usual("replace", replace::run),
    usual("rpc", rpc::run),
    usual("bulk", bulk::run),
    usual("gossip", sims::run_gossip),
    Benchmark {
        name: "jobs-fair",
        run: jobs_fair::run,
        quick: Some(jobs_fair::try_out),
        long: true,
    },
    long("mixed-day", mixed_day::run),
    long("domain-colocate", domain::run_colocate),
    long("domain-create", domain::run_create),
    long("domain-core", domain::run_core),
    long("domain-memory", domain::run_memory),
    long("domain-ficm", domain::trips::run_ficm),
    long("domain-rfcom", domain::trips::run_rfcom),
    long("domain-loop", domain::stream::run),
    long("domain-scale", domain::scale::run),
    long("domain-failure", domain::failure::run),
    Benchmark { name: "store", run: store::run, quick: Some(store::try_out), long: true },
    Benchmark { name: "sort", run: sort::run, quick: Some(sort::try_out), long: true },
    Benchmark {
        name: "sort-scaling",
        run: sort::run_scaling,
        quick: Some(sort::try_scaling),
        long: true,
    },
];

fn main() -> ExitCode {
    let Request { mode, is_quick, chosen } = match request(env::args().skip(1)) {
        Ok(request) => request,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    if let Err(error) = interrupt::watch() {
        eprintln!("no Ctrl-C: {error}");
        return ExitCode::FAILURE;
    }
    let mut all_ran = true;
    for Benchmark { name, run, quick, .. } in chosen {
        if interrupt::requested() {
            return ExitCode::FAILURE;
        }
        eprintln!("{name}:");
        match quick.filter(|_| is_quick).unwrap_or(*run)(mode) {
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
struct Request {
    mode: Mode,
    is_quick: bool,
    chosen: Vec<&'static Benchmark>,
}

fn request(arguments: impl Iterator<Item = String>) -> Result<Request, String> {
    let (mut mode, mut is_quick, mut chosen) = (Mode::Real, false, Vec::new());
    for argument in arguments {
        let is_meant = |benchmark: &&Benchmark| {
            let rest = benchmark.name.strip_prefix(&argument);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        match argument.as_str() {
            "--control" => mode = Mode::Control,
            "--quick" => is_quick = true,
            _ if BENCHMARKS.iter().any(|it| is_meant(&it)) => {
                chosen.extend(BENCHMARKS.iter().filter(is_meant));
            }
            _ => {
                let names: Vec<_> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
                return Err(format!("no benchmark `{argument}`; there are: {}", names.join(", ")));
            }
        }
    }
    if chosen.is_empty() {
        chosen.extend(BENCHMARKS.iter().filter(|benchmark| !benchmark.long));
    }
    Ok(Request { mode, is_quick, chosen })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &[&str]) -> Result<(Mode, Vec<&'static str>), String> {
        let Request { mode, chosen, .. } = request(words.iter().map(|word| word.to_string()))?;
        Ok((mode, chosen.into_iter().map(|benchmark| benchmark.name).collect()))
    }

    #[test]
    fn names_choose_and_none_is_all() {
        let (mode, all) = asked(&[]).unwrap();
        assert!(mode == Mode::Real && all.len() < BENCHMARKS.len());
        assert!(!all.contains(&"sort-scaling") && all.contains(&"tables"));
        assert_eq!(asked(&["sort", "--quick"]).unwrap().1, ["sort", "sort-scaling"]);
        assert_eq!(asked(&["sort-scaling"]).unwrap().1, ["sort-scaling"]);
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
