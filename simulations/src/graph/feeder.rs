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
        let all: Option<Vec<_>> = (0..world.parts.len()).map(|it| world.open(it)).collect();
        let Some(all) = all else { continue };
        // Some of the next ones, and some of before.
        let mut said: Vec<usize> = Vec::new();
        for _ in 0..1 + world.below(6) {
            let ahead = world.below(8) as usize;
            said.extend(open.iter().nth(ahead.min(open.len() - 1)));
            if world.below(4) == 0 {
                said.push(world.below(events.len() as u64) as usize);
            }
        }
        let call =
            Call { source, events: said.iter().map(|at| events[*at]).collect(), ..Call::default() };
        let part = world.part(0);
        let calls = if part.is_divided() { part.divide(call) } else { Vec::from([call]) };
        let mut marks = Vec::new();
        for (kept, call) in all.iter().zip(calls) {
            pause().await;
            let offered = kept.live.borrow_mut().offer(0, call);
            marks.extend(offered.filter(|it| it.0.ahead == 0).map(|it| it.1));
        }
        if marks.len() < all.len() {
            continue;
        }
        let mut are_kept = true;
        for (number, (kept, mark)) in all.iter().zip(marks).enumerate() {
            let is_kept = || world.conduct.is_hasty || kept.live.borrow().kept() >= mark;
            while !is_kept() && world.has(number, kept) {
                pause().await;
            }
            are_kept &= is_kept();
        }
        if are_kept {
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
