//! Searches in parts, in any order of their turns, beside those of a graph in one part and plain
//! ones over the last edges.

extern crate std;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::tests::{History, SETTINGS, history, model, named};
use crate::{Call, Settings};

/// Parts in which a history has come.
fn parts(of: u32, history: &History) -> Vec<Graph> {
    let part = |number| Graph::new(Settings { part: Part { number, of }, ..SETTINGS });
    let mut parts: Vec<Graph> = (0..of).map(part).collect();
    say(&mut parts, history);
    parts
}

fn say(parts: &mut [Graph], history: &History) {
    for (source, event) in history {
        let call = Call { source: *source, events: Vec::from([*event]), ..Call::default() };
        let calls = match parts.len() {
            1 => Vec::from([call]),
            _ => parts[0].settings.part.divide(call),
        };
        for (part, mut call) in parts.iter_mut().zip(calls) {
            part.offer(0, &mut call);
        }
    }
}

/// Who leads a search, and how: parts take turns and write by these numbers.
struct Lead<'a> {
    turns: &'a [u8],
    at: usize,
    /// What a part owns is told to nobody.
    is_silent: bool,
    rounds: u32,
}

impl Lead<'_> {
    fn new(turns: &[u8]) -> Lead<'_> {
        Lead { turns, at: 0, is_silent: false, rounds: 0 }
    }

    fn below(&mut self, end: usize) -> usize {
        self.at += 1;
        let turn = self.turns.get(self.at % self.turns.len().max(1)).copied().unwrap_or(0);
        usize::from(turn) % end
    }

    /// Searches; between turns `happens` is called.
    fn search(
        &mut self,
        parts: &mut [Graph],
        question: Question,
        mut happens: impl FnMut(&mut [Graph]),
    ) -> Found {
        let mut all: Vec<Search> = parts.iter().map(|it| Search::new(it, question)).collect();
        self.rounds = 0;
        loop {
            self.rounds += 1;
            let mut told = 0;
            let mut open: Vec<usize> = (0..all.len()).collect();
            while !open.is_empty() {
                happens(parts);
                let turn = self.below(open.len());
                let (one, most) = (open[turn], 1 + self.below(9));
                if all[one].step(&parts[one], self.rounds, most) {
                    continue;
                }
                open.swap_remove(turn);
                for to in (0..all.len()).filter(|it| *it != one) {
                    while let names = all[one].take(to as u32, most)
                        && !names.is_empty()
                    {
                        told += names.len();
                        assert!(names.len() <= most);
                        if self.is_silent && parts[one].settings.part.owns(names[0]) {
                            continue;
                        }
                        all[to].tell(&parts[to], &names, self.rounds);
                    }
                }
            }
            let found = all.iter().map(Search::found).fold(Found::default(), |one, other| Found {
                is_known: one.is_known || other.is_known,
                vertices: one.vertices + other.vertices,
                lowest: one.lowest.into_iter().chain(other.lowest).min(),
                distance: one.distance.or(other.distance),
            });
            if told == 0 && !all.iter().any(Search::goes_on) || found.distance.is_some() {
                return found;
            }
        }
    }

    fn component(&mut self, parts: &mut [Graph], of: u64) -> Option<(u64, u64)> {
        let found = self.search(parts, Question::Component { of }, |_| {});
        found.lowest.zip(found.is_known.then_some(found.vertices))
    }

    fn distance(&mut self, parts: &mut [Graph], from: u64, to: u64) -> Option<u32> {
        let found = self.search(parts, Question::Distance { from, to }, |_| {});
        found.distance.filter(|_| found.is_known)
    }
}

type Ways = BTreeSet<(u64, u64)>;

/// The vertices that are connected with one, by the edges themselves.
fn connected(edges: &Ways, of: u64) -> BTreeSet<u64> {
    let mut all = BTreeSet::from([of]);
    loop {
        let ends = edges.iter().filter(|it| all.contains(&it.0) != all.contains(&it.1));
        let more: Vec<u64> = ends.flat_map(|it| [it.0, it.1]).collect();
        if more.is_empty() {
            return all;
        }
        all.extend(more);
    }
}

