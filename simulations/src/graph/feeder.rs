//! A source: it says its events in about their order, again and again, until each is acknowledged.
//! One that is killed begins anew with its first. Some have each call kept; others, as
//! `nile graph feed` does, have calls taken, later ask whether all is kept, and say it again if the
//! graph was opened anew meanwhile.

use std::collections::BTreeSet;
use std::rc::Rc;

use nile_graph::{Call, Event, Kept};

use super::shelf::Memory;
use super::steps::pause;
use super::{HOSTS, World};

/// Says all its events.
pub async fn run(world: Rc<World>, feeder: usize) {
    match world.below(2) {
        0 => insist(&world, feeder).await,
        _ => stream(&world, feeder).await,
    }
    world.note(&format!("{feeder} is in"));
    world.fed.set(world.fed.get() + 1);
}

/// Each call is over when what it gives is kept.
async fn insist(world: &World, feeder: usize) {
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
}

/// Calls are taken, and now and then it is asked whether all is kept.
async fn stream(world: &World, feeder: usize) {
    let (source, events) = (1 + feeder as u64, &world.events[feeder]);
    let mut feed = Feed { world, source, places: vec![0; world.parts.len()] };
    // What was taken, up to where it is kept; and who has taken it.
    let (mut kept, mut taken, mut life) = (0, 0, None);
    while kept < events.len() {
        pause().await;
        let asks = taken == events.len() || world.below(4) == 0;
        let upto = if asks { taken } else { events.len().min(taken + 1 + world.below(6) as usize) };
        let Some(told) = feed.say(&events[taken..upto], asks).await else { continue };
        if *life.get_or_insert(told) != told && !world.conduct.ignores_lives {
            // What another opening has taken may be lost.
            if feed.say(&events[kept..taken], false).await.is_some() {
                life = Some(told);
            }
            continue;
        }
        taken = upto;
        if asks {
            let all = (kept..taken).map(|at| (source, at as u64));
            world.acknowledged.borrow_mut().extend(all);
            kept = taken;
        }
    }
}

/// What is given to whoever had the parts when they were looked for last.
struct Feed<'a> {
    world: &'a World,
    source: u64,
    places: Vec<usize>,
}

impl Feed<'_> {
    /// Says something to all parts. Which openings have taken it, if they have; or, if it asks
    /// that, in whose logs all is that they have taken.
    async fn say(&mut self, events: &[Event], asks: bool) -> Option<u64> {
        let (source, events) = (self.source, events.to_vec());
        let call = Call { source, events, ..Call::default() };
        let part = self.world.part(0);
        let calls = if part.is_divided() { part.divide(call) } else { Vec::from([call]) };
        let mut asked = Vec::new();
        for (number, call) in calls.into_iter().enumerate() {
            pause().await;
            let kept = self.find(number)?;
            let offered = kept.live.borrow_mut().offer(0, call);
            let (_, mark) = offered.filter(|it| it.0.ahead == 0)?;
            asked.push((kept, mark));
        }
        let mut life = 0_u64;
        for (number, (kept, mark)) in asked.iter().enumerate() {
            let is_kept = || !asks || kept.live.borrow().kept() >= *mark;
            while !is_kept() && self.world.has(number, kept) {
                pause().await;
            }
            if !is_kept() {
                return None;
            }
            life = life.wrapping_mul(1 << 20).wrapping_add(kept.live.borrow().graph.life());
        }
        Some(life)
    }

    /// Whoever has a part where it was last, or somebody else.
    fn find(&mut self, part: usize) -> Option<Rc<Kept<Memory>>> {
        let place = &mut self.places[part];
        let kept = self.world.parts[part].open[*place].borrow().clone();
        if kept.is_none() {
            *place = self.world.below(HOSTS as u64) as usize;
        }
        kept
    }
}
