//! Planning a composition over 1,000 services, beside the 50 ms that it may take; and its plans
//! beside brute force, which looks at every way to a value.
//!
//! The services are in layers: each of a layer leads from two values of the layer before to one
//! of its own. The control of the first plans by brute force; that of the second takes the first
//! service that leads to a value.

use std::hint::black_box;

use nile_bosml::schema::{Callers, Method, Mode as Half, Parameter, Type};
use nile_synthesis::{Goal, Offer, Quality, Value, synthesize};

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::rounds::contest;

/// What a plan over the large graph may take.
const LIMIT_MS: f64 = 50.0;

/// Graphs that are compared with brute force.
const GRAPHS: u64 = 200;

/// A graph of services.
#[derive(Clone, Copy)]
struct Shape {
    layers: usize,
    services: usize,
    values: usize,
}

const LARGE: Shape = Shape { layers: 6, services: 167, values: 25 };
const SMALL: Shape = Shape { layers: 3, services: 12, values: 4 };

/// See the module.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let graph = Graph::of(LARGE, 7);
    let goal = graph.goal();
    if synthesize("plan", &goal, &graph.offers).is_err() {
        return Err(std::io::Error::other("the large graph has no plan").into());
    }
    let rounds = if mode == Mode::Control { 1 } else { 50 };
    let mut plan = || match mode {
        Mode::Real => drop(black_box(synthesize("plan", &goal, black_box(&graph.offers)))),
        Mode::Control => drop(black_box(graph.brute_force(LARGE.layers, 0))),
    };
    let times = contest(rounds, 1, &mut [&mut plan]);
    let ours = times.median(0) / 1e6;
    let limit = Peer { name: "what it may take".into(), value: LIMIT_MS };
    let quick = Figure::new("compose", "ms", ours, limit, Target::AtMost(1.0));

    let is_best = |seed: &u64| {
        let graph = Graph::of(SMALL, *seed);
        let best = graph.brute_force(SMALL.layers, 0);
        let ours = match mode {
            Mode::Real => {
                synthesize("plan", &graph.goal(), &graph.offers).ok().map(|it| it.latency_ns)
            }
            Mode::Control => graph.first_found(SMALL.layers, 0),
        };
        ours == best
    };
    let equal = (1..=GRAPHS).filter(is_best).count() as f64;
    let all = Peer { name: "brute force".into(), value: GRAPHS as f64 };
    let exact = Figure::new("compose-exact", "graphs", equal, all, Target::AtLeast(1.0));
    Ok(vec![quick, exact])
}

struct Graph {
    shape: Shape,
    offers: Vec<Offer>,
    /// For each layer and value of it the services that lead there.
    ways: Vec<Vec<Vec<Way>>>,
}

/// What a service takes, and how long.
type Way = ([usize; 2], u64);

impl Graph {
    fn of(shape: Shape, seed: u64) -> Graph {
        let mut random = seed;
        let mut draw = |most: usize| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (random >> 33) as usize % most
        };
        let mut ways = vec![vec![Vec::new(); shape.values]; shape.layers + 1];
        let mut offers = Vec::new();
        for layer in 0..shape.layers {
            for at in 0..shape.services {
                let takes = [draw(shape.values), draw(shape.values)];
                let (gives, latency_ns) = (at % shape.values, 1 + draw(1000) as u64);
                ways[layer + 1][gives].push((takes, latency_ns));
                let quality = Quality { latency_ns, per_second: u64::MAX, failures_ppm: 0 };
                let service = format!("s{layer}_{at}");
                let method = method(layer, &takes, gives);
                offers.push(Offer { service, method, quality });
            }
        }
        Graph { shape, offers, ways }
    }

    /// From all values of the first layer to one of the last.
    fn goal(&self) -> Goal {
        let given = (0..self.shape.values).filter(|value| self.is_taken(*value));
        Goal {
            given: given.map(|value| Value::of(name(0, value))).collect(),
            wanted: vec![Value::of(name(self.shape.layers, 0))],
            ..Goal::default()
        }
    }

    fn is_taken(&self, value: usize) -> bool {
        self.ways[1].iter().flatten().any(|(takes, _)| takes.contains(&value))
    }

    /// The least time to a value: every way to it is looked at.
    fn brute_force(&self, layer: usize, value: usize) -> Option<u64> {
        if layer == 0 {
            return Some(0);
        }
        let ways = self.ways[layer][value].iter().filter_map(|(takes, latency_ns)| {
            let [one, other] = takes.map(|it| self.brute_force(layer - 1, it));
            Some(one?.max(other?) + latency_ns)
        });
        ways.min()
    }

    /// The time to a value by the first service that leads there.
    fn first_found(&self, layer: usize, value: usize) -> Option<u64> {
        if layer == 0 {
            return Some(0);
        }
        let (takes, latency_ns) = self.ways[layer][value].first()?;
        let [one, other] = takes.map(|it| self.first_found(layer - 1, it));
        Some(one?.max(other?) + latency_ns)
    }
}

fn name(layer: usize, value: usize) -> String {
    format!("v{layer}_{value}")
}

fn method(layer: usize, takes: &[usize; 2], gives: usize) -> Method<'static> {
    let parameter = |layer, value| Parameter {
        name: name(layer, value).into(),
        ..Parameter::plain("", Type::String)
    };
    let mut takes = takes.to_vec();
    takes.dedup();
    Method {
        name: "run".into(),
        doc: "".into(),
        mode: Half::Kernel,
        callers: Callers::ALL,
        pure: true,
        parameters: takes.into_iter().map(|it| parameter(layer, it)).collect::<Vec<_>>().into(),
        reply: vec![parameter(layer + 1, gives)].into(),
    }
}
