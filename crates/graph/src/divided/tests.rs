//! Parts that write letters in any order, twice and late, and are opened anew at any moment: in the
//! end they have the graph that one part would have, and whatever they publish meanwhile is within
//! its bound of an exact solution.

extern crate std;

use alloc::collections::BTreeSet;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::letter::{Kind, Letter};
use crate::tests::{History, SETTINGS, edges, history, model, named, ranks};
use crate::{Call, Event, ONE, Part, Reject, Settings, merged};

const GRAPH: u64 = 77;

type Edges = BTreeSet<(u64, u64)>;

/// The edges and vertices of a part at some time.
type Snapshot = (Edges, Vec<u64>);

/// Parts, and what is between them.
struct World {
    parts: Vec<Graph>,
    lives: Vec<u64>,
    /// What each part has in its log.
    logs: Vec<Vec<Call>>,
    /// What each part sweeps over, and what it has published.
    swept: Vec<Snapshot>,
    published: Vec<Snapshot>,
    numbers: Vec<u64>,
    /// Letters lose what they tell of shares.
    forgets: bool,
    /// By how much the worst publication was over its bound, and how many were looked at.
    worst: f64,
    looked: u64,
}

fn part(number: usize, of: usize) -> Part {
    Part { number: number as u32, of: of as u32 }
}

impl World {
    fn new(of: usize, settings: Settings) -> World {
        let mut world = World {
            parts: Vec::new(),
            lives: vec![0; of],
            logs: vec![Vec::new(); of],
            swept: vec![Snapshot::default(); of],
            published: vec![Snapshot::default(); of],
            numbers: vec![0; of],
            forgets: false,
            worst: f64::MIN,
            looked: 0,
        };
        for number in 0..of {
            let part = part(number, of);
            world.parts.push(Graph::new(Settings { part, ..settings }));
            world.open(number);
        }
        world
    }

    /// A part is opened anew, from its log.
    fn open(&mut self, number: usize) {
        let settings = self.parts[number].settings();
        self.lives[number] += 1;
        let mut graph = Graph::new(settings);
        for call in &self.logs[number] {
            graph.offer(0, &mut call.clone());
        }
        graph.join(GRAPH, self.lives[number]);
        self.parts[number] = graph;
        self.numbers[number] = 0;
    }

    fn offer(&mut self, call: Call) -> u64 {
        let calls = self.parts[0].settings().part.divide(call);
        let mut new = 0;
        for ((part, log), mut call) in self.parts.iter_mut().zip(&mut self.logs).zip(calls) {
            new += part.offer(0, &mut call).new;
            log.push(call);
        }
        new
    }

    fn say(&mut self, source: u64, events: &[Event]) -> u64 {
        self.offer(Call { source, events: events.to_vec(), ..Call::default() })
    }

    /// A part goes on; whether there was anything to do.
    fn step(&mut self, number: usize, most: usize) -> bool {
        let done = self.parts[number].step(0, most).is_some();
        let graph = &self.parts[number];
        let whole = graph.whole().number;
        let is_published = core::mem::replace(&mut self.numbers[number], whole) != whole;
        if is_published {
            self.published[number] = self.swept[number].clone();
        }
        let tells = graph.exchange.as_ref().is_some_and(|it| it.phase == Phase::Shares);
        if tells && done {
            let owned = |it: &u64| graph.settings.part.owns(*it);
            let names = (0..).map_while(|it| graph.edges.name(it)).filter(owned).collect();
            self.swept[number] = (edges(graph), names);
        }
        if is_published {
            self.look();
        }
        done
    }

    /// The first letter of a part to another comes there, perhaps once more later.
    fn deliver(&mut self, from: usize, to: usize, is_again: bool) -> bool {
        let Some((number, bytes)) = self.parts[from].letter(to as u32) else { return false };
        let mut bytes = bytes.to_vec();
        if self.forgets {
            let part = self.parts[to].settings().part;
            let mut letter = Letter::decode(part, &bytes).unwrap();
            if letter.kind == Kind::Shares && letter.round > 2 {
                letter.items.clear();
            }
            bytes = letter.encode();
        }
        self.parts[to].receive(&bytes).unwrap();
        if !is_again {
            self.parts[from].sent(to as u32, number);
        }
        true
    }

