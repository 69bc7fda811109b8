//! Map tasks of a guest alone: entries are made behind the records of each block, which stay where
//! they are.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use nile_sort::{Block, Index, Layout, Plan, Tally, Tera};
use nile_tera::records::Records;

use super::{Indexed, MOVERS, Request, read_blocks};
use crate::blocks::Disk;
use crate::{Outcome, system};

/// Reads all blocks and makes entries of their records.
pub fn map<'m>(
    request: &Request,
    disk: &Disk,
    plan: &Plan,
    memory: Vec<&'m mut [u8]>,
) -> Outcome<(Vec<Indexed<'m>>, Tally)> {
    let waiting = Mutex::new(memory.into_iter().enumerate());
    let next = || waiting.lock().expect("nobody panics").next();
    let (sender, read) = channel();
    let read = Mutex::new(read);
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
                let read = &read;
                scope.spawn(move || index_blocks(request, *cpu, plan, read))
            })
            .collect();
        let (mut all, mut tally) = (Vec::new(), Tally::default());
        for worker in workers {
            let (blocks, sums) = worker.join().expect("it never panics")?;
            all.extend(blocks);
            tally += sums;
        }
        for mover in movers {
            mover.join().expect("it never panics")?;
        }
        Ok((all, tally))
    })
}

/// What a thread that sorts does with what has been read.
fn index_blocks<'m>(
    request: &Request,
    cpu: usize,
    plan: &Plan,
    read: &Mutex<Receiver<(usize, &'m mut [u8])>>,
) -> Outcome<(Vec<Indexed<'m>>, Tally)> {
    system::pin(&[cpu])?;
    let mut index = Index::new(plan.clone());
    let (mut blocks, mut tally) = (Vec::new(), Tally::default());
    loop {
        let next = read.lock().expect("nobody panics").recv();
        let Ok((number, memory)) = next else { return Ok((blocks, tally)) };
        let bytes = request.range(number).len() * Tera::LENGTH;
        let (records, entries) = memory.split_at_mut(bytes);
        let made = index.make::<Records>(records, request.position(number), entries);
        tally += made.map_err(|error| error.to_string())?;
        let (records, entries) = (&*records, &*entries);
        let parts =
            (0..index.parts()).map(|part| Block { records, entries: &entries[index.part(part)] });
        blocks.push(Indexed { number, parts: parts.collect() });
    }
}
