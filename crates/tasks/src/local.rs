//! Runs a job in memory, without a node: what a job's own tests use. One package does all tasks one
//! after the other, as if on a core of its own; what would come from another node does so in the
//! same forms.
//!
//! ```
//! use nile_tasks::local::Local;
//! # use nile_tasks::{Emitter, Lines, MapReduce, Outcome, Values, map_reduce};
//! # struct Longest;
//! # impl MapReduce for Longest {
//! #     fn map(&self, line: &[u8], out: &mut Emitter<'_, '_>) -> Outcome {
//! #         out.emit(&line[..1], line)
//! #     }
//! #     fn reduce(
//! #         &self,
//! #         key: &[u8],
//! #         values: &mut Values<'_, '_>,
//! #         out: &mut Lines<'_, '_>,
//! #     ) -> Outcome {
//! #         let mut most = Vec::new();
//! #         while let Some(value) = values.next()? {
//! #             if value.len() > most.len() {
//! #                 most = value.to_vec();
//! #             }
//! #         }
//! #         out.line(&[key, &most])
//! #     }
//! # }
//! // The longest line of those that begin with the same letter.
//! let done = Local::new(|system, _| map_reduce(system, &Longest))
//!     .input(b"to be\nor\nnot\nto be there\nor not\n")
//!     .run()?;
//! assert_eq!(done.text(), "n\tnot\no\tor not\nt\tto be there\n");
//! # Ok::<(), String>(())
//! ```

mod agent;
mod answers;
mod pool;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::call::System;

use crate::outcome::Done;

/// A package's main function.
pub type Main = fn(&dyn System, &[u8]) -> u64;

/// A job, and how it is to run.
#[derive(Clone, Debug)]
pub struct Local {
    main: Main,
    arguments: Vec<String>,
    inputs: Vec<Vec<u8>>,
    buffer: usize,
    buffers: usize,
    block: usize,
    blocks: usize,
    partitions: u32,
    samples: bool,
    far: bool,
    spills: bool,
    keeps: u32,
    stops: bool,
}

/// What a job has made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    /// The parts of the output, each as the blocks that it was written in.
    pub parts: Vec<Vec<Vec<u8>>>,
    /// What all map tasks have seen.
    pub mapped: Done,
    /// What all reduce tasks have seen.
    pub reduced: Done,
    /// Bytes that went to runs on a disk.
    pub spilled: u64,
    /// Outputs that map tasks have kept in memory.
    pub kept: u64,
    /// Outputs that went to another node, those that were joined as one.
    pub far: u64,
    /// Attempts that were called off.
    pub stopped: u64,
    /// The most buffers that were in use at once.
    pub most_buffers: usize,
}

impl Made {
    /// The whole output.
    pub fn bytes(&self) -> Vec<u8> {
        self.parts.concat().concat()
    }

    /// The whole output, as text: what is no UTF-8 in it is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}

impl Local {
    /// A job of this package: without input, in one partition, with 256 buffers of 64 KiB.
    pub fn new(main: Main) -> Local {
        Local {
            main,
            arguments: Vec::new(),
            inputs: Vec::new(),
            buffer: 64 << 10,
            buffers: 256,
            block: usize::MAX,
            blocks: 1,
            partitions: 1,
            samples: false,
            far: false,
            spills: false,
            keeps: u32::MAX,
            stops: false,
        }
    }

    /// With these arguments.
    #[must_use]
    pub fn arguments(mut self, arguments: &[&str]) -> Local {
        self.arguments = arguments.iter().map(|word| String::from(*word)).collect();
        self
    }

    /// Reads one more dataset.
    #[must_use]
    pub fn input(mut self, bytes: &[u8]) -> Local {
        self.inputs.push(bytes.into());
        self
    }

    /// With so many buffers of so many bytes, whole lines of 64.
    #[must_use]
    pub fn buffers(mut self, buffers: usize, bytes: usize) -> Local {
        (self.buffers, self.buffer) = (buffers, bytes);
        self
    }

    /// Datasets have blocks of so many bytes, at most a buffer, and splits so many blocks.
    #[must_use]
    pub fn splits(mut self, bytes: usize, blocks: usize) -> Local {
        (self.block, self.blocks) = (bytes.max(1), blocks.max(1));
        self
    }

    /// With so many partitions.
    #[must_use]
    pub fn partitions(mut self, partitions: u32) -> Local {
        self.partitions = partitions;
        self
    }

    /// With samples of all splits, from which bounds are cut.
    #[must_use]
    pub fn sampled(mut self) -> Local {
        self.samples = true;
        self
    }

    /// As on two nodes: half of the pieces come from the other one.
    #[must_use]
    pub fn far(mut self) -> Local {
        self.far = true;
        self
    }

    /// As with too little memory: every other map task writes sorted runs.
    #[must_use]
    pub fn spilling(mut self) -> Local {
        self.spills = true;
        self
    }

    /// Every map task may keep so many buffers.
    #[must_use]
    pub fn keeping(mut self, buffers: u32) -> Local {
        self.keeps = buffers;
        self
    }

    /// Every map and every reduce task is called off once, in its midst, and runs again.
    #[must_use]
    pub fn stopping(mut self) -> Local {
        self.stops = true;
        self
    }

    /// Runs the job. An error says what failed: a task, which is not tried again, or the package by
    /// what it did.
    pub fn run(&self) -> Result<Made, String> {
        let agent = agent::Agent::new(self)?;
        let code = (self.main)(&agent, &[]);
        agent.end().and_then(|made| match code {
            0 => Ok(made),
            code => Err(format!("the package ended with code {code}")),
        })
    }
}
