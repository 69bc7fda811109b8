//! A day of a hosted node of four cores, two of which are for disks: an import, a computation, a
//! sort and an export in a row. Roles that follow the work, by `exact`, beside the same roles that
//! stay, and beside the best that stay: a single core for disks. The days are taken in turns.
//!
//! Control: the roles of all stay.

use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::rounds::{Times, order};
use crate::sort::field::{Cluster, Field};
use crate::words::words;

const REAL: Day = Day { mib: 512, counts: 8, sort: "512M", sorts: 4, rounds: 3 };
const CONTROL: Day = Day { mib: 32, counts: 1, sort: "32M", sorts: 1, rounds: 1 };

/// The configurations: one that follows the work, and those that stay.
const NAMES: [&str; 3] = ["follows", "stays", "best"];

/// What there is to do in a day, and how many days count.
struct Day {
    /// MiB of the text that is imported, counted and exported.
    mib: usize,
    counts: usize,
    /// How much is sorted.
    sort: &'static str,
    sorts: usize,
    rounds: usize,
}

/// See the module.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let day = if mode == Mode::Real { REAL } else { CONTROL };
    let field = Field::new(16 << 30, 6 << 30)?;
    let text = field.file("text", &words(day.mib << 20))?;
    let out = text.with_file_name("out");
    let policy = if mode == Mode::Real { "policy = \"exact\"\n" } else { "" };
    let clusters = [
        field.up(NAMES[0], &config("[1, 2]", "[3]", policy), &NODE)?,
        field.up(NAMES[1], &config("[1, 2]", "[3]", ""), &NODE)?,
        field.up(NAMES[2], &config("[1]", "[2, 3]", ""), &NODE)?,
    ];
    let mut times = Times::of(NAMES.len());
    for round in 0..=day.rounds {
        for contestant in order(round, NAMES.len()) {
            let took = live(&clusters[contestant], &day, &text, &out)?;
            let all = took.iter().sum();
            eprintln!("  {}: {all:.1} s, its parts {took:.1?}", NAMES[contestant]);
            if round > 0 {
                times.0[contestant].push(all);
            }
        }
    }
    let figure = |name: &str, peer: usize, says: &str, target: f64| {
        let value = Peer { name: says.into(), value: times.median(peer) };
        let (ours, ratio) = (times.median(0), times.ratio(0, peer));
        Figure::with_ratio(name, "s", ours, value, ratio, Target::AtMost(target))
    };
    Ok(vec![
        figure("mixed-day", 1, "the same roles, which stay", 0.85),
        figure("mixed-day-best", 2, "the best roles that stay", 1.02),
    ])
}

const NODE: [&str; 10] =
    ["--nodes", "1", "--cores", "4", "--memory", "2G", "--disk", "2G", "--disks", "2"];

fn config(disks: &str, workers: &str, more: &str) -> String {
    format!(
        "[roles]\nmanagement = [0]\nnetwork = [0]\ndisk = {disks}\nworker = {workers}\n{more}\n\
         [pool]\nbytes = \"1024M\"\nbuffer = \"1M\"\n"
    )
}

/// Lives a day: the seconds of its parts.
fn live(cluster: &Cluster<'_>, day: &Day, text: &Path, out: &Path) -> Result<[f64; 4], Failure> {
    let (text, to) = (text.to_string_lossy(), out.to_string_lossy());
    let parts: [(&[&str], usize); 4] = [
        (&["put", &text, "text"], 1),
        (&["run", "wordcount", "text", "--output", "count"], day.counts),
        (&["run", "terasort", "--size", day.sort], day.sorts),
        (&["get", "text", &to], 1),
    ];
    let mut took = [0.0; 4];
    for ((part, times), took) in parts.into_iter().zip(&mut took) {
        let begin = Instant::now();
        for time in 0..times {
            if time > 0 && part[0] == "run" && part[1] == "wordcount" {
                cluster.remove("count")?;
            }
            cluster.say(part)?;
        }
        *took = begin.elapsed().as_secs_f64();
    }
    fs::remove_file(out)?;
    for dataset in ["text", "count"] {
        cluster.remove(dataset)?;
    }
    Ok(took)
}
