//! A job over blocks of bytes: what it does in each kind of task. Records of any form, their
//! partitions and their order are the job's own affair.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use nile_abi::call::System;

use crate::desk;
use crate::outcome::{Done, Outcome};
use crate::task::Task;

/// A job's code. All that a stage may rely on comes with its [`Task`]: stages of one job run on
/// many cores, in any order, and more than once. The same task gives the same output each time.
///
/// A stage says [`Task::pause`] for each block that it has read, and one that works for long
/// without any buffer says [`Task::breathe`] now and then: others may wait for what this core has.
pub trait Stages {
    /// Looks at a few records of a split, and gives a sample of at most 16 KiB. Only of jobs that
    /// were asked for samples.
    fn sample(&self, _task: &Task<'_>) -> Outcome<Vec<u8>> {
        Ok(Vec::new())
    }

    /// Cuts the bounds of partitions from samples: every later stage sees them.
    fn cut(&self, _task: &Task<'_>) -> Outcome<Bounds> {
        Ok(Bounds::default())
    }

    /// Reads a split and leaves what each partition gets: by [`Task::keep`] in memory, or by
    /// [`Task::spill`] if the task [says so](Task::spills).
    fn map(&self, task: &Task<'_>) -> Outcome<Done>;

    /// Takes what all map tasks have left for a partition, and writes a part of the job's output.
    fn reduce(&self, task: &Task<'_>) -> Outcome<Done>;
}

/// Bounds of partitions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// What the job's code makes of them, at most 32 KiB.
    pub bytes: Vec<u8>,
    /// How many slices a reduce task takes its partition in, at most 64: while it writes one, the
    /// next one comes from other nodes, and those behind that stay there. With more than one, a
    /// map task's ranges name slices in place of partitions: those of the first partition come
    /// first.
    pub slices: NonZeroU32,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds { bytes: Vec::new(), slices: NonZeroU32::MIN }
    }
}

/// A package's main function: does what the job service has for this core, until the job is over.
/// Gives the package's exit code, 0 or the number of the status that the calls ended with.
pub fn run(system: &dyn System, stages: &dyn Stages) -> u64 {
    desk::serve(system, stages)
}
