//! A graph that is divided among several owners. A part owns the vertices whose hash says so: it
//! has all edges that lead to them, and their values. Parts write letters to each other, in
//! *rounds*; each goes through a round alone, and waits for others only as it is said here.
//!
//! 1. **Counts.** From here to the end of the sweep no edge changes. A part tells each other how
//!    many of its edges come from that one's vertices, where the number is another than it was. So
//!    who owns a vertex knows its degree.
//! 2. When all counts have come, a part knows whether the ranks are good and all edges are in. So
//!    do all others, by the same numbers, and the round is over. Otherwise come **shares**: a part
//!    tells each other what goes over each edge that leads there, where that is another than it
//!    was.
//! 3. When all shares have come it **sweeps** over its vertices. How far they have moved, it tells
//!    with the counts of the next round.
//!
//! **The bound.** All parts sweep over one graph, that of the counts: none begins before all have
//! told theirs. A vertex takes of each `u` either what `u` has after the sweep, or, if `u` came
//! later or is another part's, what `u` had before: the share that was told of the same degree. So
//! what it lacks comes of the moves of others in this very sweep, `d · Σ|δ|` of all parts in all,
//! as in a graph of one part. Nothing else is in flight: a publication is of a round that all have
//! ended, and none has begun the next sweep. Sums are additive, and rounding is: each part counts
//! its own edges and vertices.
//!
//! If a part is opened anew, all forget what they have told and been told, as letters say how often
//! each has been opened; they begin with the first round, and tell all counts and shares. Values
//! stay: the bound is right whatever a sweep begins with.

#[cfg(test)]
mod tests;

use alloc::vec;
use alloc::vec::Vec;

use crate::bytes::{Damaged, Read};
use crate::edges::Vertex;
use crate::exchange::{Exchange, Phase};
use crate::graph::{Graph, MOST_ALIKE, Publication};
use crate::letter::{Received, Summary};
use crate::ranks::Swept;

impl Graph {
    /// From now on the graph has the number of this opening, which is higher than those of all
    /// before, and is the part of a larger one that its settings say, of the graph of this number.
    pub fn join(&mut self, graph: u64, life: u64) {
        self.life = life;
        if self.settings.part.is_divided() {
            let mut exchange = Exchange::new(self.settings.part, graph, life);
            // Also if it has no events of its own: others do not begin before they hear of it.
            exchange.own.is_new = self.sources.numbers().next().is_some();
            self.exchange = Some(exchange);
        }
    }

    /// The number of this opening of the graph, or of this part of it.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// The next letter to another part, and its number. It stays until it is [sent](Graph::sent).
    pub fn letter(&self, to: u32) -> Option<(u64, &[u8])> {
        self.exchange.as_ref()?.letter(to)
    }

    /// The letter of this number has come to its part.
    pub fn sent(&mut self, to: u32, number: u64) {
        if let Some(exchange) = &mut self.exchange {
            exchange.sent(to, number);
        }
    }

    /// A letter of another part has come. One that comes twice is taken once. Fails if it is none.
    pub fn receive(&mut self, letter: &[u8]) -> Read<Received> {
        let Some(exchange) = &mut self.exchange else {
            return Err(Damaged("the graph has no other parts"));
        };
        let (received, begins_anew) = exchange.receive(letter)?;
        if begins_anew {
            self.changed = (0..self.edges.vertices() as Vertex).collect();
            self.ranks.begin_anew();
            (self.is_sweeping, self.is_holding) = (false, false);
        }
        Ok(received)
    }

    /// To be called now and then while this part does not [rest](Graph::rests): if it waits for
    /// others and nothing comes, they are written to again.
    pub fn remind(&mut self) {
        if let Some(exchange) = &mut self.exchange {
            exchange.remind();
        }
    }

    /// What is known of all parts together.
    pub fn whole(&self) -> Publication {
        self.exchange.as_ref().map_or_else(|| self.published(), |it| it.whole)
    }

    /// Somebody looks at all parts, or does not any more: meanwhile no round begins, so that all
    /// stay at the publication that this part has.
    pub fn look(&mut self, begins: bool) {
        if let Some(exchange) = &mut self.exchange {
            let lookers = exchange.lookers;
            exchange.lookers = if begins { lookers + 1 } else { lookers.saturating_sub(1) };
        }
    }

    /// Whether no other part can have a later publication, as long as somebody looks.
    pub fn is_still(&self) -> bool {
        self.exchange.as_ref().is_none_or(|it| it.phase != Phase::Counts)
    }

    /// Whether this part has nothing to do, and waits for no other.
    pub fn rests(&self) -> bool {
        let is_over = |it: &Exchange| {
            let is_told = !it.own.has_swept && !it.own.is_new && it.own.events == self.taken;
            it.phase == Phase::Rests && is_told
        };
        self.exchange.as_ref().is_none_or(is_over)
    }

