//! `nile bench net`: a node's network beside Linux's. A program in Python (`benches/net`) makes the
//! network namespaces that all of it happens in, which takes root.

use clap::ValueEnum;
use rustix::process::geteuid;

use super::python;
use nile_cli::args::{Carried, Traffic};
use nile_cli::failure::Failure;
use nile_cli::needs::Need;

/// How often each has its turn if nobody says.
const RUNS: u16 = 3;

/// What the launcher has to provide; refuses a request that cannot be fulfilled.
pub fn needs(options: &Traffic) -> Result<Vec<Need>, Failure> {
    check(options)?;
    Ok(vec![Need::Python, Need::Hosted, Need::Packages, Need::NetPeer, Need::Iperf3])
}

fn check(options: &Traffic) -> Result<(), Failure> {
    if !geteuid().is_root() {
        let message = "bench net makes network namespaces and a TAP, which takes root";
        return Err(Failure::request(message));
    }
    python::check(&options.outcome)
}

/// Becomes the program that measures.
pub fn run(options: &Traffic) -> Result<(), Failure> {
    check(options)?;
    let mut command = python::with_packages("net")?;
    let runs = options.runs.unwrap_or(if options.quick { 1 } else { RUNS });
    command.args(["--runs", &runs.to_string()]).args(options.quick.then_some("--quick"));
    command.arg("--rows").args(rows(options).into_iter().map(name));
    python::become_it("net", command, &options.outcome)
}

/// What is measured, each once, in the order of their list.
fn rows(options: &Traffic) -> Vec<Carried> {
    let is_chosen = |it: &Carried| options.only.is_empty() || options.only.contains(it);
    Carried::value_variants().iter().copied().filter(is_chosen).collect()
}

fn name(row: Carried) -> String {
    let value = row.to_possible_value().expect("none is hidden");
    value.get_name().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use nile_cli::args::{Beside, Command, Nile};

    fn asked(words: &str) -> Traffic {
        let words = format!("nile bench net {words}");
        let Command::Bench(bench) = Nile::parse_from(words.split_whitespace()).command else {
            panic!("it is a benchmark")
        };
        let Some(Beside::Net(traffic)) = bench.beside else { panic!("it is of the network") };
        traffic
    }

    #[test]
    fn all_is_measured_if_nobody_chooses() {
        assert_eq!(rows(&asked("")), Carried::value_variants());
        assert_eq!(rows(&asked("--only rtt,restart")), [Carried::Restart, Carried::Rtt]);
        assert_eq!(name(Carried::Connections), "connections");
        for wrong in ["--only udp", "--runs 0", "--record --quick"] {
            let words = format!("nile bench net {wrong}");
            assert!(Nile::try_parse_from(words.split_whitespace()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn who_is_not_root_is_refused() {
        match (check(&asked("")), geteuid().is_root()) {
            (Ok(()), true) | (Err(Failure::Request(_)), false) => {}
            (other, root) => panic!("{other:?}, root: {root}"),
        }
    }
}
