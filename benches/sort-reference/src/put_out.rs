//! Ranges in turns: sorted, their records copied in order, and written.

use std::fs::File;
use std::io;
use std::mem;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::thread;

use crate::spread::{Spread, place};
use crate::{BUCKETS, CHUNK, RECORD};

/// Ranges that a thread takes at a time: few enough that the threads end at about the same time.
const TURN: usize = 8;

/// Records that are touched before the first of them is copied.
const AHEAD: usize = 16;

/// Ranges of a sub-range when one is sorted, and the entries that each has on average.
const MOST_SPLITS: usize = 1024;
const PER_SPLIT: usize = 8;

/// Where the records go.
pub enum Output<'a> {
    /// Into a file, in chunks.
    Written(&'a File),
    /// Into the pages of one.
    Mapped(&'a mut [u8]),
}

/// A few ranges, and where their records go.
struct Turn<'a> {
    buckets: Range<usize>,
    place: Place<'a>,
}

/// Where the records of a turn go.
enum Place<'a> {
    /// Into the file, from this byte on.
    At(&'a File, u64),
    /// Here.
    Here(&'a mut [u8]),
}

/// Sorts all ranges and writes the records of `data` in order.
pub fn put_out(
    data: &[u8],
    spreads: &[Spread<'_>],
    output: Output<'_>,
    threads: usize,
) -> io::Result<()> {
    let turns = Mutex::new(turns(spreads, output).into_iter());
    let work = || {
        let (mut run, mut spare, mut chunk) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let turn = turns.lock().expect("nobody panics").next();
            let Some(Turn { buckets, mut place }) = turn else { return Ok(()) };
            for bucket in buckets {
                run.clear();
                for spread in spreads {
                    let entries = &spread.entries[start(spread, bucket)..end(spread, bucket)];
                    run.extend(entries.iter().map(|bytes| u128::from_le_bytes(*bytes)));
                }
                sort(&mut run, &mut spare);
                for group in run.chunks(AHEAD) {
                    match &mut place {
                        Place::At(file, at) => {
                            copy(data, group, |record| chunk.extend_from_slice(record));
                            if chunk.len() >= CHUNK {
                                flush(file, at, &mut chunk)?;
                            }
                        }
                        Place::Here(rest) => copy(data, group, |record| {
                            let (place, after) = mem::take(rest).split_at_mut(RECORD);
                            place.copy_from_slice(record);
                            *rest = after;
                        }),
                    }
                }
            }
            if let Place::At(file, mut at) = place {
                flush(file, &mut at, &mut chunk)?;
            }
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it never panics"))
    })
}

/// Divides all ranges, and the output, into turns.
fn turns<'a>(spreads: &[Spread<'_>], mut output: Output<'a>) -> Vec<Turn<'a>> {
    let (mut turns, mut at) = (Vec::new(), 0);
    for first in (0..BUCKETS).step_by(TURN) {
        let buckets = first..first + TURN;
        let records: usize = spreads
            .iter()
            .map(|spread| end(spread, buckets.end - 1) - start(spread, buckets.start))
            .sum();
        let place = match &mut output {
            Output::Written(file) => Place::At(file, at),
            Output::Mapped(rest) => {
                let (place, after) = mem::take(rest).split_at_mut(records * RECORD);
                *rest = after;
                Place::Here(place)
            }
        };
        at += (records * RECORD) as u64;
        turns.push(Turn { buckets, place });
    }
    turns
}

fn start(spread: &Spread<'_>, bucket: usize) -> usize {
    bucket.checked_sub(1).map_or(0, |before| end(spread, before))
}

fn end(spread: &Spread<'_>, bucket: usize) -> usize {
    spread.ends[bucket] as usize
}

fn flush(file: &File, at: &mut u64, chunk: &mut Vec<u8>) -> io::Result<()> {
    file.write_all_at(chunk, *at)?;
    *at += chunk.len() as u64;
    chunk.clear();
    Ok(())
}

/// Copies the records of a few entries, all of which are loaded before the first is copied.
fn copy(data: &[u8], entries: &[u128], out: impl FnMut(&[u8])) {
    let record = |entry: &u128| &data[place(*entry) * RECORD..][..RECORD];
    let touched = entries
        .iter()
        .map(record)
        .fold(0, |touched, record| touched ^ record[0] ^ record[RECORD / 2] ^ record[RECORD - 1]);
    std::hint::black_box(touched);
    entries.iter().map(record).for_each(out);
}

/// Sorts a range by spreading it once more.
fn sort(run: &mut Vec<u128>, spare: &mut Vec<u128>) {
    let (least, greatest) = run
        .iter()
        .fold((u128::MAX, 0), |(least, greatest), entry| (least.min(*entry), greatest.max(*entry)));
    let bits = (run.len() / PER_SPLIT).clamp(1, MOST_SPLITS).ilog2();
    if bits == 0 {
        return run.sort_unstable();
    }
    let (least, greatest) = ((least >> 64) as u64, (greatest >> 64) as u64);
    let shift = (u64::BITS - (greatest - least).leading_zeros()).saturating_sub(bits);
    let split =
        |entry: &u128| (((entry >> 64) as u64 - least) >> shift) as usize & (MOST_SPLITS - 1);
    let mut ends = [0u32; MOST_SPLITS];
    run.iter().for_each(|entry| ends[split(entry)] += 1);
    let mut end = 0;
    for count in &mut ends {
        end += mem::replace(count, end);
    }
    spare.resize(run.len(), 0);
    for entry in &*run {
        let end = &mut ends[split(entry)];
        spare[*end as usize] = *entry;
        *end += 1;
    }
    let mut start = 0;
    for end in ends {
        spare[start as usize..end as usize].sort_unstable();
        start = end;
    }
    mem::swap(run, spare);
}
