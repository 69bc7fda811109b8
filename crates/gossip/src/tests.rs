//! Gossip of a few nodes over a network in memory.

use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{Generation, Instant, NodeId};

use crate::*;

mod hostile;
mod lives;
mod namesakes;

/// Nodes and what is on its way between them, which takes a millisecond.
struct Net {
    now: Instant,
    nodes: BTreeMap<NodeId, Gossip>,
    sent: Vec<(Instant, NodeId, Destination, Vec<u8>)>,
    /// Whether a message of one node reaches another.
    passes: fn(NodeId, NodeId) -> bool,
    events: BTreeMap<NodeId, Vec<Event>>,
    /// How often a node had something to do although nothing had come.
    wakes: u32,
}

const DELAY: Duration = Duration::from_millis(1);

impl Net {
    fn new() -> Net {
        let (nodes, events) = Default::default();
        Net { now: Instant::START, nodes, sent: Vec::new(), passes: |_, _| true, events, wakes: 0 }
    }

    /// So many nodes that have started.
    fn of(count: u32) -> Net {
        let mut net = Net::new();
        for node in 1..=count {
            net.start(settings(node, 1));
        }
        net
    }

    fn start(&mut self, settings: Settings) {
        let node = settings.node;
        let mut gossip = Gossip::new(settings);
        gossip.start(self.now);
        self.nodes.insert(node, gossip);
        self.collect();
    }

    fn node(&mut self, node: u32) -> &mut Gossip {
        self.nodes.get_mut(&NodeId(node)).expect("the node was started")
    }

    fn collect(&mut self) {
        for (node, gossip) in &mut self.nodes {
            while let Some((to, payload)) = gossip.poll_transmit() {
                self.sent.push((self.now + DELAY, *node, to, payload));
            }
            let events = self.events.entry(*node).or_default();
            events.extend(core::iter::from_fn(|| gossip.poll_event()));
        }
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.collect();
            let sent = self.sent.iter().map(|(at, ..)| *at);
            let due = self.nodes.values().filter_map(Gossip::next_due);
            let Some(next) = sent.chain(due).min().filter(|next| *next <= end) else { break };
            self.now = next.max(self.now);
            let (here, later) = self.sent.drain(..).partition(|(at, ..)| *at <= self.now);
            self.sent = later;
            let here: Vec<(Instant, NodeId, Destination, Vec<u8>)> = here;
            for (_, from, to, payload) in here {
                for (node, gossip) in &mut self.nodes {
                    let is_for = to == Destination::Broadcast || to == Destination::Node(*node);
                    if is_for && *node != from && (self.passes)(from, *node) {
                        let is_broadcast = to == Destination::Broadcast;
                        gossip.receive(self.now, from, &payload, is_broadcast);
                    }
                }
            }
            for gossip in self.nodes.values_mut() {
                if gossip.next_due().is_some_and(|due| due <= self.now) {
                    gossip.on_time(self.now);
                    self.wakes += 1;
                }
            }
        }
        self.now = end;
    }

    fn rounds(&mut self, rounds: u32) {
        self.run(PERIOD * rounds);
    }

    /// All nodes know the same.
    #[track_caller]
    fn agrees(&self) {
        let digests: Vec<u64> = self.nodes.values().map(Gossip::digest).collect();
        assert!(digests.windows(2).all(|two| two[0] == two[1]), "{digests:?}");
        let first = self.nodes.values().next().expect("there are nodes");
        for other in self.nodes.values() {
            assert_eq!(other.live(), self.nodes.len());
            for node in self.nodes.keys() {
                let directories = [first.directory(*node), other.directory(*node)];
                assert_eq!(directories[0], directories[1], "{node}");
            }
        }
    }

    fn events(&mut self, node: u32) -> Vec<Event> {
        self.events.remove(&NodeId(node)).unwrap_or_default()
    }
}

const PERIOD: Duration = Duration::from_millis(500);

fn settings(node: u32, generation: u32) -> Settings {
    let seed = u64::from(node) << 32 | u64::from(generation);
    Settings::new(NodeId(node), Generation(generation), seed)
}

fn instance(number: u16) -> Instance {
    Instance {
        number,
        core: 1,
        generation: 1,
        name: alloc::format!("instance {number}"),
        type_name: "store".to_string(),
        subsystem: "storage".to_string(),
        capability: "blocks".to_string(),
        layer: crate::Layer::Low,
        extends: Vec::new(),
        keywords: vec![Keyword { word: "disk".to_string(), weight: 3 }],
        attributes: vec![Attribute { name: "speed".to_string(), value: "7".to_string() }],
        changed: 0,
    }
}

