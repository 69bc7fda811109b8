//! Reduce tasks: each thread that sorts puts a part in order, and the threads that read before
//! write it.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use nile_sort::{Layout, Plan, Sorted, Tally, Tera};
use nile_tera::records::Records;
use nile_tera::sort::MOST_ENTRIES;

use super::{Grouped, MOVERS, Request};
use crate::blocks::Disk;
use crate::{Outcome, system};

/// A part of the output: its blocks on the disk with the bytes of each, and its tally.
#[derive(Default)]
pub struct Part {
    pub blocks: Vec<(usize, usize)>,
    pub tally: Tally,
}

/// A filled block on its way to the disk.
struct Filled<'m> {
    number: usize,
    bytes: usize,
    memory: &'m mut [u8],
}

/// Writes the parts, each of which one thread puts in order.
pub fn reduce(
    request: &Request,
    disk: &Disk,
    plan: &Plan,
    blocks: &[Grouped<'_>],
    outputs: Vec<&mut [u8]>,
) -> Outcome<Vec<Part>> {
    let (free, frees) = channel();
    outputs.into_iter().for_each(|memory| free.send(memory).expect("its receiver is here"));
    let (fill, fills) = channel::<Filled<'_>>();
    let (frees, fills) = (Mutex::new(frees), Mutex::new(fills));
    thread::scope(|scope| {
        let movers: Vec<_> = (0..MOVERS)
            .map(|_| {
                let (fills, free) = (&fills, free.clone());
                scope.spawn(move || write_blocks(request, disk, fills, &free))
            })
            .collect();
        drop(free);
        let workers: Vec<_> = (0..request.threads)
            .map(|part| {
                let (frees, fill) = (&frees, fill.clone());
                scope.spawn(move || put_out(request, part, plan, blocks, frees, &fill))
            })
            .collect();
        drop(fill);
        let parts = workers.into_iter().map(|worker| worker.join().expect("it never panics"));
        let parts = parts.collect::<Outcome<Vec<Part>>>();
        for mover in movers {
            mover.join().expect("it never panics")?;
        }
        parts
    })
}

/// A writer's work.
fn write_blocks<'m>(
    request: &Request,
    disk: &Disk,
    fills: &Mutex<Receiver<Filled<'m>>>,
    free: &Sender<&'m mut [u8]>,
) -> Outcome<()> {
    system::pin(&request.movers)?;
    loop {
        let next = fills.lock().expect("nobody panics").recv();
        let Ok(Filled { number, bytes, memory }) = next else { return Ok(()) };
        disk.write(number, bytes, memory)?;
        // Whoever would take it may have all that it needs.
        let _ = free.send(memory);
    }
}

/// What a thread that sorts does with its part.
fn put_out<'m>(
    request: &Request,
    part: usize,
    plan: &Plan,
    blocks: &[Grouped<'_>],
    frees: &Mutex<Receiver<&'m mut [u8]>>,
    fill: &Sender<Filled<'m>>,
) -> Outcome<Part> {
    system::pin(&[request.workers[part]])?;
    let blocks = blocks.iter().map(|it| it.parts[part]).collect();
    let starts = plan.starts(request.first_part() + part);
    let mut sorted =
        Sorted::new::<Records>(blocks, starts, MOST_ENTRIES).map_err(|error| error.to_string())?;
    let mut made = Part::default();
    loop {
        let memory = frees.lock().expect("nobody panics").recv();
        let memory = memory.map_err(|_| "nobody writes what is sorted")?;
        let room = request.of_block * Tera::LENGTH;
        let records = sorted.fill::<Records>(&mut memory[..room]);
        let bytes = records.map_err(|error| error.to_string())? * Tera::LENGTH;
        if bytes == 0 {
            return Ok(made);
        }
        memory[..bytes].chunks_exact(Tera::LENGTH).for_each(|record| made.tally.add(record));
        // Behind the input each part has room for all of it.
        let number = request.blocks() * (1 + part) + made.blocks.len();
        made.blocks.push((number, bytes));
        fill.send(Filled { number, bytes, memory }).map_err(|_| "nobody writes what is sorted")?;
    }
}
