//! What disks cost: a core that drives one writes and reads a part of it again and again, several
//! requests at once.
//!
//! `write` and `read` are the middle round's nanoseconds for a MiB.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::PageSize;
use nile_device::{DrivenDisk, Transfer};
use nile_kernel::{Core, Frame};
use nile_platform::Machine;

use crate::arguments::Arguments;
use crate::conduct::{conduct, conducts};
use crate::talk::Talk;

const BEGIN: u32 = 10;

/// Requests that are under way at once.
const DEPTH: usize = 4;

#[derive(Clone, Copy)]
struct Work {
    rounds: u64,
    /// Bytes of the part.
    bytes: u64,
    /// Bytes of a request, a part of 2 MiB.
    request: u64,
}

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let work = Work {
        rounds: arguments.number("rounds", 5).max(1),
        bytes: arguments.number("mib", 8).max(1) << 20,
        request: arguments.number("kib", 1024).clamp(4, 2048) << 10,
    };
    let driver = core.clone();
    core.spawn(async move {
        let Ok(talk) = Talk::answer(&driver, BEGIN).await else { return };
        while let Ok(writes) = talk.listen().await {
            let measured = match driver.disks().first() {
                Some(disk) => measure(&driver, disk, work, writes != 0).await,
                None => Ok(u64::MAX),
            };
            let measured = measured.unwrap_or_else(|error| {
                driver.machine().log(format_args!("{error}"));
                0
            });
            if talk.tell(measured).await.is_err() {
                break;
            }
        }
    });
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "disk-cost", move |findings| async move {
            for peer in core.peers() {
                let talk = Talk::start(&core, peer, BEGIN).await;
                let Some(talk) = findings.expect(talk, "no talk with a core") else { continue };
                for (writes, name) in [(1, "write"), (0, "read")] {
                    let measured = findings.expect(talk.ask(writes).await, "a core did not end");
                    match measured {
                        Some(u64::MAX) | None => {}
                        Some(nanos) => {
                            findings.check(nanos > 0, format_args!("{peer}: see its log"));
                            findings.figure(name, nanos);
                        }
                    }
                }
            }
        });
    }
}

/// The middle round's nanoseconds for a MiB.
async fn measure<M: Machine>(
    core: &Core<M>,
    disk: &Rc<DrivenDisk>,
    work: Work,
    writes: bool,
) -> Result<u64, String> {
    let mut frames = Vec::new();
    for _ in 0..DEPTH {
        let frame = core.allocate(PageSize::Large).await;
        frames.push(frame.map_err(|status| format!("no memory: {status}"))?);
    }
    let mut times = Vec::new();
    // The first round warms up.
    for _ in 0..=work.rounds {
        let begin = core.now();
        frames = round(disk, work, writes, frames).await?;
        times.push((core.now() - begin).as_nanos() as u64 / (work.bytes >> 20).max(1));
    }
    times.remove(0);
    times.sort_unstable();
    Ok(times[times.len() / 2].max(1))
}

async fn round<M: Machine>(
    disk: &Rc<DrivenDisk>,
    work: Work,
    writes: bool,
    mut free: Vec<Frame<M>>,
) -> Result<Vec<Frame<M>>, String> {
    let mut under_way: VecDeque<Transfer<Frame<M>>> = VecDeque::new();
    let mut at = 0;
    while at < work.bytes || !under_way.is_empty() {
        if at < work.bytes
            && let Some(frame) = free.pop()
        {
            let pieces = frame.piece(0, work.request).into_iter().collect();
            under_way.push_back(match writes {
                true => disk.write(at, pieces, frame),
                false => disk.read(at, pieces, frame),
            });
            at += work.request;
        } else if let Some(first) = under_way.pop_front() {
            let (result, frame) = first.await;
            result.map_err(|error| format!("{error}"))?;
            free.push(frame);
        }
    }
    Ok(free)
}
