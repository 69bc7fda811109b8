//! How fast a graph takes edges of a Kronecker graph, for how long it does nothing else meanwhile,
//! how long a sweep over it takes, and its memory on Linux:
//! `cargo run --release -p nile-graph --example rates -- [SCALE] [EDGES A VERTEX]`.

use std::time::Instant;

use nile_graph::{Call, Event, Graph, ONE, Part, Settings};

/// Events of one call.
const CALL: usize = 512;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|it| it.parse().expect("a number"));
    let scale: u32 = arguments.next().unwrap_or(18);
    let edges = u64::from(arguments.next().unwrap_or(16)) << scale;
    let calls = calls(&kronecker(scale, edges));
    let before = peak();
    for (way, is_swept) in [("without sweeps", false), ("beside sweeps", true)] {
        let (seconds, longest, graph) = load(calls.clone(), is_swept);
        println!("taken {way}: {:.2} M edges/s", edges as f64 / seconds / 1e6);
        println!("  longest turn: {:.1} ms", longest * 1e3);
        let (different, sweep) = settled(graph);
        println!("  a sweep over {different}: {:.1} ms", sweep * 1e3);
        let each = (peak() - before) as f64 / different as f64;
        println!("  memory so far: {each:.1} bytes an edge, calls included");
    }
}

/// The most memory so far, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// GAP's parameters; vertices have other numbers than their places, as they come from outside.
fn kronecker(scale: u32, edges: u64) -> Vec<Event> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut draw = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 32
    };
    let event = |sequence| {
        let (mut from, mut to) = (0_u64, 0_u64);
        for _ in 0..scale {
            let part = (draw() * 100) >> 32;
            from = from << 1 | u64::from(part >= 76);
            to = to << 1 | u64::from((57..76).contains(&part) || part >= 95);
        }
        let name = |place: u64| place.wrapping_mul(0x9E37_79B9) & ((1 << scale) - 1);
        Event { sequence, time: sequence, from: name(from), to: name(to), removes: false }
    };
    (0..edges).map(event).collect()
}

fn calls(events: &[Event]) -> Vec<Call> {
    let call = |events: &[Event]| Call { events: events.to_vec(), ..Call::default() };
    events.chunks(CALL).map(call).collect()
}

/// Seconds until all are in, with a piece of a sweep behind each call or not, and the longest turn.
fn load(calls: Vec<Call>, is_swept: bool) -> (f64, f64, Graph) {
    let settings = Settings {
        error: ONE / 1000,
        patience: 1,
        vertices: 1 << 30,
        edges: 1 << 40,
        part: Part::ALL,
    };
    let (mut graph, mut longest) = (Graph::new(settings), 0.0_f64);
    let begin = Instant::now();
    for mut call in calls {
        let turn = Instant::now();
        graph.offer(0, &mut call);
        if is_swept {
            graph.step(0, 4096);
        }
        longest = longest.max(turn.elapsed().as_secs_f64());
    }
    (begin.elapsed().as_secs_f64(), longest, graph)
}

/// How many edges there are, and seconds that one sweep over all takes.
fn settled(mut graph: Graph) -> (u64, f64) {
    while graph.step(0, 1 << 20).is_some() {}
    let sequence = graph.published().events;
    let mut call = Call::default();
    call.events.push(Event { sequence, time: u64::MAX, from: 1, to: 2, removes: true });
    graph.offer(0, &mut call);
    let begin = Instant::now();
    while graph.step(0, usize::MAX) == Some(false) {}
    (graph.published().edges, begin.elapsed().as_secs_f64())
}