    /// If all have the same publication, that it is within its bound.
    fn look(&mut self) {
        let whole = self.parts[0].whole();
        if self.parts.iter().any(|it| it.whole() != whole) {
            return;
        }
        let edges: Edges = self.published.iter().flat_map(|it| it.0.iter().copied()).collect();
        let names: Vec<u64> = self.published.iter().flat_map(|it| it.1.iter().copied()).collect();
        let counts = (edges.len() as u64, names.len() as u64);
        assert_eq!((whole.edges, whole.vertices), counts, "it is of what was swept over");
        let right = ranks(&names, &edges);
        let rank = |vertex: u64| self.parts.iter().find_map(|it| it.rank(vertex)).unwrap_or(0);
        let wrong =
            |(vertex, right): (&u64, &f64)| (rank(*vertex) as f64 / 2_f64.powi(64) - right).abs();
        let error: f64 = right.iter().map(wrong).sum();
        self.worst = self.worst.max(error - whole.error as f64 / ONE as f64);
        self.looked += 1;
    }

    fn settle(&mut self) {
        for _ in 0..1 << 16 {
            let mut is_done = true;
            for from in 0..self.parts.len() {
                is_done &= !self.step(from, 1 << 20);
                for to in (0..self.parts.len()).filter(|it| *it != from) {
                    is_done &= !self.deliver(from, to, false);
                }
            }
            if is_done {
                return;
            }
        }
        panic!("sweeps come to no end");
    }

    /// The edges of all parts.
    fn edges(&self) -> Edges {
        self.parts.iter().flat_map(edges).collect()
    }

    /// Anything that may happen, by three numbers.
    fn happen(&mut self, what: (u8, u8, u8)) {
        let of = self.parts.len();
        let (one, other) = (usize::from(what.1) % of, usize::from(what.2) % of);
        match what.0 % 16 {
            0 => self.open(one),
            1..4 if one != other => drop(self.deliver(one, other, true)),
            4..9 if one != other => drop(self.deliver(one, other, false)),
            _ => drop(self.step(one, 1 + usize::from(what.2 % 32))),
        }
    }
}

/// A graph of one part of the same events.
fn alone(history: &History) -> Graph {
    let mut graph = Graph::new(SETTINGS);
    for (source, event) in history {
        let events = Vec::from([*event]);
        graph.offer(0, &mut Call { source: *source, events, ..Call::default() });
    }
    while graph.step(0, 1 << 20).is_some() {}
    graph
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn parts_that_are_opened_anew_have_the_graph_that_one_would_have(
        steps in prop::collection::vec(any::<(u8, u8, u8, u8, bool)>(), 1..80),
        happens in prop::collection::vec(any::<(u8, u8, u8)>(), 0..600),
        again in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        of in 2_usize..5,
    ) {
        let history = history(&steps);
        let mut world = World::new(of, SETTINGS);
        let again = again.iter().map(|it| history[it.index(history.len())]);
        let said: History = again.chain(history.iter().rev().copied()).collect();
        let each = happens.len() / said.len();
        let mut happens = happens.chunks(each.max(1));
        for (source, event) in &said {
            world.say(*source, &[*event]);
            happens.next().unwrap_or(&[]).iter().for_each(|it| world.happen(*it));
        }
        happens.flatten().for_each(|it| world.happen(*it));
        world.settle();
        prop_assert!(world.looked > 0 && world.worst <= 1e-12, "{} too much", world.worst);
        prop_assert_eq!(world.edges(), model(&history));
        let alone = alone(&history);
        let (one, all) = (alone.published(), world.parts[0].whole());
        let counts = |it: &Publication| (it.events, it.vertices, it.edges, it.behind);
        prop_assert_eq!(counts(&one), counts(&all));
        let bound = (one.error + all.error) as f64 / ONE as f64;
        let mut apart = 0.0;
        for name in named(&history) {
            let owner = world.parts[0].settings.part.owner(name) as usize;
            let ranks = [&alone, &world.parts[owner]].map(|it| it.rank(name).unwrap() as f64);
            apart += (ranks[0] - ranks[1]).abs() / 2_f64.powi(64);
        }
        prop_assert!(all.error <= SETTINGS.error && apart <= bound, "{} {}", apart, bound);
    }
}

