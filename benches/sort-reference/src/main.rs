//! The sort that the sort job is measured against: one process, a few threads, no messages.
//!
//! `nile-sort-reference INPUT OUTPUT [--records N] [--threads N] [--reducers N] [--map]
//! [--map-output] [--warm]` sorts records of 100 bytes by their first ten and prints one JSON
//! document: the seconds of each phase, processor time, page faults and the most memory. Exit
//! status 0: sorted, 1: it failed, 2: the request was wrong.
//!
//! The input is read, or mapped with `--map`; the output is written in chunks, or mapped with
//! `--map-output`. One that is there already is written over, which takes no fresh pages; `--warm`
//! has memory touched before the time is taken, as a node has its memory before a job comes. With
//! `--records` the first so many of the input are sorted, and what the output has behind as many is
//! left as it is: files serve for sorts of any size, and keep their pages.
//!
//! Each thread takes a part of the input and spreads numbers of 16 bytes, key and place of a
//! record, over [`BUCKETS`] ranges of keys, for which it has counted them first ([`spread`]). Then
//! the threads, or as many as `--reducers` says, take the ranges in turns: they sort each, copy its
//! records in order, and write them where they belong ([`put_out`]).
//!
//! [`memory`] holds all that is unsafe.

mod memory;
mod put_out;
mod spread;

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

use memory::Memory;

/// Bytes of a record and of its key.
const RECORD: usize = 100;
const KEY: usize = 10;

/// Ranges of keys.
const BUCKETS: usize = 2048;

/// Bytes that are read or written at once.
const CHUNK: usize = 10_000 * RECORD;

struct Request {
    input: PathBuf,
    output: PathBuf,
    records: Option<usize>,
    threads: usize,
    reducers: usize,
    map: bool,
    map_output: bool,
    warm: bool,
}

fn main() -> ExitCode {
    let Some(request) = request(env::args().skip(1)) else {
        eprintln!(
            "usage: nile-sort-reference INPUT OUTPUT [--records N] [--threads N] [--reducers N] \
             [--map] [--map-output] [--warm]"
        );
        return ExitCode::from(2);
    };
    match sort(&request) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{} could not be sorted: {error}", request.input.display());
            ExitCode::FAILURE
        }
    }
}

fn request(mut arguments: impl Iterator<Item = String>) -> Option<Request> {
    let (mut files, mut records, mut threads, mut reducers) = (Vec::new(), None, 2, None);
    let (mut map, mut map_output, mut warm) = (false, false, false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--threads" => threads = count(arguments.next())?,
            "--reducers" => reducers = Some(count(arguments.next())?),
            "--records" => records = Some(arguments.next()?.parse().ok()?),
            "--map" => map = true,
            "--map-output" => map_output = true,
            "--warm" => warm = true,
            _ => files.push(PathBuf::from(argument)),
        }
    }
    let [input, output] = files.try_into().ok()?;
    let reducers = reducers.unwrap_or(threads);
    Some(Request { input, output, records, threads, reducers, map, map_output, warm })
}

/// A number that is not 0.
fn count(word: Option<String>) -> Option<usize> {
    word?.parse().ok().filter(|count| *count > 0)
}

