//! The sort job's steps (`nile_tera::sort`, over `nile_sort`) as threads of one process: the same
//! records in blocks of the same size, the same samples, entries, buckets and buffers.
//!
//! Blocks are read by threads that do nothing else, on the CPUs on which a node has its management
//! and its disk, and so they are written; the threads that sort have a CPU each, as workers have.
//! What is timed is the second sort: all memory is there and was touched.

use std::fs::File;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use nile_sort::index::room;
use nile_sort::{
    Block, Checksum, Cuts, Entry, Format, Generator, Index, Layout, Plan, Position, Sample, Sorted,
    Summary, Tally, Tera, Validator,
};
use nile_tera::records::Records;
use nile_tera::sort::MOST_ENTRIES;
use nile_tera::sort::bounds::buckets;
use rustix::fs::{Mode, OFlags, open};
use serde_json::{Value, json};

use crate::blocks::{Arena, Checks, Disk};
use crate::counts::Counts;
use crate::words::Words;
use crate::{Outcome, system};

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

    /// The records of a block of the input.
    fn range(&self, block: usize) -> Range<usize> {
        block * self.of_block..((block + 1) * self.of_block).min(self.records)
    }
}

/// A block with its entries behind the records.
struct Indexed<'m> {
    number: usize,
    memory: &'m [u8],
    records: usize,
    /// Where the entries of each part are.
    parts: Vec<Range<usize>>,
}

impl Indexed<'_> {
    /// What it has of a part.
    fn part(&self, part: usize) -> Block<'_> {
        Block {
            records: &self.memory[..self.records],
            entries: &self.memory[self.parts[part].clone()],
        }
    }
}

/// A part of the output: its blocks on the disk with the bytes of each, and its tally.
#[derive(Default)]
struct Part {
    blocks: Vec<(usize, usize)>,
    tally: Tally,
}

/// Makes, sorts and checks records on the machine's disk.
pub fn run(words: &Words<'_>) -> Outcome<Value> {
    let block = words.number("block")?;
    let (records, threads) = (words.number("records")?, words.number("threads")?);
    let cpus = system::cpus()?;
    let movers = cpus.saturating_sub(threads).max(1);
    let request = Request {
        records,
        threads,
        movers: (0..movers).collect(),
        workers: (0..threads).map(|thread| (movers + thread) % cpus).collect(),
        of_block: room::<Tera>(block),
    };
    let cached = match words.text("io")? {
        "direct" => false,
        "cached" => true,
        other => return Err(format!("nile.io={other}: it is direct or cached").into()),
    };
    let checks = match words.text("checks")? {
        "no" => None,
        "yes" => Some(Checks::default()),
        other => return Err(format!("nile.checks={other}: it is yes or no").into()),
    };
    // What is made past the cache is not there when it is read.
    let mut arena = Arena::new(request.blocks() + threads * OUTPUTS, block);
    let disk = Disk::new(device(false)?, block, checks);
    let given = generate(&request, &disk, arena.blocks().next().ok_or("no memory")?)?;

    system::pin(&request.movers)?;
    // Once before, past the cache: what is timed finds nothing for the first time.
    let (memory, outputs) = parted(&mut arena, &request);
    sort(&request, &disk, memory, outputs)?;
    let disk = Disk::new(device(cached)?, block, disk.into_checks());
    let (memory, outputs) = parted(&mut arena, &request);
    let (begun, before) = (Instant::now(), Counts::now()?);
    let (tally, parts, phases) = sort(&request, &disk, memory, outputs)?;
    let seconds = begun.elapsed().as_secs_f64();
    let counts = Counts::now()?.since(&before);

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
    // Past the cache the device has the program's own memory.
    let copied = if cached { counted["read_and_written_bytes"].clone() } else { 0.into() };
    counted["copied_by_linux_bytes"] = copied;
    Ok(json!({
        "records": made.records,
        "checksum": made.checksum.to_string(),
        "unordered": made.unordered,
        "valid": made.in_order() && made.checksum == given && sums == tally,
        "seconds": seconds,
        "phases": phases,
        "workers": request.workers,
        "counts": counted,
    }))
}

