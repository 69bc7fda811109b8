//! A source: it says its events in about their order, again and again, until each is acknowledged.
//! One that is killed begins anew with its first.

use std::collections::BTreeSet;
use std::rc::Rc;

use nile_graph::Call;

use super::World;
use super::steps::pause;

/// Says all its events.
pub async fn run(world: Rc<World>, feeder: usize) {
    let source = 1 + feeder as u64;
    let events = &world.events[feeder];
    let mut open: BTreeSet<usize> = (0..events.len()).collect();
    while !open.is_empty() {
        pause().await;
        let host = world.below(world.open.len() as u64) as usize;
        let Some(kept) = world.open[host].borrow().clone() else { continue };
        // Some of the next ones, and some of before.
        let mut said: Vec<usize> = Vec::new();
        for _ in 0..1 + world.below(6) {
            let ahead = world.below(8) as usize;
            said.extend(open.iter().nth(ahead.min(open.len() - 1)));
            if world.below(4) == 0 {
                said.push(world.below(events.len() as u64) as usize);
            }
        }
        let call = Call {
            source,
            until: 0,
            events: said.iter().map(|at| events[*at]).collect(),
            rejects: Vec::new(),
        };
        let offered = kept.live.borrow_mut().offer(0, call);
        let Some((_, mark)) = offered else { continue };
        let is_there = || {
            let there = world.open[host].borrow();
            there.as_ref().is_some_and(|it| Rc::ptr_eq(it, &kept))
        };
        while !world.conduct.is_hasty && kept.live.borrow().kept() < mark && is_there() {
            pause().await;
        }
        if world.conduct.is_hasty || kept.live.borrow().kept() >= mark {
            let mut acknowledged = world.acknowledged.borrow_mut();
            for at in said {
                acknowledged.insert((source, at as u64));
                open.remove(&at);
            }
        }
    }
    world.note(&format!("{feeder} is in"));
    world.fed.set(world.fed.get() + 1);
}
