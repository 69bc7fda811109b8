//! The sort job's steps (`nile_tera::sort`, over `nile_sort`) as threads of one process: the same
//! records in blocks of the same size, the same samples, buckets and buffers.
//!
//! Blocks are read by threads that do nothing else, on the CPUs on which a node has its management
//! and its disk, and so they are written; the threads that sort have a CPU each, as workers have.
//! What is timed is the second sort: all memory is there and was touched.
//!
//! Two guests may share a sort, as nodes of a cluster do: each has half of the records on its disk,
//! and in the end half of the parts.
//!
//! [`map`]: what is read is grouped, and some of it sent to the other guest; [`reduce`]: parts are
//! put in order and written.

mod map;
mod reduce;

use std::fs::File;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::{Duration, Instant};

use nile_sort::{
    Checksum, Cuts, Entry, Format, Generator, Layout, Plan, Position, Sample, Summary, Tally, Tera,
    Validator,
};
use nile_tera::sort::bounds::buckets;
use rustix::fs::{Mode, OFlags, open};
use serde_json::{Value, json};

use crate::blocks::{Arena, Checks, Disk};
use crate::counts::Counts;
use crate::peer::Peer;
use crate::words::Words;
use crate::{Outcome, system};
use reduce::Part;

const DEVICE: &str = "/dev/vda";

/// How long the device may take to be there once its driver is.
const PATIENCE: Duration = Duration::from_secs(5);

/// Threads that read, and then as many that write: so many requests are under way at once.
const MOVERS: usize = 2;

/// Blocks of the output for each thread: while one is filled others are written.
const OUTPUTS: usize = 4;

/// Blocks that samples are taken of, and records of each.
const SAMPLED_BLOCKS: usize = 32;
const SAMPLED_RECORDS: usize = 1000;

/// What is to be sorted, and how.
struct Request {
    /// Records of all guests, how many these are, and which one this is.
    all: usize,
    nodes: usize,
    node: usize,
    /// Records of this guest.
    records: usize,
    threads: usize,
    /// CPUs for reading and writing, and for each thread that sorts.
    movers: Vec<usize>,
    workers: Vec<usize>,
    /// Records of a block, but for the last one.
    of_block: usize,
}

impl Request {
    /// How many blocks the input has.
    fn blocks(&self) -> usize {
        self.records.div_ceil(self.of_block)
    }

    /// The records of a block of this guest's input.
    fn range(&self, block: usize) -> Range<usize> {
        block * self.of_block..((block + 1) * self.of_block).min(self.records)
    }

    /// The place of a block's first record among those of all guests.
    fn position(&self, block: usize) -> Position {
        Position((share(self.all, self.nodes, self.node).start + block * self.of_block) as u64)
    }

    /// The first of this guest's parts.
    fn first_part(&self) -> usize {
        self.node * self.threads
    }

    /// Blocks that other guests may send: as many as they have.
    fn foreign_blocks(&self) -> usize {
        let others = (0..self.nodes).filter(|node| *node != self.node);
        others.map(|node| share(self.all, self.nodes, node).len().div_ceil(self.of_block)).sum()
    }

    /// Blocks of memory for what is read, until everything has been written.
    fn input_room(&self) -> usize {
        self.blocks() + self.foreign_blocks() + map::in_flight(self.threads)
    }
}

/// The records of one of several guests.
fn share(records: usize, nodes: usize, node: usize) -> Range<usize> {
    records * node / nodes..records * (node + 1) / nodes
}

/// What this guest's parts have of a block, of whichever guest's input.
struct Grouped<'m> {
    /// Its number among those of all guests.
    number: usize,
    parts: Vec<&'m [u8]>,
}

