//! The bytes of a dataset, to a file or piece by piece. Nodes of this machine write to a regular
//! file by themselves; for what is none, to a window in memory. From others they come in calls.

use std::fs::File;
use std::os::unix::fs::FileExt;

use nile_interfaces::dataset::records::{BlockRange, InFile, Listed};
use nile_interfaces::dataset::{DatasetClient, MOST_BYTES};

use super::catalogue::{Known, Part};
use super::hand::{Handed, window};
use super::progress::Progress;
use super::stores::{PIECES, Stores, failed};
use crate::failure::Failure;
use crate::peer::known::Target;
use crate::write::Output;

/// Bytes that a node is asked for at once, about.
const AT_ONCE: u64 = 2 << 20;

/// Bytes of a window, about.
const WINDOW: u64 = 8 << 20;

/// Blocks of a part, and why the stores that were asked for them have not given them.
struct Blocks {
    first: u32,
    count: u32,
    failures: Vec<String>,
}

/// Writes all of a dataset; how many bytes it has.
pub fn to_file(
    stores: &mut Stores,
    known: &Known,
    file: &mut Output,
    progress: &mut Progress,
) -> Result<u64, Failure> {
    let nodes = known.parts.values().flat_map(|part| &part.stores).map(|(it, _)| it.node);
    let handed = file.fresh().and_then(|file| Handed::to(stores, nodes, file));
    let Some(handed) = handed else {
        let mut done = 0;
        return pieces(stores, known, |piece| {
            done += piece.len() as u64;
            progress.show(done);
            file.write(piece)
        });
    };
    let mut done = 0;
    for part in known.parts.values() {
        let (before, blocks) = (done, 0..part.listed.blocks);
        let copied = copy(stores, part, blocks, (&handed, before), |bytes| {
            progress.show(before + bytes);
        });
        // A file that a node cannot write to this command perhaps cannot, either.
        done += copied.or_else(|failure| file.probe(known.entry.bytes).and(Err(failure)))?;
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
        bytes += part_by_pieces(stores, part, &mut take)?;
    }
    Ok(bytes)
}

fn part_by_pieces(
    stores: &mut Stores,
    part: &Part,
    take: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let memory = window()?;
    let mut at = 0;
    let Some(window) = Handed::to(stores, part.stores.iter().map(|(it, _)| it.node), &memory)
    else {
        while at < part.listed.bytes {
            let piece = call(stores, part, at)?;
            at += piece.len() as u64;
            take(&piece)?;
        }
        return Ok(at);
    };
    let mut piece = Vec::new();
    for first in (0..part.listed.blocks).step_by(blocks_of(part, WINDOW) as usize) {
        let last = first.saturating_add(blocks_of(part, WINDOW)).min(part.listed.blocks);
        // The window begins where the first of them does.
        let base = 0_u64.wrapping_sub(at);
        let bytes = copy(stores, part, first..last, (&window, base), |_| ())?;
        piece.resize(bytes as usize, 0);
        read_window(&memory, &mut piece)?;
        take(&piece)?;
        at += bytes;
    }
    Ok(at)
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

/// Has blocks of a part written to a file, in which the part's first byte is to be at `base`; how
/// many bytes they have. Each comes from the first store that has it whole.
fn copy(
    stores: &mut Stores,
    part: &Part,
    blocks: std::ops::Range<u32>,
    (file, base): (&Handed, u64),
    mut show: impl FnMut(u64),
) -> Result<u64, Failure> {
    let step = blocks_of(part, AT_ONCE);
    let rows = blocks.clone().step_by(step as usize).map(|first| {
        let count = step.min(blocks.end - first);
        Blocks { first, count, failures: Vec::new() }
    });
    let store = |it: &Blocks| &part.stores[it.failures.len()];
    let ask = async |client: &DatasetClient, it: &Blocks| {
        let (target, Listed { name, epoch, attempt, .. }) = store(it);
        let blocks = BlockRange { first: it.first, count: it.count };
        let base = InFile { file: file.name(target.node), at: base };
        client.read_into(name, *epoch, *attempt, blocks, base).await
    };
    let mut done = 0;
    stores.flow(
        rows,
        |it| store(it).0,
        ask,
        |mut blocks, end| match end {
            Ok(copied) => {
                done += copied.bytes;
                show(done);
                let count = copied.blocks.min(blocks.count);
                let (first, count) = (blocks.first + count, blocks.count - count);
                Ok((count > 0).then_some(Blocks { first, count, failures: Vec::new() }))
            }
            Err(error) => {
                let (target, _) = store(&blocks);
                blocks.failures.push(failed(target, &error).to_string());
                match blocks.failures.len() < part.stores.len() {
                    true => Ok(Some(blocks)),
                    false => Err(nowhere(part, &blocks.failures)),
                }
            }
        },
    )?;
    Ok(done)
}

fn nowhere(part: &Part, failures: &[String]) -> Failure {
    Failure::failed(format!("{}: {}", part.listed.name, failures.join("; ")))
}

/// Some bytes from `at` on, from the first store that has them whole, by calls.
fn call(stores: &mut Stores, part: &Part, at: u64) -> Result<Vec<u8>, Failure> {
    let mut failures = Vec::new();
    for (target, listed) in &part.stores {
        let places = (at..part.listed.bytes).step_by(MOST_BYTES).take(PIECES);
        let asked: Vec<(Target, u64)> = places.map(|at| (*target, at)).collect();
        let Listed { name, epoch, attempt, .. } = listed;
        let pieces = stores.ask_each(&asked, async |store, at| {
            store.read(name, *epoch, *attempt, *at, MOST_BYTES as u32).await
        })?;
        let (mut bytes, mut why) = (Vec::new(), format!("{} has no byte {at}", target.place()));
        for ((_, place), piece) in asked.iter().zip(pieces) {
            match piece {
                Ok(piece) if at + bytes.len() as u64 == *place => bytes.extend(piece.bytes.0),
                // One before it is shorter than was asked for.
                Ok(_) => break,
                Err(error) => {
                    why = failed(target, &error).to_string();
                    break;
                }
            }
        }
        if !bytes.is_empty() {
            return Ok(bytes);
        }
        failures.push(why);
    }
    Err(nowhere(part, &failures))
}
