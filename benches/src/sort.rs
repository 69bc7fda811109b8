//! The sort job on hosted nodes, beside a hand-tuned sort of the same data in one process
//! (`nile-sort-reference`), and beside itself: with less memory than data, on three nodes, and with
//! more data. All is measured in turns on clusters that stay up, data in the page cache; the sort
//! job alone counts, from its submission to its end. Every contestant has sorted before: a cluster
//! when it was started, and each of them once more in a round that does not count. A sort begins
//! when the device has all that was written before, its input, too.
//!
//! Controls: the nodes' workers are stopped for a while in the midst of a sort; and nodes have so
//! many workers with so large buffers that those take more memory than they may.

pub mod field;

use serde_json::Value;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::number;
use crate::rounds::{Times, median, order};
use field::{Field, forget_files, reference};

/// Bytes of a record, and what the promise allows an index to have for each; there is none.
const RECORD: u64 = 100;
const ENTRY: u64 = 16;

/// What a node may take besides records and index, in MiB.
const BESIDES_MIB: f64 = 64.0;

/// How much larger the data are than the memory of the node that has too little.
const TIMES: u64 = 4;

/// Nodes of the cluster that has several.
const NODES: u64 = 3;

/// Contestants.
const REFERENCE: usize = 0;
const ONE: usize = 1;
const TIGHT: usize = 2;
const THREE: usize = 3;

/// How much is sorted, and how often.
struct Scale {
    /// MiB.
    mib: u64,
    /// Rounds that count.
    rounds: usize,
    /// How many times as much the most is, where the amount grows, and how often that is sorted.
    most: u64,
    growing: usize,
}

impl Scale {
    /// About a gigabyte: what targets are for. A control's share of it is enough to be slow.
    fn of(mode: Mode) -> Scale {
        match mode {
            Mode::Real => Scale { mib: 954, rounds: 5, most: 8, growing: 5 },
            Mode::Control => Scale { mib: 64, rounds: 1, most: 2, growing: 1 },
        }
    }

    /// For trying.
    fn small(mode: Mode) -> Scale {
        match mode {
            Mode::Real => Scale { mib: 128, rounds: 3, most: 4, growing: 3 },
            Mode::Control => Scale::of(mode),
        }
    }
}

/// See the module.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    compare(mode, &Scale::of(mode))
}

/// The same with so little data that targets may be missed for that alone.
pub fn try_out(mode: Mode) -> Result<Vec<Figure>, Failure> {
    compare(mode, &Scale::small(mode))
}

/// Twice, four and eight times as much data, beside as many times as long. The most takes nearly
/// all memory of a machine of 24 GiB, so that what Linux still has of a build would count as well:
/// it begins without any of that.
pub fn run_scaling(mode: Mode) -> Result<Vec<Figure>, Failure> {
    if mode == Mode::Real && !forget_files() {
        eprintln!("  what else is in the page cache stays there, since only root may clear it");
    }
    grow(mode, &Scale::of(mode))
}

/// The same with so little data that targets may be missed for that alone.
pub fn try_scaling(mode: Mode) -> Result<Vec<Figure>, Failure> {
    grow(mode, &Scale::small(mode))
}

fn compare(mode: Mode, scale: &Scale) -> Result<Vec<Figure>, Failure> {
    let records = (scale.mib << 20) / RECORD;
    let data = records * RECORD;
    // The disks of three clusters, which are twice as large as what is written to them, besides
    // input and output of the reference; the memory of the nodes.
    let field = Field::new(16 * data + (2 << 30), 5 * data + (1 << 30))?;
    let input = field.generate(records)?;
    let reference = reference()?;
    let size = format!("{}M", scale.mib);
    let memory = format!("{}M", (scale.mib / TIMES).max(16));
    let clusters = [
        field.cluster("one", &size, &[])?,
        field.cluster("tight", &size, &["--memory", &memory])?,
        field.cluster("three", &size, &["--nodes", &NODES.to_string()])?,
    ];
    let mut times = Times::of(1 + clusters.len());
    let mut first_tasks = Times::of(1 + clusters.len());
    let mut most = [0.0_f64; 1 + THREE];
    for round in 0..=scale.rounds {
        for contestant in order(round, 1 + clusters.len()) {
            let counts = round > 0;
            let seconds = match contestant {
                REFERENCE => field.refer(&reference, &input, records)?,
                other => {
                    let held_up = held_up(mode, other).filter(|_| counts);
                    let sorted = clusters[other - 1].sort(&size, held_up)?;
                    if other == TIGHT && number(&sorted, "spilled_bytes")? == 0.0 {
                        return Err(Failure::Node("what has too little memory spills".into()));
                    }
                    most[other] = most[other].max(number(&sorted, "peak_memory_bytes")?);
                    first_tasks.0[other].push(number(&sorted, "first_task_seconds")?);
                    number(&sorted, "seconds")?
                }
            };
            if counts {
                times.0[contestant].push(seconds);
            }
        }
    }
    for (name, contestant) in
        [("reference", REFERENCE), ("one node", ONE), ("tight", TIGHT), ("three nodes", THREE)]
    {
        let seconds = times.median(contestant);
        eprint!("  {name:<12} {seconds:.3} s, {:.0} MB/s", data as f64 / seconds / 1e6);
        match contestant {
            REFERENCE => eprintln!(),
            other => eprintln!(
                "; first task after {:.0} ms; {:.0} MiB at most",
                1e3 * first_tasks.median(other),
                mebi(most[other])
            ),
        }
    }
    if mode == Mode::Control {
        for (contestant, name, nodes) in [(ONE, "waste", 1), (THREE, "wastes", NODES)] {
            let sorted = field.wasteful(name, nodes)?.sort(&size, None)?;
            most[contestant] = most[contestant].max(number(&sorted, "peak_memory_bytes")?);
        }
    }
    let compared = |name: &str, ours: usize, peer: usize, who: &str, target| {
        let peer_figure = Peer { name: who.into(), value: times.median(peer) };
        let ratio = times.ratio(ours, peer);
        Figure::with_ratio(name, "s", times.median(ours), peer_figure, ratio, target)
    };
    let indexed = (records * (RECORD + ENTRY)) as f64;
    let besides = |name: &str, contestant: usize, nodes: f64| {
        let promise = Peer { name: "promise".into(), value: BESIDES_MIB };
        let besides = mebi(most[contestant] - indexed) / nodes;
        Figure::new(name, "MiB", besides, promise, Target::AtMost(1.0))
    };
    Ok(vec![
        compared("sort", ONE, REFERENCE, "in one process", Target::AtMost(1.25)),
        compared("sort-spill", TIGHT, ONE, "in memory", Target::AtMost(2.5)),
        compared("sort-nodes", THREE, ONE, "one node", Target::AtMost(1.5)),
        besides("sort-memory", ONE, 1.0),
        besides("sort-nodes-memory", THREE, NODES as f64),
    ])
}

