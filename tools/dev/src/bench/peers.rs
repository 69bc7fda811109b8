//! `nile bench peers`: NileOS beside whole other systems that sort the same records. Those are run
//! by a program in Python (`benches/peers`).

use clap::ValueEnum;

use crate::bench::python;
use nile_cli::args::{Peer, Peers};
use nile_cli::failure::Failure;
use nile_cli::needs::Need;
use nile_cli::size::Bytes;

/// How much is sorted if nobody says: 10^9 bytes, in whole MiB.
const USUAL: Bytes = Bytes::mebi(954);
const QUICK: Bytes = Bytes::mebi(10);

/// The least that is sorted: enough for the job of 1,000 records.
const LEAST: Bytes = Bytes::mebi(1);

/// How often each has its turn if nobody says.
const RUNS: u16 = 3;

/// Whom a quick run has.
const QUICK_PEERS: [Peer; 4] = [Peer::Reference, Peer::GnuSort, Peer::Duckdb, Peer::Polars];

/// What the launcher has to provide; refuses a request that cannot be fulfilled.
pub fn needs(options: &Peers) -> Result<Vec<Need>, Failure> {
    check(options)?;
    let mut needs = vec![Need::Python];
    if peers(options).into_iter().any(needs_java) {
        needs.push(Need::Java);
    }
    needs.extend([Need::Hosted, Need::Packages, Need::Reference]);
    Ok(needs)
}

fn check(options: &Peers) -> Result<(), Failure> {
    if size(options) < LEAST {
        let size = size(options);
        return Err(Failure::request(format!("--size {size} is less than {LEAST}")));
    }
    python::check(&options.outcome)
}

/// Becomes the program that measures.
pub fn run(options: &Peers) -> Result<(), Failure> {
    check(options)?;
    let mut command = python::with_packages("peers")?;
    command.args(["--mebibytes", &python::mebi(size(options)).to_string()]);
    let runs = options.runs.unwrap_or(if options.quick { 1 } else { RUNS });
    command.args(["--runs", &runs.to_string(), "--only"]);
    command.args(peers(options).into_iter().map(name));
    python::become_it("peers", command, &options.outcome)
}

fn size(options: &Peers) -> Bytes {
    options.size.unwrap_or(if options.quick { QUICK } else { USUAL })
}

/// Whom NileOS is measured beside, each once, in the order of their list.
fn peers(options: &Peers) -> Vec<Peer> {
    let is_chosen = |peer: &Peer| match (options.only.is_empty(), options.quick) {
        (false, _) => options.only.contains(peer),
        (true, true) => QUICK_PEERS.contains(peer),
        (true, false) => true,
    };
    Peer::value_variants().iter().copied().filter(is_chosen).collect()
}

fn needs_java(peer: Peer) -> bool {
    matches!(peer, Peer::Spark | Peer::HadoopLocal | Peer::HadoopYarn)
}

fn name(peer: Peer) -> String {
    let value = peer.to_possible_value().expect("no peer is hidden");
    value.get_name().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use nile_cli::args::{Beside, Command, Nile};

    fn asked(words: &str) -> Peers {
        let words = format!("nile bench peers {words}");
        let Command::Bench(bench) = Nile::parse_from(words.split_whitespace()).command else {
            panic!("it is a benchmark")
        };
        let Some(Beside::Peers(peers)) = bench.beside else { panic!("it has peers") };
        peers
    }

    #[test]
    fn a_quick_run_needs_no_java() {
        let quick = asked("--quick");
        assert_eq!((peers(&quick), size(&quick)), (QUICK_PEERS.to_vec(), QUICK));
        assert!(!needs(&quick).unwrap().contains(&Need::Java));
        assert!(needs(&asked("")).unwrap().contains(&Need::Java));
        assert!(!needs(&asked("--only polars,duckdb")).unwrap().contains(&Need::Java));
    }

    #[test]
    fn what_is_asked_for_goes_before_what_is_usual() {
        let own = asked("--quick --size 2G --only spark");
        assert_eq!((peers(&own), python::mebi(size(&own))), (vec![Peer::Spark], 2048));
        assert!(matches!(check(&asked("--size 99K")), Err(Failure::Request(_))));
        assert!(Nile::try_parse_from(["nile", "bench", "peers", "--only", "mysql"]).is_err());
        assert!(Nile::try_parse_from(["nile", "bench", "peers", "--runs", "0"]).is_err());
    }

    #[test]
    fn the_tuning_file_has_every_peer() {
        let tuning = include_str!("../../../../benches/harness/tuning.toml");
        for peer in Peer::value_variants() {
            assert!(tuning.contains(&format!("\n[{}]\n", name(*peer))), "{peer:?}");
        }
    }
}