/// Makes, sorts and checks records on the machine's disk.
pub fn run(words: &Words<'_>) -> Outcome<Value> {
    let block = words.number("block")?;
    let (all, threads) = (words.number("records")?, words.number("threads")?);
    let (nodes, node) = (words.number("nodes")?, words.number("node")? - 1);
    let mut peer = match nodes {
        1 => None,
        2 if node < 2 => Some(Peer::meet(node)?),
        _ => return Err("one guest or two, nile.nodes, have the numbers nile.node from 1".into()),
    };
    let cpus = system::cpus()?;
    let movers = cpus.saturating_sub(threads).max(1);
    let request = Request {
        all,
        nodes,
        node,
        records: share(all, nodes, node).len(),
        threads,
        movers: (0..movers).collect(),
        workers: (0..threads).map(|thread| (movers + thread) % cpus).collect(),
        of_block: block / Tera::LENGTH,
    };
    let cached = words.choice("io", ["direct", "cached"])?;
    let checks = words.choice("checks", ["no", "yes"])?.then(Checks::default);
    // What is made past the cache is not there when it is read.
    let mut arena = Arena::new(request.input_room() + threads * OUTPUTS, block);
    let disk = Disk::new(device(false)?, block, checks);
    system::say("making records");
    let given = generate(&request, &disk, arena.blocks().next().ok_or("no memory")?)?;

    system::pin(&request.movers)?;
    system::say("sorting twice");
    // Once before, past the cache: what is timed finds nothing for the first time.
    let (memory, outputs) = parted(&mut arena, &request);
    sort(&request, &disk, peer.as_mut(), memory, outputs)?;
    let disk = Disk::new(device(cached)?, block, disk.into_checks());
    let (memory, outputs) = parted(&mut arena, &request);
    peer.as_mut().map_or(Ok(()), Peer::meet_again)?;
    let moved = peer.as_ref().map_or(0, Peer::moved);
    let (begun, before) = (Instant::now(), Counts::now()?);
    let (tally, parts, phases) = sort(&request, &disk, peer.as_mut(), memory, outputs)?;
    // It has ended when all have.
    peer.as_mut().map_or(Ok(()), Peer::meet_again)?;
    let seconds = begun.elapsed().as_secs_f64();
    let counts = Counts::now()?.since(&before);

    system::say("checking what was sorted");
    let disk = Disk::new(device(false)?, block, disk.into_checks());
    let made = validate(&disk, &parts, block)?;
    let sums = parts.iter().fold(Tally::default(), |mut all, part| {
        all += part.tally;
        all
    });
    let phases: Vec<_> = phases
        .iter()
        .map(|(name, took)| json!({ "name": name, "seconds": took.as_secs_f64() }))
        .collect();
    let mut counted = counts.document();
    // Past the cache the device has the program's own memory; of a connection Linux counts nothing.
    let moved = peer.as_ref().map_or(0, Peer::moved) - moved;
    let through_cache = counted["read_and_written_bytes"].as_u64().filter(|_| cached);
    counted["copied_by_linux_bytes"] = (through_cache.unwrap_or(0) + moved).into();
    let keys = made.keys.map(|(first, last)| [first, last].map(|key| format!("{key:032x}")));
    Ok(json!({
        "records": made.records,
        "given_checksum": given.to_string(),
        "checksum": made.checksum.to_string(),
        "keys": keys,
        "unordered": made.unordered,
        // What several guests have is looked at as a whole elsewhere.
        "valid": made.in_order() && (nodes > 1 || made.checksum == given && sums == tally),
        "seconds": seconds,
        "phases": phases,
        "workers": request.workers,
        "counts": counted,
    }))
}

