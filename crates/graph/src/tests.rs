//! Graphs from events in any order, beside models; ranks beside a plain iteration in floating
//! point, always within their bound.

extern crate std;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use proptest::prelude::*;

use crate::generation::{Keeping, Loading};
use crate::{Call, Damaged, Event, Graph, ONE, Offered, Part, Reject, Segment, Settings};

pub const SETTINGS: Settings = Settings {
    error: ONE >> 20,
    patience: 1 << 20,
    vertices: 1 << 20,
    edges: 1 << 30,
    part: Part::ALL,
};

fn offer(graph: &mut Graph, now: u64, source: u64, events: &[Event], until: u64) -> Offered {
    graph.offer(now, &mut Call { source, until, events: events.to_vec(), ..Call::default() })
}

/// Events as they happened, each with its source.
pub type History = Vec<(u64, Event)>;

pub fn history(steps: &[(u8, u8, u8, u8, bool)]) -> History {
    let mut next = BTreeMap::<u64, u64>::new();
    let event = |(source, time, from, to, removes): &(u8, u8, u8, u8, bool)| {
        let source = u64::from(source % 3);
        let sequence = next.entry(source).or_default();
        *sequence += 1;
        let (time, from, to) = (u64::from(*time), u64::from(from % 24), u64::from(to % 24));
        let event = Event { sequence: *sequence - 1, time, from, to, removes: *removes };
        (source, event)
    };
    steps.iter().map(event).collect()
}

/// What holds about each edge in the end.
pub fn model(history: &History) -> BTreeSet<(u64, u64)> {
    let mut last = BTreeMap::new();
    for (source, event) in history {
        let news = (event.stamp(*source), !event.removes);
        let known = last.entry((event.from, event.to)).or_insert(news);
        *known = (*known).max(news);
    }
    last.into_iter().filter(|(_, (_, is_there))| *is_there).map(|(edge, _)| edge).collect()
}

pub fn edges(graph: &Graph) -> BTreeSet<(u64, u64)> {
    let mut edges = BTreeSet::new();
    graph.each_edge(|from, to| assert!(edges.insert((from, to)), "an edge is told twice"));
    edges
}

fn settle(graph: &mut Graph) {
    let left = (0..1 << 20).find(|_| graph.step(0, 7).is_none());
    assert!(left.is_some(), "sweeps come to an end");
}

/// Ranks by iterating until nothing changes, with what leaks put everywhere.
pub fn ranks(vertices: &[u64], edges: &BTreeSet<(u64, u64)>) -> BTreeMap<u64, f64> {
    let count = vertices.len() as f64;
    let mut ranks: BTreeMap<u64, f64> = vertices.iter().map(|it| (*it, 1.0 / count)).collect();
    let mut out = BTreeMap::<u64, f64>::new();
    edges.iter().for_each(|(from, _)| *out.entry(*from).or_default() += 1.0);
    for _ in 0..200 {
        let loose = ranks.iter().filter(|(it, _)| !out.contains_key(it)).map(|it| it.1);
        let base = (0.15 + 0.85 * loose.sum::<f64>()) / count;
        let mut next: BTreeMap<u64, f64> = vertices.iter().map(|it| (*it, base)).collect();
        for (from, to) in edges {
            *next.entry(*to).or_default() += 0.85 * ranks[from] / out[from];
        }
        ranks = next;
    }
    ranks
}

/// By how much all published ranks are wrong together.
fn error(graph: &Graph, vertices: &[u64], edges: &BTreeSet<(u64, u64)>) -> f64 {
    let wrong = |(vertex, right): (&u64, &f64)| {
        let rank = graph.rank(*vertex).unwrap() as f64 / 2_f64.powi(64);
        (rank - right).abs()
    };
    ranks(vertices, edges).iter().map(wrong).sum()
}

fn bound(graph: &Graph) -> f64 {
    graph.published().error as f64 / ONE as f64
}

