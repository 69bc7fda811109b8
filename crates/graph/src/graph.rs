//! A graph, with all that is kept of it.

use alloc::collections::{BTreeMap, BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::mem;

use crate::edges::{Edges, Vertex};
use crate::event::Event;
use crate::exchange::Exchange;
use crate::generation::{Begun, Keeping, Saving};
use crate::part::{Part, add};
use crate::ranks::{ONE, Ranks};
use crate::reach;
use crate::segment::{Call, Reject};
use crate::sources::{SourceState, Sources, Verdict};

/// So many sweeps over the same edges leave nothing wrong but what rounding does: each one leaves
/// at most 0.85 of it.
pub(crate) const MOST_ALIKE: u32 = 256;

/// What comes waits for good ranks for so many sweeps at most, and only while it is no larger a
/// part of the edges than this.
const MOST_HELD: u32 = 48;
const PART: u64 = 16;

/// A turn takes in so many of those that wait, and builds on at a generation over a part of the
/// edges that it would sweep over, as each of them takes several times as long.
const TAKEN_IN: usize = 1024;
const BUILT: usize = 2;

/// How a graph is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Sweeps go on until ranks are as good as this: the sum of all errors, of ranks whose sum is
    /// one, in parts of [`ONE`].
    pub error: u64,
    /// How long a source may be silent before the watermark goes on without it, in units of `now`.
    pub patience: u64,
    /// The most vertices.
    pub vertices: usize,
    /// The most edges.
    pub edges: u64,
    /// Which part of a graph it is; the most vertices and edges are this part's.
    pub part: Part,
}

/// What has become of events that were offered.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Offered {
    /// How many were new.
    pub new: u64,
    /// How many had been here.
    pub known: u64,
    /// How many have to come again, when those before them have.
    pub ahead: u64,
    /// The first event of the source that is missing.
    pub next: u64,
}

/// What is known after a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Publication {
    /// Which it is; 0 before the first.
    pub number: u64,
    /// All that happened before this is in, by sources that are not idle.
    pub watermark: u64,
    /// How many events are in, those that came twice once.
    pub events: u64,
    /// How many events have come since.
    pub behind: u64,
    /// How many vertices there are.
    pub vertices: u64,
    /// How many edges.
    pub edges: u64,
    /// How wrong all ranks may be together, of a sum of one, in parts of [`ONE`].
    pub error: u64,
    /// How many events were lost, as there are as many vertices or edges as there may be.
    pub refused: u64,
}

/// A vertex in the order of ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The vertex.
    pub vertex: u64,
    /// Its rank, of a sum of one, in parts of 2⁶⁴.
    pub rank: u64,
    /// Whether it is certain that it comes before the next one.
    pub is_certain: bool,
}

/// A graph that changes.
pub struct Graph {
    pub(crate) settings: Settings,
    pub(crate) sources: Sources,
    pub(crate) edges: Edges,
    pub(crate) ranks: Ranks,
    /// What has come while ranks become good: source and event.
    waiting: VecDeque<(u64, Event)>,
    /// Vertices from which an edge has come or gone since the last sweep began, some repeatedly.
    pub(crate) changed: Vec<Vertex>,
    /// From when no edge changes until the sweep is over.
    pub(crate) is_sweeping: bool,
    /// Ranks are not good yet; what comes meanwhile would only make them worse, and waits.
    pub(crate) is_holding: bool,
    /// How many publications have the same events.
    pub(crate) alike: u32,
    /// What the sweep has, and what is published.
    pub(crate) coming: Publication,
    pub(crate) published: Publication,
    /// The number of this opening.
    pub(crate) life: u64,
    /// With the other parts, if there are any.
    pub(crate) exchange: Option<Exchange>,
    /// Events that were taken, and those of them that were lost.
    pub(crate) taken: u64,
    pub(crate) refused: u64,
    /// What was no event, by source and number.
    rejects: BTreeMap<(u64, u64), Reject>,
    /// A generation that is to be kept: wanted, being built, and made. No other is begun until it
    /// is kept.
    pub(crate) wanted: Option<Keeping>,
    begun: Option<Begun>,
    saving: Option<Saving>,
    is_saving: bool,
}

impl Graph {
    /// A graph without vertices.
    pub fn new(settings: Settings) -> Graph {
        Graph {
            sources: Sources::new(settings.patience),
            settings,
            edges: Edges::default(),
            ranks: Ranks::default(),
            waiting: VecDeque::new(),
            changed: Vec::new(),
            is_sweeping: false,
            is_holding: false,
            alike: 0,
            coming: Publication::default(),
            published: Publication::default(),
            life: 0,
            exchange: None,
            taken: 0,
            refused: 0,
            rejects: BTreeMap::new(),
            wanted: None,
            begun: None,
            saving: None,
            is_saving: false,
        }
    }

