//! A graph that changes (FENCE): edges come in a shuffled order and some of them twice, others go,
//! while the node ranks its vertices. Each publication is looked at beside ranks that are computed
//! here in another way: together they are never more wrong than it says. In the end the graph is
//! that of the same events in their order, and so are its components and distances. With `parts=2`
//! it is divided among the workers.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{Instant, Status};
use nile_interfaces::graph::{Acknowledgement, Division, EdgeEvent, GraphClient, GraphState};
use nile_kernel::Core;
use nile_platform::Machine;
use nile_services::cluster;
use nile_stl::{CallError, CallResult, Stl};

use crate::arguments::Arguments;
use crate::calls::serve;
use crate::conduct::{Findings, conduct, conducts};

const NAME: &str = "scenario";
const SOURCE: u64 = 3;

/// Events of a call.
const PART: usize = 100;

/// How long it may take until a worker has the service, and how often it is looked for.
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(1);

/// One, and the probability to follow an edge, as the ranks of the service have them.
const ONE: u128 = 1 << 32;
const FOLLOW: u128 = 3_650_722_201;

/// How good ranks are to be, of [`ONE`].
const ERROR: u64 = (ONE / 10_000) as u64;

/// Distances and components that are looked at.
const WAYS: u64 = 4;

/// Iterations of the model: what they leave is below what its numbers can say.
const ITERATIONS: usize = 150;

/// Starts this core's part: so many `edges` come among so many `vertices`.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    serve(core);
    let edges = arguments.number("edges", 1500);
    let parts = arguments.number("parts", 1) as u32;
    let vertices = arguments.number("vertices", 120).clamp(2, edges.max(2));
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "graph", move |findings| async move {
            let stl = core.stl();
            if core.peers().count() == 0 {
                return;
            }
            if let Err(error) = check(&stl, &findings, parts, edges, vertices).await {
                findings.check(false, format_args!("{error}"));
            }
        });
    }
}

async fn check(
    stl: &Stl,
    findings: &Findings,
    parts: u32,
    edges: u64,
    vertices: u64,
) -> CallResult<()> {
    let graph = find(stl).await?;
    match parts {
        1 => graph.create(NAME.into(), ERROR, 1000, 1 << 16, 0).await?,
        _ => divide(stl, parts).await?,
    }
    let mut dice = Dice(edges + vertices);
    let events = events(&mut dice, edges, vertices);
    let mut order: Vec<usize> = (0..events.len()).collect();
    // Nobody is farther ahead than a source may be.
    for block in order.chunks_mut(1000) {
        for at in (1..block.len()).rev() {
            block.swap(at, dice.below(at as u64 + 1) as usize);
        }
    }
    for part in order.chunks(PART) {
        let again = dice.below(part.len() as u64) as usize;
        let said = part.iter().chain(&part[again..]).map(|at| events[*at]).collect();
        let offered = graph.offer(NAME, SOURCE, 0, Acknowledgement::Taken, said).await?;
        let (new, known) = (part.len() as u64, (part.len() - again) as u64);
        let is_counted = (offered.new, offered.known, offered.ahead) == (new, known, 0);
        findings.check(is_counted, format_args!("{offered:?} of {new} events"));
    }
    let state = graph.settled(NAME).await?;
    let known = model(&events);
    let counts = (state.events, state.behind, state.edges, state.refused);
    let right = (events.len() as u64, 0, known.len() as u64, 0);
    findings.check(counts == right, format_args!("{counts:?} and not {right:?}"));
    findings.check(state.error <= ERROR, format_args!("the error is {} at most", state.error));
    compare(&graph, findings, &state, &known).await?;
    for _ in 0..WAYS {
        let ends = (dice.below(vertices), dice.below(vertices));
        follow(&graph, findings, ends, &known).await?;
    }
    // What comes late and is old changes nothing.
    let late = EdgeEvent { sequence: edges, time: 0, removes: true, ..events[0] };
    graph.offer(NAME, SOURCE, 1, Acknowledgement::Taken, vec![late]).await?;
    let after = graph.settled(NAME).await?;
    findings.check(after.edges == state.edges, format_args!("an old event removed an edge"));
    findings.check(after.watermark <= 1, format_args!("{} is promised", after.watermark));
    findings.figure("edges", state.edges);
    findings.figure("publications", state.publication);
    graph.remove(NAME).await?;
    let gone = graph.state(NAME).await.err().map(|it| it.status);
    findings.check(gone == Some(Status::NotFound), format_args!("{gone:?} of a removed graph"));
    Ok(())
}

/// All ranks beside those of the model.
async fn compare(
    graph: &GraphClient,
    findings: &Findings,
    state: &GraphState,
    known: &BTreeSet<(u64, u64)>,
) -> CallResult<()> {
    let mut wrong = 0_u128;
    let ranks = ranks(state.vertices, known);
    for (vertex, right) in &ranks {
        let rank = u128::from(graph.rank(NAME, *vertex).await?) >> 32;
        wrong += rank.abs_diff(*right);
    }
    // The model rounds each rank, and so does the service.
    let bound = u128::from(state.error) + 4 * ranks.len() as u128;
    findings.check(wrong <= bound, format_args!("{wrong} is wrong, and {bound} were said"));
    let top = graph.top(NAME, 5).await?;
    let pairs = top.windows(2).filter(|pair| pair[0].certain);
    let is_right = |pair: &[nile_interfaces::graph::RankEntry]| {
        ranks.get(&pair[0].vertex) > ranks.get(&pair[1].vertex)
    };
    findings.check(pairs.into_iter().all(is_right), format_args!("{top:?} is certain"));
    Ok(())
}