/// Blocks of memory for the input, and those for the output.
fn parted<'m>(arena: &'m mut Arena, request: &Request) -> (Vec<&'m mut [u8]>, Vec<&'m mut [u8]>) {
    let mut memory: Vec<&mut [u8]> = arena.blocks().collect();
    let outputs = memory.split_off(request.blocks());
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
        Generator::new(Format::Binary, range.start as u128).fill(&mut memory[..bytes]);
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
    mut inputs: Vec<&mut [u8]>,
    outputs: Vec<&mut [u8]>,
) -> Outcome<Done> {
    let begun = Instant::now();
    let cuts = sample(request, disk, inputs[0])?;
    let buckets = NonZeroU32::new(buckets(request.of_block as u64, request.threads));
    let plan = Plan::new(&cuts, buckets.ok_or("no buckets")?);
    let sampled = begun.elapsed();
    let (mut indexed, tally) = map(request, disk, &plan, inputs)?;
    indexed.sort_by_key(|block| block.number);
    let mapped = begun.elapsed();
    let parts = reduce(request, disk, &plan, &indexed, outputs)?;
    disk.flush()?;
    let reduced = begun.elapsed();
    let phases =
        [("sampling", sampled), ("mapping", mapped - sampled), ("reducing", reduced - mapped)];
    Ok((tally, parts, phases.to_vec()))
}

/// Cuts by the keys of a few records.
fn sample(request: &Request, disk: &Disk, memory: &mut [u8]) -> Outcome<Cuts> {
    let mut sample = Sample::new();
    let looks = SAMPLED_BLOCKS.min(request.blocks());
    for look in 0..looks {
        let number = look * request.blocks() / looks;
        let range = request.range(number);
        let bytes = range.len().min(SAMPLED_RECORDS) * Tera::LENGTH;
        disk.read(number, bytes, memory)?;
        let records = memory[..bytes].chunks_exact(Tera::LENGTH).zip(range);
        sample.extend(records.map(|(record, at)| Entry::new::<Tera>(record, Position(at as u64))));
    }
    Ok(sample.cuts(NonZeroU32::new(request.threads as u32).ok_or("no threads")?))
}

/// Reads all blocks and makes entries of their records.
fn map<'m>(
    request: &Request,
    disk: &Disk,
    plan: &Plan,
    memory: Vec<&'m mut [u8]>,
) -> Outcome<(Vec<Indexed<'m>>, Tally)> {
    let waiting = Mutex::new(memory.into_iter().enumerate());
    let (sender, read) = channel();
    let read = Mutex::new(read);
    thread::scope(|scope| {
        let movers: Vec<_> = (0..MOVERS)
            .map(|_| {
                let (waiting, sender) = (&waiting, sender.clone());
                scope.spawn(move || read_blocks(request, disk, waiting, &sender))
            })
            .collect();
        drop(sender);
        let workers: Vec<_> = request
            .workers
            .iter()
            .map(|cpu| {
                let read = &read;
                scope.spawn(move || index_blocks(request, *cpu, plan, read))
            })
            .collect();
        let (mut all, mut tally) = (Vec::new(), Tally::default());
        for worker in workers {
            let (blocks, sums) = worker.join().expect("it never panics")?;
            all.extend(blocks);
            tally += sums;
        }
        for mover in movers {
            mover.join().expect("it never panics")?;
        }
        Ok((all, tally))
    })
}

type Waiting<'m> = Mutex<std::iter::Enumerate<std::vec::IntoIter<&'m mut [u8]>>>;

/// A reader's work.
fn read_blocks<'m>(
    request: &Request,
    disk: &Disk,
    waiting: &Waiting<'m>,
    read: &Sender<(usize, &'m mut [u8])>,
) -> Outcome<()> {
    system::pin(&request.movers)?;
    loop {
        let next = waiting.lock().expect("nobody panics").next();
        let Some((number, memory)) = next else { return Ok(()) };
        disk.read(number, request.range(number).len() * Tera::LENGTH, memory)?;
        // Nobody takes it if a thread that sorts has failed, which says why.
        if read.send((number, memory)).is_err() {
            return Ok(());
        }
    }
}

/// What a thread that sorts does with what has been read.
fn index_blocks<'m>(
    request: &Request,
    cpu: usize,
    plan: &Plan,
    read: &Mutex<Receiver<(usize, &'m mut [u8])>>,
) -> Outcome<(Vec<Indexed<'m>>, Tally)> {
    system::pin(&[cpu])?;
    let mut index = Index::new(plan.clone());
    let (mut blocks, mut tally) = (Vec::new(), Tally::default());
    loop {
        let next = read.lock().expect("nobody panics").recv();
        let Ok((number, memory)) = next else { return Ok((blocks, tally)) };
        let range = request.range(number);
        let bytes = range.len() * Tera::LENGTH;
        let (records, entries) = memory.split_at_mut(bytes);
        let made = index.make::<Tera>(records, Position(range.start as u64), entries);
        tally += made.map_err(|error| error.to_string())?;
        let parts = (0..index.parts()).map(|part| {
            let entries = index.part(part);
            bytes + entries.start..bytes + entries.end
        });
        let parts = parts.collect();
        blocks.push(Indexed { number, memory, records: bytes, parts });
    }
}