/// The control's workers are stopped for a while when they have more. What it takes until the first
/// task begins does not grow, and is told apart. How the reference grows on this machine is said
/// beside it; it had its turns before, since there is no memory for both with the most data.
fn grow(mode: Mode, scale: &Scale) -> Result<Vec<Figure>, Failure> {
    let mib = scale.mib;
    let data = (mib * scale.most) << 20;
    let field = Field::new(4 * data + (1 << 30), data / 4 * 5 + (1 << 30))?;
    let factors: Vec<u64> = [1, 2, 4, 8].into_iter().filter(|it| *it <= scale.most).collect();
    let alone = grow_alone(&field, scale, &factors)?;
    let cluster = field.cluster("one", &format!("{}M", mib * scale.most), &[])?;
    let mut times = Times::of(factors.len());
    let mut first_tasks = Vec::new();
    for round in 0..=scale.growing {
        for contestant in order(round, factors.len()) {
            let factor = factors[contestant];
            let held_up = held_up(mode, ONE).filter(|_| factor > 1 && round > 0);
            let sorted = cluster.sort(&format!("{}M", mib * factor), held_up)?;
            if round > 0 {
                let (took, first_task) = taken(&sorted)?;
                times.0[contestant].push((took - first_task) / factor as f64);
                first_tasks.push(first_task);
            }
        }
    }
    eprintln!("  first task after {:.0} ms", 1e3 * median(&first_tasks));
    for (contestant, factor) in factors.iter().enumerate() {
        let [ours, alone] = [&times, &alone].map(|it| it.median(contestant) * *factor as f64);
        eprintln!(
            "  {:>5} MiB    {ours:.3} s from then on; in one process {alone:.3} s",
            mib * factor
        );
    }
    let figures = factors.iter().enumerate().skip(1).map(|(at, factor)| {
        let [ratio, alone] = [&times, &alone].map(|it| it.ratio(at, 0));
        let name = format!("{mib} MiB, for as much (reference {alone:.2})");
        let peer = Peer { name, value: times.median(0) };
        let name = format!("sort-scaling-{factor}");
        Figure::with_ratio(name, "s", times.median(at), peer, ratio, Target::AtMost(1.15))
    });
    Ok(figures.collect())
}

/// Seconds of the reference for as much as the least of the data, which are generated before each
/// sort, as they are on the cluster. Like that it has sorted the most once before.
fn grow_alone(field: &Field, scale: &Scale, factors: &[u64]) -> Result<Times, Failure> {
    let reference = reference()?;
    let sort = |factor: u64| {
        let records = ((scale.mib * factor) << 20) / RECORD;
        let input = field.generate(records)?;
        field.refer(&reference, &input, records)
    };
    sort(scale.most)?;
    let mut times = Times::of(factors.len());
    for round in 0..=scale.growing {
        for contestant in order(round, factors.len()) {
            let seconds = sort(factors[contestant])?;
            if round > 0 {
                times.0[contestant].push(seconds / factors[contestant] as f64);
            }
        }
    }
    field.clear()?;
    Ok(times)
}

/// Seconds of a sort, in all and until its first task began.
fn taken(sorted: &Value) -> Result<(f64, f64), Failure> {
    Ok((number(sorted, "seconds")?, number(sorted, "first_task_seconds")?))
}

fn mebi(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

/// For how many seconds a control stops the workers of a contestant: less than a master takes them
/// for lost, and those longer whose peer is stopped, too.
fn held_up(mode: Mode, contestant: usize) -> Option<f64> {
    let seconds = if contestant == ONE { 0.5 } else { 2.0 };
    (mode == Mode::Control).then_some(seconds)
}
