//! `nile bench hotplug`: what domains of a NileOS machine take to come, go and change, beside the
//! hotplug of a Linux guest on the same machine. A program in Python (`benches/hotplug`) has them
//! take turns.

use super::python;
use nile_cli::args::Hotplug;
use nile_cli::failure::Failure;
use nile_cli::needs::{self, GUEST, Need};

/// How often each has its turn if nobody says.
const RUNS: u16 = 3;

/// Commands in a turn, each once a round.
const ROUNDS: u16 = 10;
const QUICK_ROUNDS: u16 = 3;

/// What the launcher has to provide; refuses a request that cannot be fulfilled.
pub fn needs(options: &Hotplug) -> Result<Vec<Need>, Failure> {
    python::check(&options.outcome)?;
    Ok(vec![Need::Python, Need::Qemu, Need::Scenarios, Need::Guest])
}

/// Becomes the program that measures.
pub fn run(options: &Hotplug) -> Result<(), Failure> {
    python::check(&options.outcome)?;
    needs::provided(GUEST)?;
    let mut command = python::command("hotplug")?;
    let (runs, rounds) = amounts(options);
    command.args(["--runs", &runs.to_string(), "--rounds", &rounds.to_string()]);
    command.args(options.quick.then_some("--quick"));
    python::become_it("hotplug", command, &options.outcome)
}

/// Turns, and rounds of each.
fn amounts(options: &Hotplug) -> (u16, u16) {
    let (runs, rounds) = if options.quick { (1, QUICK_ROUNDS) } else { (RUNS, ROUNDS) };
    (options.runs.unwrap_or(runs), rounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use nile_cli::args::{Beside, Command, Nile};

    fn asked(words: &str) -> Hotplug {
        let words = format!("nile bench hotplug {words}");
        let Command::Bench(bench) = Nile::parse_from(words.split_whitespace()).command else {
            panic!("it is a benchmark")
        };
        let Some(Beside::Hotplug(hotplug)) = bench.beside else { panic!("it is of hotplug") };
        hotplug
    }

    #[test]
    fn what_is_asked_for_goes_before_what_is_usual() {
        assert_eq!(amounts(&asked("")), (RUNS, ROUNDS));
        assert_eq!(amounts(&asked("--quick")), (1, QUICK_ROUNDS));
        assert_eq!(amounts(&asked("--quick --runs 7")), (7, QUICK_ROUNDS));
        let needs = needs(&asked("--control")).unwrap();
        assert!(needs.contains(&Need::Guest) && needs.contains(&Need::Scenarios));
        for wrong in ["--runs 0", "--record --quick", "--cores 2"] {
            let words = format!("nile bench hotplug {wrong}");
            assert!(Nile::try_parse_from(words.split_whitespace()).is_err(), "{wrong}");
        }
    }
}