/// A filled block on its way to the disk.
struct Filled<'m> {
    number: usize,
    bytes: usize,
    memory: &'m mut [u8],
}

/// Writes the parts, each of which one thread puts in order.
fn reduce(
    request: &Request,
    disk: &Disk,
    plan: &Plan,
    indexed: &[Indexed<'_>],
    outputs: Vec<&mut [u8]>,
) -> Outcome<Vec<Part>> {
    let (free, frees) = channel();
    outputs.into_iter().for_each(|memory| free.send(memory).expect("its receiver is here"));
    let (fill, fills) = channel::<Filled<'_>>();
    let (frees, fills) = (Mutex::new(frees), Mutex::new(fills));
    thread::scope(|scope| {
        let movers: Vec<_> = (0..MOVERS)
            .map(|_| {
                let (fills, free) = (&fills, free.clone());
                scope.spawn(move || write_blocks(request, disk, fills, &free))
            })
            .collect();
        drop(free);
        let workers: Vec<_> = (0..request.threads)
            .map(|part| {
                let (frees, fill) = (&frees, fill.clone());
                scope.spawn(move || put_out(request, part, plan, indexed, frees, &fill))
            })
            .collect();
        drop(fill);
        let parts = workers.into_iter().map(|worker| worker.join().expect("it never panics"));
        let parts = parts.collect::<Outcome<Vec<Part>>>();
        for mover in movers {
            mover.join().expect("it never panics")?;
        }
        parts
    })
}

/// A writer's work.
fn write_blocks<'m>(
    request: &Request,
    disk: &Disk,
    fills: &Mutex<Receiver<Filled<'m>>>,
    free: &Sender<&'m mut [u8]>,
) -> Outcome<()> {
    system::pin(&request.movers)?;
    loop {
        let next = fills.lock().expect("nobody panics").recv();
        let Ok(Filled { number, bytes, memory }) = next else { return Ok(()) };
        disk.write(number, bytes, memory)?;
        // Whoever would take it may have all that it needs.
        let _ = free.send(memory);
    }
}

/// What a thread that sorts does with its part.
fn put_out<'m>(
    request: &Request,
    part: usize,
    plan: &Plan,
    indexed: &[Indexed<'_>],
    frees: &Mutex<Receiver<&'m mut [u8]>>,
    fill: &Sender<Filled<'m>>,
) -> Outcome<Part> {
    system::pin(&[request.workers[part]])?;
    let blocks = indexed.iter().map(|it| it.part(part)).collect();
    let mut sorted =
        Sorted::new(blocks, plan.starts(part), MOST_ENTRIES).map_err(|error| error.to_string())?;
    let mut made = Part::default();
    loop {
        let memory = frees.lock().expect("nobody panics").recv();
        let memory = memory.map_err(|_| "nobody writes what is sorted")?;
        let room = request.of_block * Tera::LENGTH;
        let records = sorted.fill::<Records>(&mut memory[..room]);
        let bytes = records.map_err(|error| error.to_string())? * Tera::LENGTH;
        if bytes == 0 {
            return Ok(made);
        }
        memory[..bytes].chunks_exact(Tera::LENGTH).for_each(|record| made.tally.add(record));
        // Behind the input each part has room for all of it.
        let number = request.blocks() * (1 + part) + made.blocks.len();
        made.blocks.push((number, bytes));
        fill.send(Filled { number, bytes, memory }).map_err(|_| "nobody writes what is sorted")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_sorted_by_any_number_of_threads() {
        for (records, threads, block) in [(1, 1, 4096), (5000, 2, 16384), (777, 3, 4096)] {
            let movers = vec![0];
            let workers = vec![0; threads];
            let of_block = room::<Tera>(block);
            let request = Request { records, threads, movers, workers, of_block };
            let disk = Disk::new(tempfile::tempfile().unwrap(), block, Some(Checks::default()));
            let mut arena = Arena::new(request.blocks() + threads * OUTPUTS, block);
            let given = generate(&request, &disk, arena.blocks().next().unwrap()).unwrap();
            let (memory, outputs) = parted(&mut arena, &request);
            let (tally, parts, _) = sort(&request, &disk, memory, outputs).unwrap();
            assert_eq!(tally.records, records as u64);
            let made = validate(&disk, &parts, block).unwrap();
            assert!(made.in_order());
            assert_eq!((made.records, made.checksum), (records as u64, given));
        }
    }
}
