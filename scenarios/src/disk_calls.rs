//! The disk service, called with buffers of the node's pool: they come back filled, or free.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Role, Status};
use nile_bosml::Buffer as Handle;
use nile_interfaces::disk::{Content, DiskClient, DiskEntry};
use nile_kernel::{Core, Pool};
use nile_platform::Machine;
use nile_ring::Buffer;
use nile_stl::node::{from_call, in_call};
use nile_stl::{CallError, CallResult, Stl};

use crate::conduct::Findings;

/// How long a core may take to publish its services.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where on a disk this writes: not where others do.
const PLACE: u64 = 5 << 20;

/// Calls the service of every disk core.
pub async fn check<M: Machine>(core: &Core<M>, findings: &Findings) {
    let Some(pool) = core.pool() else { return };
    let free = pool.free_buffers();
    let board = core.machine().board();
    let drives = |peer: &CoreId| board.record(*peer).roles().contains(Role::Disk);
    for peer in core.peers().filter(drives) {
        if let Err(error) = check_core(core, pool, peer, findings).await {
            findings.check(false, format_args!("the disk service of {peer}: {error}"));
        }
    }
    let left = pool.free_buffers();
    findings.check(left == free, format_args!("{left} buffers are free after, {free} before"));
}

async fn check_core<M: Machine>(
    core: &Core<M>,
    pool: &Pool,
    peer: CoreId,
    findings: &Findings,
) -> CallResult<()> {
    let client = client_at(&core.stl(), peer).await?;
    let disks = client.list().await?;
    for disk in &disks {
        let named = !disk.name.is_empty() && disk.bytes >= 8 << 20;
        findings.check(named, format_args!("{peer} has a disk {disk:?}"));
        check_disk(&client, pool, disk, findings).await?;
    }
    let unknown = disks.len() as u32;
    let refused = client.flush(unknown).await.map_err(|error| error.status);
    findings.check(refused == Err(Status::NotFound), format_args!("a disk too many: {refused:?}"));
    Ok(())
}

async fn check_disk(
    client: &DiskClient,
    pool: &Pool,
    disk: &DiskEntry,
    findings: &Findings,
) -> CallResult<()> {
    let sector = disk.sector as usize;
    let (first, second) = (pool.buffer_size(), 3 * sector);
    let sent = vec![filled(pool, 1, first)?, filled(pool, 2, second)?];
    let back = client.write(disk.number, PLACE, sent).await?;
    client.flush(disk.number).await?;
    // The same buffers, the other way round: the lengths are those of the handles.
    let mut back = claim(pool, back)?;
    let own = crc(&back);
    back.iter_mut().for_each(|buffer| buffer.fill(0));
    let to_fill: Vec<Handle> = back.into_iter().rev().map(hand_over).collect();
    let Content { buffers, checksum } = client.read(disk.number, PLACE, to_fill, true).await?;
    findings.check(checksum == own, format_args!("checksum {checksum:#x}, not {own:#x}"));
    let got = claim(pool, buffers)?;
    let lengths: Vec<usize> = got.iter().map(|buffer| buffer.len()).collect();
    findings.check(lengths == [second, first], format_args!("{lengths:?} bytes are back"));
    let all = got.iter().flat_map(|buffer| buffer.iter().copied());
    let expected = (0..first + second).map(|at| match at.checked_sub(first) {
        None => content(1, at),
        Some(at) => content(2, at),
    });
    findings.check(all.eq(expected), format_args!("what is read is not what was written"));
    drop(got);

    for (at, bytes) in [(disk.bytes, sector), (64, sector), (0, 64), (0, 100)] {
        let wrong = vec![filled(pool, 3, bytes)?];
        let refused = client.write(disk.number, at, wrong).await.map_err(|error| error.status);
        let told = refused == Err(Status::Invalid);
        findings.check(told, format_args!("{bytes} bytes to {at}: {refused:?}"));
    }
    let stale = Handle { pool: 0, index: 0, generation: u32::MAX, length: disk.sector };
    let refused = client.read(disk.number, 0, vec![stale], false).await.map(drop);
    let told = refused.map_err(|error| error.status) == Err(Status::Invalid);
    findings.check(told, format_args!("a made up handle is not refused"));
    Ok(())
}

/// The byte at a place of what is marked so.
pub fn content(mark: u8, at: usize) -> u8 {
    (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8) ^ mark
}

/// A buffer on its way, of which so many bytes are meant.
pub fn filled(pool: &Pool, mark: u8, bytes: usize) -> CallResult<Handle> {
    let mut buffer = pool.alloc().ok_or(CallError::from(Status::NoMemory))?;
    for (at, byte) in buffer[..bytes].iter_mut().enumerate() {
        *byte = content(mark, at);
    }
    Ok(in_call(buffer.into_handle(bytes)))
}

/// A buffer that is to be filled.
pub fn hand_over(buffer: Buffer) -> Handle {
    let bytes = buffer.len();
    in_call(buffer.into_handle(bytes))
}

/// The buffers that have come back.
pub fn claim(pool: &Pool, handles: Vec<Handle>) -> CallResult<Vec<Buffer>> {
    let stale = |_| CallError::new(Status::Invalid, "a handle that came back is stale");
    handles.into_iter().map(|it| pool.claim(from_call(it)).map_err(stale)).collect()
}

/// CRC-32C, bit by bit.
fn crc(buffers: &[Buffer]) -> u32 {
    let bytes = buffers.iter().flat_map(|buffer| buffer.iter());
    !bytes.fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum: u32, _| {
            sum >> 1 ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    })
}

/// The service of a core, once it is published.
async fn client_at(stl: &Stl, core: CoreId) -> CallResult<DiskClient> {
    let host = stl.host();
    let deadline = host.now() + PATIENCE;
    loop {
        match DiskClient::find_at(stl, core).await {
            Err(CallError { status: Status::NotFound | Status::Dead, .. })
                if host.now() < deadline =>
            {
                host.sleep_until(host.now() + Duration::from_micros(200)).await;
            }
            result => return result,
        }
    }
}
