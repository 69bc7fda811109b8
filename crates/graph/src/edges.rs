//! The edges, in two levels: a generation, compressed by the vertices that edges lead to, and what
//! is new since, which becomes a part of the next one. A removed edge leaves its stamp, since an
//! older event about it may still come.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::{iter, mem};

use hashbrown::HashTable;

use crate::bytes::{Damaged, Read};
use crate::event::Stamp;

/// As many new edges make a generation, or an eighth of those that there are.
const LEAST_FRESH: usize = 4096;

/// A vertex, by its place.
pub type Vertex = u32;

/// No link.
const NONE: u32 = u32::MAX;

/// What is new about an edge. Those that lead to one vertex are a chain.
#[derive(Clone, Copy)]
struct Link {
    to: Vertex,
    from: Vertex,
    next: u32,
    is_there: bool,
    /// Whether the generation has the edge.
    is_old: bool,
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
    /// Places of vertices, by their names.
    places: HashTable<Vertex>,
    names: Vec<u64>,
    level: Level,
    /// What is known besides, with stamps beside it, and where each edge is in it.
    links: Vec<Link>,
    stamps: Vec<Stamp>,
    fresh: HashTable<u32>,
    /// For each vertex the first of its links.
    heads: Vec<u32>,
    /// A bit for each edge of the generation that has gone since.
    lost: Vec<u64>,
    /// How many edges come from each vertex.
    degrees: Vec<u32>,
    count: u64,
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
        let is_it = |place: &Vertex| self.names[*place as usize] == name;
        self.places.find(spread(name), is_it).copied()
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
        self.names.push(name);
        self.degrees.push(0);
        self.heads.push(NONE);
        let names = &self.names;
        let hash = |place: &Vertex| spread(names[*place as usize]);
        self.places.insert_unique(spread(name), place, hash);
        Some(place)
    }

    /// An edge is there, or not, since an event with this stamp. Whether that changes anything: it
    /// does not if a newer one has come, or if it was so before.
    pub fn set(&mut self, from: Vertex, to: Vertex, stamp: Stamp, is_there: bool) -> bool {
        let links = &self.links;
        let hash = |it: &u32| links[*it as usize].hash();
        let link = Link { to, from, next: self.heads[to as usize], is_there, is_old: false };
        let is_it = |it: &u32| links[*it as usize].is(&link);
        let was_there = if let Some(at) = self.fresh.find(link.hash(), is_it).copied() {
            let (link, known) = (&mut self.links[at as usize], &mut self.stamps[at as usize]);
            if *known >= stamp {
                return false;
            }
            *known = stamp;
            mem::replace(&mut link.is_there, is_there)
        } else {
            let old = self.find_old(&link);
            let known = match old {
                Some(at) => Some(&self.level.stamps[at]),
                None => self.level.gone.get(&(to, from)),
            };
            if known.is_some_and(|it| *it >= stamp) {
                return false;
            }
            // Memory ends long before there are as many links.
            let at = self.links.len() as u32;
            self.fresh.insert_unique(link.hash(), at, hash);
            self.heads[to as usize] = at;
            self.links.push(Link { is_old: old.is_some(), ..link });
            self.stamps.push(stamp);
            old.is_some()
        };
        if was_there == is_there {
            return false;
        }
        if let Some(at) = self.find_old(&link) {
            let bit = 1 << (at % 64);
            let word = &mut self.lost[at / 64];
            *word = if is_there { *word & !bit } else { *word | bit };
        }
        let degree = &mut self.degrees[from as usize];
        if is_there {
            (*degree, self.count) = (*degree + 1, self.count + 1);
        } else {
            (*degree, self.count) = (*degree - 1, self.count - 1);
        }
        true
    }

    /// Where in the generation an edge is.
    fn find_old(&self, link: &Link) -> Option<usize> {
        let (start, froms) = self.old(link.to);
        froms.binary_search(&link.from).ok().map(|at| start + at)
    }

    /// What is new about the edges that lead to a vertex, the newest first, and where it is.
    fn links(&self, to: Vertex) -> impl Iterator<Item = (u32, &Link)> {
        let mut next = self.heads.get(to as usize).copied().unwrap_or(NONE);
        iter::from_fn(move || {
            let (at, link) = (next, self.links.get(next as usize)?);
            next = link.next;
            Some((at, link))
        })
    }

    /// Where in the generation the edges to a vertex begin, and from where they come.
    fn old(&self, to: Vertex) -> (usize, &[Vertex]) {
        let at = |place: usize| self.level.starts.get(place).copied();
        match (at(to as usize), at(to as usize + 1)) {
            (Some(start), Some(end)) => (start, &self.level.froms[start..end]),
            _ => (0, &[]),
        }
    }

    /// Calls `each` with every vertex that an edge leads to this one from, in no order; how many
    /// they are.
    pub fn each_to(&self, to: Vertex, mut each: impl FnMut(Vertex)) -> usize {
        let (start, old) = self.old(to);
        let (mut count, mut lost) = (old.len(), 0);
        for (_, link) in self.links(to) {
            lost += usize::from(link.is_old && !link.is_there);
            if link.is_there && !link.is_old {
                count += 1;
                each(link.from);
            }
        }
        if lost == 0 {
            old.iter().copied().for_each(each);
        } else {
            let is_lost = |at: usize| (self.lost[at / 64] >> (at % 64)) & 1 == 1;
            let old = old.iter().zip(start..).filter(|(_, at)| !is_lost(*at));
            old.for_each(|(from, _)| each(*from));
        }
        count - lost
    }

    /// Whether there is so much new that it should become a generation.
    pub fn is_fresh(&self) -> bool {
        self.links.len() > LEAST_FRESH.max(self.level.froms.len() / 8)
    }

    /// Makes a generation of all edges.
    pub fn compact(&mut self) {
        let (vertices, count) = (self.vertices(), self.count as usize);
        let mut starts = Vec::with_capacity(vertices + 1);
        let (mut froms, mut stamps) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut gone = mem::take(&mut self.level.gone);
        let mut fresh = Vec::new();
        for to in 0..vertices as Vertex {
            starts.push(froms.len());
            fresh.clear();
            fresh.extend(self.links(to).map(|(at, link)| (link.from, at as usize)));
            fresh.sort_unstable();
            let (start, old) = self.old(to);
            let mut old = old.iter().copied().zip(start..).peekable();
            for &(from, fresh) in &fresh {
                while let Some((before, at)) = old.next_if(|(it, _)| *it < from) {
                    froms.push(before);
                    stamps.push(self.level.stamps[at]);
                }
                let _ = old.next_if(|(it, _)| *it == from);
                if self.links[fresh].is_there {
                    froms.push(from);
                    stamps.push(self.stamps[fresh]);
                    gone.remove(&(to, from));
                } else {
                    gone.insert((to, from), self.stamps[fresh]);
                }
            }
            for (from, at) in old {
                froms.push(from);
                stamps.push(self.level.stamps[at]);
            }
        }
        starts.push(froms.len());
        self.lost = vec![0; froms.len().div_ceil(64)];
        self.level = Level { starts, froms, stamps, gone };
        self.links.clear();
        self.stamps.clear();
        self.fresh.clear();
        self.heads.fill(NONE);
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
        let count = level.froms.len() as u64;
        let mut edges = Edges::default();
        for name in &names {
            edges.place(*name);
        }
        if edges.names.len() != names.len() {
            return Err(Damaged("a vertex is there twice"));
        }
        let lost = vec![0; level.froms.len().div_ceil(64)];
        Ok(Edges { level, lost, degrees, count, ..edges })
    }
}

impl Link {
    /// Whether two are of the same edge.
    fn is(&self, other: &Link) -> bool {
        (self.to, self.from) == (other.to, other.from)
    }

    fn hash(&self) -> u64 {
        spread(u64::from(self.to) << 32 | u64::from(self.from))
    }
}

/// A hash of a number: both halves of its product with an odd one, so that all of its bits count.
/// It is the same in each run.
fn spread(number: u64) -> u64 {
    let product = u128::from(number ^ 0x2437_54F3_1B7C_9A35) * 0x9E37_79B9_7F4A_7C15;
    (product >> 64) as u64 ^ product as u64
}
