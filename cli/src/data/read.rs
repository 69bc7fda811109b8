//! The bytes of a dataset, to a file or piece by piece. Nodes of this machine write to a regular
//! file by themselves; for what is none, to a window in memory. From others they come in calls.
//! What one of several stores does not give, another one does; the first is then asked last.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use nile_abi::Status;
use nile_interfaces::dataset::records::{BlockRange, InFile, Listed};
use nile_interfaces::dataset::{DatasetClient, MOST_BYTES};
use nile_stl::CallResult;

use super::catalogue::{Known, Part};
use super::flow::Asked;
use super::hand::{Handed, window};
use super::progress::Progress;
use super::stores::{Stores, failed};
use crate::cluster::turns::Turns;
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::known::Target;
use crate::write::Output;

/// Bytes that a node is asked for at once, about.
const AT_ONCE: u64 = 2 << 20;

/// Bytes of a window, about.
const WINDOW: u64 = 8 << 20;

/// A store, and what it has of a part.
type Holder = (Target, Listed);

/// Something of a part, and who of its holders has been asked for it.
struct Wanted<W> {
    what: W,
    turns: Turns,
    asked: usize,
    failures: Vec<String>,
    /// Whether all have failed once, as they were held for dead.
    is_again: bool,
}

/// Writes all of a dataset; how many bytes it has.
pub fn to_file(
    stores: &mut Stores,
    known: &Known,
    file: &mut Output,
    progress: &mut Progress,
) -> Result<u64, Failure> {
    let mut done = 0;
    let Some(fresh) = file.fresh() else {
        return pieces(stores, known, |piece| {
            done += piece.len() as u64;
            progress.show(done);
            file.write(piece)
        });
    };
    let nodes = known.parts.values().flat_map(|part| &part.stores).map(|(it, _)| it.node);
    let handed = Handed::to(&stores.session, nodes, fresh);
    for part in known.parts.values() {
        let before = done;
        let straight = copy(stores, part, 0..part.listed.blocks, (&handed, before), |bytes| {
            progress.show(before + bytes);
        });
        let copied = unless_by_calls(straight, part, &handed, || {
            by_calls(stores, part, 0, |at, bytes| {
                progress.show(before + at);
                file.write_at(before + at, bytes)
            })
        });
        // A file that a node cannot write to this command perhaps cannot, either.
        copied.or_else(|failure| file.probe(known.facts.bytes).and(Err(failure)))?;
        done += part.listed.bytes;
    }
    Ok(done)
}

/// Gives all bytes of a dataset, one piece after another; how many there were.
pub fn pieces(
    stores: &mut Stores,
    known: &Known,
    mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let mut bytes = 0;
    for part in known.parts.values() {
        part_by_pieces(stores, part, &mut take)?;
        bytes += part.listed.bytes;
    }
    Ok(bytes)
}

fn part_by_pieces(
    stores: &mut Stores,
    part: &Part,
    take: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let nodes = || part.stores.iter().map(|(it, _)| it.node);
    let mut memory = window()?;
    let mut handed = Handed::to(&stores.session, nodes(), &memory);
    let (mut at, mut piece) = (0, Vec::new());
    for first in (0..part.listed.blocks).step_by(blocks_of(part, WINDOW) as usize) {
        let last = first.saturating_add(blocks_of(part, WINDOW)).min(part.listed.blocks);
        let failures = stores.session.doubts.count();
        // The window begins where the first of them does.
        let copied = copy(stores, part, first..last, (&handed, 0_u64.wrapping_sub(at)), |_| ());
        let mut bytes = 0;
        let straight = copied.map(|copied| bytes = copied);
        if straight.is_err() {
            return unless_by_calls(straight, part, &handed, || {
                by_calls(stores, part, at, |_, bytes| take(bytes))
            });
        }
        piece.resize(bytes as usize, 0);
        read_window(&memory, &mut piece)?;
        take(&piece)?;
        at += bytes;
        // One that did not answer in time may still write to it, and too late.
        if stores.session.doubts.count() > failures {
            memory = window()?;
            handed = Handed::to(&stores.session, nodes(), &memory);
        }
    }
    Ok(())
}

/// The end of what stores were to do by themselves; or that of `calls`, if it failed, and there are
/// stores that only answer calls.
fn unless_by_calls<T>(
    straight: Result<T, Failure>,
    part: &Part,
    handed: &Handed,
    calls: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    match straight {
        Ok(_) => Ok(()),
        Err(Failure::Failed(_)) if part.stores.iter().any(|(it, _)| !handed.has(it.node)) => {
            calls()
        }
        Err(failure) => Err(failure),
    }
}

fn read_window(memory: &File, piece: &mut [u8]) -> Result<(), Failure> {
    let failed = |error| Failure::failed(format!("a node has written less than it said: {error}"));
    memory.read_exact_at(piece, 0).map_err(failed)
}

/// How many blocks of a part have so many bytes, about.
fn blocks_of(part: &Part, bytes: u64) -> u32 {
    let of_block = part.listed.bytes.div_ceil(u64::from(part.listed.blocks).max(1)).max(1);
    u32::try_from(bytes / of_block).unwrap_or(u32::MAX).max(1)
}