fn numbers(gossip: &Gossip, node: u32) -> Vec<u16> {
    let directory = gossip.directory(NodeId(node));
    directory.into_iter().flat_map(Directory::instances).map(|it| it.number).collect()
}

#[test]
fn a_start_is_answered_at_once_and_all_is_polled() {
    let mut net = Net::of(2);
    net.node(1).set_local(Update::Publish(instance(4))).unwrap();
    // Ten times what fits one message.
    for number in 0..150 {
        net.node(2).set_local(Update::Publish(instance(number))).unwrap();
    }
    net.run(Duration::from_millis(1));
    net.start(settings(3, 1));
    net.run(Duration::from_millis(100));
    net.agrees();
    assert_eq!(numbers(net.node(3), 1), [4]);
    assert_eq!(numbers(net.node(3), 2).len(), 150);
    let published = net.events(3).into_iter();
    assert_eq!(published.filter(|it| matches!(it, Event::Published { .. })).count(), 151);
}

#[test]
fn a_start_is_repeated_ever_more_seldom_until_it_is_answered() {
    let mut net = Net::new();
    net.passes = |_, _| false;
    net.start(settings(1, 1));
    net.start(settings(2, 1));
    net.rounds(100);
    let sent = net.node(1).counters().sent;
    // At 0, 1, 3, 7, 15, 31, 63 periods.
    assert_eq!(sent, 7);
    net.passes = |_, _| true;
    net.rounds(30);
    net.agrees();
    net.rounds(200);
    let starts = |payload: &[u8]| wire::Message::parse(payload).unwrap().flags & wire::START != 0;
    assert!(!net.sent.iter().any(|(.., payload)| starts(payload)));
}

#[test]
fn changes_are_told_one_by_one() {
    let mut net = Net::of(8);
    net.rounds(20);
    net.agrees();
    (1..=8).for_each(|node| drop(net.events(node)));
    net.node(3).set_local(Update::Publish(instance(1))).unwrap();
    net.node(3).set_local(Update::Publish(instance(2))).unwrap();
    net.rounds(10);
    net.node(3).set_local(Update::Move { number: 1, core: 2, generation: 4 }).unwrap();
    net.rounds(10);
    net.node(3).set_local(Update::Unpublish(1)).unwrap();
    let core = Core { core: 2, generation: 1, roles: 8, changed: 0 };
    net.node(3).set_local(Update::Core(core.clone())).unwrap();
    net.rounds(10);
    net.agrees();
    let node = NodeId(3);
    let of = |number, changed| Instance { changed, ..instance(number) };
    let moved = Instance { core: 2, generation: 4, ..of(1, 3) };
    for other in [1, 2, 4, 5, 6, 7, 8] {
        let mut events = net.events(other);
        events.sort_by_key(|event| match event {
            Event::Published { instance, .. } => instance.number,
            Event::Moved { .. } => 3,
            Event::Unpublished { .. } => 4,
            _ => 5,
        });
        let expected = [
            Event::Published { node, instance: of(1, 1) },
            Event::Published { node, instance: of(2, 2) },
            Event::Moved { node, instance: moved.clone() },
            Event::Unpublished { node, instance: moved.clone() },
            Event::CoreChanged { node, core: Core { changed: 5, ..core.clone() } },
        ];
        assert_eq!(events, expected, "on node {other}");
    }
}

#[test]
fn a_talk_brings_the_news() {
    let mut net = Net::new();
    net.start(Settings { fan_out: 0, ..settings(1, 1) });
    net.start(settings(2, 1));
    net.rounds(12);
    net.node(1).set_local(Update::Publish(instance(9))).unwrap();
    assert_eq!(numbers(net.node(2), 1), []);
    net.node(1).talked(NodeId(2));
    net.node(1).talked(NodeId(2));
    net.collect();
    assert_eq!(net.sent.len(), 1, "once in a round is enough");
    net.run(DELAY);
    assert_eq!(numbers(net.node(2), 1), [9]);
}

