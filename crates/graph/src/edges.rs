//! The edges, in two levels: a generation, compressed by the vertices that edges lead to, and what
//! is new since, which becomes a part of the next one. A removed edge leaves its stamp, since an
//! older event about it may still come.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Range;
use alloc::vec;
use alloc::vec::Vec;
use core::iter::Peekable;
use core::mem;

use crate::bytes::{Damaged, Read};
use crate::event::Stamp;

/// As many new edges make a generation, or an eighth of those that there are.
const LEAST_FRESH: usize = 4096;

/// A vertex, by its place.
pub type Vertex = u32;

#[derive(Clone, Copy)]
struct Fresh {
    stamp: Stamp,
    is_there: bool,
}

/// The generation.
#[derive(Default)]
pub struct Level {
    /// Where the edges to each vertex begin, and where the last ones end.
    pub starts: Vec<usize>,
    /// From where they come, sorted for each vertex.
    pub froms: Vec<Vertex>,
    /// Their stamps.
    pub stamps: Vec<Stamp>,
    /// The stamps of edges that are gone, by where they led to and came from.
    pub gone: BTreeMap<(Vertex, Vertex), Stamp>,
}

/// The edges of a graph.
#[derive(Default)]
pub struct Edges {
    places: BTreeMap<u64, Vertex>,
    names: Vec<u64>,
    level: Level,
    /// What is known besides, by where an edge leads to and comes from.
    fresh: BTreeMap<(Vertex, Vertex), Fresh>,
    /// How many edges come from each vertex.
    degrees: Vec<u32>,
    count: u64,
}

/// A walk over vertices, one after the other: what is new is looked for once.
pub struct Walk<'a> {
    edges: &'a Edges,
    next: Vertex,
    fresh: Peekable<Range<'a, (Vertex, Vertex), Fresh>>,
}

impl Walk<'_> {
    /// Calls `each` with every vertex that an edge leads to the next one from; how many they are.
    pub fn each(&mut self, mut each: impl FnMut(Vertex)) -> usize {
        let to = self.next;
        self.next += 1;
        let (_, old) = self.edges.old(to);
        let is_its = |(at, _): &(&(Vertex, Vertex), &Fresh)| at.0 == to;
        if !self.fresh.peek().is_some_and(is_its) {
            old.iter().copied().for_each(each);
            return old.len();
        }
        let mut count = 0;
        let mut tell = |from| {
            count += 1;
            each(from);
        };
        let mut old = old.iter().copied().peekable();
        while let Some(((_, from), state)) = self.fresh.next_if(is_its) {
            while let Some(before) = old.next_if(|it| it < from) {
                tell(before);
            }
            // What is new about an edge holds.
            let _ = old.next_if_eq(from);
            if state.is_there {
                tell(*from);
            }
        }
        old.for_each(tell);
        count
    }
}

impl Edges {
    /// How many vertices there are: all that any event has named.
    pub fn vertices(&self) -> usize {
        self.names.len()
    }

    /// How many edges.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many edges come from a vertex.
    pub fn degree(&self, vertex: Vertex) -> u32 {
        self.degrees.get(vertex as usize).copied().unwrap_or(0)
    }

    /// The place of a vertex.
    pub fn find(&self, name: u64) -> Option<Vertex> {
        self.places.get(&name).copied()
    }

    /// What a vertex is called.
    pub fn name(&self, vertex: Vertex) -> Option<u64> {
        self.names.get(vertex as usize).copied()
    }

    /// The place of a vertex, which there is from now on. `None` if there are no more places.
    pub fn place(&mut self, name: u64) -> Option<Vertex> {
        if let Some(place) = self.find(name) {
            return Some(place);
        }
        let place = Vertex::try_from(self.names.len()).ok()?;
        self.places.insert(name, place);
        self.names.push(name);
        self.degrees.push(0);
        Some(place)
    }

    /// An edge is there, or not, since an event with this stamp. Whether that changes anything: it
    /// does not if a newer one has come, or if it was so before.
    pub fn set(&mut self, from: Vertex, to: Vertex, stamp: Stamp, is_there: bool) -> bool {
        let known = self.state(from, to);
        if known.is_some_and(|it| it.stamp >= stamp) {
            return false;
        }
        let was_there = known.is_some_and(|it| it.is_there);
        self.fresh.insert((to, from), Fresh { stamp, is_there });
        if was_there == is_there {
            return false;
        }
        let degree = &mut self.degrees[from as usize];
        if is_there {
            (*degree, self.count) = (*degree + 1, self.count + 1);
        } else {
            (*degree, self.count) = (*degree - 1, self.count - 1);
        }
        true
    }

