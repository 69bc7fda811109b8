//! Pairs of a map task that have no room in the pool: sorted streams in the package's heap until
//! the task ends, which then are merged to one run for each partition.

use alloc::format;
use alloc::vec::Vec;
use core::mem;

use crate::merge::Merge;
use crate::outcome::{Halt, Outcome};
use crate::pairs::{Filling, Reader, write};
use crate::task::Task;

/// The most bytes of pairs that wait to be written to runs.
const MOST: usize = 96 << 20;

/// Sorted streams of partitions.
#[derive(Default)]
pub(crate) struct Stash {
    streams: Vec<(u32, Vec<u8>)>,
    bytes: usize,
}

impl Stash {
    /// Adds sorted pairs of a partition.
    pub fn add(&mut self, partition: u32, stream: Vec<u8>) -> Outcome {
        self.bytes += stream.len();
        if self.bytes > MOST {
            return Err(Halt::space(format!(
                "the pairs of one split have more than {MOST} bytes: with less --memory, splits \
                 are smaller"
            )));
        }
        self.streams.push((partition, stream));
        Ok(())
    }

    /// Writes a run for each partition that has pairs.
    pub fn spill<'s>(mut self, task: &Task<'s>) -> Outcome {
        // Those of one partition stay in the order in which they came.
        self.streams.sort_by_key(|(partition, _)| *partition);
        for streams in self.streams.chunk_by_mut(|one, other| one.0 == other.0) {
            let partition = streams[0].0;
            let readers = streams.iter_mut().map(|(_, it)| Reader::of_heap(mem::take(it)));
            let mut merge = Merge::new(task, readers.collect())?;
            let (mut run, mut pair) = (Filling::default(), Vec::new());
            while let Some(first) = merge.first() {
                pair.clear();
                write(&mut pair, &first.key, &first.value);
                let mut bytes = pair.as_slice();
                while !bytes.is_empty() {
                    if let Some((buffer, filled)) = run.put(task, &mut bytes)? {
                        task.spill(partition, buffer, filled)?;
                    }
                }
                merge.next(task)?;
            }
            if let Some((buffer, filled)) = run.end() {
                task.spill(partition, buffer, filled)?;
            }
        }
        Ok(())
    }
}
