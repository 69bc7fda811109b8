//! What is remembered, for how long, and what happens when it is full.

use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use nile_abi::Status;

use super::network::*;
use crate::{End, Event, Refused};

/// The requests that a node has been told of and that the test has not looked at.
fn requests(network: &mut Network, node: usize) -> Vec<crate::ServingId> {
    let events = network.events[node].drain(..);
    events
        .filter_map(|event| match event {
            Event::Request { serving, .. } => Some(serving),
            _ => None,
        })
        .collect()
}

#[test]
fn a_request_that_comes_again_is_answered_again_and_not_done_again() {
    for key in [None, Some(1)] {
        let mut network = Network::new(nodes(2, key));
        network.call(b"", b"");
        // All replies are lost for a while.
        network.fate = Box::new(|from, _| if from == 1 { vec![] } else { vec![DELAY] });
        let deadline = network.later(5000);
        network.nodes[0].call(network.now, request(2, deadline), vec![1]).expect("room");
        let (serving, _) = network.wait_request(1);
        network.nodes[1].reply(network.now, serving, Status::Ok, false, vec![2]).expect("waited");
        network.run(500);
        network.fate = Box::new(|_, _| vec![DELAY]);
        assert!(matches!(network.wait_end(0), End::Answered { data, .. } if data == [2]));
        assert!(network.nodes[1].counters().duplicates > 3);
        assert_eq!(requests(&mut network, 1), []);
    }
}

#[test]
fn a_callee_at_work_is_asked_seldom() {
    let mut network = Network::new(nodes(2, Some(1)));
    let deadline = network.later(5000);
    network.nodes[0].call(network.now, request(2, deadline), vec![9; 60_000]).expect("room");
    let (serving, _) = network.wait_request(1);
    network.run(3000);
    let sent = network.nodes[0].counters().sent;
    assert!(sent < 47 + 30, "{sent} frames for a call that takes three seconds");
    network.nodes[1].reply(network.now, serving, Status::Ok, false, vec![]).expect("waited");
    assert!(matches!(network.wait_end(0), End::Answered { .. }));
}

#[test]
fn full_memory_answers_busy_and_the_call_is_never_done() {
    for key in [None, Some(1)] {
        let mut nodes = nodes(2, key);
        nodes[1].limits.remembered = 4;
        let mut network = Network::new(nodes);
        let deadline = network.later(2000);
        for call in 0..6 {
            network.nodes[0].call(network.now, request(2, deadline), vec![call]).expect("room");
        }
        network.run(50);
        let working = requests(&mut network, 1);
        assert_eq!(working.len(), 4);
        for _ in 0..2 {
            let end = network.wait_end(0);
            assert!(matches!(end, End::Answered { status: Status::Busy, .. }), "{end:?}");
        }
        assert_eq!(network.nodes[1].counters().busy, 2);
        // There is room again, and everything that was ever sent comes once more.
        for serving in working {
            network.nodes[1].reply(network.now, serving, Status::Ok, false, vec![]).expect("waits");
        }
        network.run(100);
        for frame in network.captured.clone() {
            network.nodes[1].receive(network.now, &frame);
        }
        network.run(100);
        assert_eq!(requests(&mut network, 1), []);
        assert_eq!(network.nodes[1].usage().remembered, 0);
        assert_eq!(network.call(b"a", b"b"), b"b");
    }
}

#[test]
fn a_call_is_not_done_again_after_it_was_forgotten() {
    // Without a key nothing but this memory keeps a late frame from being a new call.
    let mut network = Network::new(nodes(2, None));
    network.call(b"once", b"");
    let deadline = network.later(100);
    network.nodes[0].call(network.now, request(2, deadline), b"dies".to_vec()).expect("room");
    network.wait_request(1);
    network.run(10_000);
    assert_eq!(network.nodes[1].usage().bytes, 0);
    for frame in network.captured.clone() {
        network.nodes[1].receive(network.now, &frame);
    }
    network.run(1000);
    assert_eq!(requests(&mut network, 1), []);
    assert_eq!(network.call(b"a", b"b"), b"b");
}

#[test]
fn one_long_call_does_not_make_many_short_ones_remembered() {
    let mut network = Network::new(nodes(2, Some(1)));
    let deadline = network.later(60_000);
    network.nodes[0].call(network.now, request(2, deadline), b"long".to_vec()).expect("room");
    let (long, _) = network.wait_request(1);
    for _ in 0..2000 {
        network.call(b"short", b"");
        assert!(network.nodes[1].usage().remembered < 2000);
    }
    network.run(100);
    // The long one, and one range of those that are over.
    assert_eq!(network.nodes[1].usage().remembered, 2);
    network.nodes[1].reply(network.now, long, Status::Ok, false, b"end".to_vec()).expect("waits");
    assert!(matches!(network.wait_end(0), End::Answered { data, .. } if data == b"end"));
    network.run(100);
    network.call(b"", b"");
    network.run(100);
    assert_eq!(network.nodes[1].usage().remembered, 0);
}

