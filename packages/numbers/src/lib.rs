//! A package of jobs that sort numbers of 64 bits. It does with them everything that tasks can be
//! asked for, as plainly as that can be done: tests run jobs with it.
//!
//! A job's arguments may be `whole` (other nodes get outputs whole), `fail=N` (the map task over
//! split N comes to nothing), `loop=N` (it never ends), `greed=WHAT` (map tasks take that for ever,
//! see [`Greed`], and compute for the microseconds of `pause=US` in between) and `slow=MS` (each
//! map task computes for so many milliseconds, and says nothing meanwhile).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::call::System;
use nile_abi::{CoreId, Status};
use nile_bosml::{Blob, Buffer, Bytes};
use nile_greedy::Greed;
use nile_interfaces::task::TaskClient;
use nile_interfaces::task::records::{
    Block, Command, CommandKind, Far, Fault, Output, Piled, Range, Source,
};
use nile_stl::{CallError, CallResult};
use nile_user::{PoolBuffer, Runtime, with_services};

/// Bytes of a number.
const NUMBER: usize = 8;

/// How many numbers of a split a sample has.
const SAMPLE: usize = 64;

/// How long a call may wait.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// What goes wrong: with the code, or with a call.
struct Failed {
    fault: Fault,
    text: String,
}

impl From<CallError> for Failed {
    fn from(error: CallError) -> Failed {
        Failed { fault: Fault::Code, text: format!("{error}") }
    }
}

impl From<Status> for Failed {
    fn from(status: Status) -> Failed {
        Failed { fault: Fault::Code, text: format!("{status}") }
    }
}

/// What a task gives; `None` if it was called off.
type Done<T = ()> = Result<T, Failed>;

/// How time passes: for so long, or for ever.
pub type Compute = fn(&dyn System, Option<Duration>);

struct Package<'a, 's> {
    system: &'a dyn System,
    runtime: &'a Runtime<'s>,
    task: TaskClient,
    compute: Compute,
}

/// Does what there is to do until the job is over.
pub fn main(system: &dyn System, _: &[u8]) -> u64 {
    run(system, nile_user::compute)
}

/// The same where time passes in another way.
pub fn run(system: &dyn System, compute: Compute) -> u64 {
    let runtime = Runtime::new(system);
    // Which core it is matters only to those who publish.
    with_services(&runtime, CoreId(0), |services| {
        let stl = services.stl().with_patience(PATIENCE);
        services.block_on(async {
            let Ok(task) = TaskClient::find(&stl).await else { return 1 };
            let package = Package { system, runtime: &runtime, task, compute };
            match package.work().await {
                Ok(()) => 0,
                Err(_) => 2,
            }
        })
    })
}

