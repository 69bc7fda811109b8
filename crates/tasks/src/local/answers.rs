//! What the agent in memory answers to each call.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ptr::NonNull;

use nile_abi::call::{Answer, System, SystemCall};
use nile_abi::{Status, VirtAddr};
use nile_bosml::{Blob, Buffer, Bytes, Decode, Encode, Reader};
use nile_interfaces::task::records::{self, Block, Far, Output, Piled, Range, Source};
use nile_stl::relay::{self, Relayed};
use nile_stl::{CallError, CallResult};

use super::agent::{Agent, Attempt, Piece, State, Stored, Work, of_partition};
use super::pool::Buffers;
use crate::outcome::Done;

/// The most bytes that a package's call may have, on a node.
const MOST_CALL: usize = 64 << 10;

/// A sleep is over at once, that far later.
const SLEEP: u64 = 1_000_000;

impl System for Agent<'_> {
    fn call(&self, call: SystemCall, word: u64, input: &[u8], output: &mut [u8]) -> Answer {
        self.now.set(self.now.get() + 1);
        let given = match call {
            SystemCall::Now => return Answer::ok(self.now.get()),
            SystemCall::Log => return Answer::ok(0),
            SystemCall::Wait => {
                self.now.set(self.now.get().saturating_add(SLEEP).max(word.min(u64::MAX / 2)));
                return Answer::failed(Status::Timeout);
            }
            SystemCall::Pool => self.buffers.answer(input),
            SystemCall::Invoke if input.len() > MOST_CALL => Err(Status::NoMemory),
            SystemCall::Invoke => {
                relay::decode::<Relayed>(input).map_err(|_| Status::Invalid).map(|relayed| {
                    let Relayed { service, method, arguments } = relayed;
                    let end = match service.as_str() {
                        "task" => self.answer(&method, &mut Reader::new(&arguments.0)),
                        _ => Err(CallError::from(Status::NotFound)),
                    };
                    relay::encode_end(&end)
                })
            }
            _ => Err(Status::Denied),
        };
        let given = given.and_then(|given| {
            output.get_mut(..given.len()).ok_or(Status::NoMemory)?.copy_from_slice(&given);
            Ok(given.len() as u64)
        });
        given.map_or_else(Answer::failed, Answer::ok)
    }

    fn memory(&self, at: VirtAddr, bytes: u64) -> Option<NonNull<u8>> {
        self.buffers.memory(at, bytes)
    }
}

fn encoded(value: impl Encode) -> CallResult<Vec<u8>> {
    Ok(relay::encode(&value)?)
}

fn invalid(text: impl Into<String>) -> CallError {
    CallError::new(Status::Invalid, text.into())
}

impl State {
    /// The attempt of this ticket.
    fn attempt(&mut self, ticket: u64) -> CallResult<&mut Attempt> {
        let attempt = self.attempt.as_mut().filter(|attempt| attempt.ticket == ticket);
        attempt.ok_or(CallError::from(Status::NotFound))
    }
}

