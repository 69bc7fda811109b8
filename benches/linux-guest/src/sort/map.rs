//! Map tasks. The records of each block move to another one, grouped by the buckets of parts. What
//! another guest has of that is sent there, and what comes from there is kept as it was sent.

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use nile_sort::{Groups, Layout, Plan, Tally, Tera};
use nile_tera::records::Records;

use super::{Grouped, MOVERS, Request, read_blocks};
use crate::blocks::Disk;
use crate::peer::{Peer, Piece};
use crate::{Outcome, system};

/// Blocks that are read and not yet grouped: each thread has one, and one waits for it.
pub fn in_flight(threads: usize) -> usize {
    MOVERS + 2 * threads
}

/// Memory that goes around.
struct Store<'m> {
    free: Sender<&'m mut [u8]>,
    frees: Mutex<Receiver<&'m mut [u8]>>,
}

impl<'m> Store<'m> {
    fn new(memory: Vec<&'m mut [u8]>) -> Store<'m> {
        let (free, frees) = channel();
        let store = Store { free, frees: Mutex::new(frees) };
        memory.into_iter().for_each(|block| store.put(block));
        store
    }

    /// Waits for a block: there always is one in use that comes back.
    fn take(&self) -> &'m mut [u8] {
        self.frees.lock().expect("nobody panics").recv().expect("its sender is beside it")
    }

    /// A block, if one is left.
    fn try_take(&self) -> Outcome<&'m mut [u8]> {
        let block = self.frees.lock().expect("nobody panics").try_recv();
        block.map_err(|_| "more blocks came than there is memory for".into())
    }

    fn put(&self, block: &'m mut [u8]) {
        self.free.send(block).expect("its receiver is beside it");
    }
}

/// Reads all blocks, groups their records, and shares them with the other guest, if there is one.
pub fn map<'m>(
    request: &Request,
    disk: &Disk,
    plan: &Plan,
    peer: Option<&mut Peer>,
    mut memory: Vec<&'m mut [u8]>,
) -> Outcome<(Vec<Grouped<'m>>, Tally)> {
    let inputs = Store::new(memory.split_off(memory.len() - in_flight(request.threads)));
    let rooms = Store::new(memory);
    let count = AtomicUsize::new(0);
    let next = || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        (number < request.blocks()).then(|| (number, inputs.take()))
    };
    let (sender, read) = channel();
    let read = Mutex::new(read);
    let (piece, pieces) = channel();
    let ways = peer.map(Peer::ways).transpose()?;
    thread::scope(|scope| {
        let movers: Vec<_> = (0..MOVERS)
            .map(|_| {
                let (next, sender) = (&next, sender.clone());
                scope.spawn(move || read_blocks(request, disk, next, &sender))
            })
            .collect();
        drop(sender);
        let workers: Vec<_> = request
            .workers
            .iter()
            .map(|cpu| {
                let grouping = Grouping {
                    request,
                    groups: Groups::new(plan.clone(), NonZeroU32::MIN),
                    rooms: &rooms,
                    pieces: piece.clone(),
                    blocks: Vec::new(),
                    tally: Tally::default(),
                };
                let (read, inputs) = (&read, &inputs);
                scope.spawn(move || group_blocks(*cpu, read, inputs, grouping))
            })
            .collect();
        drop(piece);
        let rooms = &rooms;
        let exchange = ways.map(|(mut out, mut back)| {
            let sending = scope.spawn(move || {
                system::pin(&request.movers)?;
                pieces.into_iter().try_for_each(|piece: Piece<'m>| out.send(&piece))?;
                out.end()
            });
            let receiving = scope.spawn(move || {
                system::pin(&request.movers)?;
                let mut all = Vec::new();
                while let Some(piece) = back.receive(request.threads, || rooms.try_take())? {
                    all.push(grouped(piece.number, piece.bytes, &piece.parts));
                }
                Outcome::Ok(all)
            });
            (sending, receiving)
        });
        let (mut all, mut tally) = (Vec::new(), Tally::default());
        for worker in workers {
            let (blocks, sums) = worker.join().expect("it never panics")?;
            all.extend(blocks);
            tally += sums;
        }
        for mover in movers {
            mover.join().expect("it never panics")?;
        }
        if let Some((sending, receiving)) = exchange {
            sending.join().expect("it never panics")?;
            all.extend(receiving.join().expect("it never panics")?);
        }
        Ok((all, tally))
    })
}

/// What a thread that sorts does with what has been read.
fn group_blocks<'m>(
    cpu: usize,
    read: &Mutex<Receiver<(usize, &'m mut [u8])>>,
    inputs: &Store<'m>,
    mut grouping: Grouping<'_, 'm>,
) -> Outcome<(Vec<Grouped<'m>>, Tally)> {
    let mut outcome = system::pin(&[cpu]);
    loop {
        let next = read.lock().expect("nobody panics").recv();
        let Ok((number, memory)) = next else {
            return outcome.map(|()| (grouping.blocks, grouping.tally));
        };
        // Readers wait for memory, also if nothing comes of it any more.
        outcome = outcome.and_then(|()| grouping.add(number, memory));
        inputs.put(memory);
    }
}

/// Blocks on their way through one thread.
struct Grouping<'a, 'm> {
    request: &'a Request,
    groups: Groups,
    rooms: &'a Store<'m>,
    /// Takes what the other guest is to have.
    pieces: Sender<Piece<'m>>,
    blocks: Vec<Grouped<'m>>,
    tally: Tally,
}

impl<'m> Grouping<'_, 'm> {
    fn add(&mut self, number: usize, memory: &[u8]) -> Outcome<()> {
        let Grouping { request, groups, .. } = self;
        let records = &memory[..request.range(number).len() * Tera::LENGTH];
        let room = self.rooms.try_take()?;
        let first = request.position(number);
        let made = groups.make::<Records>(&[records], first, &mut [&mut *room]);
        self.tally += made.map_err(|error| error.to_string())?;
        let (room, number) = (&*room, first.0 as usize);
        for node in 0..request.nodes {
            let parts = node * request.threads..(node + 1) * request.threads;
            let parts: Vec<_> = parts.map(|part| range(groups, part, records.len())).collect();
            if node == request.node {
                self.blocks.push(grouped(number, room, &parts));
                continue;
            }
            let (Some(first), Some(last)) = (parts.first(), parts.last()) else { continue };
            let bytes = &room[first.start..last.end];
            let parts = parts.iter().map(|it| it.start - first.start..it.end - first.start);
            let piece = Piece { number, bytes, parts: parts.collect() };
            self.pieces.send(piece).map_err(|_| "nobody sends what the other guest is to have")?;
        }
        Ok(())
    }
}

/// Where a part lies among the records of one block, which has so many bytes.
fn range(groups: &Groups, part: usize, bytes: usize) -> Range<usize> {
    match groups.class(part).next() {
        Some((0, range)) => range,
        // Nothing, behind a buffer that is full.
        _ => bytes..bytes,
    }
}

/// What lies in these ranges, which begin anywhere in `bytes`.
fn grouped<'m>(number: usize, bytes: &'m [u8], parts: &[Range<usize>]) -> Grouped<'m> {
    let parts = parts.iter().map(|range| &bytes[range.clone()]);
    Grouped { number, parts: parts.collect() }
}