    /// Events of a source have come, what is no event, and its promise that whatever comes yet
    /// happened at `until` or later. What was known goes from the call, what is new stays.
    pub fn offer(&mut self, now: u64, call: &mut Call) -> Offered {
        let source = call.source;
        let mut offered = Offered::default();
        // What is other parts' comes between, so that a source's events are taken in their order.
        let mut covers = mem::take(&mut call.covers);
        covers.reverse();
        let is_part = !covers.is_empty();
        // What is new of it: nothing else may count when it is taken again, out of a log.
        let mut new = Vec::new();
        call.events.retain(|event| {
            self.pass(now, source, &mut covers, event.sequence, &mut new, &mut offered);
            let verdict = match self.sources.take(now, source, event.sequence) {
                // Somebody has mended it.
                Verdict::Known if self.rejects.remove(&(source, event.sequence)).is_some() => {
                    Verdict::New
                }
                verdict => verdict,
            };
            match verdict {
                Verdict::New => {
                    offered.new += 1;
                    self.taken += 1;
                    if is_part {
                        add(&mut new, event.sequence);
                    }
                    match self.is_sweeping || self.is_holding {
                        true => self.waiting.push_back((source, *event)),
                        false => self.apply(source, event),
                    }
                }
                Verdict::Known => offered.known += 1,
                Verdict::Ahead => offered.ahead += 1,
            }
            verdict == Verdict::New
        });
        self.pass(now, source, &mut covers, u64::MAX, &mut new, &mut offered);
        call.covers = new;
        call.rejects.retain(|reject| {
            let verdict = self.sources.take(now, source, reject.sequence);
            match verdict {
                Verdict::New => {
                    offered.new += 1;
                    self.rejects.insert((source, reject.sequence), reject.clone());
                }
                Verdict::Known => offered.known += 1,
                Verdict::Ahead => offered.ahead += 1,
            }
            verdict == Verdict::New
        });
        let before = self.sources.until(source);
        if offered.ahead == 0 {
            self.sources.promise(now, source, call.until);
        }
        call.until = if self.sources.until(source) > before { call.until } else { 0 };
        offered.next = self.sources.next(source);
        offered
    }

    /// Events before this one that are other parts' have come to those, the last of them first in
    /// `covers`. Those that are new are added to `new`.
    fn pass(
        &mut self,
        now: u64,
        source: u64,
        covers: &mut Vec<(u64, u64)>,
        upto: u64,
        new: &mut Vec<(u64, u64)>,
        offered: &mut Offered,
    ) {
        while let Some((first, count)) = covers.last_mut() {
            let before = upto.saturating_sub(*first).min(*count);
            for number in *first..*first + before {
                match self.sources.take(now, source, number) {
                    Verdict::New => add(new, number),
                    // Somebody has mended it.
                    Verdict::Known if self.rejects.remove(&(source, number)).is_some() => {
                        add(new, number);
                    }
                    Verdict::Known => {}
                    Verdict::Ahead => offered.ahead += 1,
                }
            }
            // The event itself is this part's.
            let done = before + u64::from(*first + before == upto && before < *count);
            (*first, *count) = (*first + done, *count - done);
            if *count > 0 {
                break;
            }
            covers.pop();
        }
    }

    /// What was no event, and its source.
    pub fn rejects(&self) -> impl Iterator<Item = (u64, &Reject)> {
        self.rejects.iter().map(|((source, _), reject)| (*source, reject))
    }

    /// How many those are.
    pub fn rejected(&self) -> usize {
        self.rejects.len()
    }

    /// A graph that was saved.
    pub(crate) fn restore(
        settings: Settings,
        sources: Sources,
        edges: Edges,
        rejects: BTreeMap<(u64, u64), Reject>,
        (taken, refused): (u64, u64),
    ) -> Graph {
        let changed = (0..edges.vertices() as Vertex).collect();
        Graph { sources, edges, rejects, changed, taken, refused, ..Graph::new(settings) }
    }

    /// All sources count as heard of now.
    pub(crate) fn hear(&mut self, now: u64) {
        self.sources.hear(now);
    }

    /// How it is kept.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Has a generation made, with what is beside it, as soon as no sweep is under way and what
    /// waits is in. It has all that has been taken until now, and some of what comes while it is
    /// built; to take that again changes nothing. [`Graph::step`] builds it.
    pub fn want_generation(&mut self, keeping: Keeping) {
        if self.is_saving {
            return;
        }
        self.wanted = Some(keeping);
        if !self.is_sweeping {
            self.is_holding = false;
        }
    }

    /// Makes the generation that was wanted, at once: nobody waits for anything else. Does nothing
    /// while a sweep is under way.
    pub(crate) fn finish_generation(&mut self) {
        while !self.is_sweeping && (self.wanted.is_some() || self.edges.is_building()) {
            self.prepare(usize::MAX);
        }
    }

