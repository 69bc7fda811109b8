//! Values and methods by numbers, and the quickest way to each value.

use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use nile_bosml::schema::{Fingerprint, Parameter};

use crate::error::SynthesisError;
use crate::goal::{Offer, Value};

/// A method: from all of its inputs to each of its outputs.
pub struct Arc<'o> {
    pub offer: &'o Offer,
    /// The values that it takes, each once.
    inputs: Vec<usize>,
    outputs: Vec<usize>,
}

/// All values and pure methods.
#[derive(Default)]
pub struct Graph<'o> {
    pub arcs: Vec<Arc<'o>>,
    /// By meaning and type.
    numbers: BTreeMap<(&'o str, u32), usize>,
    /// A parameter that is of each value.
    pub values: Vec<&'o Parameter<'static>>,
    /// The methods that take each value.
    takers: Vec<Vec<usize>>,
}

/// How a value is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reached {
    /// When.
    pub at_ns: u64,
    /// By which arc; none: it is given.
    pub by: Option<usize>,
}

impl<'o> Graph<'o> {
    /// That of all methods that are pure.
    pub fn of(offers: &'o [Offer]) -> Graph<'o> {
        let mut graph = Graph::default();
        for offer in offers.iter().filter(|it| it.method.pure && !it.method.reply.is_empty()) {
            let numbers = |graph: &mut Graph<'o>, all: &'o [Parameter<'static>]| {
                let mut numbers: Vec<_> = all.iter().map(|it| graph.number(it)).collect();
                nile_order::sort(&mut numbers);
                numbers.dedup();
                numbers
            };
            let inputs = numbers(&mut graph, &offer.method.parameters);
            let outputs = numbers(&mut graph, &offer.method.reply);
            for input in &inputs {
                graph.takers[*input].push(graph.arcs.len());
            }
            graph.arcs.push(Arc { offer, inputs, outputs });
        }
        graph
    }

    /// The number of a parameter's value.
    fn number(&mut self, of: &'o Parameter<'static>) -> usize {
        let next = self.values.len();
        let number = *self.numbers.entry(key(of)).or_insert(next);
        if number == next {
            self.values.push(of);
            self.takers.push(Vec::new());
        }
        number
    }

    /// The number of a parameter's value, which is known.
    pub fn number_of(&self, of: &Parameter<'static>) -> Option<usize> {
        self.numbers.get(&key(of)).copied()
    }

    /// The number of a value of a goal.
    pub fn find(&self, value: &Value) -> Result<usize, SynthesisError> {
        let Value { meaning, ty } = value;
        let types = self.numbers.range((meaning.as_str(), 0)..=(meaning.as_str(), u32::MAX));
        let wanted = ty.as_ref().map(|ty| Fingerprint::of_type(ty).0);
        let mut fit = types.filter(|((_, ty), _)| wanted.is_none_or(|wanted| wanted == *ty));
        match (fit.next(), fit.next()) {
            (Some((_, number)), None) => Ok(*number),
            (Some(_), Some(_)) => Err(SynthesisError::Ambiguous(meaning.clone())),
            (None, _) => {
                let mut known: Vec<_> =
                    self.numbers.keys().map(|(meaning, _)| String::from(*meaning)).collect();
                known.dedup();
                Err(SynthesisError::Unknown(meaning.clone(), known))
            }
        }
    }

    /// The quickest way to each value from those that are given, by the arcs that `may` be used:
    /// Knuth's generalization of Dijkstra's algorithm. Values are settled in the order of time,
    /// so a method can begin when the last of its inputs is.
    pub fn settle(&self, given: &[usize], may: impl Fn(&Arc<'_>) -> bool) -> Vec<Option<Reached>> {
        let mut reached: Vec<Option<Reached>> = alloc::vec![None; self.values.len()];
        let mut missing: Vec<usize> = self.arcs.iter().map(|arc| arc.inputs.len()).collect();
        let mut ends = BinaryHeap::new();
        let mut settled: Vec<usize> = Vec::new();
        let begin = |ends: &mut BinaryHeap<_>, at: usize, now: u64| {
            let arc = &self.arcs[at];
            if may(arc) {
                let end = now.saturating_add(arc.offer.quality.latency_ns);
                ends.push(Reverse((end, at)));
            }
        };
        for (at, _) in missing.iter().enumerate().filter(|(_, count)| **count == 0) {
            begin(&mut ends, at, 0);
        }
        for value in given {
            if reached[*value].is_none() {
                reached[*value] = Some(Reached { at_ns: 0, by: None });
                settled.push(*value);
            }
        }
        let mut now = 0;
        loop {
            while let Some(value) = settled.pop() {
                for taker in &self.takers[value] {
                    missing[*taker] -= 1;
                    if missing[*taker] == 0 {
                        begin(&mut ends, *taker, now);
                    }
                }
            }
            let Some(Reverse((end, at))) = ends.pop() else { return reached };
            now = end;
            for output in &self.arcs[at].outputs {
                if reached[*output].is_none() {
                    reached[*output] = Some(Reached { at_ns: now, by: Some(at) });
                    settled.push(*output);
                }
            }
        }
    }
}

impl Arc<'_> {
    /// The values that it takes.
    pub fn inputs(&self) -> &[usize] {
        &self.inputs
    }
}

/// What tells values apart.
fn key<'p>(of: &'p Parameter<'static>) -> (&'p str, u32) {
    (of.meaning(), Fingerprint::of_type(&of.ty).0)
}
