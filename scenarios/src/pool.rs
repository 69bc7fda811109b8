//! Buffers of the node's pool go from core to core; nothing of them is copied, none is lost, and
//! what a core had when it ended is free again.

use alloc::vec::Vec;

use nile_abi::{CoreId, Generation};
use nile_kernel::{Core, Pool};
use nile_platform::Machine;
use nile_ring::{Buffer, ClaimError, Handle, Message};

use crate::conduct::{Findings, conduct, conducts};
use crate::restart::wait_for;
use crate::talk::Talk;
use crate::tickless::last_worker;

const PASS: u32 = 9;
/// What a message says besides a handle.
const MARK: u8 = 1;
const TAKE_AND_PANIC: u8 = 2;

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>) {
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "pool", move |findings| async move {
            if core.pool().is_none() {
                return findings.check(false, format_args!("the configuration gives no pool"));
            }
            goes_around(&core, &findings).await;
            comes_back(&core, &findings).await;
        });
        return;
    }
    let core = core.clone();
    core.clone().spawn(async move {
        while let Ok(talk) = Talk::answer(&core, PASS).await {
            let marker = core.clone();
            core.spawn(async move { while mark(&marker, &talk).await.is_some() {} });
        }
    });
}

/// Writes this core's mark into the buffer that comes, and sends it back.
async fn mark<M: Machine>(core: &Core<M>, talk: &Talk<M>) -> Option<()> {
    let message = talk.back.receive().await.ok()?;
    let pool = core.pool()?;
    let mut buffer = pool.claim(Handle::from_bytes(message.payload())?).ok()?;
    if message.kind() == TAKE_AND_PANIC {
        // One of its own, one that nobody claims, and the one that came.
        let (_own, lost) = (pool.alloc()?, pool.alloc()?.into_handle(1));
        let told = talk.out.send(&say(MARK, lost)).await;
        panic!("the conductor asked for it, after {told:?}");
    }
    let length = buffer.len();
    let place = usize::from(core.id().0) % length;
    buffer[place] = buffer[place].wrapping_add(1);
    let handle = buffer.into_handle(length);
    talk.out.send(&say(MARK, handle)).await.ok()
}

fn say(tag: u8, handle: Handle) -> Message {
    Message::new(tag, &handle.to_bytes()).expect("a handle fits a cell")
}

/// As many buffers as there are visit every core.
async fn goes_around<M: Machine>(core: &Core<M>, findings: &Findings) {
    let Some(pool) = core.pool() else { return };
    let mut peers = Vec::new();
    for peer in core.peers().filter(|peer| *peer != CoreId::BOOT) {
        let talk = Talk::start(core, peer, PASS).await;
        peers.extend(findings.expect(talk, "no talk with a core"));
    }
    let mut buffers: Vec<Buffer> = core::iter::from_fn(|| pool.alloc_any()).collect();
    findings.check(buffers.len() == pool.capacity(), format_args!("{} at first", buffers.len()));
    for (number, buffer) in buffers.iter_mut().enumerate() {
        buffer.fill(number as u8);
    }
    let addresses: Vec<_> = buffers.iter().map(|buffer| pool.address_of(buffer)).collect();
    for (number, mut buffer) in buffers.into_iter().enumerate() {
        let length = buffer.len();
        for talk in &peers {
            let sent = talk.out.send(&say(MARK, buffer.into_handle(length))).await;
            findings.check(sent.is_ok(), format_args!("a send gives {sent:?}"));
            let Ok(back) = talk.back.receive().await else {
                return findings.check(false, format_args!("a core is gone"));
            };
            let claimed = Handle::from_bytes(back.payload()).map(|handle| pool.claim(handle));
            match claimed {
                Some(Ok(claimed)) => buffer = claimed,
                other => {
                    return findings.check(false, format_args!("buffer {number} is {other:?}"));
                }
            }
        }
        let marked = buffer.iter().enumerate().all(|(at, byte)| {
            let marks = peers.iter().filter(|talk| usize::from(talk.out.to().0) % length == at);
            *byte == (number as u8).wrapping_add(marks.count() as u8)
        });
        let stays = pool.address_of(&buffer) == addresses[number];
        findings.check(marked && stays, format_args!("buffer {number}: {marked} {stays}"));
    }
    all_free(pool, findings, "after all went around");
    findings.figure("buffers", pool.capacity() as u64);
}

/// A core ends with a buffer that it claimed, one that it took, and one in flight.
async fn comes_back<M: Machine>(core: &Core<M>, findings: &Findings) {
    let (Some(pool), Some(worker)) = (core.pool(), last_worker(core)) else { return };
    let talk = Talk::start(core, worker, PASS).await;
    let Some(talk) = findings.expect(talk, "no talk with the worker") else { return };
    let Some(buffer) = pool.alloc() else { return };
    let _ = talk.out.send(&say(TAKE_AND_PANIC, buffer.into_handle(1))).await;
    // The word may come or be lost with its sender; the next incarnation takes it back anyway.
    let lost = talk.back.receive().await.ok();
    wait_for(core, worker, Generation(2)).await;
    all_free(pool, findings, "after the worker came back");
    let claimed = lost.and_then(|it| Handle::from_bytes(it.payload())).map(|it| pool.claim(it));
    let stale = matches!(claimed, None | Some(Err(ClaimError::Stale)));
    findings.check(stale, format_args!("the lost buffer is {claimed:?}"));
}

fn all_free(pool: &Pool, findings: &Findings, when: &str) {
    let (free, all) = (pool.free_buffers(), pool.capacity());
    findings.check(free == all, format_args!("{free} of {all} buffers are free {when}"));
}