pub fn named(history: &History) -> Vec<u64> {
    let names = history.iter().flat_map(|(_, event)| [event.from, event.to]);
    names.collect::<BTreeSet<u64>>().into_iter().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_order_and_repetition_of_events_ends_in_one_graph(
        steps in prop::collection::vec(any::<(u8, u8, u8, u8, bool)>(), 1..120),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..300),
        pauses in 1_usize..9,
    ) {
        let history = history(&steps);
        let mut graph = Graph::new(SETTINGS);
        let again = order.iter().map(|it| history[it.index(history.len())]);
        for (at, (source, event)) in again.chain(history.iter().rev().copied()).enumerate() {
            offer(&mut graph, 0, source, &[event], 0);
            if at % pauses == 0 {
                graph.step(0, 5);
            }
        }
        settle(&mut graph);
        prop_assert_eq!(edges(&graph), model(&history));
        let state = graph.published();
        prop_assert_eq!((state.events, state.behind), (history.len() as u64, 0));
        prop_assert_eq!(state.edges, model(&history).len() as u64);
    }

    #[test]
    fn ranks_are_never_more_wrong_than_they_say(
        steps in prop::collection::vec(any::<(u8, u8, u8, u8, bool)>(), 1..120),
        more in any::<(u8, u8, u8, u8, bool)>(),
    ) {
        let mut all = history(&steps);
        let mut graph = Graph::new(Settings { error: ONE >> 24, ..SETTINGS });
        for (source, event) in &all {
            offer(&mut graph, 0, *source, &[*event], 0);
        }
        let mut last = f64::INFINITY;
        while let Some(is_over) = graph.step(0, 5) {
            if is_over {
                let error = error(&graph, &named(&all), &model(&all));
                prop_assert!(error <= bound(&graph) + 1e-12, "{} {}", error, bound(&graph));
                last = bound(&graph);
            }
        }
        prop_assert!(last <= (ONE >> 24) as f64 / ONE as f64);
        // An edge that comes in the midst of a sweep belongs to the next one.
        let before = all.clone();
        let mut steps = steps.clone();
        steps.push(more);
        all = history(&steps);
        let other = Event { sequence: 0, time: 0, from: 90, to: 91, removes: false };
        offer(&mut graph, 0, 9, &[other], 0);
        graph.step(0, 1);
        let (source, event) = all[all.len() - 1];
        offer(&mut graph, 0, source, &[event], 0);
        while graph.step(0, 1) == Some(false) {}
        let mut known = before;
        known.push((9, other));
        let error = error(&graph, &named(&known), &model(&known));
        prop_assert!(error <= bound(&graph) + 1e-12, "{} {}", error, bound(&graph));
        prop_assert_eq!(graph.published().behind, 1);
    }
}

/// Edges of a graph with few vertices that many lead to.
fn skewed(count: u64) -> Vec<Event> {
    let mut state = 7_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        state >> 33
    };
    let vertex = |number: u64| number % (1 + number / 2 % 2000);
    (0..count)
        .map(|sequence| {
            let (from, to) = (next() % 2000, vertex(next()));
            Event { sequence, time: sequence, from, to, removes: false }
        })
        .collect()
}

#[test]
fn generations_hold_what_single_events_said() {
    let events = skewed(40_000);
    let mut graph = Graph::new(SETTINGS);
    let mut history: History = Vec::new();
    for part in events.chunks(5000) {
        offer(&mut graph, 0, 1, part, 0);
        history.extend(part.iter().map(|it| (1, *it)));
        settle(&mut graph);
        assert_eq!(edges(&graph), model(&history));
    }
    // Half of them go, by another source that is asked later.
    let gone = events.iter().step_by(2).zip(0..);
    let gone: Vec<Event> = gone
        .map(|(it, sequence)| Event { sequence, time: 1 << 40, removes: true, ..*it })
        .collect();
    for part in gone.chunks(3000) {
        offer(&mut graph, 0, 2, part, 0);
        history.extend(part.iter().map(|it| (2, *it)));
        settle(&mut graph);
    }
    assert_eq!(edges(&graph), model(&history));
    // What comes late about one that went changes nothing.
    let late = Event { sequence: gone.len() as u64, time: 5, removes: false, ..gone[0] };
    offer(&mut graph, 0, 2, &[late], 0);
    settle(&mut graph);
    assert_eq!(edges(&graph), model(&history));
    let names = named(&history);
    let error = error(&graph, &names, &model(&history));
    assert!(error <= bound(&graph) && bound(&graph) < 1e-5, "{error} {}", bound(&graph));
}

