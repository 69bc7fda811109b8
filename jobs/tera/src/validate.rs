//! TeraValidate: each map task says what is known of its split, and one reduce task puts that
//! together in the order of the input.

use alloc::format;
use alloc::vec::Vec;

use nile_sort::{Checksum, Summary, Tera, Validator};
use nile_tasks::{Done, Far, Halt, Outcome, Range, Source, Task};

use crate::records::{self, LENGTH, rest, skipped};

/// Bytes of a split's summary.
const BYTES: usize = 13 * 8;

/// Looks at the split's records, and leaves a summary for the first partition.
pub fn map(task: &Task<'_>) -> Outcome<Done> {
    let mut validator = Validator::<Tera>::new();
    let (mut skip, mut taken) = (None, 0);
    records::blocks(task, |block| {
        let skip = skip.get_or_insert(skipped(block.at));
        let skipped = (*skip).min(block.bytes);
        *skip -= skipped;
        taken = (taken + block.bytes - skipped) % LENGTH;
        validator.push(&block.buffer[skipped..block.bytes]);
        Ok(())
    })?;
    if taken > 0 {
        validator.push(&rest(task, taken)?);
    }
    let summary = validator.finish().map_err(|cut| Halt::code(format!("{cut}")))?;
    let mut buffer = task.buffer()?;
    let place = buffer.first_chunk_mut().ok_or_else(|| Halt::code("buffers are too small"))?;
    *place = encode([task.dataset(), task.first_block()], &summary);
    match task.spills() {
        true => task.spill(0, buffer, BYTES)?,
        false => {
            let piece = Range { partition: 0, buffer: 0, start: 0, bytes: BYTES as u32 };
            task.keep(Vec::from([(buffer, BYTES)]), Vec::from([piece]), Vec::new(), Far::Ranges)?;
        }
    }
    Ok(done(&summary))
}

/// Writes the report, if this is the first partition.
pub fn reduce(task: &Task<'_>) -> Outcome<Done> {
    let mut bytes = Vec::new();
    while let Some(source) = task.source()? {
        match source {
            Source::Kept(kept) => {
                for piece in &kept.pieces {
                    bytes.extend_from_slice(kept.range(piece).unwrap_or_default());
                }
            }
            Source::Run(run) => {
                for index in 0.. {
                    let block = task.run(run, index)?;
                    bytes.extend_from_slice(&block.buffer[..block.bytes]);
                    if !block.more {
                        break;
                    }
                }
            }
        }
    }
    let (summaries, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return Err(Halt::input("a summary is damaged: its map task has to run again"));
    }
    let mut summaries: Vec<_> = summaries.iter().map(decode).collect();
    summaries.sort_by_key(|(place, _)| *place);
    let all = summaries.into_iter().fold(Summary::default(), |all, (_, next)| all.then(next));
    if task.index() == 0 {
        let report = report(&all);
        let mut buffer = task.buffer()?;
        buffer[..report.len()].copy_from_slice(report.as_bytes());
        task.write(buffer, report.len())?;
    }
    Ok(done(&all))
}

fn done(summary: &Summary) -> Done {
    Done { records: summary.records, checksum: summary.checksum.0 as u64 }
}

/// What is known of all records, a line for each fact.
fn report(summary: &Summary) -> alloc::string::String {
    let Summary { records, checksum, duplicates, unordered, first_unordered, .. } = summary;
    let mut report = format!(
        "records {records}\nchecksum {checksum}\nduplicates {duplicates}\nunordered {unordered}\n"
    );
    if let Some(record) = first_unordered {
        report += &format!("first_unordered {record}\n");
    }
    report
}

/// A summary of the split at a place: its dataset, and its first block.
fn encode(place: [u32; 2], summary: &Summary) -> [u8; BYTES] {
    let Summary { records, checksum, duplicates, unordered, first_unordered, keys } = *summary;
    let (first, last) = keys.unwrap_or_default();
    let words = [
        u64::from(place[0]),
        u64::from(place[1]),
        records,
        checksum.0 as u64,
        (checksum.0 >> 64) as u64,
        duplicates,
        unordered,
        first_unordered.unwrap_or(u64::MAX),
        u64::from(keys.is_some()),
        first as u64,
        (first >> 64) as u64,
        last as u64,
        (last >> 64) as u64,
    ];
    let mut bytes = [0; BYTES];
    for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    bytes
}

fn decode(bytes: &[u8; BYTES]) -> ([u64; 2], Summary) {
    let (words, _) = bytes.as_chunks();
    let word = |at: usize| u64::from_le_bytes(words[at]);
    let wide = |at: usize| u128::from(word(at)) | u128::from(word(at + 1)) << 64;
    let summary = Summary {
        records: word(2),
        checksum: Checksum(wide(3)),
        duplicates: word(5),
        unordered: word(6),
        first_unordered: Some(word(7)).filter(|record| *record != u64::MAX),
        keys: (word(8) != 0).then(|| (wide(9), wide(11))),
    };
    ([word(0), word(1)], summary)
}
