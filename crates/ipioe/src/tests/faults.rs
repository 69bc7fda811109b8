//! Networks that lose, double, delay and change frames: every call ends once, is done at most
//! once, and gets the reply that was given.

use std::boxed::Box;
use std::collections::{BTreeMap, BTreeSet};
use std::vec;
use std::vec::Vec;

use core::time::Duration;

use nile_abi::Status;
use proptest::prelude::*;

use super::network::*;
use crate::rtt::Jitter;
use crate::{End, Event};

/// What a callee makes of a token, so that a reply to another call would show.
fn answer(token: u64, bytes: usize) -> Vec<u8> {
    let mut data = vec![token as u8; bytes];
    data.splice(..0, (!token).to_be_bytes());
    data
}

#[derive(Clone, Copy, Debug)]
struct Faults {
    loss: u64,
    double: u64,
    late: u64,
    corrupt: u64,
}

/// Faults in percent.
fn fate(faults: Faults, seed: u64) -> Fate {
    let mut random = Jitter(seed);
    Box::new(move |_, frame| {
        let mut chance = |percent| random.next() % 100 < percent;
        let (lost, twice) = (chance(faults.loss), chance(faults.double));
        let (late, bad) = (chance(faults.late), chance(faults.corrupt));
        if bad {
            let at = (random.next() % frame.len() as u64) as usize;
            frame[at] ^= 1 << (random.next() % 8);
        }
        let copies = if lost { 0 } else { 1 + usize::from(twice) };
        let delay = |random: &mut Jitter| {
            let micros = if late { random.next() % 30_000 } else { random.next() % 100 };
            Duration::from_micros(10 + micros)
        };
        (0..copies).map(|_| delay(&mut random)).collect()
    })
}

fn run(faults: Faults, key: Option<u8>, seed: u64, calls: u64) -> Result<(), TestCaseError> {
    let mut network = Network::new(nodes(3, key));
    network.fate = fate(faults, seed);
    let mut random = Jitter(seed ^ 1);
    let mut open = BTreeMap::new();
    let mut done = BTreeSet::new();
    let (mut made, mut answered) = (0, 0);
    let end = network.later(60_000);
    loop {
        if made < calls && open.len() < 20 {
            let (from, to) = ((random.next() % 3) as usize, (random.next() % 3) as u32 + 1);
            if from as u32 + 1 != to {
                let sizes = [(0, 0), (100, 20), (0, 9000), (20_000, 3), (1404, 1404)];
                let (asks, gets) = sizes[(random.next() % 5) as usize];
                let deadline = network.later(50 + random.next() % 4000);
                let mut data = made.to_be_bytes().to_vec();
                data.extend((gets as u32).to_be_bytes());
                data.resize(12 + asks, 7);
                let node = &mut network.nodes[from];
                let call = node.call(network.now, request(to, deadline), data).expect("room");
                open.insert((from, call), (made, gets, deadline));
                made += 1;
            }
        }
        if made == calls && open.is_empty() {
            break;
        }
        prop_assert!(network.step(end) || open.is_empty(), "{:?} never ended", open);
        for node in 0..3 {
            while let Some(event) = network.events[node].pop_front() {
                match event {
                    Event::Request { serving, data, .. } => {
                        let token = u64::from_be_bytes(data[..8].try_into().expect("eight"));
                        let size = u32::from_be_bytes(data[8..12].try_into().expect("four"));
                        prop_assert!(done.insert(token), "{token} is done twice");
                        prop_assert!(data[12..].iter().all(|byte| *byte == 7));
                        let reply = answer(token, size as usize);
                        let now = network.now;
                        let _ = network.nodes[node].reply(now, serving, Status::Ok, true, reply);
                    }
                    Event::Ended { call, end } => {
                        let it = open.remove(&(node, call));
                        let (token, size, deadline) = it.expect("a call ends once");
                        prop_assert!(network.now <= deadline);
                        match end {
                            End::Answered { status, data, .. } => {
                                prop_assert_eq!(status, Status::Ok);
                                prop_assert_eq!(data, answer(token, size));
                                prop_assert!(done.contains(&token));
                                answered += 1;
                            }
                            End::TimedOut => prop_assert_eq!(network.now, deadline),
                            End::Dead => prop_assert!(false, "nobody died"),
                        }
                    }
                    Event::Met { .. } | Event::Cancelled { .. } => {}
                    other => prop_assert!(false, "{:?}", other),
                }
            }
        }
    }
    prop_assert!(answered * 10 >= calls * 7, "only {} of {} were answered", answered, calls);
    network.run(6000);
    for node in &network.nodes {
        let usage = node.usage();
        prop_assert_eq!((usage.calls, usage.bytes), (0, 0));
        prop_assert!(usage.remembered <= 40, "{:?}", usage);
        prop_assert_eq!(node.counters().unexpected, 0, "{:?}", node.counters());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn calls_survive(
        (loss, double, late, corrupt) in (0u64..20, 0u64..30, 0u64..30, 0u64..10),
        key in proptest::option::of(Just(1)),
        seed in any::<u64>(),
    ) {
        run(Faults { loss, double, late, corrupt }, key, seed, 150)?;
    }
}

#[test]
fn a_loss_costs_milliseconds_once_a_round_trip_is_known() {
    let mut network = Network::new(nodes(2, Some(1)));
    network.call(b"", b"");
    // The next request is lost, and then its reply.
    for lost in [0, 1] {
        let mut is_first = true;
        network.fate = Box::new(move |from, _| {
            let is_lost = from == lost && core::mem::take(&mut is_first);
            if is_lost { vec![] } else { vec![DELAY] }
        });
        let start = network.now;
        network.call(b"", b"");
        let took = network.now - start;
        assert!(took < Duration::from_millis(10), "{took:?}");
    }
}
