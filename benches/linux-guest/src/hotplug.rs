//! What Linux takes to give up a CPU and memory and to have them again (hotplug), through `/sys`,
//! and what it takes a thread to be on another CPU, which is the least that moving work can cost.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use crate::words::Words;
use crate::{Outcome, system};

/// Where Linux shows its parts.
const SYSTEM: &str = "/sys/devices/system";

/// How much memory goes and comes.
const BYTES: u64 = 512 << 20;

/// Microseconds that each of the rounds took.
type Times = Vec<f64>;

/// Has the last CPU and 512 MiB go and come back in each of the rounds.
pub fn run(words: &Words<'_>) -> Outcome<Value> {
    system::say("measuring hotplug");
    let rounds = words.number("rounds")?;
    let last = system::cpus()? - 1;
    let cpu = Path::new(SYSTEM).join(format!("cpu/cpu{last}/online"));
    let blocks = Blocks::new(&Path::new(SYSTEM).join("memory"))?;
    let (mut less, mut more) = (Times::new(), Times::new());
    let (mut memory_less, mut memory_more) = (Times::new(), Times::new());
    let (mut moved, mut refused) = (Times::new(), 0);
    for round in 1..=rounds {
        system::pin(&[0])?;
        moved.push(timed(|| system::pin(&[last]))?.1);
        system::pin(&[0])?;
        less.push(timed(|| write(&cpu, "0"))?.1);
        more.push(timed(|| write(&cpu, "1"))?.1);
        let taken = blocks.take()?;
        refused += taken.refused;
        memory_less.push(taken.micros);
        memory_more.push(blocks.give(&taken.blocks)?);
        system::say(&format!("round {round} of {rounds} is over"));
    }
    Ok(json!({
        "core less": less,
        "core more": more,
        "memory less": memory_less,
        "memory more": memory_more,
        "thread moved": moved,
        "refused": refused,
    }))
}

/// The memory blocks that may go: the zone `Movable` has them, where Linux keeps only what it can
/// put elsewhere.
struct Blocks {
    paths: Vec<PathBuf>,
    /// How many of them have as much as is to go.
    wanted: usize,
}

/// Blocks that went, and what that took without those that Linux has refused.
struct Taken {
    blocks: Vec<PathBuf>,
    micros: f64,
    refused: usize,
}

impl Blocks {
    /// Those of `folder`, the highest first.
    fn new(folder: &Path) -> Outcome<Blocks> {
        let size = read(&folder.join("block_size_bytes"))?;
        let size = u64::from_str_radix(&size, 16)
            .ok()
            .filter(|size| *size > 0)
            .ok_or_else(|| format!("a memory block has {size:?} bytes, which is no number"))?;
        let mut found = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let Some(number) = path.file_name().and_then(|it| number(it.to_str()?)) else {
                continue;
            };
            let (state, zones) = (read(&path.join("state"))?, read(&path.join("valid_zones"))?);
            if state == "online" && zones == "Movable" {
                found.push((number, path));
            }
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        let wanted = BYTES.div_ceil(size) as usize;
        if found.len() < wanted {
            let have = found.len();
            return Err(format!("{have} memory blocks can be moved, of {wanted} wanted").into());
        }
        Ok(Blocks { paths: found.into_iter().map(|(_, path)| path).collect(), wanted })
    }

    /// Has as many go as are wanted; one that Linux refuses is passed over, and so is one that is
    /// no memory in part, as the last of a machine, where tables of the firmware lie.
    fn take(&self) -> Outcome<Taken> {
        let mut taken = Taken { blocks: Vec::new(), micros: 0.0, refused: 0 };
        for path in &self.paths {
            match timed(|| set(path, "offline")) {
                Ok((_, micros)) => {
                    taken.micros += micros;
                    taken.blocks.push(path.clone());
                }
                Err(error) if error.kind() == ErrorKind::ResourceBusy => taken.refused += 1,
                Err(error) if error.kind() == ErrorKind::InvalidInput => {}
                Err(error) => return Err(named(&path.join("state"), &error)),
            }
            if taken.blocks.len() == self.wanted {
                return Ok(taken);
            }
        }
        let (wanted, refused) = (self.wanted, taken.refused);
        // What Linux had before it has again, whatever is said next.
        self.give(&taken.blocks)?;
        let went = taken.blocks.len();
        Err(format!("of {wanted} memory blocks {went} went, and {refused} were refused").into())
    }