#[test]
fn edges_of_a_generation_go_and_come_back_before_the_next_one() {
    let mut graph = Graph::new(SETTINGS);
    let events = skewed(20_000);
    let mut history: History = events.iter().map(|it| (1, *it)).collect();
    offer(&mut graph, 0, 1, &events, 0);
    settle(&mut graph);
    // All go, and every other one is back.
    for (time, step) in [(1 << 40, 1), (1 << 41, 2)] {
        let changed = events[..400].iter().step_by(step).zip(history.len() as u64..);
        let changed: Vec<Event> = changed
            .map(|(it, sequence)| Event { sequence, time, removes: step == 1, ..*it })
            .collect();
        offer(&mut graph, 0, 1, &changed, 0);
        history.extend(changed.iter().map(|it| (1, *it)));
        settle(&mut graph);
        assert_eq!(edges(&graph), model(&history));
    }
}

#[test]
fn the_top_is_in_order_and_says_what_is_certain() {
    let mut graph = Graph::new(SETTINGS);
    let edge = |sequence, from, to| Event { sequence, time: 0, from, to, removes: false };
    // Two that nobody can tell apart, one that more lead to, and the ten that do.
    let to = |from: u64| if from < 6 { 100 } else { 101 + from % 2 };
    let events: Vec<Event> = (0..10).map(|from| edge(from, from, to(from))).collect();
    offer(&mut graph, 0, 1, &events, 0);
    assert!(graph.top(9).is_empty(), "nothing is published");
    settle(&mut graph);
    let top = graph.top(3);
    assert_eq!(top.iter().map(|it| it.vertex).collect::<Vec<_>>(), [100, 101, 102]);
    assert_eq!(top.iter().map(|it| it.is_certain).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(top[0].rank, graph.rank(100).unwrap());
    let all = graph.top(99);
    assert_eq!((all.len(), all[12].is_certain), (13, true));
    let sum: u128 = all.iter().map(|it| u128::from(it.rank)).sum();
    assert!((1_u128 << 64) - sum <= 13, "{sum}");
    assert_eq!(graph.rank(999), None);
}

#[test]
fn sweeps_end_when_they_make_nothing_better() {
    let mut graph = Graph::new(Settings { error: 1, ..SETTINGS });
    offer(&mut graph, 0, 1, &skewed(5000), 0);
    settle(&mut graph);
    assert!(graph.published().error > 1 && bound(&graph) < 1e-5);
}

#[test]
fn ranks_come_to_their_error_though_edges_go_on_coming() {
    let settings = Settings { error: ONE / 1000, ..SETTINGS };
    let mut graph = Graph::new(settings);
    let events = skewed(4000);
    let (first, new) = events.split_at(3000);
    for piece in first.chunks(512) {
        offer(&mut graph, 0, 1, piece, 0);
    }
    settle(&mut graph);
    let before = graph.published();
    let mut good = BTreeSet::new();
    // One comes with each sweep.
    for event in new {
        offer(&mut graph, 0, 1, core::slice::from_ref(event), 0);
        while graph.step(0, 1 << 20) == Some(false) {}
        let it = graph.published();
        assert_eq!(it.events + it.behind, event.sequence + 1, "what waits is behind");
        if it.error <= settings.error {
            good.insert(it.events);
        }
    }
    let last = good.last().copied().unwrap_or(0);
    assert!(good.len() > 10 && last > before.events + 900, "{} good ones, {last}", good.len());
}

#[test]
fn components_and_distances_follow_edges_that_come_and_go() {
    let mut graph = Graph::new(SETTINGS);
    let edge = |sequence, from, to, removes| Event { sequence, time: sequence, from, to, removes };
    let way: Vec<Event> = (0..5).map(|it| edge(it, 10 + it, 11 + it, false)).collect();
    offer(&mut graph, 0, 1, &way, 0);
    offer(&mut graph, 0, 1, &[edge(5, 50, 51, false)], 0);
    assert_eq!([graph.distance(10, 15), graph.distance(15, 10)], [Some(5), None]);
    assert_eq!(graph.distance(10, 10), Some(0));
    assert_eq!((graph.component(15), graph.component(51)), (Some((10, 6)), Some((50, 2))));
    offer(&mut graph, 0, 1, &[edge(6, 10, 14, false), edge(7, 12, 13, true)], 0);
    assert_eq!([graph.distance(10, 15), graph.distance(11, 13)], [Some(2), None]);
    offer(&mut graph, 0, 1, &[edge(8, 10, 14, true)], 0);
    assert_eq!((graph.component(15), graph.component(10)), (Some((13, 3)), Some((10, 3))));
    assert_eq!((graph.component(1), graph.distance(1, 10)), (None, None));
}

#[test]
fn what_there_is_no_room_for_is_counted_and_the_rest_goes_on() {
    let mut graph = Graph::new(Settings { vertices: 3, edges: 2, ..SETTINGS });
    let edge = |sequence, from, to, removes| Event { sequence, time: sequence, from, to, removes };
    let events = [edge(0, 1, 2, false), edge(1, 2, 3, false), edge(2, 3, 4, false)];
    offer(&mut graph, 0, 1, &events, 0);
    offer(&mut graph, 0, 1, &[edge(3, 3, 1, false), edge(4, 1, 2, true), edge(5, 3, 1, false)], 0);
    settle(&mut graph);
    assert_eq!(edges(&graph), BTreeSet::from([(2, 3), (3, 1)]));
    assert_eq!(graph.published().refused, 2);
}

#[test]
fn a_publication_says_up_to_when_it_is_whole() {
    let mut graph = Graph::new(Settings { patience: 10, ..SETTINGS });
    assert_eq!(graph.step(0, 9), None, "there is nothing");
    let edge = |sequence, time| Event { sequence, time, from: sequence, to: 7, removes: false };
    offer(&mut graph, 0, 1, &[edge(0, 3), edge(1, 9)], 12);
    let offered = offer(&mut graph, 0, 2, &[edge(1, 4), edge(1, 4), edge(99_999, 5)], 30);
    assert_eq!((offered.new, offered.known, offered.ahead, offered.next), (1, 1, 1, 0));
    settle(&mut graph);
    assert_eq!(graph.published().watermark, 0, "the second source lacks its first");
    offer(&mut graph, 5, 2, &[edge(0, 2)], 30);
    settle(&mut graph);
    assert_eq!(graph.published().watermark, 12);
    assert_eq!(graph.sources(5, None, 9).len(), 2);
}

fn reject(sequence: u64) -> Reject {
    Reject { sequence, text: "1 x".into(), why: "\"x\" is no number".into() }
}

#[test]
fn what_is_no_event_is_kept_until_it_is_mended() {
    let mut graph = Graph::new(SETTINGS);
    let edge = |sequence| Event { sequence, time: 1, from: sequence, to: 7, removes: false };
    let call = |events: Vec<Event>, rejects| Call { source: 4, events, rejects, ..Call::default() };
    let mut first = call([edge(0), edge(2)].into(), [reject(1), reject(3)].into());
    let offered = graph.offer(0, &mut first);
    assert_eq!((offered.new, offered.next, graph.rejected()), (4, 4, 2));
    let again = graph.offer(0, &mut first);
    assert_eq!((again.new, again.known, graph.rejected()), (0, 4, 2));
    assert_eq!((first.events.len(), first.rejects.len()), (0, 0), "nothing of it is new");
    let mended = graph.offer(0, &mut call([edge(1)].into(), Vec::new()));
    assert_eq!((mended.new, graph.rejected()), (1, 1));
    assert_eq!(graph.rejects().next(), Some((4, &reject(3))));
    settle(&mut graph);
    assert_eq!(edges(&graph), BTreeSet::from([(0, 7), (1, 7), (2, 7)]));
    assert_eq!(graph.published().events, 3);
}

fn keeping(cut: u64) -> Keeping {
    Keeping { graph: 77, copies: 2, cut }
}

/// A generation; some of what comes then comes while it is made.
fn saved(graph: &mut Graph, cut: u64, coming: &[(u64, Event)]) -> Vec<Vec<u8>> {
    graph.want_generation(keeping(cut));
    let mut coming = coming.iter();
    let mut saving = (0..1 << 20).find_map(|_| {
        if let Some((source, event)) = coming.next() {
            offer(graph, 0, *source, &[*event], 0);
        }
        graph.step(0, 3);
        graph.take_generation()
    });
    let saving = saving.as_mut().expect("it is made");
    let all = core::iter::from_fn(|| saving.next(graph)).collect();
    graph.end_generation();
    all
}

fn loaded(parts: &[Vec<u8>]) -> Result<(Graph, Keeping), Damaged> {
    let mut loading = Loading::default();
    parts.iter().flat_map(|it| it.chunks(33)).try_for_each(|it| loading.add(it))?;
    loading.finish()
}

#[test]
fn a_generation_knows_the_source_that_came_while_it_was_made() {
    let mut graph = Graph::new(SETTINGS);
    let edge = |sequence, to, removes| Event { sequence, time: 1, from: 0, to, removes };
    let first: Vec<Event> = (0..20).map(|to| edge(to, to, false)).collect();
    offer(&mut graph, 0, 5, &first, 0);
    settle(&mut graph);
    // It comes when the first vertices are done, and the last one is not.
    graph.want_generation(keeping(5));
    (0..2).for_each(|_| assert_eq!(graph.step(0, 3), Some(false)));
    offer(&mut graph, 0, 9, &[edge(0, 19, true)], 0);
    let (mut graph, _) = loaded(&saved(&mut graph, 5, &[])).expect("it is whole");
    let is_there = |graph: &Graph| edges(graph).contains(&(0, 19));
    assert!(!is_there(&graph));
    // At the same time, what the source with the higher number says holds.
    offer(&mut graph, 0, 7, &[edge(0, 19, false)], 0);
    settle(&mut graph);
    assert!(!is_there(&graph));
    assert_eq!(offer(&mut graph, 0, 9, &[edge(0, 19, true)], 0).new, 1, "it is in the log");
}

#[test]
fn what_comes_waits_for_good_ranks_unless_it_is_to_be_taken_in() {
    let edge = |it: u64| Event { sequence: it, time: 1, from: it % 9, to: it % 97, removes: false };
    for is_flood in [false, true] {
        let mut graph = Graph::new(SETTINGS);
        offer(&mut graph, 0, 5, &(0..500).map(edge).collect::<Vec<_>>(), 0);
        graph.step(0, 1);
        offer(&mut graph, 0, 5, &[edge(500)], 0);
        while graph.step(0, 1) == Some(false) {}
        if is_flood {
            graph.take_in();
        }
        while graph.prepare(5) {}
        let has_it = |graph: &Graph| edges(graph).contains(&(500 % 9, 500 % 97));
        assert_eq!((graph.published().behind, has_it(&graph)), (1, is_flood));
        settle(&mut graph);
        assert_eq!((graph.published().behind, has_it(&graph)), (0, true));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_graph_that_was_saved_goes_on_as_it_would_have(
        steps in prop::collection::vec(any::<(u8, u8, u8, u8, bool)>(), 2..120),
        half in any::<prop::sample::Index>(),
        damage in any::<(prop::sample::Index, u8)>(),
    ) {
        let history = history(&steps);
        let half = half.index(history.len());
        let mut graph = Graph::new(SETTINGS);
        for (source, event) in &history[..half] {
            offer(&mut graph, 0, *source, &[*event], 0);
            graph.step(0, 5);
        }
        let rejects = Vec::from([reject(0)]);
        let mut first = Call { source: 9, until: 50, rejects, ..Call::default() };
        graph.offer(0, &mut first);
        let parts = saved(&mut graph, 5, &history[half..]);
        let (mut loaded_graph, keeps) = loaded(&parts).expect("it is whole");
        prop_assert_eq!(keeps, keeping(5));
        // Some of before come again, as they do out of a log.
        for (source, event) in &history[half / 2..] {
            let (source, events) = (*source, Vec::from([*event]));
            let mut call = Call { source, events, ..Call::default() };
            let record = Segment { graph: 77, number: 5, calls: [call.clone()].into() };
            prop_assert_eq!(Segment::decode(&record.encode()), Ok(record));
            loaded_graph.offer(0, &mut call);
        }
        settle(&mut loaded_graph);
        prop_assert_eq!(edges(&loaded_graph), model(&history));
        let state = loaded_graph.published();
        prop_assert_eq!((state.events, loaded_graph.rejected()), (history.len() as u64, 1));
        let error = error(&loaded_graph, &named(&history), &model(&history));
        prop_assert!(error <= bound(&loaded_graph) + 1e-12);
        // What is damaged may be told or not, as those who keep it check it, and harms nobody.
        let mut bytes = parts.concat();
        let at = damage.0.index(bytes.len());
        bytes[at] ^= damage.1;
        let _ = loaded(&[bytes.clone()]);
        bytes.truncate(at);
        prop_assert!(loaded(&[bytes]).is_err(), "its end is missing");
    }
}