    /// Does what is to be done between sweeps, and beside them: takes in what waits, and builds a
    /// generation. Whether there is more of it.
    pub fn prepare(&mut self, most: usize) -> bool {
        if self.edges.build(most)
            && let Some(begun) = self.begun.take()
        {
            self.saving = Some(Saving::new(begun, self));
        }
        if self.is_sweeping || self.is_holding {
            return self.edges.is_building();
        }
        for _ in 0..TAKEN_IN.min(self.waiting.len()) {
            let Some((source, event)) = self.waiting.pop_front() else { break };
            self.apply(source, &event);
        }
        if self.waiting.is_empty()
            && !self.edges.is_building()
            && let Some(keeping) = self.wanted.take()
        {
            self.is_saving = true;
            self.begun = Some(Begun::new(self, keeping));
            self.edges.begin_level();
        }
        self.edges.is_building() || self.wanted.is_some() || !self.waiting.is_empty()
    }

    /// Whether the generation that was wanted is made.
    pub fn has_generation(&self) -> bool {
        self.saving.is_some()
    }

    /// The generation that was wanted, once it is made.
    pub fn take_generation(&mut self) -> Option<Saving> {
        self.saving.take()
    }

    /// The generation is where it should be, or is not wanted any more.
    pub fn end_generation(&mut self) {
        self.is_saving = false;
    }

    fn apply(&mut self, source: u64, event: &Event) {
        let Event { from, to, removes, .. } = *event;
        let known = (self.edges.find(from), self.edges.find(to));
        let new = match known {
            (None, None) if from != to => 2,
            (Some(_), Some(_)) => 0,
            _ => 1,
        };
        let has_room = self.edges.vertices() + new <= self.settings.vertices
            && (removes || self.edges.count() < self.settings.edges);
        let places = has_room.then(|| match known {
            (Some(from), Some(to)) => Some((from, to)),
            _ => self.edges.place(from).zip(self.edges.place(to)),
        });
        let Some((from, to)) = places.flatten() else {
            self.refused += 1;
            return;
        };
        // Who owns a new vertex is told of it, though no edge may come from it.
        if self.edges.set(from, to, event.stamp(source), !removes) || known.0.is_none() {
            self.changed.push(from);
        }
    }

    /// Works on over about so many edges. `None` if there is nothing to do until events come;
    /// whether something was published otherwise.
    pub fn step(&mut self, now: u64, most: usize) -> Option<bool> {
        let is_more = self.prepare(most.div_ceil(BUILT));
        if !(self.is_sweeping || self.is_holding || self.waiting.is_empty()) {
            return Some(false);
        }
        if self.exchange.is_some() {
            return self.step_part(now, most).or(is_more.then_some(false));
        }
        if !self.is_sweeping && !self.begin_sweep(now) {
            return is_more.then_some(false);
        }
        let is_over = self.ranks.step(&self.edges, most);
        if is_over {
            let swept = self.ranks.end(&self.edges);
            self.ranks.publish(&swept);
            self.is_sweeping = false;
            let is_alike = self.published.events == self.coming.events;
            self.alike = if is_alike { self.alike + 1 } else { 0 };
            self.publish(Publication { error: self.error(), ..self.coming });
        }
        Some(is_over)
    }

    /// Begins a sweep, if there is anything to be made better.
    fn begin_sweep(&mut self, now: u64) -> bool {
        let is_good = self.published.error <= self.settings.error || self.alike > MOST_ALIKE;
        let is_done = self.published.number > 0 && is_good;
        if is_done && self.taken == self.published.events || self.edges.vertices() == 0 {
            return false;
        }
        self.begin_round(now);
        self.ranks.change(&self.edges, self.settings.part, mem::take(&mut self.changed));
        true
    }

    /// From here on no edge changes until the sweep is over.
    pub(crate) fn begin_round(&mut self, now: u64) {
        if self.edges.is_fresh() && !self.is_saving {
            self.edges.begin_level();
        }
        self.is_sweeping = true;
        self.coming = Publication {
            number: self.published.number + 1,
            watermark: match self.waiting.is_empty() {
                true => self.sources.watermark(now),
                false => self.published.watermark,
            },
            events: self.taken - self.waiting.len() as u64,
            behind: 0,
            vertices: self.edges.vertices() as u64,
            edges: self.edges.count(),
            error: 0,
            refused: 0,
        };
    }

    /// How wrong all ranks may be together that are published, of a sum of one.
    pub(crate) fn error(&self) -> u64 {
        let (sum, bound) = self.ranks.sum_and_bound();
        // Dividing by a sum that is wrong, too, at most doubles it.
        let error = (2 * bound * u128::from(ONE)).div_ceil(sum.max(1));
        u64::try_from(error).unwrap_or(u64::MAX).min(2 * ONE)
    }

