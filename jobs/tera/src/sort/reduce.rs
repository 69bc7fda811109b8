//! Reduce tasks: all records of a partition, in order, slice by slice.

use alloc::vec::Vec;

use nile_sort::{Merge, Plan, Sorted, Step, Tally};
use nile_tasks::{self as tasks, Done, Halt, Kept, Outcome, Run, Source, Task};
use nile_user::PoolBuffer;

use super::bounds::plan;
use super::{MOST_ENTRIES, failed};
use crate::records::{LENGTH, Records, whole};

/// Writes the part.
pub fn reduce(task: &Task<'_>) -> Outcome<Done> {
    let (plan, part) = (plan(task)?, task.index() as usize);
    let mut out = Part { task, open: None, tally: Tally::default() };
    let mut merging: Option<Merging<'_, '_>> = None;
    for slice in 0..task.slices().get() {
        let (mut pieces, mut runs) = (Vec::new(), Vec::new());
        while let Some(source) = task.source()? {
            match source {
                Source::Kept(kept) => pieces.push(kept),
                Source::Run(run) => runs.push(run),
            }
        }
        // Equal keys keep the order of the input; each map task's outputs come in theirs.
        pieces.sort_by_key(|kept| kept.map);
        let mut sorted = sorted(&plan, part, slice, task, &pieces)?;
        if slice == 0 && !runs.is_empty() {
            merging = Some(Merging::new(task, runs)?);
        }
        match &mut merging {
            Some(merging) => merging.go_on(&mut sorted, &mut out)?,
            None => out.fill(|bytes| sorted.fill::<Records>(bytes).map_err(failed))?,
        }
    }
    if let Some(mut merging) = merging {
        merging.end(&mut out)?;
    }
    out.end()
}

fn sorted<'k>(
    plan: &Plan,
    part: usize,
    slice: u32,
    task: &Task<'_>,
    pieces: &'k [Kept<'_>],
) -> Outcome<Sorted<'k>> {
    let ranges = pieces.iter().flat_map(|kept| kept.pieces.iter().map(|it| kept.range(it)));
    let blocks = ranges.collect::<Option<_>>();
    let damaged = || Halt::input("an output of a map task is damaged: it has to run again");
    let starts = plan.starts_of(part, slice, task.slices());
    Sorted::new::<Records>(blocks.ok_or_else(damaged)?, starts, MOST_ENTRIES).map_err(failed)
}

/// The part that is written: blocks that are full, but for the last one.
struct Part<'t, 's> {
    task: &'t Task<'s>,
    /// The block that is being filled, and how many bytes of it are.
    open: Option<(PoolBuffer<'s>, usize)>,
    tally: Tally,
}

impl<'s> Part<'_, 's> {
    /// Has blocks filled until there is no record more: `fill` gives how many it has put there.
    fn fill(&mut self, mut fill: impl FnMut(&mut [u8]) -> Outcome<usize>) -> Outcome {
        loop {
            let (mut buffer, filled) = match self.open.take() {
                Some(open) => open,
                None => (self.task.buffer()?, 0),
            };
            let most = whole(buffer.len())?;
            let filled = filled + fill(&mut buffer[filled..most])? * LENGTH;
            if filled < most {
                self.open = Some((buffer, filled));
                return Ok(());
            }
            self.write(buffer, filled)?;
        }
    }

    fn write(&mut self, buffer: PoolBuffer<'s>, bytes: usize) -> Outcome {
        buffer[..bytes].chunks_exact(LENGTH).for_each(|record| self.tally.add(record));
        self.task.write(buffer, bytes)
    }

    fn end(mut self) -> Outcome<Done> {
        if let Some((buffer, filled)) = self.open.take().filter(|(_, filled)| *filled > 0) {
            self.write(buffer, filled)?;
        }
        Ok(Done { records: self.tally.records, checksum: self.tally.sum })
    }
}

/// Runs on disks that are merged with what is in memory, which is one more run.
struct Merging<'t, 's> {
    task: &'t Task<'s>,
    merge: Merge,
    runs: Vec<(Run, Front<'s>)>,
    /// What is put out of memory, and how much of it that is.
    memory: (PoolBuffer<'s>, usize),
}

impl<'t, 's> Merging<'t, 's> {
    fn new(task: &'t Task<'s>, mut runs: Vec<Run>) -> Outcome<Merging<'t, 's>> {
        runs.sort_by_key(|run| (run.map, run.number));
        let merge = Merge::new(runs.len() + 1);
        let runs = runs.into_iter().map(|run| (run, Front::default())).collect();
        Ok(Merging { task, merge, runs, memory: (task.buffer()?, 0) })
    }

    /// Writes what is there until all of a slice has been put out of memory.
    fn go_on(&mut self, sorted: &mut Sorted<'_>, out: &mut Part<'_, '_>) -> Outcome {
        out.fill(|bytes| {
            self.fill(bytes, |memory| {
                let records = sorted.fill::<Records>(memory).map_err(failed)?;
                Ok((records > 0).then_some(records * LENGTH))
            })
        })
    }

    /// Writes the rest: there is nothing more in memory.
    fn end(&mut self, out: &mut Part<'_, '_>) -> Outcome {
        self.merge.end(self.runs.len());
        out.fill(|bytes| self.fill(bytes, |_| Ok(None)))
    }

    /// Puts the records that come next there; gives how many. It ends where memory would have to
    /// go on and `more` has nothing.
    fn fill(
        &mut self,
        bytes: &mut [u8],
        mut more: impl FnMut(&mut [u8]) -> Outcome<Option<usize>>,
    ) -> Outcome<usize> {
        let mut filled = 0;
        loop {
            let (memory, used) = &self.memory;
            let fronts = self.runs.iter().map(|(_, front)| front.records());
            let slices: Vec<&[u8]> = fronts.chain([&memory[..*used]]).collect();
            let run = match self.merge.fill::<Records>(&slices, &mut bytes[filled..]) {
                Step::Full(more) | Step::Done(more) => return Ok((filled + more) / LENGTH),
                Step::Wants { run, filled: more } => {
                    filled += more;
                    run
                }
            };
            let is_there = match self.runs.get_mut(run) {
                Some((run, front)) => front.next(self.task, *run)?,
                None => match more(&mut self.memory.0)? {
                    Some(used) => {
                        self.memory.1 = used;
                        true
                    }
                    // Another slice may go on with it.
                    None => return Ok(filled / LENGTH),
                },
            };
            if is_there { self.merge.supply(run) } else { self.merge.end(run) }
        }
    }
}

/// What is read of a run.
#[derive(Default)]
struct Front<'s> {
    block: Option<tasks::Block<'s>>,
    /// Blocks that were read.
    read: u32,
    is_over: bool,
}

impl<'s> Front<'s> {
    fn records(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], |block| &block.buffer[..block.bytes])
    }

    /// Goes on to the next block; whether there is one.
    fn next(&mut self, task: &Task<'s>, run: Run) -> Outcome<bool> {
        // Given back before another is there.
        self.block = None;
        if self.is_over {
            return Ok(false);
        }
        let block = task.run(run, self.read)?;
        if !block.bytes.is_multiple_of(LENGTH) {
            return Err(Halt::input("a block of a run cuts a record"));
        }
        self.read += 1;
        self.is_over = !block.more;
        self.block = Some(block);
        Ok(true)
    }
}
