//! `nile bench linux`: a NileOS guest beside Linux guests that do the same work with the same code
//! on the same machine. A program in Python (`benches/linux`) has them take turns.

use std::thread;

use super::python;
use nile_cli::args::{GUEST_CORES, Linux};
use nile_cli::failure::Failure;
use nile_cli::needs::{self, GUEST, Need};
use nile_cli::size::Bytes;

/// How much is sorted if nobody says.
const USUAL: Bytes = Bytes::mebi(96);
const QUICK: Bytes = Bytes::mebi(8);

/// A few blocks for each core.
const LEAST: Bytes = Bytes::mebi(4);

/// How often each has its turn if nobody says.
const RUNS: u16 = 5;

/// What the launcher has to provide; refuses a request that cannot be fulfilled.
pub fn needs(options: &Linux) -> Result<Vec<Need>, Failure> {
    check(options)?;
    Ok(vec![Need::Python, Need::Qemu, Need::Kernel, Need::Scenarios, Need::Packages, Need::Guest])
}

fn check(options: &Linux) -> Result<(), Failure> {
    let size = size(options);
    if size < LEAST {
        return Err(Failure::request(format!("--size {size} is less than {LEAST}")));
    }
    python::check(&options.outcome)
}

/// Becomes the program that measures.
pub fn run(options: &Linux) -> Result<(), Failure> {
    check(options)?;
    needs::provided(GUEST)?;
    let mut command = python::with_packages("linux")?;
    command.args(["--mebibytes", &python::mebi(size(options)).to_string()]);
    let runs = options.runs.unwrap_or(if options.quick { 1 } else { RUNS });
    command.args(["--runs", &runs.to_string(), "--nodes", &options.nodes.to_string()]);
    command.args(["--cores", &cores(options).to_string()]);
    command.args(options.quick.then_some("--quick"));
    python::become_it("linux", command, &options.outcome)
}

fn size(options: &Linux) -> Bytes {
    options.size.unwrap_or(if options.quick { QUICK } else { USUAL })
}

/// A CPU for each core, if nobody says otherwise: where cores share CPUs, it is the host that
/// says which of them goes on, and one that does not sleep keeps another from its work.
fn cores(options: &Linux) -> i64 {
    let (least, most) = GUEST_CORES.into_inner();
    let cpus = || thread::available_parallelism().map_or(least, |it| it.get() as i64);
    options.cores.map_or_else(|| cpus().clamp(least, most), i64::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use nile_cli::args::{Beside, Nile};

    fn asked(words: &str) -> Linux {
        let words = format!("nile bench linux {words}");
        let nile_cli::args::Command::Bench(bench) =
            Nile::parse_from(words.split_whitespace()).command
        else {
            panic!("it is a benchmark")
        };
        let Some(Beside::Linux(linux)) = bench.beside else { panic!("it is beside Linux") };
        linux
    }

    #[test]
    fn what_is_asked_for_goes_before_what_is_usual() {
        assert_eq!((size(&asked("")), size(&asked("--quick"))), (USUAL, QUICK));
        assert_eq!(size(&asked("--quick --size 1G")), Bytes::mebi(1024));
        assert_eq!(cores(&asked("--cores 7")), 7);
        assert!(GUEST_CORES.contains(&cores(&asked(""))));
        assert!(matches!(check(&asked("--size 100K")), Err(Failure::Request(_))));
        assert!(needs(&asked("--quick")).unwrap().contains(&Need::Guest));
    }
}
