//! Nodes that die, leave, restart, and are held for dead though they live.

use super::*;

fn down(events: &[Event], node: u32) -> bool {
    events.iter().any(|it| matches!(it, Event::NodeDown { node: n, .. } if n.0 == node))
}

#[test]
fn who_dies_is_suspected_and_then_down_everywhere() {
    let mut net = Net::of(5);
    net.node(5).set_local(Update::Publish(instance(1))).unwrap();
    net.rounds(20);
    net.agrees();
    (1..=5).for_each(|node| drop(net.events(node)));
    net.nodes.remove(&NodeId(5));
    net.rounds(20);
    net.agrees();
    for node in 1..=4 {
        let events = net.events(node);
        let downs = events.iter().filter(|it| matches!(it, Event::NodeDown { .. }));
        assert!(down(&events, 5) && downs.count() == 1, "{events:?}");
        assert!(numbers(net.node(node), 5).is_empty());
        let member = net.node(node).member(NodeId(5)).unwrap();
        assert_eq!(member.state, State::Down);
    }
}

#[test]
fn who_leaves_says_so() {
    let mut net = Net::of(12);
    net.rounds(20);
    net.node(4).leave();
    net.run(DELAY * 2);
    net.nodes.remove(&NodeId(4));
    net.rounds(5);
    net.agrees();
}

#[test]
fn whose_end_is_told_by_an_observer_is_not_missed_first() {
    let mut net = Net::of(6);
    net.rounds(20);
    net.start(Settings { observer: true, ..settings(99, 1) });
    net.run(Duration::from_millis(200));
    net.nodes.remove(&NodeId(4));
    net.node(99).tell_end(NodeId(4));
    // Of one that lives it is told in vain.
    net.node(99).tell_end(NodeId(2));
    net.collect();
    net.run(DELAY * 3);
    let down = |net: &mut Net, other: u32| {
        let member = net.node(other).member(NodeId(4)).unwrap();
        member.state == State::Down
    };
    assert!([1, 2, 3, 5, 6].into_iter().all(|it| down(&mut net, it)));
    net.nodes.remove(&NodeId(99));
    net.rounds(5);
    net.agrees();
}

#[test]
fn who_is_slow_is_suspected_and_trusted_again() {
    let mut net = Net::of(3);
    net.rounds(10);
    let deaf = net.nodes.remove(&NodeId(2)).unwrap();
    (1..=3).for_each(|node| drop(net.events(node)));
    net.rounds(5);
    net.nodes.insert(NodeId(2), deaf);
    net.rounds(20);
    net.agrees();
    let events: Vec<Event> = [1, 3].into_iter().flat_map(|node| net.events(node)).collect();
    let (node, generation) = (NodeId(2), Generation(1));
    assert!(events.contains(&Event::NodeSuspect { node, generation }));
    assert!(events.contains(&Event::NodeTrusted { node, generation }));
    assert!(!down(&events, 2));
}

#[test]
fn a_restart_is_a_new_life_and_the_old_one_cannot_come_back() {
    let mut net = Net::of(4);
    net.node(2).set_local(Update::Publish(instance(1))).unwrap();
    net.rounds(20);
    let old = net.nodes.remove(&NodeId(2)).unwrap();
    (1..=4).for_each(|node| drop(net.events(node)));
    net.start(settings(2, 2));
    net.node(2).set_local(Update::Publish(instance(8))).unwrap();
    net.rounds(10);
    net.agrees();
    let (node, generation) = (NodeId(2), Generation(2));
    for other in [1, 3, 4] {
        let restarted = Event::NodeRestarted { node, old: Generation(1), generation };
        assert!(net.events(other).contains(&restarted));
        assert_eq!(numbers(net.node(other), 2), [8]);
    }
    // The old life speaks again, from a network that has kept its messages.
    net.nodes.insert(node, old);
    net.rounds(3);
    for other in [1, 3, 4] {
        assert_eq!(net.node(other).member(node).unwrap().generation, generation);
        assert_eq!(numbers(net.node(other), 2), [8]);
    }
    assert!(net.events(2).contains(&Event::GenerationTaken { generation }));
}

