//! A receiver goes from core to core while messages come. None is lost, doubled or out of order.

use core::time::Duration;

use nile_abi::CoreId;
use nile_kernel::{Core, Inbound};
use nile_platform::Machine;

use crate::arguments::Arguments;
use crate::conduct::{conduct, conducts};
use crate::talk::{Talk, heard, say};

/// The channel whose receiver moves.
const STREAM: u32 = 5;
/// Each core's word to the conductor about what it received.
const TOLD: u32 = 6;

/// What a receiving core tells the conductor.
const MOVED: u64 = 1 << 62;
const ENDED: u64 = 1 << 61;
const WRONG: u64 = 1 << 60;

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let total = arguments.number("messages", 2000);
    let stay = arguments.number("stay", 100).max(1);
    if !conducts(core) {
        let core = core.clone();
        core.clone().spawn(async move { receive(&core, total, stay).await });
        return;
    }
    let core = core.clone();
    conduct(&core.clone(), "moving", move |findings| async move {
        let mut talks = alloc::vec::Vec::new();
        for peer in core.peers().filter(|peer| *peer != CoreId::BOOT) {
            let talk = Talk::start(&core, peer, TOLD).await;
            talks.extend(findings.expect(talk, "no talk with a core"));
        }
        let [first, _, ..] = talks.as_slice() else {
            return findings.check(false, format_args!("moving takes three cores"));
        };
        let stream = core.open(first.out.to(), STREAM, 16).await;
        let Some(stream) = findings.expect(stream, "no stream") else { return };
        for number in 0..total {
            let sent = stream.send(&say(number)).await;
            if findings.expect(sent, "the stream broke").is_none() {
                return;
            }
            if number % 37 == 0 {
                // Lets the receiver fall asleep now and then.
                core.sleep(Duration::from_micros(30)).await;
            }
        }
        // The word about the end may come before those about the last moves.
        let wanted = total.div_ceil(stay) - 1;
        let mut moves = 0;
        let mut last = None;
        while last.is_none() || moves < wanted {
            for talk in &talks {
                while let Ok(Some(message)) = talk.back.try_receive() {
                    match heard(&message).unwrap_or(WRONG) {
                        word if word & MOVED != 0 => moves += 1,
                        word => last = Some(word),
                    }
                }
            }
            if last == Some(WRONG) {
                break;
            }
            core.sleep(Duration::from_micros(200)).await;
        }
        findings.check(last == Some(ENDED | total), format_args!("it ended with {last:x?}"));
        findings.figure("moves", moves);
    });
}

/// Receives for a while, then hands the stream to the next core; forever.
async fn receive<M: Machine>(core: &Core<M>, total: u64, stay: u64) {
    let Ok(talk) = Talk::answer(core, TOLD).await else { return };
    while let Ok(stream) = core.accept(STREAM).await {
        let word = match take_some(&stream, total, stay).await {
            Some(next) if next < total => {
                let to = next_core(core);
                if to == core.id() || stream.move_to(to).await.is_err() { WRONG } else { MOVED }
            }
            Some(all) => ENDED | all,
            None => WRONG,
        };
        if talk.tell(word).await.is_err() {
            return;
        }
    }
}

/// Takes messages until the next multiple of `stay`; the next number, or `None` if one was not
/// the expected.
async fn take_some<M: Machine>(stream: &Inbound<M>, total: u64, stay: u64) -> Option<u64> {
    let mut next: Option<u64> = None;
    loop {
        let number = heard(&stream.receive().await.ok()?)?;
        if next.is_some_and(|next| next != number) {
            return None;
        }
        let expected = number + 1;
        next = Some(expected);
        if expected == total || expected.is_multiple_of(stay) {
            return Some(expected);
        }
    }
}

/// The core after this one that is not the conductor.
fn next_core<M: Machine>(core: &Core<M>) -> CoreId {
    let last = core.peers().last().unwrap_or(core.id());
    if core.id() == last { CoreId(1) } else { CoreId(core.id().0 + 1) }
}
