//! What a stage knows of its task, reads and writes. Every call waits until it is done, and lets
//! in between what others want of this core.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use core::future::Future;
use core::num::NonZeroU32;

use nile_abi::Status;
use nile_bosml::{Blob, Buffer};
use nile_interfaces::task::TaskClient;
use nile_interfaces::task::records::{self, Command, Far, Output, Piled, Range};
use nile_stl::CallResult;
use nile_user::{PoolBuffer, PoolView};

use crate::desk::Desk;
use crate::outcome::{Fault, Halt, Outcome};
use crate::pace::Pace;

/// A task, as its stage has it.
pub struct Task<'s> {
    desk: Rc<Desk<'s>>,
    command: Command,
    /// Buffers since the last look at what others want.
    buffers: Cell<u32>,
    pace: Pace,
}

/// Bytes that describe an output, at most: they travel in one message.
pub const MOST_DESCRIBED: usize = 40 << 10;

/// Bytes of a range, and of a buffer's handle, in a message.
pub const DESCRIBED: usize = 16;

/// After so many buffers it is looked what others want: each look is a call.
const BUFFERS: u32 = 4;

/// A block of a split, or of a run, in a buffer that is the stage's.
#[derive(Debug)]
pub struct Block<'s> {
    /// The buffer, which has room for more than the block.
    pub buffer: PoolBuffer<'s>,
    /// Bytes of the block, at the buffer's beginning.
    pub bytes: usize,
    /// Where in its dataset, or in its run, the block begins.
    pub at: u64,
    /// Whether another follows.
    pub more: bool,
}

/// What a partition has of an output of a map task: its core keeps it in memory, where others of
/// the node see it, or its ranges have come from another node. Should that core end meanwhile, any
/// bytes may be here: what is read is checked before it is relied on, and whoever gave the task
/// finds out.
#[derive(Debug)]
pub struct Kept<'s> {
    /// The map task that made it.
    pub map: u32,
    /// The ranges of this partition.
    pub pieces: Vec<Range>,
    /// What its maker has noted.
    pub note: Vec<u8>,
    buffers: Held<'s>,
}