/// The distance between two vertices, and the component of the first, beside those of the model.
async fn follow(
    graph: &GraphClient,
    findings: &Findings,
    (from, to): (u64, u64),
    known: &BTreeSet<(u64, u64)>,
) -> CallResult<()> {
    let right = reached(from, known).get(&to).copied();
    let told = graph.distance(NAME, from, to).await?;
    findings.check(told == right, format_args!("{told:?} from {from} to {to}, not {right:?}"));
    let both: BTreeSet<(u64, u64)> =
        known.iter().flat_map(|(from, to)| [(*from, *to), (*to, *from)]).collect();
    let all = reached(from, &both);
    let right = all.keys().next().map(|lowest| (*lowest, all.len() as u64));
    let told = graph.component(NAME, from).await?;
    let told = Some((told.lowest, told.vertices));
    findings.check(told == right, format_args!("{told:?} with {from}, not {right:?}"));
    Ok(())
}

/// The vertices that edges lead to from one, and how many they are.
fn reached(from: u64, edges: &BTreeSet<(u64, u64)>) -> BTreeMap<u64, u32> {
    let mut reached = BTreeMap::from([(from, 0)]);
    let mut waiting = VecDeque::from([(from, 0)]);
    while let Some((vertex, far)) = waiting.pop_front() {
        for (_, to) in edges.range((vertex, 0)..=(vertex, u64::MAX)) {
            if !reached.contains_key(to) {
                reached.insert(*to, far + 1);
                waiting.push_back((*to, far + 1));
            }
        }
    }
    reached
}

/// Makes a graph of so many parts, on all workers in turn.
async fn divide(stl: &Stl, parts: u32) -> CallResult<()> {
    let places = cluster::places(stl, "graph").await?;
    for (part, (_, place)) in (0..parts).zip(places.into_iter().cycle()) {
        let (name, division) = (format!("{NAME}/{part}"), Division { parts, number: 7 });
        let client = GraphClient::at(stl, place);
        client.create_part(name, ERROR, 1000, 1 << 16, 0, division).await?;
    }
    Ok(())
}

/// The service, once a worker has it.
async fn find(stl: &Stl) -> CallResult<GraphClient> {
    let host = stl.host();
    let until: Instant = host.now() + PATIENCE;
    loop {
        match GraphClient::find(stl).await {
            Err(CallError { status: Status::NotFound, .. }) if host.now() < until => {
                host.pause(RETRY).await;
            }
            found => return found,
        }
    }
}

/// Numbers without a pattern.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % limit.max(1)
    }
}

/// Edges of which many lead to few vertices; one in eight goes again. Every vertex is named.
fn events(dice: &mut Dice, edges: u64, vertices: u64) -> Vec<EdgeEvent> {
    let mut events: Vec<EdgeEvent> = Vec::new();
    for sequence in 0..edges {
        let time = sequence + 1;
        let is_named = sequence < vertices;
        let event = match dice.below(8) {
            0 if !is_named => {
                let known = events[dice.below(sequence) as usize];
                EdgeEvent { sequence, time, removes: true, ..known }
            }
            _ => {
                let from = if is_named { sequence } else { dice.below(vertices) };
                let limit = 1 + dice.below(vertices);
                EdgeEvent { sequence, time, from, to: dice.below(limit), removes: false }
            }
        };
        events.push(event);
    }
    events
}

/// The edges after all events.
fn model(events: &[EdgeEvent]) -> BTreeSet<(u64, u64)> {
    let mut edges = BTreeSet::new();
    for event in events {
        match event.removes {
            true => edges.remove(&(event.from, event.to)),
            false => edges.insert((event.from, event.to)),
        };
    }
    edges
}

/// Ranks of a sum of [`ONE`], by iterating; what leaks goes everywhere.
fn ranks(vertices: u64, edges: &BTreeSet<(u64, u64)>) -> BTreeMap<u64, u128> {
    // More digits than are told.
    let one = ONE << 24;
    let count = u128::from(vertices.max(1));
    let mut degrees = vec![0_u128; vertices as usize];
    edges.iter().for_each(|(from, _)| degrees[*from as usize] += 1);
    let mut ranks = vec![one / count; vertices as usize];
    for _ in 0..ITERATIONS {
        let loose = ranks.iter().zip(&degrees).filter(|(_, degree)| **degree == 0);
        let loose: u128 = loose.map(|(rank, _)| *rank).sum();
        let own = (one - one * FOLLOW / ONE + loose * FOLLOW / ONE) / count;
        let mut next = vec![own; vertices as usize];
        for (from, to) in edges {
            let share = ranks[*from as usize] * FOLLOW / degrees[*from as usize];
            next[*to as usize] += share / ONE;
        }
        ranks = next;
    }
    (0..).zip(ranks).map(|(vertex, rank)| (vertex, rank >> 24)).collect()
}