#[test]
fn ids_wrap() {
    for key in [None, Some(1)] {
        let mut nodes = nodes(2, key);
        nodes[0].first_call = u64::from(u32::MAX) - 20;
        nodes[0].announced = u64::from(u32::MAX) - 1;
        let mut network = Network::new(nodes);
        for call in 0..100u8 {
            assert_eq!(network.call(&[call], &[!call]), [!call]);
            if call % 10 == 0 {
                let deadline = network.later(100);
                network.nodes[0].call(network.now, request(2, deadline), vec![]).expect("room");
                network.wait_request(1);
            }
        }
        for frame in network.captured.clone() {
            network.nodes[1].receive(network.now, &frame);
        }
        network.run(1000);
        assert_eq!(requests(&mut network, 1), []);
        network.call(b"", b"");
        network.run(100);
        assert_eq!(network.nodes[1].usage().remembered, 0);
    }
}

#[test]
fn a_cancelled_call_is_told_to_its_callee_and_ends_silently() {
    let mut network = Network::new(nodes(2, Some(1)));
    let deadline = network.later(60_000);
    let call = network.nodes[0].call(network.now, request(2, deadline), vec![]).expect("room");
    let (serving, _) = network.wait_request(1);
    network.nodes[0].cancel(network.now, call);
    let cancelled = network.wait(1, 100, |event| match event {
        Event::Cancelled { serving } => Some(*serving),
        _ => None,
    });
    assert_eq!(cancelled, serving);
    network.run(60_000);
    assert!(network.events[0].iter().all(|event| !matches!(event, Event::Ended { .. })));
    assert_eq!(network.nodes[0].usage().calls, 0);
}

#[test]
fn limits_of_the_caller_refuse() {
    let mut network = Network::new(nodes(2, None));
    network.nodes[0].limits.calls = 2;
    let deadline = network.later(100);
    let now = network.now;
    let node = &mut network.nodes[0];
    let call = |node: &mut crate::Endpoint, to, deadline, data: usize| {
        node.call(now, request(to, deadline), vec![0; data]).map(|_| ())
    };
    assert_eq!(call(node, 2, deadline, (64 << 10) + 1), Err(Refused::TooLong));
    assert_eq!(call(node, 1, deadline, 0), Err(Refused::NotAPeer));
    assert_eq!(call(node, 0, deadline, 0), Err(Refused::NotAPeer));
    assert_eq!(call(node, 2, now, 0), Err(Refused::Late));
    assert_eq!(call(node, 2, deadline, 0), Ok(()));
    assert_eq!(call(node, 2, deadline, 64 << 10), Ok(()));
    assert_eq!(call(node, 2, deadline, 0), Err(Refused::Full));
    assert_eq!(node.broadcast(false, vec![0; node.frame_room() + 1]), Err(Refused::TooLong));
    assert_eq!(node.broadcast(false, vec![0; node.frame_room()]), Ok(()));
}

#[test]
fn bytes_have_a_bound_on_both_sides() {
    let mut nodes = nodes(2, Some(1));
    nodes[0].limits.bytes = 10_000;
    nodes[1].limits.bytes = 10_000;
    let mut network = Network::new(nodes);
    let deadline = network.later(1000);
    // A request that does not fit is refused; an answer that does not, is told as such.
    network.nodes[0].call(network.now, request(2, deadline), vec![0; 20_000]).expect("room");
    assert!(matches!(network.wait_end(0), End::Answered { status: Status::Busy, .. }));
    network.nodes[0].call(network.now, request(2, deadline), vec![0; 9_000]).expect("room");
    let (serving, _) = network.wait_request(1);
    network.nodes[1].reply(network.now, serving, Status::Ok, false, vec![0; 20_000]).expect("is");
    assert!(matches!(network.wait_end(0), End::Answered { status: Status::NoMemory, .. }));
    network.run(2000);
    assert!(network.nodes.iter().all(|node| node.usage().bytes == 0));
}