#[test]
fn shares_that_are_forgotten_on_their_way_are_found() {
    let edge =
        |it: u64| Event { sequence: it, time: 1, from: it % 17, to: it * it % 23, removes: false };
    let events: Vec<Event> = (0..60).map(edge).collect();
    let worst = |forgets| {
        let mut world = World::new(3, SETTINGS);
        world.forgets = forgets;
        world.say(1, &events);
        world.settle();
        assert!(world.looked > 5);
        world.worst
    };
    assert!(worst(false) <= 1e-12 && worst(true) > 1e-3);
}

#[test]
fn the_top_of_parts_is_that_of_one() {
    let edge =
        |it: u64| Event { sequence: it, time: 1, from: it, to: it * it % 23, removes: false };
    let history: History = (0..90).map(|it| (1, edge(it))).collect();
    let mut world = World::new(3, SETTINGS);
    let events: Vec<Event> = history.iter().map(|it| it.1).collect();
    assert_eq!(world.say(1, &events), 90);
    world.settle();
    let all = merged(world.parts.iter().map(|it| it.highest(5)));
    let top = world.parts[1].placed(&all, 5);
    let right = alone(&history).top(5);
    let vertices = |top: &[crate::Placed]| top.iter().map(|it| it.vertex).collect::<Vec<_>>();
    let sure = right.iter().take_while(|it| it.is_certain).count();
    assert!(sure > 0 && vertices(&top)[..sure] == vertices(&right)[..sure], "{top:?} {right:?}");
    assert!(top[0].is_certain && top[0].rank.abs_diff(right[0].rank) < 1 << 44);
}

#[test]
fn a_source_counts_once_in_all_parts_whoever_owns_its_events() {
    let edge = |sequence| Event { sequence, time: 1, from: 7, to: sequence, removes: false };
    let mut world = World::new(2, SETTINGS);
    let reject = Reject { sequence: 4, text: "1 x".into(), why: "\"x\" is no number".into() };
    world.offer(Call { source: 5, rejects: [reject].into(), ..Call::default() });
    let events: Vec<Event> = [0, 1, 2, 3, 5, 6, 7].map(edge).into();
    assert_eq!(world.say(5, &events), 7);
    assert_eq!(world.say(5, &events), 0, "they are known");
    for graph in &world.parts {
        let state = graph.sources(0, None, 1)[0];
        assert_eq!((state.next, state.beyond, graph.rejected()), (8, 0, 1));
    }
    assert_eq!(world.say(5, &[edge(4)]), 1, "somebody has mended it");
    (0..2).for_each(|it| world.open(it));
    assert!(world.parts.iter().all(|it| it.rejected() == 0), "also for who does not own it");
    world.settle();
    assert_eq!((world.edges().len(), world.parts[0].whole().events), (8, 8));
}

#[test]
fn what_has_to_come_again_is_in_no_log() {
    let edge = |sequence| Event { sequence, time: 1, from: 7, to: sequence, removes: false };
    let part = part(0, 2);
    let mut graph = Graph::new(Settings { part, ..SETTINGS });
    let events: Vec<Event> = (8000..8400).map(edge).collect();
    let call = Call { source: 5, events, ..Call::default() };
    let mut early = part.divide(call.clone()).remove(0);
    let given = early.events.len() as u64;
    let offered = graph.offer(0, &mut early);
    assert!(offered.new > 0 && offered.new < given && offered.ahead == 400 - 192, "{offered:?}");
    // A part that knows more takes it out of its log, and then what is said again.
    let first = Call { source: 5, events: (0..8000).map(edge).collect(), ..Call::default() };
    let mut late = Graph::new(Settings { part, ..SETTINGS });
    late.offer(0, &mut part.divide(first).remove(0));
    late.offer(0, &mut early);
    let again = late.offer(0, &mut part.divide(call).remove(0));
    assert_eq!((again.new, again.known, again.next), (given - offered.new, offered.new, 8400));
}