impl<'s> Package<'_, 's> {
    async fn work(&self) -> CallResult<()> {
        loop {
            let command = self.task.next(true).await?;
            let done = match command.kind {
                CommandKind::End => return Ok(()),
                CommandKind::Sample => self.sample(&command).await,
                CommandKind::Cut => self.cut(&command).await,
                CommandKind::Map => self.map(&command).await,
                CommandKind::Reduce => self.reduce(&command).await,
                _ => Ok(()),
            };
            if let Err(failed) = done {
                // If it was called off, nobody wants to know.
                let _ = self.task.failed(command.ticket, failed.fault, &failed.text).await;
            }
        }
    }

    /// Asks whether the present task is off.
    async fn breathe(&self) -> Done {
        match self.task.next(false).await?.kind {
            CommandKind::Stop => Err(Failed { fault: Fault::Code, text: String::new() }),
            _ => Ok(()),
        }
    }

    /// What a call gives that may have to wait.
    async fn patiently<T>(&self, mut call: impl AsyncFnMut() -> CallResult<T>) -> Done<T> {
        loop {
            match call().await {
                Err(error) if error.status == Status::Busy => self.breathe().await?,
                result => return Ok(result?),
            }
        }
    }

    /// The numbers of a block, and its buffer.
    async fn block(&self, ticket: u64, index: u32) -> Done<(Vec<u64>, PoolBuffer<'s>)> {
        let Block { buffer, bytes, .. } =
            self.patiently(async || self.task.block(ticket, index).await).await?;
        let buffer = self.runtime.claim_buffer(buffer)?;
        let numbers = numbers(buffer.get(..bytes as usize).unwrap_or(&[]));
        Ok((numbers, buffer))
    }

    async fn sample(&self, command: &Command) -> Done {
        let (numbers, _) = self.block(command.ticket, 0).await?;
        let step = (numbers.len() / SAMPLE).max(1);
        let sample: Vec<u64> = numbers.into_iter().step_by(step).take(SAMPLE).collect();
        self.task.sampled(command.ticket, Bytes::from(&bytes(&sample)[..])).await?;
        Ok(self.task.done(command.ticket, 0, 0).await?)
    }

    async fn cut(&self, command: &Command) -> Done {
        let mut all = Vec::new();
        for index in 0..command.blocks {
            all.extend(numbers(&self.task.sample(command.ticket, index).await?.bytes.0));
        }
        all.sort_unstable();
        let bound = |partition: u32| {
            let place = all.len() * partition as usize / command.reducers as usize;
            all.get(place).copied().unwrap_or(u64::MAX)
        };
        let bounds: Vec<u64> = (1..command.reducers).map(bound).collect();
        Ok(self.task.cut(command.ticket, Bytes::from(&bytes(&bounds)[..]), 1).await?)
    }

    async fn map(&self, command: &Command) -> Done {
        let fails = format!("fail={}", command.index);
        if command.arguments.contains(&fails) {
            return Err(Failed { fault: Fault::Code, text: String::from("it was asked to fail") });
        }
        if command.arguments.contains(&format!("loop={}", command.index)) {
            (self.compute)(self.system, None);
        }
        let asked = |key: &str| command.arguments.iter().find_map(|it| it.strip_prefix(key));
        let number = |key| asked(key).and_then(|it| it.parse::<u64>().ok());
        let pause = number("pause=").map(Duration::from_micros);
        if let Some(greed) = asked("greed=").and_then(Greed::named) {
            greed.act(self.system, || {
                if pause.is_some() {
                    (self.compute)(self.system, pause);
                }
            });
        }
        if let Some(slow) = number("slow=") {
            (self.compute)(self.system, Some(Duration::from_millis(slow)));
        }
        let ticket = command.ticket;
        let whole = command.arguments.iter().any(|it| it == "whole");
        let bounds = numbers(&command.bounds.0);
        let (mut count, mut sum) = (0, 0u64);
        let mut all = Vec::new();
        for index in 0..command.blocks {
            self.breathe().await?;
            let (mut numbers, mut buffer) = self.block(ticket, index).await?;
            count += numbers.len() as u64;
            sum = numbers.iter().fold(sum, |sum, number| sum.wrapping_add(*number));
            if command.spill {
                all.append(&mut numbers);
                continue;
            }
            numbers.sort_unstable();
            let content = bytes(&numbers);
            buffer[..content.len()].copy_from_slice(&content);
            let output = Output {
                buffers: Vec::from([buffer.pass(content.len())?]),
                pieces: ranges(&numbers, &bounds),
                note: Blob(Vec::from([1])),
                far: if whole { Far::Whole } else { Far::Joined },
            };
            self.task.keep(ticket, output).await?;
        }
        let behind = self.task.beyond(ticket, 0, NUMBER as u32).await?;
        if !matches!(behind.bytes.0.len(), 0 | NUMBER) {
            return Err(Failed {
                fault: Fault::Input,
                text: String::from("a number that is cut in two"),
            });
        }
        if command.spill {
            all.sort_unstable();
            for Range { partition, start, bytes: length, .. } in ranges(&all, &bounds) {
                let start = start as usize / NUMBER;
                let end = start + length as usize / NUMBER;
                for buffer in self.buffers(all.get(start..end).unwrap_or(&[])).await? {
                    self.task.spill(ticket, partition, buffer).await?;
                }
            }
        }
        Ok(self.task.done(ticket, count, sum).await?)
    }

    /// Numbers in buffers that were passed.
    async fn buffers(&self, numbers: &[u64]) -> Done<Vec<Buffer>> {
        let mut passed = Vec::new();
        let mut rest = numbers;
        while !rest.is_empty() {
            let mut buffer = loop {
                match self.runtime.take_buffer() {
                    Err(Status::Busy) => self.breathe().await?,
                    taken => break taken?,
                }
            };
            let (now, later) = rest.split_at(rest.len().min(buffer.len() / NUMBER));
            let content = bytes(now);
            buffer[..content.len()].copy_from_slice(&content);
            passed.push(buffer.pass(content.len())?);
            rest = later;
        }
        Ok(passed)
    }

    async fn reduce(&self, command: &Command) -> Done {
        let ticket = command.ticket;
        let mut all = Vec::new();
        loop {
            let next = self.patiently(async || self.task.source(ticket).await).await?;
            match next {
                Source::Shared(piled) => self.kept(&piled, false, &mut all)?,
                Source::Own(piled) => self.kept(&piled, true, &mut all)?,
                Source::Run { run, .. } => self.run(ticket, run, &mut all).await?,
                Source::All => break,
            }
        }
        all.sort_unstable();
        for part in all.chunks(1 << 12) {
            for buffer in self.buffers(part).await? {
                self.task.write(ticket, buffer).await?;
            }
            self.breathe().await?;
        }
        let sum = all.iter().fold(0u64, |sum, number| sum.wrapping_add(*number));
        Ok(self.task.done(ticket, all.len() as u64, sum).await?)
    }

    fn kept(&self, next: &Piled, is_own: bool, all: &mut Vec<u64>) -> Done {
        if next.note.0 != [1] {
            return Err(Failed {
                fault: Fault::Code,
                text: String::from("a note that nobody wrote"),
            });
        }
        let mut take = |number: usize, bytes: &[u8]| {
            for range in next.pieces.iter().filter(|range| range.buffer as usize == number) {
                let start = range.start as usize;
                all.extend(numbers(bytes.get(start..start + range.bytes as usize).unwrap_or(&[])));
            }
        };
        for (number, buffer) in next.buffers.iter().enumerate() {
            match is_own {
                true => take(number, &self.runtime.claim_buffer(*buffer)?),
                false => take(number, &self.runtime.view_buffer(*buffer)?),
            }
        }
        Ok(())
    }

    async fn run(&self, ticket: u64, run: u64, all: &mut Vec<u64>) -> Done {
        let (mut index, mut last) = (0, 0);
        loop {
            let block = self.patiently(async || self.task.run(ticket, run, index).await).await?;
            let buffer = self.runtime.claim_buffer(block.buffer)?;
            let numbers = numbers(buffer.get(..block.bytes as usize).unwrap_or(&[]));
            let is_sorted = numbers.is_sorted() && numbers.first().is_none_or(|it| *it >= last);
            if !is_sorted {
                return Err(Failed {
                    fault: Fault::Code,
                    text: String::from("a run that is not sorted"),
                });
            }
            last = numbers.last().copied().unwrap_or(last);
            all.extend(numbers);
            index += 1;
            if !block.more {
                return Ok(());
            }
        }
    }
}

/// What each partition has of sorted numbers, as bytes of one buffer.
fn ranges(numbers: &[u64], bounds: &[u64]) -> Vec<Range> {
    let ends = bounds.iter().map(|bound| numbers.partition_point(|it| it < bound));
    let mut ranges = Vec::new();
    let mut start = 0;
    for (end, partition) in ends.chain([numbers.len()]).zip(0..) {
        let bytes = ((end - start) * NUMBER) as u32;
        ranges.push(Range { partition, buffer: 0, start: (start * NUMBER) as u32, bytes });
        start = end;
    }
    ranges
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.as_chunks::<NUMBER>().0;
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}