#[test]
fn an_owner_that_does_not_listen_is_not_told_without_bound() {
    let mut nodes = nodes(2, Some(1));
    nodes[1].limits.queue = 8;
    let mut network = Network::new(nodes);
    network.call(b"", b"");
    for _ in 0..100 {
        let deadline = network.later(60_000);
        let call = network.nodes[0].call(network.now, request(2, deadline), vec![]).expect("room");
        for from in [0, 1, 0, 1] {
            let mut buffer = [0; 1514];
            while let Some(bytes) = network.nodes[from].transmit(network.now, &mut buffer) {
                network.nodes[1 - from].receive(network.now, &buffer[..bytes]);
            }
        }
        network.nodes[0].cancel(network.now, call);
        network.now = network.later(30);
        network.nodes[0].on_time(network.now);
    }
    assert!(network.nodes[1].events.len() <= 32, "{}", network.nodes[1].events.len());
    assert!(network.nodes[1].counters().busy > 50);
}

#[test]
fn a_late_copy_of_a_refused_request_is_not_done() {
    let mut nodes = nodes(2, None);
    nodes[1].limits.remembered = 1;
    let mut network = Network::new(nodes);
    let deadline = network.later(2000);
    for call in 0..2 {
        network.nodes[0].call(network.now, request(2, deadline), vec![call]).expect("room");
    }
    assert!(matches!(network.wait_end(0), End::Answered { status: Status::Busy, .. }));
    assert_eq!(requests(&mut network, 1).len(), 1);
    // There is room before the callee hears that the call has ended.
    network.nodes[1].limits.remembered = 10;
    for frame in network.captured.clone() {
        network.nodes[1].receive(network.now, &frame);
    }
    network.flush();
    assert_eq!(requests(&mut network, 1), []);
}

#[test]
fn a_late_copy_of_a_request_whose_time_is_over_is_not_done() {
    let mut network = Network::new(nodes(2, None));
    network.call(b"", b"");
    let deadline = network.later(100);
    network.nodes[0].call(network.now, request(2, deadline), b"dies".to_vec()).expect("room");
    network.wait_request(1);
    // The callee never hears that the call has ended.
    let copy = network.captured.last().cloned().expect("the request");
    network.fate = Box::new(|_, _| vec![]);
    network.run(10_000);
    requests(&mut network, 1);
    network.nodes[1].receive(network.now, &copy);
    network.flush();
    assert_eq!(requests(&mut network, 1), []);
}

/// Tools one after the other, so many milliseconds apart: each calls the first node, and then
/// leaves or is killed.
fn tools(key: Option<u8>, count: u32, leave: bool, apart: u64) -> (usize, Network) {
    let mut nodes = nodes(1, key);
    nodes[0].limits.tools = 4;
    let mut network = Network::new(nodes);
    let mut answered = 0;
    for tool in 0..count {
        network.nodes.push(crate::Endpoint::new(settings(crate::FIRST_TOOL.0 + tool, 1, key)));
        network.events.push(Default::default());
        let deadline = network.later(300);
        network.nodes[1].call(network.now, request(1, deadline), vec![7]).expect("room");
        network.run(100);
        for serving in requests(&mut network, 0) {
            let (now, node) = (network.now, &mut network.nodes[0]);
            node.reply(now, serving, Status::Ok, false, vec![]).expect("waited");
        }
        answered += usize::from(matches!(network.wait_end(1), End::Answered { .. }));
        if leave {
            network.nodes[1].leave();
        }
        network.run(apart);
        network.nodes.pop();
        network.events.pop();
    }
    (answered, network)
}

#[test]
fn tools_that_leave_are_forgotten_and_killed_ones_make_room() {
    for key in [None, Some(1)] {
        let (answered, network) = tools(key, 40, true, 10);
        assert_eq!((answered, network.nodes[0].usage().peers), (40, 0));
        let (answered, network) = tools(key, 40, false, 600);
        assert_eq!((answered, network.nodes[0].usage().peers), (40, 4));
        // More at once than there is room for.
        let (answered, network) = tools(key, 6, false, 10);
        assert_eq!((answered, network.nodes[0].usage().peers), (4, 4));
    }
}

#[test]
fn tools_take_no_place_of_a_node() {
    let (_, mut network) = tools(Some(1), 10, false, 10);
    network.nodes[0].limits.peers = 1;
    network.nodes.push(crate::Endpoint::new(settings(2, 1, Some(1))));
    network.events.push(Default::default());
    let deadline = network.later(300);
    network.nodes[1].call(network.now, request(1, deadline), vec![7]).expect("room");
    network.run(100);
    assert_eq!(requests(&mut network, 0).len(), 1);
}

#[test]
fn a_recording_of_who_has_left_does_nothing() {
    let (_, mut network) = tools(Some(1), 1, true, 10);
    let recorded = network.captured.clone();
    network.events[0].clear();
    for frame in recorded {
        network.nodes[0].receive(network.now, &frame);
        network.run(1);
    }
    assert_eq!(requests(&mut network, 0), []);
    let met = network.events[0].iter().any(|event| matches!(event, Event::Met { .. }));
    assert!(!met, "{:?}", network.events[0]);
}
