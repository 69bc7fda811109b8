//! Jobs: map and reduce tasks over the worker cores of a cluster (NileOS paper, V: application
//! master, mappers, reducers). Sans-IO: messages and moments go in; messages, orders to the engine
//! and deadlines come out. How the parts work together is in `docs/jobs.md`.
//!
//! A job's *record* outlives everything else: it says who is the job's *master*, in which *epoch*,
//! and how the job ended. The master gives *tasks* to *workers*; each try is an *attempt*. A
//! *split* is some blocks of input; a map attempt's *output* has a *piece* for each partition; a
//! reduce attempt writes a *part* of the job's output. A *plan* is the bounds of partitions.
//!
//! * [`id`]: names of all these.
//! * [`job`]: what is asked for; [`share`]: how it shares workers with other jobs; [`end`]: what
//!   comes of it; [`record`]: what outlives masters.
//! * [`keeper`]: [`Keeper`], one of those who keep the record; `ballot`: what a majority says.
//! * [`settings`]: how long is waited, how often is tried.
//! * [`message`]: what masters and workers say; [`lane`]: how it arrives once and in order.
//! * [`wire`]: messages in the binary form, as they travel.
//! * [`master`]: [`Master`]; [`progress`]: what it tells while the job runs.
//! * [`worker`]: [`Worker`], one worker core's part.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod ballot;
pub mod end;
pub mod id;
pub mod job;
pub mod keeper;
pub mod lane;
pub mod master;
pub mod message;
pub mod progress;
pub mod record;
pub mod settings;
pub mod share;
pub mod spans;
pub mod wire;
pub mod worker;

#[cfg(test)]
mod tests;

pub use end::{End, Failure, Fault, JobError, Lost, Part, Summary, Sums, Verdict};
pub use id::{AttemptId, Epoch, JobId, Kind, PieceId, Session, TaskId, WorkerId};
pub use job::{Job, MOST_SLICES, Refused, Split};
pub use keeper::{Keeper, ToKeeper, Word};
pub use lane::Batch;
pub use master::Master;
pub use message::{
    Bounds, Lack, Location, Note, Order, Peer, Plan, RunningAttempt, ToMaster, ToWorker, Work,
};
pub use progress::{Counters, Phase, Progress};
pub use record::{Answer, Ask, Record, Standing};
pub use settings::Settings;
pub use share::{NoShare, Share};
pub use spans::{MOST_SPANS, Outcome, Span, Spans};
pub use worker::Worker;