fn sort(request: &Request) -> io::Result<serde_json::Value> {
    let input = File::open(&request.input)?;
    let there = usize::try_from(input.metadata()?.len()).map_err(io::Error::other)?;
    let bytes = match request.records {
        Some(records) => records.saturating_mul(RECORD),
        None => there,
    };
    if bytes > there {
        return Err(io::Error::other(format!("{bytes} bytes are wanted of {there}")));
    }
    if bytes % RECORD != 0 {
        return Err(io::Error::other(format!("{bytes} bytes are no whole number of records")));
    }
    let records = bytes / RECORD;
    let share = records.div_ceil(request.threads).max(1);

    // What is read lies in huge pages, which makes the copying of records from all over it faster.
    let mut data = match request.map {
        true => Memory::of_file(&input, bytes, true)?,
        false => Memory::private(bytes)?,
    };
    let mut entries = Memory::private(records * spread::ENTRY)?;
    if request.warm {
        entries.touch();
        if !request.map {
            data.touch();
        }
    }
    let (start, before) = (Instant::now(), clock_gettime(ClockId::ProcessCPUTime));
    let mut counts = vec![vec![0u32; BUCKETS]; request.threads];
    match request.map {
        true => thread::scope(|threads| {
            let parts = data[..bytes].chunks(share * RECORD);
            for (part, counts) in parts.zip(&mut counts) {
                threads.spawn(|| spread::count(part, counts));
            }
        }),
        false => thread::scope(|threads| {
            let parts = data[..bytes].chunks_mut(share * RECORD).zip(&mut counts).enumerate();
            let readers: Vec<_> = parts
                .map(|(index, (part, counts))| {
                    let (input, at) = (&input, index * share * RECORD);
                    threads.spawn(move || spread::read(input, at as u64, part, counts))
                })
                .collect();
            readers.into_iter().try_for_each(|reader| reader.join().expect("it never panics"))
        })?,
    }
    let read = start.elapsed();

    let data = &data[..bytes];
    let spreads: Vec<_> = thread::scope(|threads| {
        let (slots, _) = entries[..records * spread::ENTRY].as_chunks_mut();
        let parts = slots.chunks_mut(share).zip(&counts).enumerate();
        let threads: Vec<_> = parts
            .map(|(index, (slots, counts))| {
                let first = index * share;
                threads.spawn(move || {
                    spread::spread(
                        &data[first * RECORD..][..slots.len() * RECORD],
                        first,
                        counts,
                        slots,
                    )
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it never panics")).collect()
    });
    let scattered = start.elapsed();

    let output = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&request.output)?;
    if request.records.is_none() || output.metadata()?.len() < bytes as u64 {
        output.set_len(bytes as u64)?;
    }
    let mut mapped = match request.map_output {
        true => Some(Memory::over_file(&output, bytes)?),
        false => None,
    };
    let output = match &mut mapped {
        Some(memory) => put_out::Output::Mapped(&mut memory[..bytes]),
        None => put_out::Output::Written(&output),
    };
    put_out::put_out(data, &spreads, output, request.reducers)?;
    let all = start.elapsed();
    let cpu = clock_gettime(ClockId::ProcessCPUTime) - before;
    Ok(json!({
        "records": records,
        "threads": request.threads,
        "reducers": request.reducers,
        "seconds": all.as_secs_f64(),
        "phases": [
            { "name": "read", "seconds": read.as_secs_f64() },
            { "name": "spread", "seconds": (scattered - read).as_secs_f64() },
            { "name": "sort and write", "seconds": (all - scattered).as_secs_f64() },
        ],
        "cpu_seconds": cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9,
        "page_faults": page_faults()?,
        "peak_memory_bytes": peak_memory()?,
    }))
}

/// Page faults of this process so far, from its `stat`.
fn page_faults() -> io::Result<u64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name, in parentheses, may contain anything; minor faults are the eighth field after it.
    let mut fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    fields.nth(7).and_then(|field| field.parse().ok()).ok_or_else(unreadable)
}

/// The most memory that this process has had, in bytes.
fn peak_memory() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    Ok(kibibytes.ok_or_else(unreadable)? * 1024)
}

fn unreadable() -> io::Error {
    io::Error::other("this system's /proc is not as Linux has it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_reading_and_writing_sorts() {
        let folder = tempfile::tempdir().unwrap();
        let [input, output] = ["in", "out"].map(|name| folder.path().join(name));
        // Keys of few values, in no order, and of many.
        let record = |index: usize| {
            let key = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (index % 60);
            let mut record = [index as u8; RECORD];
            record[..8].copy_from_slice(&key.to_be_bytes());
            record
        };
        let mut sorted: Vec<_> = (0..30_000).map(record).collect();
        fs::write(&input, sorted.concat()).unwrap();
        sorted.sort_by_key(|record| record[..KEY].to_vec());
        for (threads, map, map_output) in
            [(1, false, false), (2, true, false), (3, false, true), (2, true, true)]
        {
            // What is there already, longer or shorter, is not seen in the output.
            fs::write(&output, vec![0; threads * 1_400_000]).unwrap();
            let (input, output) = (input.clone(), output.clone());
            let (records, warm, reducers) = (None, threads == 2, 4 - threads);
            let request =
                Request { input, output, records, threads, reducers, map, map_output, warm };
            let report = sort(&request).unwrap();
            assert_eq!(report["records"], 30_000);
            assert!(fs::read(&request.output).unwrap() == sorted.concat(), "{threads} threads");
        }
    }

    #[test]
    fn the_first_records_are_sorted_and_what_is_behind_them_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [input, output] = ["in", "out"].map(|name| folder.path().join(name));
        let records: Vec<_> = [3, 1, 2, 0].map(|key| [key; RECORD]).into();
        fs::write(&input, records.concat()).unwrap();
        fs::write(&output, [9; 4 * RECORD]).unwrap();
        let mut request = Request {
            input,
            output,
            records: Some(3),
            threads: 2,
            reducers: 2,
            map: false,
            map_output: false,
            warm: false,
        };
        assert_eq!(sort(&request).unwrap()["records"], 3);
        let there = fs::read(&request.output).unwrap();
        assert_eq!(there, [1, 2, 3, 9].map(|key| [key; RECORD]).concat());
        // More than there are, also more than can be counted, are not sorted.
        for records in [5, usize::MAX] {
            request.records = Some(records);
            assert!(sort(&request).unwrap_err().to_string().contains("wanted of 400"));
        }
    }

    #[test]
    fn an_input_that_cuts_a_record_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [input, output] = ["in", "out"].map(|name| folder.path().join(name));
        fs::write(&input, [0; 150]).unwrap();
        let (records, map, map_output, warm) = (None, false, false, false);
        let (threads, reducers) = (2, 2);
        let request = Request { input, output, records, threads, reducers, map, map_output, warm };
        assert!(sort(&request).unwrap_err().to_string().contains("150 bytes"));
        assert!(!request.output.exists());
    }
}