#[test]
fn what_rumours_do_not_tell_is_found_by_digests() {
    let mut net = Net::new();
    (1..=20).for_each(|node| net.start(Settings { fan_out: 0, ..settings(node, 1) }));
    net.rounds(40);
    net.agrees();
    net.node(7).set_local(Update::Publish(instance(1))).unwrap();
    net.rounds(2);
    assert!((1..=20).any(|node| numbers(net.node(node), 7).is_empty()));
    net.rounds(100);
    net.agrees();
    assert_eq!(numbers(net.node(20), 7), [1]);
}

#[test]
fn an_observer_learns_all_and_nobody_learns_of_it() {
    let mut net = Net::of(40);
    for node in 1..=40 {
        net.node(node).set_local(Update::Publish(instance(1))).unwrap();
    }
    net.rounds(30);
    net.agrees();
    let mut observers = Net::new();
    core::mem::swap(&mut observers.nodes, &mut net.nodes);
    observers.now = net.now;
    observers.start(Settings { observer: true, ..settings(99, 1) });
    observers.run(Duration::from_millis(200));
    let observer = observers.nodes.remove(&NodeId(99)).unwrap();
    assert_eq!(observer.live(), 40);
    assert!((1..=40).all(|node| numbers(&observer, node) == [1]));
    observers.rounds(20);
    observers.agrees();
}

#[test]
fn the_text_form_of_a_message_can_be_read() {
    let mut net = Net::of(1);
    net.node(1).set_local(Update::Publish(instance(1))).unwrap();
    net.collect();
    let (.., payload) = &net.sent[0];
    let text = nile_bosml::binary_to_text(wire::FIELDS, wire::NAME, payload).unwrap();
    assert!(text.starts_with("<gossip><sender><node>1</node><generation>1</generation>"), "{text}");
    assert!(text.contains("<flags>1</flags>"), "{text}");
    let again = nile_bosml::text_to_binary(wire::FIELDS, wire::NAME, &text).unwrap();
    assert_eq!(&again, payload);
}

#[test]
fn a_round_that_is_late_does_not_shift_the_next() {
    let mut gossip = Gossip::new(settings(1, 1));
    gossip.start(Instant::START);
    let window = gossip.next_window().expect("it has rounds");
    assert_eq!(window.until() - window.from(), PERIOD / 5);
    let first = gossip.round_at.expect("it has rounds");
    for late in [3, 90, 0, 700] {
        let now = gossip.round_at.expect("it has rounds") + Duration::from_millis(late);
        gossip.on_time(now);
        let next = gossip.round_at.expect("it has rounds");
        assert!(next > now && next - now <= PERIOD);
        assert_eq!((next - first).as_nanos() % PERIOD.as_nanos(), 0, "{late} ms");
    }
}

#[test]
fn a_quiet_node_wakes_once_in_a_round() {
    let mut net = Net::of(3);
    net.rounds(100);
    net.wakes = 0;
    net.rounds(100);
    assert!((300..=310).contains(&net.wakes), "{}", net.wakes);
}

#[test]
fn an_observer_that_asks_a_node_which_begins_need_not_wait_for_a_round() {
    let mut net = Net::of(2);
    net.start(Settings { observer: true, ..settings(99, 1) });
    net.rounds(40);
    let seen = |net: &Net| numbers(&net.nodes[&NodeId(99)], 3);
    let begin = |net: &mut Net| {
        let mut gossip = Gossip::new(settings(3, 1));
        gossip.set_local(Update::Publish(instance(5))).unwrap();
        gossip.start(net.now);
        net.nodes.insert(NodeId(3), gossip);
        net.run(DELAY * 2);
        assert_eq!(net.node(99).member(NodeId(3)).map(|it| it.version), Some(0));
    };
    begin(&mut net);
    net.node(99).ask(NodeId(3));
    net.run(DELAY * 3);
    assert_eq!(seen(&net), [5]);
    // Nobody of whom nothing is known is asked.
    net.node(99).ask(NodeId(4));
    assert_eq!(net.node(99).poll_transmit(), None);
}

#[test]
fn an_answer_of_an_observer_ends_no_start() {
    let mut net = Net::new();
    net.passes = |from, to| from != NodeId(1) && to != NodeId(1);
    net.start(settings(1, 1));
    net.start(Settings { observer: true, ..settings(99, 1) });
    net.start(settings(2, 1));
    net.run(DELAY * 2);
    net.node(99).ask(NodeId(2));
    net.run(DELAY * 4);
    assert_eq!(net.node(99).live(), 1);
    net.passes = |_, _| true;
    net.rounds(4);
    assert!(net.node(1).member(NodeId(2)).is_some());
}
