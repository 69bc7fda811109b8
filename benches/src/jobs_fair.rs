//! A word count of a megabyte that is submitted while a large sort runs, on one hosted node: it may
//! take twice as long as alone, and one task of the sort.
//!
//! Control: both are `fifo`, so that the count waits for the whole sort.

use std::fs;

use serde_json::Value;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::number;
use crate::rounds::median;
use crate::sort::field::{Cluster, Field};
use crate::words::words;

/// Bytes of the text.
const TEXT: usize = 1 << 20;

/// How often the count runs alone.
const ALONE: usize = 3;

/// See the module.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    measure(mode, 954)
}

/// The same beside a small sort, where the target is no promise.
pub fn try_out(mode: Mode) -> Result<Vec<Figure>, Failure> {
    measure(mode, 256)
}

fn measure(mode: Mode, mib: u64) -> Result<Vec<Figure>, Failure> {
    let policy = if mode == Mode::Real { "fair" } else { "fifo" };
    let data = mib << 20;
    let field = Field::new(8 * data + (1 << 30), 3 * data + (1 << 30))?;
    let size = format!("{mib}M");
    let cluster = field.cluster("shared", &size, &[])?;
    let text = tempfile::NamedTempFile::new()?;
    fs::write(text.path(), words(TEXT))?;
    let text = text.path().to_string_lossy().into_owned();
    let count = |output: &str| {
        let words = ["run", "wordcount", &text, "--output", output, "--policy", policy, "--json"];
        words.map(String::from).to_vec()
    };
    let mut alone = Vec::new();
    for round in 0..ALONE {
        let name = format!("alone.{round}");
        alone.push(number(&cluster.json(&count(&name))?, "seconds")?);
        cluster.remove(&name)?;
    }
    let alone = median(&alone);
    let beside = cluster.sort_beside(&size, policy, &count("beside"))?;
    cluster.remove("beside")?;
    let ours = number(&beside, "seconds")?;
    let task = longest(&cluster)?;
    eprintln!("  alone {alone:.3} s, beside the sort {ours:.3} s; its longest task {task:.3} s");
    let peer = Peer { name: "2 x alone + a task".into(), value: 2.0 * alone + task };
    Ok(vec![Figure::new("jobs-fair", "s", ours, peer, Target::AtMost(1.0))])
}

/// The longest attempt of the last sort, in seconds.
fn longest(cluster: &Cluster<'_>) -> Result<f64, Failure> {
    let call = |words: &[&str]| {
        cluster.json(&words.iter().map(|it| String::from(*it)).collect::<Vec<_>>())
    };
    let missing = || Failure::Node("the service has no sort".into());
    let jobs = call(&["jobs", "--json"])?;
    let sort = jobs["jobs"]
        .as_array()
        .and_then(|all| all.iter().rev().find(|it| it["name"] == "sort"))
        .ok_or_else(missing)?;
    let job = format!("job={}", sort["job"]);
    let timeline = call(&["call", "job.timeline", &job, "from=0", "--json"])?;
    let attempts = timeline["reply"].as_object().and_then(|it| it.values().next());
    let attempts =
        attempts.unwrap_or(&timeline["reply"])["attempts"].as_array().cloned().unwrap_or_default();
    let span = |it: &Value| Some(it["ended_us"].as_f64()? - it["begun_us"].as_f64()?);
    let most = attempts.iter().filter_map(span).fold(0.0, f64::max);
    if most > 0.0 { Ok(most / 1e6) } else { Err(missing()) }
}
