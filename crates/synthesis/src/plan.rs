//! From a goal to a plan: which methods are called, and how values go between them.

use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use nile_bosml::schema::Parameter;
use nile_registry::Composition;
use nile_registry::composition::{Orchestration, Reference, Shape, Source, Wire};
use nile_registry::limits::MAX_PARTS;

use crate::error::SynthesisError;
use crate::goal::{Goal, Objective, Offer};
use crate::graph::{Graph, Reached};

/// A call of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step<'o> {
    /// Whose.
    pub offer: &'o Offer,
    /// When it can begin: all that it takes is there.
    pub begins_ns: u64,
    /// When it is over.
    pub ends_ns: u64,
}

/// How wanted values are reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan<'o> {
    /// Its calls, in the order of their ends.
    pub steps: Vec<Step<'o>>,
    /// When all that is wanted is there.
    pub latency_ns: u64,
    /// How many calls in a second its slowest part can take; `u64::MAX` if that is not known.
    pub per_second: u64,
    /// The plan as a service.
    pub composition: Composition,
}

/// The best plan for a goal, a composition of this name. It is the optimum: no other plan by these
/// methods is better in what the goal wants. The time is that of sorting all parameters.
pub fn synthesize<'o>(
    name: &str,
    goal: &Goal,
    offers: &'o [Offer],
) -> Result<Plan<'o>, SynthesisError> {
    if goal.wanted.is_empty() {
        return Err(SynthesisError::NothingWanted);
    }
    let graph = Graph::of(offers);
    let mut given = Vec::new();
    for value in &goal.given {
        if given.iter().any(|(meaning, _)| *meaning == value.meaning.as_str()) {
            return Err(SynthesisError::Twice(value.meaning.clone()));
        }
        given.push((value.meaning.as_str(), graph.find(value)?));
    }
    let mut wanted = Vec::new();
    for value in &goal.wanted {
        let number = graph.find(value)?;
        if !wanted.contains(&number) {
            wanted.push(number);
        }
    }
    let search = Search { goal, graph: &graph, given: &given, wanted: &wanted };
    let reached = search.best()?;
    search.plan(name, &reached)
}

struct Search<'g, 'o> {
    goal: &'g Goal,
    graph: &'g Graph<'o>,
    /// By meaning.
    given: &'g [(&'g str, usize)],
    wanted: &'g [usize],
}

impl<'o> Search<'_, 'o> {
    /// How values are reached in the best way.
    fn best(&self) -> Result<Vec<Option<Reached>>, SynthesisError> {
        let first = self.with_throughput(self.goal.least_per_second.unwrap_or(0))?;
        if self.goal.objective == Objective::Latency {
            return Ok(first);
        }
        // Of the throughputs that a plan can have the greatest with which there is one.
        let mut all: Vec<_> =
            self.graph.arcs.iter().map(|it| it.offer.quality.per_second).collect();
        nile_order::sort(&mut all);
        all.dedup();
        let mut best = first;
        let (mut low, mut high) = (0, all.len());
        while low < high {
            let middle = low.midpoint(high);
            let least = all[middle].max(self.goal.least_per_second.unwrap_or(0));
            match self.with_throughput(least) {
                Ok(reached) => (best, low) = (reached, middle + 1),
                Err(_) => high = middle,
            }
        }
        Ok(best)
    }

    /// The quickest way by methods that take so many calls in a second.
    fn with_throughput(&self, least: u64) -> Result<Vec<Option<Reached>>, SynthesisError> {
        let given: Vec<_> = self.given.iter().map(|(_, number)| *number).collect();
        let most_failures = self.goal.most_failures_ppm.unwrap_or(u32::MAX);
        let reached = self.graph.settle(&given, |arc| {
            let quality = &arc.offer.quality;
            quality.per_second >= least && quality.failures_ppm <= most_failures
        });
        let mut best_ns = 0;
        for value in self.wanted {
            let meaning = || self.graph.values[*value].meaning().to_string();
            let it = reached[*value].ok_or_else(|| SynthesisError::Unreachable(meaning()))?;
            best_ns = best_ns.max(it.at_ns);
        }
        match self.goal.most_latency_ns {
            Some(limit_ns) if best_ns > limit_ns => {
                Err(SynthesisError::TooSlow { best_ns, limit_ns })
            }
            _ => Ok(reached),
        }
    }

    fn plan(&self, name: &str, reached: &[Option<Reached>]) -> Result<Plan<'o>, SynthesisError> {
        let graph = self.graph;
        // What is needed, from the end to the beginning.
        let (mut used, mut values) = (BTreeSet::new(), BTreeSet::new());
        let mut open: Vec<usize> = self.wanted.to_vec();
        while let Some(value) = open.pop() {
            if !values.insert(value) {
                continue;
            }
            if let Some(Reached { at_ns, by: Some(arc) }) = reached[value]
                && used.insert((at_ns, arc))
            {
                open.extend(graph.arcs[arc].inputs());
            }
        }
        // The composition itself is a part, too.
        if used.len() >= MAX_PARTS {
            return Err(SynthesisError::TooManyParts(used.len() + 1));
        }
        let order = order(graph, reached, &used);
        let mut composed = Composed { search: self, reached, names: BTreeMap::new() };
        let mut parts = Vec::new();
        let (mut steps, mut latency_ns, mut per_second) = (Vec::new(), 0, u64::MAX);
        for arc in order {
            let offer = graph.arcs[arc].offer;
            let begins = graph.arcs[arc].inputs().iter().filter_map(|it| reached[*it]);
            let begins_ns = begins.map(|it| it.at_ns).max().unwrap_or(0);
            let ends_ns = begins_ns.saturating_add(offer.quality.latency_ns);
            steps.push(Step { offer, begins_ns, ends_ns });
            (latency_ns, per_second) =
                (latency_ns.max(ends_ns), per_second.min(offer.quality.per_second));
            parts.push(composed.part(arc, offer));
        }
        // All that is given, used or not: another plan may use it.
        let parameters = self.given.iter();
        let orchestration = Orchestration {
            parameters: parameters.map(|(meaning, it)| named(meaning, graph.values[*it])).collect(),
            reply: self.wanted.iter().map(|it| wanted(graph.values[*it])).collect(),
            parts,
            results: self
                .wanted
                .iter()
                .filter_map(|it| composed.wire(graph.values[*it].meaning(), *it))
                .collect(),
        };
        let shape = Shape::Network(orchestration);
        let composition = Composition { name: Cow::Owned(name.into()), shape };
        Ok(Plan { steps, latency_ns, per_second, composition })
    }
}