#[test]
fn a_generation_that_was_used_before_is_told() {
    let mut net = Net::of(3);
    net.rounds(10);
    for generation in [1, 0x7000_0000] {
        net.nodes.remove(&NodeId(3));
        net.rounds(2);
        drop(net.events(3));
        // Another life of the same generation, as after a loss of the disk.
        let seed = u64::from(generation) + 99;
        net.start(Settings { seed, ..settings(3, generation) });
        net.rounds(3);
        let taken = net.events(3).into_iter().find_map(|event| match event {
            Event::GenerationTaken { generation } => Some(generation),
            _ => None,
        });
        assert_eq!(taken, (generation == 1).then_some(Generation(1)));
    }
    net.agrees();
}

#[test]
fn both_sides_of_a_healed_partition_agree() {
    let mut net = Net::of(10);
    for node in 1..=10 {
        net.node(node).set_local(Update::Publish(instance(1))).unwrap();
    }
    net.rounds(20);
    net.agrees();
    net.passes = |a, b| (a.0 <= 5) == (b.0 <= 5);
    net.rounds(40);
    for node in 1..=10 {
        assert_eq!(net.node(node).live(), 5, "n{node}");
        drop(net.events(node));
    }
    net.node(2).set_local(Update::Publish(instance(2))).unwrap();
    net.node(9).set_local(Update::Unpublish(1)).unwrap();
    net.passes = |_, _| true;
    net.rounds(60);
    net.agrees();
    assert_eq!((numbers(net.node(10), 2).len(), numbers(net.node(1), 9).len()), (2, 0));
    for node in 1..=10 {
        let events = net.events(node);
        let side = if node <= 5 { 1..=5 } else { 6..=10 };
        assert!(!side.into_iter().any(|other| down(&events, other)), "n{node} lost its own side");
    }
}

#[test]
fn an_observer_of_both_sides_holds_nobody_for_dead() {
    for seed in 1..=20 {
        let mut net = Net::of(3);
        net.rounds(20);
        net.passes = |a, b| a.0 > 3 || b.0 > 3 || (a.0 == 1) == (b.0 == 1);
        net.rounds(20);
        assert_eq!([1, 2, 3].map(|node| net.node(node).live()), [1, 2, 2]);
        net.start(Settings { observer: true, seed, ..settings(99, 1) });
        net.run(Duration::from_millis(200));
        assert_eq!(net.node(99).live(), 3);
        // Whoever is talked to tells what is news there.
        for node in 1..=3 {
            let update = Update::Publish(instance(node as u16));
            net.node(node).set_local(update).unwrap();
            let other = if node == 1 { 3 } else { 1 };
            net.node(node).rumours.add(NodeId(other), 0, 3);
            net.node(node).talked(NodeId(99));
        }
        net.rounds(20);
        assert_eq!(net.node(99).live(), 3);
        let events = net.events(99);
        assert!(!(1..=3).any(|node| down(&events, node)), "{seed}: {events:?}");
    }
}

#[test]
fn one_that_missed_a_death_learns_of_it() {
    let mut net = Net::of(6);
    net.rounds(20);
    net.nodes.remove(&NodeId(6));
    net.rounds(20);
    // It has been away, and neither probed nor was probed.
    let late = NodeId(1);
    let row = net.node(1).table.get(NodeId(6)).cloned().unwrap();
    let now = net.now;
    net.node(1).put(now, wire::Row { live: true, ..row });
    net.node(1).watch = crate::watch::Watch::new(late);
    assert_eq!(net.node(1).live(), 6);
    net.rounds(60);
    net.agrees();
}

#[test]
fn the_dead_are_forgotten_at_last() {
    let mut net = Net::of(2);
    net.rounds(10);
    net.nodes.remove(&NodeId(2));
    net.rounds(20);
    assert!(net.node(1).member(NodeId(2)).is_some());
    net.rounds(5_000);
    assert_eq!(net.node(1).member(NodeId(2)), None);
}
