//! The scenarios `pool` and `pool-refused`: every core, thread or process, has the same pool,
//! whether Linux gives it pages of 2 MiB or not.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use nile_abi::{CoreId, Generation};
use nile_platform::{Machine, Manager, Outcome};
use nile_platform_hosted::{Hosted, HostedManager};
use nile_ring::{Handle, Pool, PoolId, Region};

use super::scenarios::C1;
use super::script::{Played, ensure, manager, serve, wait_for, wait_until_runs, wake};

/// The scenario in which Linux refuses what large pages need.
pub const REFUSED: &str = "pool-refused";

/// Bytes of the node's pool, and of its buffers.
pub const POOL: u64 = 8 << 20;
const BUFFER: usize = 1 << 20;

const ID: PoolId = PoolId(1);

/// The words of a core's control rings in which a handle lies, behind the number of its turn.
const TURN: usize = 0;
const HANDLE: usize = 1;
const WORDS: usize = Handle::BYTES.div_ceil(size_of::<u64>());

/// The word of `core` for the number of its turn, and those for a handle.
fn words(machine: &Hosted, core: CoreId) -> (&'static AtomicU64, &'static [AtomicU64]) {
    let region: &'static Region = Box::leak(Box::new(machine.control(core)));
    (&region.words()[TURN], &region.words()[HANDLE..HANDLE + WORDS])
}

fn leave(words: &[AtomicU64], handle: Handle) {
    let mut bytes = [0; WORDS * size_of::<u64>()];
    bytes[..Handle::BYTES].copy_from_slice(&handle.to_bytes());
    for (word, bytes) in words.iter().zip(bytes.as_chunks().0) {
        word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
    }
}

fn taken(words: &[AtomicU64]) -> Option<Handle> {
    let bytes = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes());
    Handle::from_bytes(&bytes.collect::<Vec<u8>>())
}

/// The management core's part: all buffers are clear, and each goes once through both workers,
/// the second of which is restarted in between.
pub fn script(machine: &Hosted, refused: bool) -> Played {
    let facts = manager(machine).handoff().node.facts;
    let fact = facts.iter().find(|fact| fact.starts_with("pool: ")).ok_or("no fact")?;
    let large = fact == "pool: 2 MiB pages";
    ensure!(large || fact.starts_with("pool: pages like the arena's ("), "{fact}");
    ensure!(!(refused && large), "pages of 2 MiB without the right to mount");

    let (start, memory) = machine.pool().ok_or("no pool")?;
    let bytes = memory.bytes();
    ensure!(bytes as u64 == POOL, "the pool has {bytes} bytes");
    let pool = Pool::open(memory, ID, BUFFER).map_err(|error| error.to_string())?;
    let mut buffers = Vec::new();
    while let Some(mut buffer) = pool.alloc_any() {
        ensure!(buffer.iter().all(|byte| *byte == 0), "the pool is not clear");
        buffer.fill(1);
        buffers.push(buffer);
    }
    ensure!(buffers.len() >= 4, "{} buffers", buffers.len());

    wait_until_runs(machine, C1, 1)?;
    let mut turn = 0;
    for mut buffer in buffers {
        for core in [C1, CoreId(2)] {
            let (number, handle) = words(machine, core);
            turn += 2;
            leave(handle, buffer.into_handle(BUFFER));
            number.store(turn, Ordering::Release);
            wake(machine, core);
            let answered = || number.load(Ordering::Acquire) == turn + 1;
            wait_for(machine, &format!("{core} passes the buffer back"), answered)?;
            let handle = taken(handle).ok_or("no handle")?;
            buffer = pool.claim(handle).map_err(|error| error.to_string())?;
        }
        ensure!(buffer.iter().all(|byte| *byte == 3), "a worker wrote something else");
    }
    ensure!(machine.board().record(CoreId(2)).generation() == Generation(2), "c2 lives on");

    let mapped = mapped_large(HostedManager::SHARED_BASE.0 + start.0);
    // All of it, unless free memory is in small pieces now.
    ensure!((mapped > 0) == large, "{mapped} bytes in pages of 2 MiB, and {fact:?}");
    let mounts = fs::read_to_string("/proc/mounts").map_err(|error| error.to_string())?;
    ensure!(!mounts.contains("huge=always,size=8192k"), "the pool is mounted somewhere");
    if !large && !refused {
        machine.log(format_args!("not tested, {fact}"));
    }
    Ok(())
}

/// A worker's part: it adds one to every byte of what it is given. The second worker ends first.
pub fn worker(machine: &Hosted) -> Outcome {
    if machine.core() == CoreId(2) && machine.generation() == Generation::FIRST {
        panic!("on purpose");
    }
    let (number, handle) = words(machine, machine.core());
    let mut memory = machine.pool().map(|(_, memory)| memory);
    let mut pool = None;
    serve(machine, || {
        let turn = number.load(Ordering::Acquire);
        if turn == 0 || turn % 2 == 1 {
            return;
        }
        // It is formatted now.
        if let Some(memory) = memory.take() {
            pool = Pool::join(memory, ID).ok();
        }
        let claimed = taken(handle).zip(pool.as_ref()).map(|(handle, pool)| pool.claim(handle));
        let Some(Ok(mut buffer)) = claimed else { return };
        buffer.iter_mut().for_each(|byte| *byte += 1);
        leave(handle, buffer.into_handle(BUFFER));
        number.store(turn + 1, Ordering::Release);
        wake(machine, CoreId::BOOT);
    })
}

/// Bytes of this process's mapping at `start` that are in pages of 2 MiB.
fn mapped_large(start: u64) -> u64 {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let of_it = maps.lines().skip_while(|line| !line.starts_with(&format!("{start:x}-")));
    let kibibytes = of_it.filter_map(|line| line.strip_prefix("ShmemPmdMapped:")).next();
    let number = kibibytes.and_then(|text| text.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0u64) << 10
}
