//! `nile bench paper`: the experiment of the NileOS paper's section IV at this machine's scale
//! (`benches/paper`).

use crate::bench::python;
use nile_cli::args::Paper;
use nile_cli::failure::Failure;
use nile_cli::needs::Need;
use nile_cli::size::Bytes;

/// The levels of a whole run and of one for trying, if nobody says.
const SIZES: [Bytes; 3] = [Bytes::mebi(64), Bytes::mebi(128), Bytes::mebi(256)];
const REDUCERS: [u16; 2] = [1, 4];
const QUICK_SIZES: [Bytes; 2] = [Bytes::mebi(8), Bytes::mebi(32)];
const QUICK_REDUCERS: [u16; 2] = [1, 2];

/// How often each combination is run: as in the paper, and the least that has a spread.
const RUNS: u16 = 3;
const QUICK_RUNS: u16 = 2;

/// The least that is sorted.
const LEAST: Bytes = Bytes::mebi(1);

/// What the launcher has to provide; refuses a request that cannot be fulfilled.
pub fn needs(options: &Paper) -> Result<Vec<Need>, Failure> {
    check(options)?;
    let mut needs = vec![Need::Python];
    if has_hadoop(options) {
        needs.push(Need::Java);
    }
    needs.extend([Need::Hosted, Need::Packages, Need::Reference]);
    Ok(needs)
}

fn check(options: &Paper) -> Result<(), Failure> {
    if let Some(size) = options.sizes.iter().find(|size| **size < LEAST) {
        return Err(Failure::request(format!("--sizes {size} is less than {LEAST}")));
    }
    python::check(&options.outcome)
}

/// Becomes the program that measures.
pub fn run(options: &Paper) -> Result<(), Failure> {
    check(options)?;
    let mut command = python::with_packages("paper")?;
    let sizes = levels(&options.sizes, &SIZES, &QUICK_SIZES, options.quick);
    command.arg("--mebibytes").args(sizes.into_iter().map(|it| python::mebi(it).to_string()));
    let reducers = levels(&options.reducers, &REDUCERS, &QUICK_REDUCERS, options.quick);
    command.arg("--reducers").args(reducers.into_iter().map(|it| it.to_string()));
    let runs = if options.quick { QUICK_RUNS } else { RUNS };
    command.args(["--runs", &options.runs.unwrap_or(runs).to_string()]);
    command.args(["--seed", &options.seed.to_string()]);
    command.args(has_hadoop(options).then_some("--hadoop"));
    python::become_it("paper", command, &options.outcome)
}

/// Neither trying nor the control, which is about NileOS alone, wants Hadoop.
fn has_hadoop(options: &Paper) -> bool {
    !options.quick && !options.outcome.control
}

/// The levels of a factor, each once, in their order.
fn levels<T: Copy + Ord>(asked: &[T], usual: &[T], quick: &[T], is_quick: bool) -> Vec<T> {
    let levels = match (asked.is_empty(), is_quick) {
        (false, _) => asked,
        (true, false) => usual,
        (true, true) => quick,
    };
    let mut levels = levels.to_vec();
    levels.sort_unstable();
    levels.dedup();
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use nile_cli::args::{Beside, Command, Nile};

    fn asked(words: &str) -> Result<Paper, clap::Error> {
        let words = format!("nile bench paper {words}");
        let Command::Bench(bench) = Nile::try_parse_from(words.split_whitespace())?.command else {
            panic!("it is a benchmark")
        };
        let Some(Beside::Paper(paper)) = bench.beside else { panic!("it is the paper's") };
        Ok(paper)
    }

    #[test]
    fn only_a_whole_run_needs_java() {
        for (words, wanted) in [("", true), ("--quick", false), ("--control", false)] {
            let has = needs(&asked(words).unwrap()).unwrap().contains(&Need::Java);
            assert_eq!(has, wanted, "{words}");
        }
    }

    #[test]
    fn levels_are_what_is_asked_for_each_once() {
        let own = asked("--sizes 64M,8M,64M --reducers 4 --quick").unwrap();
        let sizes = levels(&own.sizes, &SIZES, &QUICK_SIZES, own.quick);
        assert_eq!(sizes, [Bytes::mebi(8), Bytes::mebi(64)]);
        assert_eq!(levels(&own.reducers, &REDUCERS, &QUICK_REDUCERS, true), [4]);
        assert_eq!(levels(&[], &REDUCERS, &QUICK_REDUCERS, true), QUICK_REDUCERS);
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        for words in ["--runs 1", "--reducers 0", "--reducers 65", "--sizes many"] {
            assert!(asked(words).is_err(), "{words}");
        }
        let small = needs(&asked("--sizes 64M,900K").unwrap());
        assert!(matches!(small, Err(Failure::Request(_))));
    }
}