#[derive(Debug)]
enum Held<'s> {
    Views(Vec<PoolView<'s>>),
    Own(Vec<PoolBuffer<'s>>),
}

/// A sorted run of a map task, on this node's disk or on another's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The map task that made it.
    pub map: u32,
    /// Its number in [`Task::run`].
    pub number: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// What a reduce task takes next.
#[derive(Debug)]
pub enum Source<'s> {
    /// In memory.
    Kept(Kept<'s>),
    /// On a disk.
    Run(Run),
}

impl<'s> Kept<'s> {
    /// The bytes of one of its buffers; empty if there is no such buffer.
    pub fn buffer(&self, number: u32) -> &[u8] {
        let number = number as usize;
        match &self.buffers {
            Held::Views(views) => views.get(number).map_or(&[], |view| view),
            Held::Own(buffers) => buffers.get(number).map_or(&[], |buffer| buffer),
        }
    }

    /// The bytes of a range; `None` if the buffer has not so many.
    pub fn range(&self, range: &Range) -> Option<&[u8]> {
        let (start, bytes) = (range.start as usize, range.bytes as usize);
        self.buffer(range.buffer).get(start..start.checked_add(bytes)?)
    }
}

impl<'s> Task<'s> {
    pub(crate) fn new(desk: Rc<Desk<'s>>, command: Command) -> Task<'s> {
        Task { desk, command, buffers: Cell::new(0), pace: Pace::new() }
    }

    /// What the job was given when it was submitted.
    pub fn arguments(&self) -> &[String] {
        &self.command.arguments
    }

    /// Of a sample or a map task the number of its split; of a reduce task that of its partition.
    /// From 0.
    pub fn index(&self) -> u32 {
        self.command.index
    }

    /// Of a reduce task: how many map tasks the job has, one for each split.
    pub fn maps(&self) -> u32 {
        self.command.maps
    }

    /// How many reduce tasks the job has, one for each partition; at least one.
    pub fn partitions(&self) -> u32 {
        self.command.reducers.max(1)
    }

    /// How many slices each partition is gathered in, as the [cut](crate::Stages::cut) has said.
    pub fn slices(&self) -> NonZeroU32 {
        NonZeroU32::new(self.command.slices).unwrap_or(NonZeroU32::MIN)
    }

    /// Which of the job's input datasets the split is of, from 0.
    pub fn dataset(&self) -> u32 {
        self.command.dataset
    }

    /// The split's first block in its dataset.
    pub fn first_block(&self) -> u32 {
        self.command.first_block
    }

    /// How many blocks the split has; of a cut, how many [samples](Task::sample) there are.
    pub fn blocks(&self) -> u32 {
        self.command.blocks
    }

    /// The bounds that were cut, if any were.
    pub fn bounds(&self) -> &[u8] {
        &self.command.bounds.0
    }

    /// Whether a map task is to write sorted runs, by [`spill`](Task::spill), instead of keeping
    /// its output in memory.
    pub fn spills(&self) -> bool {
        self.command.spill
    }

    /// How many buffers a map task may [keep](Task::keep) that does not spill all. It has to spill
    /// what is more: nobody has counted on that, and all would wait for buffers for ever.
    pub fn keeps(&self) -> u32 {
        self.command.keeps
    }

    /// How many outputs a map task may keep, for the same reason.
    pub fn outputs(&self) -> u32 {
        self.command.outputs
    }

    /// Whether pieces of map tasks' outputs go to other nodes, too: what a map task and a cut know.
    pub fn is_shared(&self) -> bool {
        self.command.shared
    }

    /// Bytes of the pool that the job may use on this node, if not all.
    pub fn memory(&self) -> Option<u64> {
        self.command.memory
    }

    /// A free buffer of the pool, with anything in it; waits for one. Fails for lack of memory.
    pub fn buffer(&self) -> Outcome<PoolBuffer<'s>> {
        self.desk.buffer(self.command.ticket)
    }

    /// Does what others have waited for meanwhile, and finds out if this task is off.
    pub fn breathe(&self) -> Outcome {
        self.desk.breathe(self.command.ticket)
    }

    /// The same, now and then: what a stage says for each record, however long that took.
    #[inline]
    pub fn step(&self) -> Outcome {
        if self.pace.step() { self.look() } else { Ok(()) }
    }

    fn look(&self) -> Outcome {
        self.breathe()?;
        self.pace.looked(self.desk.now());
        Ok(())
    }

    /// How many datasets the job reads.
    pub fn inputs(&self) -> u32 {
        self.command.inputs
    }

    /// The same, after some buffers: what a stage says for each that it has read.
    pub fn pause(&self) -> Outcome {
        let buffers = (self.buffers.get() + 1) % BUFFERS;
        self.buffers.set(buffers);
        if buffers == 0 { self.breathe() } else { Ok(()) }
    }

    /// The block of this place in the split, from 0; fails behind the last.
    pub fn block(&self, index: u32) -> Outcome<Block<'s>> {
        let ticket = self.command.ticket;
        let block = self.waited("a block of the input", |it| it.block(ticket, index))?;
        self.claimed(block)
    }

    /// At most `bytes` bytes that follow the split in its dataset, behind `skip` others: of records
    /// that begin in the split. Fewer where a block ends, none at the dataset's end.
    pub fn beyond(&self, skip: u64, bytes: u32) -> Outcome<Vec<u8>> {
        let ticket = self.command.ticket;
        let bytes = bytes.clamp(1, records::MOST_BEYOND);
        let piece = self.waited("what follows a split", |it| it.beyond(ticket, skip, bytes))?;
        Ok(piece.bytes.0)
    }

    /// The sample of this place, from 0, of those that bounds are cut from.
    pub fn sample(&self, index: u32) -> Outcome<Vec<u8>> {
        let ticket = self.command.ticket;
        Ok(self.waited("a sample", |it| it.sample(ticket, index))?.bytes.0)
    }

    /// Keeps an output in memory: buffers with the bytes of each that count, and where in them each
    /// partition has something. A task may keep several outputs, which add up. Other nodes get what
    /// `far` says, in its order and each range whole in one buffer, with the note.
    pub fn keep(
        &self,
        buffers: Vec<(PoolBuffer<'s>, usize)>,
        pieces: Vec<Range>,
        note: Vec<u8>,
        far: Far,
    ) -> Outcome {
        let pass = |(buffer, bytes)| self.desk.pass(buffer, bytes);
        let buffers = buffers.into_iter().map(pass).collect::<Outcome<Vec<Buffer>>>()?;
        let output = Output { buffers, pieces, note: Blob(note), far };
        let ticket = self.command.ticket;
        self.written("an output", |it| it.keep(ticket, output))
    }

    /// Writes the next bytes of this partition's sorted run. A task has one run for each partition;
    /// they come in the order of the partitions.
    pub fn spill(&self, partition: u32, buffer: PoolBuffer<'s>, bytes: usize) -> Outcome {
        let (ticket, buffer) = (self.command.ticket, self.desk.pass(buffer, bytes)?);
        self.written("a run", |it| it.spill(ticket, partition, buffer))?;
        self.pause()
    }

    /// What a reduce task takes next of its [slice](Task::slices), the first one to begin with:
    /// waits for it. Outputs of one map task come in the order in which it has kept them, but with
    /// others' between them. `None` when it has all of that; then the next slice begins.
    pub fn source(&self) -> Outcome<Option<Source<'s>>> {
        let ticket = self.command.ticket;
        let source = self.waited("a piece", |it| it.source(ticket))?;
        Ok(Some(match source {
            records::Source::All => return Ok(None),
            records::Source::Shared(Piled { map, buffers, pieces, note }) => {
                Source::Kept(self.viewed(map, &buffers, pieces, note.0)?)
            }
            records::Source::Own(Piled { map, buffers, pieces, note }) => {
                let claim = |buffer| self.desk.claim(buffer);
                let buffers = buffers.into_iter().map(claim).collect::<Outcome<_>>()?;
                Source::Kept(Kept { map, pieces, note: note.0, buffers: Held::Own(buffers) })
            }
            records::Source::Run { map, run, bytes } => {
                Source::Run(Run { map, number: run, bytes })
            }
        }))
    }

    /// The block of this place in a run, from 0; they are asked for in their order.
    pub fn run(&self, run: Run, index: u32) -> Outcome<Block<'s>> {
        let ticket = self.command.ticket;
        let block = self.waited("a block of a run", |it| it.run(ticket, run.number, index))?;
        self.claimed(block)
    }

    /// Writes the next block of the part.
    pub fn write(&self, buffer: PoolBuffer<'s>, bytes: usize) -> Outcome {
        let (ticket, buffer) = (self.command.ticket, self.desk.pass(buffer, bytes)?);
        self.written("a part of the output", |it| it.write(ticket, buffer))?;
        self.pause()
    }

    fn claimed(&self, block: records::Block) -> Outcome<Block<'s>> {
        let buffer = self.desk.claim(block.buffer)?;
        let bytes = (block.bytes as usize).min(buffer.len());
        Ok(Block { buffer, bytes, at: block.at, more: block.more })
    }

    fn viewed(
        &self,
        map: u32,
        buffers: &[Buffer],
        pieces: Vec<Range>,
        note: Vec<u8>,
    ) -> Outcome<Kept<'s>> {
        let view = |buffer: &Buffer| {
            let view = self.desk.runtime.view_buffer(*buffer);
            view.map_err(|status| Halt::input(format!("a buffer of an output: {status}")))
        };
        let buffers = Held::Views(buffers.iter().map(view).collect::<Outcome<_>>()?);
        Ok(Kept { map, pieces, note, buffers })
    }

    /// The end of a call that would rather be asked again than keep others waiting.
    fn waited<'c, T, F: Future<Output = CallResult<T>> + 'c>(
        &'c self,
        what: &str,
        call: impl Fn(&'c TaskClient) -> F,
    ) -> Outcome<T> {
        loop {
            match self.desk.call(&call) {
                Err(error) if matches!(error.status, Status::Busy | Status::Timeout) => {
                    self.breathe()?;
                }
                result => return result.map_err(|error| Halt::of(error, Fault::Input, what)),
            }
        }
    }

    fn written<'c, F: Future<Output = CallResult<()>> + 'c>(
        &'c self,
        what: &str,
        call: impl FnOnce(&'c TaskClient) -> F,
    ) -> Outcome {
        self.desk.call(call).map_err(|error| Halt::of(error, Fault::Space, what))
    }
}