    /// Has blocks come back; the microseconds that it took.
    fn give(&self, blocks: &[PathBuf]) -> Outcome<f64> {
        let mut micros = 0.0;
        for path in blocks {
            let given = timed(|| set(path, "online_movable"));
            micros += given.map_err(|error| named(&path.join("state"), &error))?.1;
        }
        Ok(micros)
    }
}

/// The number of the memory block of this name.
fn number(name: &str) -> Option<u64> {
    name.strip_prefix("memory")?.parse().ok()
}

fn set(block: &Path, state: &str) -> io::Result<()> {
    fs::write(block.join("state"), state)
}

fn read(file: &Path) -> Outcome<String> {
    let text = fs::read_to_string(file).map_err(|error| named(file, &error))?;
    Ok(text.trim().into())
}

fn write(file: &Path, text: &str) -> Outcome<()> {
    fs::write(file, text).map_err(|error| named(file, &error))
}

fn named(file: &Path, error: &io::Error) -> Box<dyn std::error::Error + Send + Sync> {
    format!("{}: {error}", file.display()).into()
}

/// What came of it, and the microseconds that it took.
fn timed<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<(T, f64), E> {
    let begun = Instant::now();
    let done = work()?;
    Ok((done, begun.elapsed().as_nanos() as f64 / 1000.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder like Linux's, with blocks of so many bytes, each in a state and a zone.
    fn folder(size: &str, blocks: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("block_size_bytes"), format!("{size}\n")).unwrap();
        fs::write(folder.path().join("probe"), "").unwrap();
        for (number, (state, zones)) in blocks.iter().enumerate() {
            let block = folder.path().join(format!("memory{number}"));
            fs::create_dir(&block).unwrap();
            fs::write(block.join("state"), format!("{state}\n")).unwrap();
            fs::write(block.join("valid_zones"), format!("{zones}\n")).unwrap();
        }
        folder
    }

    #[test]
    fn the_highest_blocks_that_can_be_moved_go_and_come_back() {
        let (mine, movable) = (("online", "DMA32"), ("online", "Movable"));
        let mut blocks = vec![mine, movable, ("offline", "Normal Movable"), movable];
        blocks.extend([movable; 8]);
        let folder = folder("8000000", &blocks);
        let found = Blocks::new(folder.path()).unwrap();
        assert_eq!((found.wanted, found.paths.len()), (4, 10));
        let taken = found.take().unwrap();
        let names: Vec<_> = taken.blocks.iter().filter_map(|it| it.file_name()).collect();
        assert_eq!(names, ["memory11", "memory10", "memory9", "memory8"]);
        let state = |name: &str| fs::read_to_string(folder.path().join(name).join("state"));
        assert_eq!(state("memory8").unwrap(), "offline");
        assert_eq!(state("memory7").unwrap(), "online\n");
        assert_eq!(taken.refused, 0);
        assert!(found.give(&taken.blocks).unwrap() >= 0.0);
        assert_eq!(state("memory8").unwrap(), "online_movable");
    }

    #[test]
    fn who_has_too_little_or_says_no_size_is_told() {
        let why = |size, blocks: &[_]| {
            let made = folder(size, blocks);
            Blocks::new(made.path()).err().expect("no blocks").to_string()
        };
        let few = why("8000000", &[("online", "Movable"); 3]);
        assert_eq!(few, "3 memory blocks can be moved, of 4 wanted");
        for size in ["0", "many", ""] {
            assert!(why(size, &[]).contains("no number"), "{size}");
        }
        assert_eq!([number("memory12"), number("memory"), number("probe")], [Some(12), None, None]);
    }
}
