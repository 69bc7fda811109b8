//! `nile bench stream`: how fresh ranks of a graph are while edges come, of NileOS and of others
//! that compute the same. A program in Python (`benches/stream`) has them take turns.

use clap::ValueEnum;

use super::python;
use nile_cli::args::{Ranker, Stream};
use nile_cli::failure::Failure;
use nile_cli::needs::Need;

/// Which graph it is if nobody says, how many edges come in a second, and for how many seconds.
const USUAL: (u16, u32, u16) = (20, 200_000, 10);
const QUICK: (u16, u32, u16) = (12, 5_000, 1);

/// How often each has its turn if nobody says.
const RUNS: u16 = 3;

/// The parts of a divided graph if nobody says.
const PARTS: u16 = 2;

/// Of so many edges at most those that come are a part: a vertex has 16, some of them twice.
const LEAST_EDGES: u64 = 8;

/// What the launcher has to provide; refuses a request that cannot be fulfilled.
pub fn needs(options: &Stream) -> Result<Vec<Need>, Failure> {
    check(options)?;
    Ok(vec![Need::Python, Need::Hosted])
}

fn check(options: &Stream) -> Result<(), Failure> {
    let (scale, rate, seconds) = graph(options);
    let (new, most) = (u64::from(rate) * u64::from(seconds), LEAST_EDGES << scale);
    if new > most {
        let message = format!(
            "{new} edges are to come in {seconds} s, and a graph of scale {scale} may have no more \
             than {most}: choose a larger --scale, or a lower --rate"
        );
        return Err(Failure::request(message));
    }
    python::check(&options.outcome)
}

/// Becomes the program that measures.
pub fn run(options: &Stream) -> Result<(), Failure> {
    check(options)?;
    let (scale, rate, seconds) = graph(options);
    let runs = options.runs.unwrap_or(if options.quick { 1 } else { RUNS });
    let mut command = python::command("stream")?;
    for (name, value) in [
        ("--scale", scale.to_string()),
        ("--rate", rate.to_string()),
        ("--seconds", seconds.to_string()),
        ("--runs", runs.to_string()),
        ("--parts", options.parts.unwrap_or(PARTS).to_string()),
    ] {
        command.arg(name).arg(value);
    }
    command.arg("--only").args(rankers(options).into_iter().map(name));
    python::become_it("stream", command, &options.outcome)
}

fn graph(options: &Stream) -> (u16, u32, u16) {
    let (scale, rate, seconds) = if options.quick { QUICK } else { USUAL };
    (
        options.scale.unwrap_or(scale),
        options.rate.unwrap_or(rate),
        options.seconds.unwrap_or(seconds),
    )
}

/// Who takes turns, each once, in the order of their list. igraph makes its graph anew each time,
/// which takes minutes for the usual one. A graph in parts is beside one in one.
fn rankers(options: &Stream) -> Vec<Ranker> {
    let is_chosen = |it: &Ranker| match it {
        Ranker::Nileos | Ranker::NileosParts if options.parts.is_some() => true,
        it if !options.only.is_empty() => options.only.contains(it),
        Ranker::NileosParts => false,
        Ranker::Igraph => options.quick,
        _ => true,
    };
    Ranker::value_variants().iter().copied().filter(is_chosen).collect()
}

fn name(ranker: Ranker) -> String {
    let value = ranker.to_possible_value().expect("none is hidden");
    value.get_name().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use nile_cli::args::{Beside, Command, Nile};

    fn asked(words: &str) -> Stream {
        let words = format!("nile bench stream {words}");
        let Command::Bench(bench) = Nile::parse_from(words.split_whitespace()).command else {
            panic!("it is a benchmark")
        };
        let Some(Beside::Stream(stream)) = bench.beside else { panic!("it is of streams") };
        stream
    }

    #[test]
    fn what_is_asked_for_goes_before_what_is_usual() {
        assert_eq!((graph(&asked("")), graph(&asked("--quick"))), (USUAL, QUICK));
        assert_eq!(graph(&asked("--quick --scale 14 --rate 9")), (14, 9, 1));
        assert!(!rankers(&asked("")).contains(&Ranker::Igraph));
        assert_eq!(rankers(&asked("--only igraph,nileos")), [Ranker::Nileos, Ranker::Igraph]);
        let divided = rankers(&asked("--parts 3 --only scipy"));
        assert_eq!(divided, [Ranker::Nileos, Ranker::NileosParts, Ranker::Scipy]);
        assert!(!rankers(&asked("--quick")).contains(&Ranker::NileosParts));
        assert_eq!(name(Ranker::NileosKept), "nileos-kept");
    }

    #[test]
    fn what_cannot_come_is_refused() {
        assert!(matches!(check(&asked("--scale 12")), Err(Failure::Request(_))));
        assert!(check(&asked("--scale 12 --rate 30000 --seconds 1")).is_ok());
        for wrong in ["--scale 40", "--rate 0", "--only mysql", "--seconds 0"] {
            let words = format!("nile bench stream {wrong}");
            assert!(Nile::try_parse_from(words.split_whitespace()).is_err(), "{wrong}");
        }
    }
}