    /// The same as [`Graph::step`], for a part: whether a sweep is over.
    pub(crate) fn step_part(&mut self, now: u64, most: usize) -> Option<bool> {
        let exchange = self.exchange.as_mut()?;
        match exchange.phase {
            Phase::Rests => {
                let has_news = self.taken > exchange.own.events || exchange.own.is_new;
                let wants = has_news || exchange.own.has_swept || exchange.is_called();
                if !wants || exchange.lookers > 0 {
                    return None;
                }
                self.tell_counts(now);
                Some(false)
            }
            Phase::Counts => {
                while let Some((from, counts)) = exchange.take() {
                    for (name, count) in counts {
                        // As many as there are places are never told of.
                        let Some(vertex) = self.edges.place(name) else { continue };
                        let count = u32::try_from(count).unwrap_or(u32::MAX);
                        let before = exchange.tie(from, vertex, count);
                        self.ranks.lead_elsewhere(vertex, before, count);
                        self.changed.push(vertex);
                    }
                }
                let has_all = exchange.has_all();
                if has_all {
                    self.decide();
                }
                has_all.then_some(false)
            }
            Phase::Shares => {
                while let Some((_, shares)) = exchange.take() {
                    for (name, share) in shares {
                        if let Some(vertex) = self.edges.find(name) {
                            self.ranks.borrow(vertex, share);
                        }
                    }
                }
                let has_all = exchange.has_all();
                if has_all {
                    exchange.phase = Phase::Sweeps;
                }
                has_all.then_some(false)
            }
            Phase::Sweeps => {
                let is_over = self.ranks.step(&self.edges, most);
                if is_over {
                    let Swept { moved, sum, rounded } = self.ranks.end(&self.edges);
                    let own = &mut exchange.own;
                    (own.moved, own.sum, own.rounded) = (moved, sum, rounded);
                    (own.has_swept, own.is_new) = (true, false);
                    exchange.phase = Phase::Rests;
                    self.is_sweeping = false;
                    self.is_holding &= self.wanted.is_none();
                }
                Some(is_over)
            }
        }
    }

    /// Begins a round.
    fn tell_counts(&mut self, now: u64) {
        self.begin_round(now);
        let Some(exchange) = &mut self.exchange else { return };
        let part = self.settings.part;
        self.changed.sort_unstable();
        self.changed.dedup();
        let mut counts = vec![Vec::new(); part.of as usize];
        for vertex in &self.changed {
            let Some(name) = self.edges.name(*vertex) else { continue };
            if !part.owns(name) {
                let count = u64::from(self.edges.degree(*vertex));
                counts[part.owner(name) as usize].push((name, count));
            }
        }
        // What is said of the last sweep is of the edges that were in then.
        let (own, coming) = (&mut exchange.own, &self.coming);
        own.is_new |= coming.events != own.events;
        own.publication = self.published.number;
        exchange.tell_counts(counts);
    }

    /// All counts have come: publishes what was swept before, and goes on to shares, or rests.
    fn decide(&mut self) {
        let all: Vec<Summary> = self.exchange.iter().flat_map(Exchange::summaries).collect();
        let has_swept = all.iter().all(|it| it.has_swept);
        let is_new = all.iter().any(|it| it.is_new);
        self.alike = if is_new { 0 } else { self.alike + 1 };
        if has_swept {
            self.publish_all(&all);
        }
        self.ranks.change(&self.edges, self.settings.part, core::mem::take(&mut self.changed));
        let Some(exchange) = &mut self.exchange else { return };
        let is_good = exchange.whole.error <= self.settings.error || self.alike > MOST_ALIKE;
        exchange.own.has_swept = false;
        if !is_new && is_good {
            exchange.phase = Phase::Rests;
            (self.is_sweeping, self.is_holding) = (false, false);
            return;
        }
        // From here on they are those of the sweep that begins.
        exchange.own = Summary {
            events: self.coming.events,
            vertices: self.ranks.owned(),
            edges: self.coming.edges,
            watermark: self.coming.watermark,
            ..exchange.own
        };
        let (edges, ranks) = (&self.edges, &self.ranks);
        exchange.tell_shares(|it| (edges.name(it).unwrap_or(0), ranks.share_of(it)));
    }

    /// All have ended a sweep.
    fn publish_all(&mut self, all: &[Summary]) {
        let total = |of: fn(&Summary) -> u128| all.iter().map(of).sum::<u128>();
        let swept = Swept {
            moved: total(|it| it.moved),
            sum: total(|it| it.sum),
            rounded: total(|it| it.rounded.into()) as u64,
        };
        self.ranks.publish(&swept);
        let error = self.error();
        let add = |of: fn(&Summary) -> u64| all.iter().map(of).sum::<u64>();
        let Some(exchange) = &mut self.exchange else { return };
        let events = add(|it| it.events);
        exchange.whole = Publication {
            number: 1 + all.iter().map(|it| it.publication).max().unwrap_or(0),
            watermark: all.iter().map(|it| it.watermark).min().unwrap_or(0),
            events,
            behind: 0,
            vertices: add(|it| it.vertices),
            edges: add(|it| it.edges),
            error,
            refused: 0,
        };
        let Summary { events, vertices, edges, .. } = exchange.own;
        let own = Publication { events, vertices, edges, ..exchange.whole };
        self.publish(own);
    }
}