    fn state(&self, from: Vertex, to: Vertex) -> Option<Fresh> {
        if let Some(fresh) = self.fresh.get(&(to, from)) {
            return Some(*fresh);
        }
        let (start, froms) = self.old(to);
        if let Ok(at) = froms.binary_search(&from) {
            return Some(Fresh { stamp: self.level.stamps[start + at], is_there: true });
        }
        self.level.gone.get(&(to, from)).map(|stamp| Fresh { stamp: *stamp, is_there: false })
    }

    /// Where in the generation the edges to a vertex begin, and from where they come.
    fn old(&self, to: Vertex) -> (usize, &[Vertex]) {
        let at = |place: usize| self.level.starts.get(place).copied();
        match (at(to as usize), at(to as usize + 1)) {
            (Some(start), Some(end)) => (start, &self.level.froms[start..end]),
            _ => (0, &[]),
        }
    }

    /// Calls `each` with every vertex that an edge leads to this one from; how many they are.
    pub fn each_to(&self, to: Vertex, each: impl FnMut(Vertex)) -> usize {
        self.walk(to).each(each)
    }

    /// A walk over all vertices from this one on.
    pub fn walk(&self, first: Vertex) -> Walk<'_> {
        Walk { edges: self, next: first, fresh: self.fresh.range((first, 0)..).peekable() }
    }

    /// Whether there is so much new that it should become a generation.
    pub fn is_fresh(&self) -> bool {
        self.fresh.len() > LEAST_FRESH.max(self.level.froms.len() / 8)
    }

    /// Makes a generation of all edges.
    pub fn compact(&mut self) {
        let (vertices, count) = (self.vertices(), self.count as usize);
        let mut starts = Vec::with_capacity(vertices + 1);
        let (mut froms, mut stamps) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let fresh = mem::take(&mut self.fresh);
        let mut gone = mem::take(&mut self.level.gone);
        let mut fresh = fresh.into_iter().peekable();
        for to in 0..vertices as Vertex {
            starts.push(froms.len());
            let (start, old) = self.old(to);
            let mut old = old.iter().copied().zip(start..).peekable();
            while let Some(((_, from), state)) = fresh.next_if(|((it, _), _)| *it == to) {
                while let Some((before, at)) = old.next_if(|(it, _)| *it < from) {
                    froms.push(before);
                    stamps.push(self.level.stamps[at]);
                }
                let _ = old.next_if(|(it, _)| *it == from);
                if state.is_there {
                    froms.push(from);
                    stamps.push(state.stamp);
                    gone.remove(&(to, from));
                } else {
                    gone.insert((to, from), state.stamp);
                }
            }
            for (from, at) in old {
                froms.push(from);
                stamps.push(self.level.stamps[at]);
            }
        }
        starts.push(froms.len());
        self.level = Level { starts, froms, stamps, gone };
    }

    /// What the generation has of a vertex: from where edges lead to it, and their stamps.
    pub fn level(&self, to: Vertex) -> (&[Vertex], &[Stamp]) {
        let (start, froms) = self.old(to);
        (froms, &self.level.stamps[start..start + froms.len()])
    }

    /// How many edges the generation has.
    pub fn level_len(&self) -> usize {
        self.level.froms.len()
    }

    /// The edges that were gone when the generation was made.
    pub fn gone(&self) -> &BTreeMap<(Vertex, Vertex), Stamp> {
        &self.level.gone
    }

    /// Edges of these vertices, of one level; `starts` does not have where the last ones end.
    pub fn restore(names: Vec<u64>, mut level: Level) -> Read<Edges> {
        let is_there = |it: &Vertex| (*it as usize) < names.len();
        let gone = level.gone.keys().all(|(to, from)| is_there(to) && is_there(from));
        if !gone || !level.froms.iter().all(is_there) {
            return Err(Damaged("an edge leads to no vertex"));
        }
        level.starts.push(level.froms.len());
        let mut degrees = vec![0; names.len()];
        level.froms.iter().for_each(|from| degrees[*from as usize] += 1);
        let places: BTreeMap<u64, Vertex> = names.iter().copied().zip(0..).collect();
        if places.len() != names.len() {
            return Err(Damaged("a vertex is there twice"));
        }
        let count = level.froms.len() as u64;
        Ok(Edges { places, names, level, fresh: BTreeMap::new(), degrees, count })
    }
}
