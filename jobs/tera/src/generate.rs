//! TeraGen: each part is made by itself, for it follows from the numbers of its records.

use alloc::format;

use nile_sort::{Checksum, Format, Generator};
use nile_tasks::{Done, Halt, Outcome, Task};

use crate::records::{LENGTH, whole};

/// Writes this partition's share of the records.
pub fn reduce(task: &Task<'_>) -> Outcome<Done> {
    let (rows, format) = asked(task)?;
    let partitions = u128::from(task.partitions());
    let start = |part: u128| u128::from(rows) * part / partitions;
    let (first, end) = (start(task.index().into()), start(u128::from(task.index()) + 1));
    let mut generator = Generator::new(format, first);
    let (mut left, mut checksum) = (end - first, Checksum::default());
    while left > 0 {
        let mut buffer = task.buffer()?;
        let most = whole(buffer.len())? / LENGTH;
        let records = usize::try_from(left).map_or(most, |left| most.min(left));
        let bytes = records * LENGTH;
        generator.fill(&mut buffer[..bytes]);
        for record in buffer[..bytes].chunks_exact(LENGTH) {
            checksum += Checksum::of(record);
        }
        left -= records as u128;
        task.write(buffer, bytes)?;
    }
    Ok(Done { records: (end - first) as u64, checksum: checksum.0 as u64 })
}

fn asked(task: &Task<'_>) -> Outcome<(u64, Format)> {
    let mut words = task.arguments().iter().skip(1).map(|word| word.as_str());
    let rows = words.next().unwrap_or_default();
    let rows =
        rows.parse().map_err(|_| Halt::code(format!("`gen` {rows}: no number of records")))?;
    let format = match words.next() {
        None | Some("binary") => Format::Binary,
        Some("ascii") => Format::Ascii,
        Some("hadoop") => Format::Hadoop,
        Some(other) => {
            return Err(Halt::code(format!("format `{other}`: it is binary, ascii or hadoop")));
        }
    };
    Ok((rows, format))
}
