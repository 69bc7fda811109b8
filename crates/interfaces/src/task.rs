//! What a package of a job calls on its own core (docs/jobs.md): it asks for the next command, and
//! takes and gives buffers of the node's pool for it. It needs `uses pool` in its manifest.
//!
//! Buffers go by handles: the package claims what it is given and passes what it gives. *Views* are
//! handles of buffers that others of this node keep: they are looked at and not claimed.
//!
//! One error is part of the way things go, of every call but `next`: `not_found`. The ticket's
//! attempt is off, or was never there. The package drops the work, and calls `next`; what it passed
//! with the call is free. One that computes for long calls `next(false)` now and then: others get
//! their turn sooner, and each call says that the work goes on (docs/jobs.md, "Slow tasks").
//!
//! A call with wrong arguments is `invalid`; the attempt goes on. [`records`]: what calls carry.

pub mod records;

use nile_bosml::{Buffer, Bytes};
use nile_stl::{CallResult, Caller, service};

use records::{Block, Command, Fault, Output, Piece, Source};

/// The tasks that a job gives to the package of a worker core.
#[service(subsystem = "jobs", capability = "tasks", layer = high)]
pub trait Task {
    /// What to do next. A package that has nothing to do waits for it; one that asks without
    /// waiting goes on with what it does, unless that is off.
    #[stl_k(reply = "command", allow(package))]
    async fn next(&self, caller: &Caller, wait: bool) -> CallResult<Command>;

    /// The block of this place in the split, from 0; `invalid` behind the last.
    #[stl_k(reply = "block", allow(package))]
    async fn block(&self, caller: &Caller, ticket: u64, index: u32) -> CallResult<Block>;

    /// At most so many bytes that follow the split in its dataset, for records that begin in it;
    /// fewer where a block ends, none at the dataset's end. `skip` of them are left out.
    #[stl_k(reply = "piece", allow(package))]
    async fn beyond(
        &self,
        caller: &Caller,
        ticket: u64,
        skip: u64,
        #[range(1..=49152)] bytes: u32,
    ) -> CallResult<Piece>;

    /// A sample of the split of at most 16 KiB.
    #[stl_k(allow(package))]
    async fn sampled(
        &self,
        caller: &Caller,
        ticket: u64,
        #[range(0..=16384)] sample: Bytes<'_>,
    ) -> CallResult<()>;

    /// The sample of this place, from 0, of those that bounds are cut from.
    #[stl_k(reply = "piece", allow(package))]
    async fn sample(&self, caller: &Caller, ticket: u64, index: u32) -> CallResult<Piece>;

    /// The bounds that were cut, and how many slices each partition is taken in; the cut is done.
    /// With more than one, the `partition` of a range is that of a slice: the first partition's
    /// slices, then those of the next one.
    #[stl_k(allow(package))]
    async fn cut(
        &self,
        caller: &Caller,
        ticket: u64,
        #[range(0..=32768)] bounds: Bytes<'_>,
        slices: u32,
    ) -> CallResult<()>;

    /// Keeps an output of a map attempt in memory. An attempt may have several: they add up.
    #[stl_k(allow(package))]
    async fn keep(&self, caller: &Caller, ticket: u64, output: Output) -> CallResult<()>;

    /// Adds bytes to a partition's sorted run of a map attempt; partitions in their order. At most
    /// a few buffers are on their way to the disk at a time.
    #[stl_k(allow(package))]
    async fn spill(
        &self,
        caller: &Caller,
        ticket: u64,
        partition: u32,
        buffer: Buffer,
    ) -> CallResult<()>;

    /// What a reduce attempt takes next of the slice that it is at; waits for it. After the last of
    /// that it goes on to the next slice.
    #[stl_k(reply = "source", allow(package))]
    async fn source(&self, caller: &Caller, ticket: u64) -> CallResult<Source>;

    /// The block of this place in a run, from 0, in their order; `invalid` behind the last.
    #[stl_k(reply = "block", allow(package))]
    async fn run(&self, caller: &Caller, ticket: u64, run: u64, index: u32) -> CallResult<Block>;

    /// Adds a block to the part of a reduce attempt. At most a few are on their way to the disk at
    /// a time.
    #[stl_k(allow(package))]
    async fn write(&self, caller: &Caller, ticket: u64, buffer: Buffer) -> CallResult<()>;

    /// An attempt is done, over so many records with checksums of this sum: of its input, or of a
    /// reduce attempt its output. It does not wait; what is still on its way goes on by itself.
    #[stl_k(allow(package))]
    async fn done(
        &self,
        caller: &Caller,
        ticket: u64,
        records: u64,
        checksum: u64,
    ) -> CallResult<()>;

    /// An attempt or a cut has come to nothing: what is at fault, and what happened, for people.
    #[stl_k(allow(package))]
    async fn failed(
        &self,
        caller: &Caller,
        ticket: u64,
        fault: Fault,
        text: &str,
    ) -> CallResult<()>;
}
