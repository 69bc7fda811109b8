//! Every core reaches every core, itself included, at once; answers come in order.

use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::CoreId;
use nile_kernel::{Core, Join};
use nile_platform::Machine;

use crate::arguments::Arguments;
use crate::conduct::{conduct, conducts};
use crate::talk::Talk;

/// Asked from core to core.
const PING: u32 = 1;
/// How many of its asks a core tells the conductor.
const DONE: u32 = 2;

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let rounds = arguments.number("rounds", 20);
    let answerer = core.clone();
    core.spawn(async move {
        while let Ok(talk) = Talk::answer(&answerer, PING).await {
            answerer.spawn(async move {
                while let Ok(number) = talk.listen().await {
                    if talk.tell(number + 1).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    let asker = core.clone();
    core.spawn(async move {
        let Ok(talk) = Talk::answer(&asker, DONE).await else { return };
        if talk.listen().await.is_ok() {
            let asks: Vec<Join<u64>> = asker
                .peers()
                .map(|peer| {
                    let asker = asker.clone();
                    asker.clone().spawn(async move { good_answers(&asker, peer, rounds).await })
                })
                .collect();
            let mut good = 0;
            for ask in asks {
                good += ask.await;
            }
            // If the conductor is gone, nobody waits for the number.
            let _ = talk.tell(good).await;
        }
        // Keeps the channel open until the conductor has read it.
        asker.sleep(Duration::from_secs(60)).await;
    });
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "ping", move |findings| async move {
            let mut talks = Vec::new();
            for peer in core.peers() {
                let talk = Talk::start(&core, peer, DONE).await;
                talks.extend(findings.expect(talk, "no talk with a core"));
            }
            for talk in &talks {
                findings.expect(talk.tell(0).await, "a core cannot be told to begin");
            }
            let peers = core.peers().count() as u64;
            let mut good = 0;
            for talk in &talks {
                good += findings.expect(talk.listen().await, "a core did not end").unwrap_or(0);
            }
            findings.figure("round_trips", good);
            let wanted = peers * peers * rounds;
            findings.check(
                good == wanted,
                format_args!("{good} good answers of {wanted} between {peers} cores"),
            );
        });
    }
}

/// How many of `rounds` asks to `peer` were answered as they should.
async fn good_answers<M: Machine>(core: &Core<M>, peer: CoreId, rounds: u64) -> u64 {
    let Ok(talk) = Talk::start(core, peer, PING).await else { return 0 };
    let mut good = 0;
    for round in 0..rounds {
        match talk.ask(round * 3).await {
            Ok(answer) if answer == round * 3 + 1 => good += 1,
            _ => break,
        }
    }
    good
}