/// The distances to all vertices from one.
fn far(edges: &Ways, from: u64) -> BTreeMap<u64, u32> {
    let mut far = BTreeMap::from([(from, 0)]);
    for steps in 1..=edges.len() as u32 + 1 {
        let ends = edges.iter().filter(|it| far.contains_key(&it.0));
        let ends: Vec<u64> = ends.map(|it| it.1).collect();
        for end in ends {
            far.entry(end).or_insert(steps);
        }
    }
    far
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn parts_find_what_one_part_finds(
        steps in prop::collection::vec(any::<(u8, u8, u8, u8, bool)>(), 1..60),
        turns in prop::collection::vec(any::<u8>(), 1..60),
        of in 1_u32..5,
        ends in any::<(u8, u8)>(),
    ) {
        let history = history(&steps);
        let (alone, mut parts) = (parts(1, &history), parts(of, &history));
        let (edges, names) = (model(&history), named(&history));
        let [one, other] = [ends.0, ends.1].map(|it| u64::from(it % 26));
        let mut lead = Lead::new(&turns);
        let right = connected(&edges, one);
        let right = right.first().copied().zip(Some(right.len() as u64));
        let right = right.filter(|_| names.contains(&one));
        prop_assert_eq!(lead.component(&mut parts, one), right);
        prop_assert_eq!(alone[0].component(one), right);
        let right = far(&edges, one).get(&other).copied();
        let right = right.filter(|_| names.contains(&one) && names.contains(&other));
        prop_assert_eq!(lead.distance(&mut parts, one, other), right);
        prop_assert_eq!(alone[0].distance(one, other), right);
    }

    #[test]
    fn edges_that_come_meanwhile_are_in_or_not(
        steps in prop::collection::vec(any::<(u8, u8, u8, u8, bool)>(), 1..60),
        more in prop::collection::vec(any::<(u8, u8)>(), 1..20),
        turns in prop::collection::vec(any::<u8>(), 1..60),
        of in 2_u32..5,
        ends in any::<(u8, u8)>(),
    ) {
        let history = history(&steps);
        let [one, other] = [ends.0, ends.1].map(|it| u64::from(it % 24));
        let edge = |(sequence, (from, to)): (u64, &(u8, u8))| {
            let (from, to) = (u64::from(from % 30), u64::from(to % 30));
            (9, crate::Event { sequence, time: 300, from, to, removes: false })
        };
        let more: History = (0..).zip(&more).map(edge).collect();
        let before = model(&history);
        let after = model(&history.iter().chain(&more).copied().collect());
        let (component, distance) =
            (Question::Component { of: one }, Question::Distance { from: one, to: other });
        for question in [component, distance] {
            let mut parts = parts(of, &history);
            let mut coming = more.chunks(1);
            let found = Lead::new(&turns).search(&mut parts, question, |parts| {
                coming.next().into_iter().for_each(|it| say(parts, &it.to_vec()));
            });
            let [least, most] = [&before, &after].map(|it| connected(it, one).len() as u64);
            let [longest, shortest] = [&before, &after].map(|it| far(it, one).get(&other).copied());
            match question {
                Question::Component { .. } => {
                    prop_assert!((least..=most).contains(&found.vertices));
                }
                Question::Distance { .. } => {
                    let longest = longest.unwrap_or(u32::MAX);
                    let told = found.distance.unwrap_or(u32::MAX);
                    prop_assert!((shortest.unwrap_or(u32::MAX)..=longest).contains(&told));
                }
            }
        }
    }
}

#[test]
fn a_part_that_does_not_tell_of_its_own_is_found() {
    // Each second vertex of a chain has another owner.
    let part = Part { number: 0, of: 2 };
    let mut names = [0, 1].map(|number| (0..).filter(move |it| part.owner(*it) == number));
    let chain: Vec<u64> = (0..40).filter_map(|it| names[it % 2].next()).collect();
    let edge = |(sequence, ends): (u64, &[u64])| {
        (1, crate::Event { sequence, time: 1, from: ends[0], to: ends[1], removes: false })
    };
    let history: History = (0..).zip(chain.windows(2)).map(edge).collect();
    let lowest = chain.iter().copied().min();
    for (is_silent, right) in [(false, 40), (true, 2)] {
        let mut lead = Lead { is_silent, ..Lead::new(&[0]) };
        let found = lead.component(&mut parts(2, &history), chain[0]);
        let is_right = found == lowest.map(|it| (it, right));
        assert!(is_right || is_silent && found.is_some_and(|it| it.1 < 40), "{found:?}");
        assert!(is_silent || lead.rounds > 20, "each edge is a piece: {}", lead.rounds);
    }
}