/// The arcs in an order in which each comes after those whose values it takes; a call that takes no
/// time can end when the one that feeds it does.
fn order(
    graph: &Graph<'_>,
    reached: &[Option<Reached>],
    used: &BTreeSet<(u64, usize)>,
) -> Vec<usize> {
    let (mut order, mut left): (Vec<usize>, Vec<usize>) =
        (Vec::new(), used.iter().map(|(_, arc)| *arc).collect());
    while !left.is_empty() {
        let before = left.len();
        left.retain(|arc| {
            let mut feeding = graph.arcs[*arc].inputs().iter().filter_map(|it| reached[*it]?.by);
            let ready = feeding.all(|it| order.contains(&it));
            if ready {
                order.push(*arc);
            }
            !ready
        });
        // What is reached is reached in some order.
        if left.len() == before {
            break;
        }
    }
    order
}

/// The composition as far as it is made.
struct Composed<'s, 'g, 'o> {
    search: &'s Search<'g, 'o>,
    reached: &'s [Option<Reached>],
    /// What the part of each arc is called.
    names: BTreeMap<usize, String>,
}

impl Composed<'_, '_, '_> {
    fn part(&mut self, arc: usize, offer: &Offer) -> (Composition, Vec<Wire>) {
        let Offer { service, method, .. } = offer;
        let mut name = format!("{service}.{}", method.name);
        if name.len() > nile_registry::limits::MAX_NAME || self.names.values().any(|it| *it == name)
        {
            name = format!("part {}", self.names.len() + 1);
        }
        let mut wires = Vec::new();
        for parameter in method.parameters.iter() {
            let number = self.search.graph.number_of(parameter);
            wires.extend(number.and_then(|number| self.wire(&parameter.name, number)));
        }
        self.names.insert(arc, name.clone());
        let reference = Reference::Instance(Cow::Owned(service.clone()));
        (Composition::component(name, reference, method.name.clone().into_owned()), wires)
    }

    /// What brings a value to where it goes.
    fn wire(&self, to: &str, value: usize) -> Option<Wire> {
        let from = match self.reached[value]?.by {
            None => {
                let mut given = self.search.given.iter();
                let (meaning, _) = given.find(|(_, number)| *number == value)?;
                Source::Input(Cow::Owned((*meaning).into()))
            }
            Some(arc) => {
                let mut reply = self.search.graph.arcs[arc].offer.method.reply.iter();
                let is_it =
                    |it: &&Parameter<'static>| self.search.graph.number_of(it) == Some(value);
                let name = reply.find(is_it)?.name.clone().into_owned();
                Source::Output(Cow::Owned(self.names.get(&arc)?.clone()), Cow::Owned(name))
            }
        };
        Some(Wire { to: Cow::Owned(to.into()), from })
    }
}

/// A value as a parameter of this name; what it may be, each part checks.
fn named(name: &str, of: &Parameter<'static>) -> Parameter<'static> {
    let encrypted = of.encrypted;
    Parameter {
        name: Cow::Owned(name.into()),
        doc: Cow::Borrowed(""),
        ty: of.ty.clone(),
        range: None,
        encoded: true,
        encrypted,
    }
}

fn wanted(of: &Parameter<'static>) -> Parameter<'static> {
    named(of.meaning(), of)
}
