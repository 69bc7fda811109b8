//! TeraGen, TeraSort and TeraValidate over the Sort Benchmark's records, as three jobs of one
//! package. The first argument says which:
//!
//! * `gen ROWS [binary|ascii|hadoop]` ([`generate`]): no input; the parts of the output are the
//!   records one after the other. Done says the records and the lower 64 bits of their checksum.
//! * `sort [SLICES]` ([`sort`]): any records; each part of the output is in order and follows the
//!   one before it. Done says the records and their tally, before and after. It wants samples. If
//!   pieces come from other nodes, each partition is taken in so many slices (1 to 64), or in as
//!   many as still fill buffers.
//! * `validate` ([`validate`]): parts in order; the output, in one part, is a report, whose lines
//!   are names with values. Done says the records and the lower 64 bits of their checksum.
//!
//! [`records`]: the records of a split, which blocks and splits may cut anywhere.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod generate;
pub mod records;
pub mod sort;
pub mod validate;

#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use nile_abi::call::System;
use nile_tasks::{Bounds, Done, Halt, Outcome, Stages, Task, run};

/// Whichever job the arguments name.
struct Tera;

/// The first argument.
fn which<'t>(task: &'t Task<'_>) -> &'t str {
    task.arguments().first().map_or("", |which| which)
}

fn unknown() -> Halt {
    Halt::code("the job's first argument is `gen`, `sort` or `validate`")
}

impl Stages for Tera {
    fn sample(&self, task: &Task<'_>) -> Outcome<Vec<u8>> {
        if which(task) == "sort" { sort::bounds::sample(task) } else { Ok(Vec::new()) }
    }

    fn cut(&self, task: &Task<'_>) -> Outcome<Bounds> {
        if which(task) == "sort" { sort::bounds::cut(task) } else { Ok(Bounds::default()) }
    }

    fn map(&self, task: &Task<'_>) -> Outcome<Done> {
        match which(task) {
            "sort" => sort::map::map(task),
            "validate" => validate::map(task),
            "gen" => Err(Halt::code("`gen` reads nothing: the job has no input")),
            _ => Err(unknown()),
        }
    }

    fn reduce(&self, task: &Task<'_>) -> Outcome<Done> {
        match which(task) {
            "gen" => generate::reduce(task),
            "sort" => sort::reduce::reduce(task),
            "validate" => validate::reduce(task),
            _ => Err(unknown()),
        }
    }
}

/// Does one of the three jobs until it is over.
pub fn main(system: &dyn System, _: &[u8]) -> u64 {
    run(system, &Tera)
}