/// Has blocks of a part written to a file by the stores that have it, in which the part's first
/// byte is to be at `base`; how many bytes they have.
fn copy(
    stores: &mut Stores,
    part: &Part,
    blocks: Range<u32>,
    (file, base): (&Handed, u64),
    mut show: impl FnMut(u64),
) -> Result<u64, Failure> {
    let holders: Vec<&Holder> = part.stores.iter().filter(|(it, _)| file.has(it.node)).collect();
    let step = blocks_of(part, AT_ONCE);
    let rows = blocks.clone().step_by(step as usize);
    let rows = rows.map(|first| BlockRange { first, count: step.min(blocks.end - first) });
    let ask = async |client: &DatasetClient, (target, listed): &Holder, it: &BlockRange| {
        let Listed { name, epoch, attempt, .. } = listed;
        let base = InFile { file: file.name(target.node), at: base };
        client.read_into(name, *epoch, *attempt, *it, base).await
    };
    let mut done = 0;
    from_holders(stores, &holders, rows, ask, |it, copied| {
        done += copied.bytes;
        show(done);
        let count = copied.blocks.min(it.count);
        (count, BlockRange { first: it.first + count, count: it.count - count })
    })?;
    Ok(done)
}

/// Gives the bytes of a part from `from` on, by calls: where they begin, and some of them.
fn by_calls(
    stores: &mut Stores,
    part: &Part,
    from: u64,
    mut take: impl FnMut(u64, &[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let holders: Vec<&Holder> = part.stores.iter().collect();
    let ask = async |client: &DatasetClient, (_, listed): &Holder, it: &Range<u64>| {
        let Listed { name, epoch, attempt, .. } = listed;
        client.read(name, *epoch, *attempt, it.start, (it.end - it.start) as u32).await
    };
    let mut buffer = Vec::new();
    for first in (from..part.listed.bytes).step_by(WINDOW as usize) {
        let last = part.listed.bytes.min(first + WINDOW);
        buffer.resize((last - first) as usize, 0);
        let pieces = (first..last).step_by(MOST_BYTES);
        let pieces = pieces.map(|at| at..last.min(at + MOST_BYTES as u64));
        from_holders(stores, &holders, pieces, ask, |it, piece| {
            let there = &mut buffer[(it.start - first) as usize..(it.end - first) as usize];
            let bytes = piece.bytes.0.len().min(there.len());
            there[..bytes].copy_from_slice(&piece.bytes.0[..bytes]);
            (bytes as u32, it.start + bytes as u64..it.end)
        })?;
        take(first, &buffer)?;
    }
    Ok(())
}

/// Asks the holders of a part for pieces of it, several at once, and each piece of one holder after
/// the other. `done` takes what one gives: how much of the piece that was, and what is left of it.
fn from_holders<W: IsNothing, T>(
    stores: &mut Stores,
    holders: &[&Holder],
    pieces: impl IntoIterator<Item = W>,
    ask: impl AsyncFn(&DatasetClient, &Holder, &W) -> CallResult<T>,
    mut done: impl FnMut(&W, T) -> (u32, W),
) -> Result<(), Failure> {
    let (patience, doubts) = (stores.session.patience, stores.session.doubts.clone());
    let is_doubted = |at: usize| doubts.has(holders[at].0.node);
    let turns = || Turns::of(holders.len());
    let wanted =
        |what| Wanted { what, turns: turns(), asked: 0, failures: vec![], is_again: false };
    let deadline = Instant::now() + patience;
    if holders.is_empty() {
        return Err(Failure::failed("no store has it"));
    }
    stores.flow(
        pieces.into_iter().map(wanted),
        |it| {
            let (at, patience) = it.turns.next(patience, is_doubted).unwrap_or((0, patience));
            it.asked = at;
            Asked { target: holders[at].0, patience, rests: it.is_again }
        },
        async |client, it| ask(client, holders[it.asked], &it.what).await,
        |mut it, end| {
            let (target, listed) = holders[it.asked];
            let nothing = || CallFailed::new(Status::Failed, "it gives nothing of what it has");
            let end = end.map(|end| done(&it.what, end));
            match end.and_then(|(some, left)| if some > 0 { Ok(left) } else { Err(nothing()) }) {
                Ok(left) => Ok((!left.is_nothing()).then(|| wanted(left))),
                Err(error) => {
                    it.failures.push(failed(target, &error).to_string());
                    it.turns.failed(it.asked, error.status);
                    match it.turns.next(patience, is_doubted) {
                        Some(_) => Ok(Some(it)),
                        // After a partition a node that lives is held for dead for a while.
                        None if error.status == Status::Dead && Instant::now() < deadline => {
                            let (turns, failures) = (turns(), Vec::new());
                            Ok(Some(Wanted { turns, failures, is_again: true, ..it }))
                        }
                        None => Err(nowhere(listed, &it.failures)),
                    }
                }
            }
        },
    )
}

/// Whether nothing is left of a piece.
trait IsNothing {
    fn is_nothing(&self) -> bool;
}

impl IsNothing for BlockRange {
    fn is_nothing(&self) -> bool {
        self.count == 0
    }
}

impl IsNothing for Range<u64> {
    fn is_nothing(&self) -> bool {
        self.is_empty()
    }
}

fn nowhere(listed: &Listed, failures: &[String]) -> Failure {
    Failure::failed(format!("{}: {}", listed.name, failures.join("; ")))
}
