//! A hosted node's disk beside plain `pread` and `pwrite` of the same file by this process, all in
//! the page cache, a MiB at a time. The scenario `disk-cost` measures ours; the peer is measured
//! before and after, and the middle round of all counts.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::{Node, number};
use crate::rounds::median;

const LIMIT: Duration = Duration::from_secs(120);

/// MiB of the file that are read and written.
const MIB: u64 = 64;
const ROUNDS: u32 = 15;

const REQUEST: usize = 1 << 20;

/// See the module. The control's requests are of 4 KiB.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("disk.img");
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
    file.set_len(MIB << 20)?;
    // The first time there is nothing in the file.
    plain(&file)?;
    let before = plain(&file)?;
    let (report, placement) = ours(mode, &path)?;
    let after = plain(&file)?;
    let figure = |name: &str, way: usize| {
        let times = [&before[way][..], &after[way]].concat();
        let peer = Peer { name: format!("p{name} on Linux"), value: median(&times) };
        let ours = number(&report, &format!("program.figures.{name}"))?;
        eprintln!("  {name} ({placement}): {ours:.0} ns a MiB");
        Ok(Figure::new(format!("disk-{name}"), "ns/MiB", ours, peer, Target::AtMost(1.25)))
    };
    [("write", 0), ("read", 1)].into_iter().map(|(name, way)| figure(name, way)).collect()
}

fn ours(mode: Mode, path: &Path) -> Result<(serde_json::Value, String), Failure> {
    let kib = if mode == Mode::Control { 4 } else { REQUEST >> 10 };
    let program = format!("disk-cost rounds={ROUNDS} mib={MIB} kib={kib}");
    let disk = path.to_string_lossy();
    let machine = ["--machine", "hosted", "--cores", "2", "--disk", &disk];
    let report = Node::boot(&[&machine[..], &["--program", &program]].concat(), LIMIT)?.report()?;
    if report["program"]["passed"] != true {
        let failures = &report["program"]["failures"];
        return Err(Failure::Node(format!("the disk failed: {failures}")));
    }
    let facts = report["facts"].as_array().into_iter().flatten();
    let fact = facts.filter_map(|fact| fact.as_str()).find(|fact| fact.starts_with("disk 0"));
    let way = fact.and_then(|fact| fact.rsplit_once(", ")).map_or("", |(_, way)| way);
    let way = way.to_string();
    Ok((report, way))
}

/// Nanoseconds for a MiB, by round: writes, then reads.
fn plain(file: &File) -> io::Result<[Vec<f64>; 2]> {
    let mut buffer = vec![0x5a; REQUEST];
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for at in 0..MIB {
            file.write_all_at(&buffer, at << 20)?;
        }
        times[0].push(begin.elapsed().as_nanos() as f64 / MIB as f64);
        let begin = Instant::now();
        for at in 0..MIB {
            file.read_exact_at(&mut buffer, at << 20)?;
        }
        times[1].push(begin.elapsed().as_nanos() as f64 / MIB as f64);
    }
    Ok(times)
}