impl Agent<'_> {
    fn answer(&self, method: &str, input: &mut Reader<'_>) -> CallResult<Vec<u8>> {
        if method == "next" {
            return encoded(self.next(bool::decode(input)?));
        }
        let ticket = u64::decode(input)?;
        let mut state = self.state.borrow_mut();
        match method {
            "block" => encoded(self.read(&mut state, ticket, u32::decode(input)?)?),
            "beyond" => {
                let (skip, bytes) = (u64::decode(input)?, u32::decode(input)?);
                encoded(records::Piece {
                    bytes: Blob(self.beyond(&mut state, ticket, skip, bytes)?),
                })
            }
            "sample" => {
                let index = u32::decode(input)? as usize;
                state.attempt(ticket)?;
                let sample = state.samples.get(index).cloned().ok_or(invalid("no sample"))?;
                encoded(records::Piece { bytes: Blob(sample) })
            }
            "source" => encoded(self.source(&mut state, ticket)?),
            "run" => {
                let (run, index) = (u64::decode(input)?, u32::decode(input)?);
                encoded(self.run(&mut state, ticket, run, index as usize)?)
            }
            _ => self.take(&mut state, method, ticket, input).map(|()| Vec::new()),
        }
    }

    /// The calls that give nothing.
    fn take(
        &self,
        state: &mut State,
        method: &str,
        ticket: u64,
        input: &mut Reader<'_>,
    ) -> CallResult<()> {
        match method {
            "sampled" => {
                state.attempt(ticket)?;
                state.samples.push(Blob::from(Bytes::decode(input)?).0);
            }
            "cut" => {
                state.attempt(ticket)?;
                state.bounds = Blob::from(Bytes::decode(input)?).0;
                state.slices = u32::decode(input)?;
                self.done(state, Done::default());
            }
            "keep" => {
                let Output { buffers, pieces, note, far } = Output::decode(input)?;
                let buffers = self.claimed(&buffers)?;
                let kept = &mut state.attempt(ticket)?.left.kept;
                let lies = |piece: &&Range| {
                    let end = piece.start as usize + piece.bytes as usize;
                    let buffer = buffers.get(piece.buffer as usize);
                    buffer.is_none_or(|buffer| buffer.len() < end)
                };
                if let Some(piece) = pieces.iter().find(lies) {
                    return Err(invalid(format!("{piece:?} is not in its buffer")));
                }
                kept.push(Stored { buffers, pieces, note, far });
                state.kept += 1;
            }
            "spill" => {
                let (partition, buffer) = (u32::decode(input)?, Buffer::decode(input)?);
                let bytes = self.bytes(buffer)?;
                let runs = &mut state.attempt(ticket)?.left.runs;
                if runs.last_key_value().is_some_and(|(last, _)| *last > partition) {
                    return Err(invalid("partitions are spilled in their order"));
                }
                state.spilled += bytes.len() as u64;
                state.attempt(ticket)?.left.runs.entry(partition).or_default().push(bytes);
            }
            "write" => {
                let bytes = self.bytes(Buffer::decode(input)?)?;
                state.attempt(ticket)?.part.push(bytes);
            }
            "done" => {
                let (records, checksum) = (u64::decode(input)?, u64::decode(input)?);
                state.attempt(ticket)?;
                self.done(state, Done { records, checksum });
            }
            "failed" => {
                let (_, text) = (records::Fault::decode(input)?, String::decode(input)?);
                let attempt = state.attempt.take_if(|attempt| attempt.ticket == ticket);
                let what = attempt.map_or_else(String::new, |it| format!("{:?}", it.work));
                state.error = Some(format!("{what}: {text}"));
            }
            _ => return Err(CallError::from(Status::NotFound)),
        }
        Ok(())
    }

    fn claimed(&self, buffers: &[Buffer]) -> CallResult<Vec<nile_ring::Buffer>> {
        let claim = |buffer: &Buffer| self.buffers.claim(buffer);
        buffers.iter().map(claim).collect::<Result<_, _>>().map_err(CallError::from)
    }

    /// The bytes of a buffer that the package gives up.
    fn bytes(&self, buffer: Buffer) -> CallResult<Vec<u8>> {
        Ok(self.buffers.claim(&buffer)?.to_vec())
    }

    /// A buffer for the package with these bytes; at its whole length if `whole`.
    fn buffer(&self, bytes: &[u8], whole: bool) -> CallResult<Buffer> {
        let none = || CallError::new(Status::NoMemory, "no buffer is free");
        let mut buffer = self.buffers.take().ok_or_else(none)?;
        // What another has left there.
        buffer.fill(0xa5);
        buffer[..bytes.len()].copy_from_slice(bytes);
        Ok(Buffers::give(buffer, if whole { self.buffers.size() } else { bytes.len() }))
    }

    fn read(&self, state: &mut State, ticket: u64, index: u32) -> CallResult<Block> {
        let (Work::Map(map) | Work::Sample(map)) = state.attempt(ticket)?.work else {
            return Err(invalid("a task without a split"));
        };
        let (split, index) = (state.splits[map], index as usize);
        let block = self.block(split, index).filter(|_| index < split.blocks);
        let (at, bytes) = block.ok_or(invalid("behind the last block"))?;
        Ok(Block {
            buffer: self.buffer(&self.job.inputs[split.dataset][at..at + bytes], true)?,
            bytes: bytes as u32,
            at: at as u64,
            more: index + 1 < split.blocks,
        })
    }

    fn beyond(&self, state: &mut State, ticket: u64, skip: u64, most: u32) -> CallResult<Vec<u8>> {
        let Work::Map(map) = state.attempt(ticket)?.work else {
            return Err(invalid("a task without a split"));
        };
        let split = state.splits[map];
        let input = &self.job.inputs[split.dataset];
        let (last, bytes) = self.block(split, split.blocks - 1).ok_or(invalid("no block"))?;
        let start = (last + bytes).saturating_add(skip as usize).min(input.len());
        let block = self.job.block.min(self.job.buffer);
        let end = (start + most as usize).min((start / block + 1) * block).min(input.len());
        Ok(input[start..end].to_vec())
    }

    fn source(&self, state: &mut State, ticket: u64) -> CallResult<Source> {
        let attempt = state.attempt(ticket)?;
        let Work::Reduce(partition) = attempt.work else {
            return Err(invalid("a task without pieces"));
        };
        let Some(slice) = attempt.sources.front_mut() else { return Ok(Source::All) };
        let Some(next) = slice.pop_front() else {
            attempt.sources.pop_front();
            return Ok(Source::All);
        };
        let given = match next {
            Piece::Run { map } => {
                let run = &state.maps[map].runs[&partition];
                let bytes = run.iter().map(|block| block.len() as u64).sum();
                let run = (map as u64) << 32 | u64::from(partition);
                Source::Run { map: map as u32, run, bytes }
            }
            Piece::Shared { map, output, piece } => {
                let Stored { buffers, pieces, note, .. } = &state.maps[map].kept[output];
                Source::Shared(Piled {
                    map: map as u32,
                    buffers: buffers.iter().map(Buffers::view).collect(),
                    pieces: of_partition(pieces, piece),
                    note: note.clone(),
                })
            }
            Piece::Far { map, outputs, piece } => {
                let outputs = outputs.iter().map(|output| &state.maps[map].kept[*output]);
                let (mut bytes, mut all, mut note) = (Vec::new(), Vec::new(), Blob::default());
                for stored in outputs {
                    let pieces = of_partition(&stored.pieces, piece);
                    note = stored.note.clone();
                    if stored.far == Far::Whole {
                        bytes = stored.buffers.iter().map(|it| it.to_vec()).collect();
                        all = pieces;
                    } else {
                        all.extend(self.packed(&stored.buffers, pieces, &mut bytes));
                    }
                }
                let give = |bytes: &Vec<u8>| self.buffer(bytes, false);
                let buffers = bytes.iter().map(give).collect::<CallResult<_>>()?;
                let (map, pieces) = (map as u32, all);
                state.far += 1;
                Source::Own(Piled { map, buffers, pieces, note })
            }
        };
        Ok(given)
    }

    /// What another node gets of an output: its ranges, each whole in one buffer, behind what is
    /// packed already; where they are there.
    fn packed(
        &self,
        buffers: &[nile_ring::Buffer],
        mut pieces: Vec<Range>,
        packed: &mut Vec<Vec<u8>>,
    ) -> Vec<Range> {
        for piece in &mut pieces {
            let start = piece.start as usize;
            let bytes = &buffers[piece.buffer as usize][start..start + piece.bytes as usize];
            if packed.last().is_none_or(|it| self.buffers.size() - it.len() < bytes.len()) {
                packed.push(Vec::new());
            }
            piece.buffer = packed.len() as u32 - 1;
            if let Some(last) = packed.last_mut() {
                piece.start = last.len() as u32;
                last.extend(bytes);
            }
        }
        pieces
    }

    fn run(&self, state: &mut State, ticket: u64, run: u64, index: usize) -> CallResult<Block> {
        state.attempt(ticket)?;
        let (map, partition) = ((run >> 32) as usize, run as u32);
        let run = state.maps.get(map).and_then(|left| left.runs.get(&partition));
        let run = run.ok_or(invalid("no such run"))?;
        let block = run.get(index).ok_or(invalid("behind the last block"))?;
        Ok(Block {
            buffer: self.buffer(block, true)?,
            bytes: block.len() as u32,
            at: run[..index].iter().map(|block| block.len() as u64).sum(),
            more: index + 1 < run.len(),
        })
    }
}