    /// A sweep is over, of all parts.
    pub(crate) fn publish(&mut self, published: Publication) {
        self.published = published;
        let is_good = published.error <= self.settings.error || self.alike >= MOST_HELD;
        let is_much = self.waiting.len() as u64 * PART > self.edges.count();
        self.is_holding = !(is_good || is_much || self.wanted.is_some());
    }

    /// What comes does not wait for good ranks until the next publication: there is so much of it
    /// that they would be wrong as soon as they are there. Who calls it may let the next sweep
    /// wait, and have [`Graph::prepare`] take in what comes.
    pub fn take_in(&mut self) {
        self.is_holding = false;
    }

    /// What is known.
    pub fn published(&self) -> Publication {
        let behind = self.taken - self.published.events;
        Publication { behind, refused: self.refused, ..self.published }
    }

    /// The vertices with the highest ranks, at most so many; of equal ones the lowest first.
    pub fn top(&self, most: usize) -> Vec<Placed> {
        self.placed(&self.highest(most), most)
    }

    /// The vertices with the highest values, one more than so many, and these. They are of use
    /// [beside](merged) those of other parts, at one publication.
    pub fn highest(&self, most: usize) -> Vec<(u64, u64)> {
        let values = self.ranks.published();
        let mut best = BinaryHeap::with_capacity(most + 2);
        for (value, vertex) in values.iter().zip(0..) {
            let Some(name) = self.edges.name(vertex).filter(|_| *value > 0) else { continue };
            // The last one is there to tell how certain the one before is.
            if best.len() <= most {
                best.push(Reverse((*value, Reverse(name))));
            } else if let Some(mut worst) = best.peek_mut()
                && worst.0 < (*value, Reverse(name))
            {
                *worst = Reverse((*value, Reverse(name)));
            }
        }
        let best = best.into_sorted_vec().into_iter();
        best.map(|Reverse((value, Reverse(vertex)))| (vertex, value)).collect()
    }

    /// The first of these vertices, which are the highest of all parts, with their ranks.
    pub fn placed(&self, highest: &[(u64, u64)], most: usize) -> Vec<Placed> {
        let (sum, bound) = self.ranks.sum_and_bound();
        let next = highest.iter().skip(1).map(|it| Some(it.1)).chain([None]);
        let placed = highest.iter().zip(next).take(most);
        placed
            .map(|((vertex, value), next)| Placed {
                vertex: *vertex,
                rank: part(*value, sum),
                // The errors of the two are a part of all errors.
                is_certain: next.is_none_or(|next| u128::from(value - next) > bound),
            })
            .collect()
    }

    /// The rank of a vertex, of a sum of one, in parts of 2⁶⁴. `None` if no publication has it.
    pub fn rank(&self, vertex: u64) -> Option<u64> {
        let place = self.edges.find(vertex)?;
        let value = self.ranks.published().get(place as usize).filter(|it| **it > 0)?;
        Some(part(*value, self.ranks.sum_and_bound().0))
    }

    /// The lowest vertex of those that are connected with this one, whichever way edges go, and how
    /// many they are. Takes time for all edges. `None` if there is no such vertex.
    pub fn component(&self, vertex: u64) -> Option<(u64, u64)> {
        let place = self.edges.find(vertex)?;
        let components = reach::components(&self.edges);
        let own = *components.get(place as usize)?;
        let size = components.iter().filter(|it| **it == own).count();
        Some((self.edges.name(own)?, size as u64))
    }

    /// How many edges the shortest way between two vertices has. Takes time for all edges, at most.
    /// `None` if there is no such way.
    pub fn distance(&self, from: u64, to: u64) -> Option<u32> {
        reach::distance(&self.edges, self.edges.find(from)?, self.edges.find(to)?)
    }

    /// Calls `each` with every edge that there is now.
    pub fn each_edge(&self, mut each: impl FnMut(u64, u64)) {
        for to in 0..self.edges.vertices() as Vertex {
            self.edges.each_to(to, |from| {
                if let (Some(from), Some(to)) = (self.edges.name(from), self.edges.name(to)) {
                    each(from, to);
                }
            });
        }
    }

    /// How sources stand whose numbers are higher than `after`, at most so many.
    pub fn sources(&self, now: u64, after: Option<u64>, most: usize) -> Vec<SourceState> {
        self.sources.states(now, after, most)
    }
}

/// A part of a sum in parts of 2⁶⁴.
fn part(value: u64, sum: u128) -> u64 {
    // Sums of 2³² vertices have 64 bits before the point.
    let scaled = (u128::from(value) << 64) / sum.max(1);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