#[test]
fn while_somebody_looks_no_part_publishes_more() {
    let mut world = World::new(2, SETTINGS);
    let edge = |it: u64| Event { sequence: it, time: 1, from: it, to: it / 2, removes: false };
    world.say(1, &(0..40).map(edge).collect::<Vec<_>>());
    world.settle();
    let before = world.parts[0].whole().number;
    world.parts[0].look(true);
    assert!(world.parts[0].is_still());
    world.say(1, &[edge(40)]);
    world.settle();
    assert_eq!(world.parts.iter().map(|it| it.whole().number).max(), Some(before));
    world.parts[0].look(false);
    world.settle();
    let ends: BTreeMap<u64, u64> =
        world.parts.iter().map(|it| (it.whole().number, it.whole().events)).collect();
    assert!(ends.len() == 1 && ends.values().all(|it| *it == 41), "{ends:?}");
}

#[test]
fn a_part_that_was_opened_elsewhere_takes_no_letters() {
    let mut world = World::new(2, SETTINGS);
    world.say(1, &[Event { sequence: 0, time: 1, from: 1, to: 2, removes: false }]);
    let mut old = Graph::new(world.parts[1].settings());
    old.join(GRAPH, 1);
    world.open(1);
    world.settle();
    world.say(1, &[Event { sequence: 1, time: 1, from: 2, to: 3, removes: false }]);
    world.step(0, 1);
    let letter = world.parts[0].letter(1).expect("it has news").1;
    assert_eq!(old.receive(letter), Ok(Received::Superseded));
    assert!(old.receive(&[9, 9]).is_err() && old.letter(0).is_none());
}

#[test]
fn a_part_without_events_that_is_opened_anew_has_the_publication_of_all() {
    let mut world = World::new(2, SETTINGS);
    let edge = Event { sequence: 0, time: 1, from: 4, to: 4, removes: false };
    world.say(1, &[edge]);
    world.settle();
    let other = 1 - world.parts[0].settings.part.owner(4) as usize;
    world.open(other);
    world.settle();
    let [one, all] = [0, 1].map(|it| world.parts[it].whole());
    assert_eq!((one, all.events, all.edges), (all, 1, 1));
}

#[test]
fn parts_whose_letters_came_to_others_before_go_on() {
    let mut world = World::new(2, SETTINGS);
    let edge = |it: u64| Event { sequence: it, time: 1, from: it, to: it + 1, removes: false };
    world.say(1, &(0..9).map(edge).collect::<Vec<_>>());
    // Each writes to one that has lost its part to the other.
    for (from, to) in [(0, 1), (1, 0)] {
        while world.parts[from].letter(to as u32).is_none() {
            assert!(world.step(from, 1));
        }
        let lost = Graph::new(world.parts[to].settings());
        let last = core::mem::replace(&mut world.parts[to], lost);
        world.parts[to].join(GRAPH, 1);
        assert!(world.deliver(from, to, false));
        world.parts[to] = last;
        world.lives[to] += 1;
        world.parts[to].exchange.as_mut().unwrap().own.is_new = true;
    }
    world.settle();
    assert!(world.parts.iter().all(|it| it.whole().number == 0 && !it.rests()));
    for _ in 0..2 {
        world.parts.iter_mut().for_each(Graph::remind);
        world.settle();
    }
    assert!(world.parts.iter().all(|it| it.whole().events == 9 && it.rests()));
}

#[test]
fn a_part_that_was_opened_elsewhere_is_told_so_when_it_writes() {
    let mut world = World::new(2, SETTINGS);
    let edge = |it: u64| Event { sequence: it, time: 1, from: it, to: it + 1, removes: false };
    world.say(1, &(0..9).map(edge).collect::<Vec<_>>());
    let mut old = Graph::new(world.parts[1].settings());
    old.join(GRAPH, 1);
    old.offer(0, &mut world.logs[1][0].clone());
    while old.letter(0).is_none() {
        assert!(old.step(0, 1).is_some());
    }
    let letter = old.letter(0).unwrap().1.to_vec();
    assert_eq!(world.parts[0].receive(&letter), Ok(Received::Taken { writer: old.life() }));
    world.open(1);
    world.settle();
    let told = world.parts[0].receive(&letter);
    assert_eq!(told, Ok(Received::Taken { writer: 2 }), "another has it");
}