/// What threads that read do with the numbers and the memory that `next` gives, until it gives no
/// more.
fn read_blocks<'m>(
    request: &Request,
    disk: &Disk,
    next: &impl Fn() -> Option<(usize, &'m mut [u8])>,
    read: &Sender<(usize, &'m mut [u8])>,
) -> Outcome<()> {
    system::pin(&request.movers)?;
    while let Some((number, memory)) = next() {
        disk.read(number, request.range(number).len() * Tera::LENGTH, memory)?;
        // Nobody takes it if a thread that sorts has failed, which says why.
        if read.send((number, memory)).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Blocks of memory for the input, and those for the output.
fn parted<'m>(arena: &'m mut Arena, request: &Request) -> (Vec<&'m mut [u8]>, Vec<&'m mut [u8]>) {
    let mut memory: Vec<&mut [u8]> = arena.blocks().collect();
    let outputs = memory.split_off(request.input_room());
    (memory, outputs)
}

/// The disk, which may take a moment to be there.
fn device(cached: bool) -> Outcome<File> {
    let patience = Instant::now() + PATIENCE;
    while !Path::new(DEVICE).exists() && Instant::now() < patience {
        thread::sleep(Duration::from_millis(10));
    }
    let flags = if cached { OFlags::RDWR } else { OFlags::RDWR | OFlags::DIRECT };
    let file = open(DEVICE, flags, Mode::empty());
    Ok(file.map_err(|error| format!("{DEVICE} cannot be opened: {error}"))?.into())
}

/// Makes the records, block by block; gives their checksum.
fn generate(request: &Request, disk: &Disk, memory: &mut [u8]) -> Outcome<Checksum> {
    let mut checksum = Checksum::default();
    for number in 0..request.blocks() {
        let range = request.range(number);
        let bytes = range.len() * Tera::LENGTH;
        Generator::new(Format::Binary, request.position(number).0.into())
            .fill(&mut memory[..bytes]);
        memory[..bytes]
            .chunks_exact(Tera::LENGTH)
            .for_each(|record| checksum += Checksum::of(record));
        disk.write(number, bytes, memory)?;
    }
    Ok(checksum)
}

/// What is in the parts, one after the other.
fn validate(disk: &Disk, parts: &[Part], block: usize) -> Outcome<Summary> {
    let mut arena = Arena::new(1, block);
    let memory = arena.blocks().next().ok_or("no memory")?;
    let mut validator = Validator::<Tera>::new();
    for (number, bytes) in parts.iter().flat_map(|part| &part.blocks) {
        disk.read(*number, *bytes, memory)?;
        validator.push(&memory[..*bytes]);
    }
    validator.finish().map_err(|cut| cut.to_string().into())
}

/// What a sort gives: the tally of what it read, the parts of the output, and how long it took when
/// each phase had ended.
type Done = (Tally, Vec<Part>, Vec<(&'static str, Duration)>);

/// Sorts what is on the disk, with a block of memory for each of the input's, and some for output.
fn sort(
    request: &Request,
    disk: &Disk,
    mut peer: Option<&mut Peer>,
    mut inputs: Vec<&mut [u8]>,
    outputs: Vec<&mut [u8]>,
) -> Outcome<Done> {
    let begun = Instant::now();
    let cuts = cut(request, sample(request, disk, inputs[0])?, peer.as_deref_mut())?;
    let (all, of_block) = (request.all as u64, request.of_block as u64);
    let buckets = NonZeroU32::new(buckets(all, of_block, request.threads * request.nodes));
    let plan = Plan::new(&cuts, buckets.ok_or("no buckets")?);
    let sampled = begun.elapsed();
    let (mut grouped, tally) = map::map(request, disk, &plan, peer, inputs)?;
    grouped.sort_by_key(|block| block.number);
    let mapped = begun.elapsed();
    let parts = reduce::reduce(request, disk, &plan, &grouped, outputs)?;
    disk.flush()?;
    let reduced = begun.elapsed();
    let phases =
        [("sampling", sampled), ("mapping", mapped - sampled), ("reducing", reduced - mapped)];
    Ok((tally, parts, phases.to_vec()))
}

/// The entries of a few records.
fn sample(request: &Request, disk: &Disk, memory: &mut [u8]) -> Outcome<Vec<Entry>> {
    let mut sample = Vec::new();
    let looks = SAMPLED_BLOCKS.min(request.blocks());
    for look in 0..looks {
        let number = look * request.blocks() / looks;
        let range = request.range(number);
        let bytes = range.len().min(SAMPLED_RECORDS) * Tera::LENGTH;
        disk.read(number, bytes, memory)?;
        let Position(first) = request.position(number);
        let records = memory[..bytes].chunks_exact(Tera::LENGTH).zip(first..);
        sample.extend(records.map(|(record, at)| Entry::new::<Tera>(record, Position(at))));
    }
    Ok(sample)
}

/// Where all guests' parts begin, by what each has looked at; the first one decides.
fn cut(request: &Request, own: Vec<Entry>, peer: Option<&mut Peer>) -> Outcome<Cuts> {
    let parts = NonZeroU32::new((request.threads * request.nodes) as u32).ok_or("no threads")?;
    let mut sample = Sample::new();
    sample.extend(own.iter().copied());
    let Some(peer) = peer else { return Ok(sample.cuts(parts)) };
    if request.node > 0 {
        peer.tell(&own.into_iter().flat_map(Entry::to_bytes).collect::<Vec<u8>>())?;
        return Cuts::from_bytes(&peer.hear()?).ok_or_else(|| "these are no cuts".into());
    }
    let theirs = peer.hear()?;
    sample.extend(theirs.as_chunks().0.iter().map(|bytes| Entry::from_bytes(*bytes)));
    let cuts = sample.cuts(parts);
    peer.tell(&cuts.to_bytes())?;
    Ok(cuts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer;

    fn request((all, nodes, node): (usize, usize, usize), threads: usize, block: usize) -> Request {
        Request {
            all,
            nodes,
            node,
            records: share(all, nodes, node).len(),
            threads,
            movers: vec![0],
            workers: vec![0; threads],
            of_block: block / Tera::LENGTH,
        }
    }

    /// What was given, what was read, and what has come of it.
    fn sorted(
        request: &Request,
        peer: Option<&mut Peer>,
        block: usize,
    ) -> (Checksum, Tally, Summary) {
        let disk = Disk::new(tempfile::tempfile().unwrap(), block, Some(Checks::default()));
        let mut arena = Arena::new(request.input_room() + request.threads * OUTPUTS, block);
        let given = generate(request, &disk, arena.blocks().next().unwrap()).unwrap();
        let (memory, outputs) = parted(&mut arena, request);
        let (tally, parts, _) = sort(request, &disk, peer, memory, outputs).unwrap();
        (given, tally, validate(&disk, &parts, block).unwrap())
    }

    #[test]
    fn records_are_sorted_by_any_number_of_threads() {
        for (records, threads, block) in [(1, 1, 4096), (5000, 2, 16384), (777, 3, 4096)] {
            let request = request((records, 1, 0), threads, block);
            let (given, tally, made) = sorted(&request, None, block);
            assert_eq!(tally.records, records as u64);
            assert!(made.in_order());
            assert_eq!((made.records, made.checksum), (records as u64, given));
        }
    }

    #[test]
    fn two_guests_share_a_sort() {
        for (records, threads, block) in [(2, 1, 4096), (5001, 2, 16384), (7777, 3, 8192)] {
            let [mut one, mut other] = peer::pair();
            let (mine, theirs) = thread::scope(|scope| {
                let theirs = scope.spawn(move || {
                    sorted(&request((records, 2, 1), threads, block), Some(&mut other), block)
                });
                let mine = sorted(&request((records, 2, 0), threads, block), Some(&mut one), block);
                (mine, theirs.join().unwrap())
            });
            assert_eq!(mine.1.records + theirs.1.records, records as u64);
            let made = mine.2.then(theirs.2);
            assert!(made.in_order());
            assert_eq!((made.records, made.checksum), (records as u64, mine.0 + theirs.0));
            assert!(records == 2 || one.moved() > 0);
        }
    }
}
