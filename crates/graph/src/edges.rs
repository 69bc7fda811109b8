//! The edges, in two levels: a generation, compressed by the vertices that edges lead to, and what
//! is new since, which becomes a part of the next one. That is built a few vertices at a time, and
//! holds for those that are in it at once; so nobody waits for all of it. A removed edge leaves its
//! stamp, since an older event about it may still come.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use core::{iter, mem};

use hashbrown::HashTable;

use crate::bytes::{Damaged, Read};
use crate::event::Stamp;
use crate::stamps::Stamps;

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

/// A generation: all edges to the first vertices, or to all.
#[derive(Default)]
pub struct Level {
    /// Where the edges to each vertex end.
    ends: Vec<usize>,
    /// From where they come, sorted for each vertex.
    froms: Vec<Vertex>,
    stamps: Stamps,
    /// A bit for each that has gone since.
    lost: Vec<u64>,
}

impl Level {
    /// How many vertices it has.
    pub fn vertices(&self) -> usize {
        self.ends.len()
    }

    /// How many edges.
    pub fn edges(&self) -> usize {
        self.froms.len()
    }

    /// Adds an edge to the next vertex.
    pub fn push(&mut self, from: Vertex, stamp: Stamp) {
        self.froms.push(from);
        self.stamps.push(stamp);
    }

    /// The next vertex has all its edges.
    pub fn end_vertex(&mut self) {
        self.ends.push(self.froms.len());
        self.lost.resize(self.froms.len().div_ceil(64), 0);
    }

    /// Where the edges to a vertex are.
    fn place(&self, to: Vertex) -> Range<usize> {
        let to = to as usize;
        let start = to.checked_sub(1).and_then(|before| self.ends.get(before));
        let start = start.copied().unwrap_or(0);
        self.ends.get(to).map_or(0..0, |end| start..*end)
    }

    fn is_lost(&self, at: usize) -> bool {
        (self.lost[at / 64] >> (at % 64)) & 1 == 1
    }
}

/// The edges of a graph.
#[derive(Default)]
pub struct Edges {
    /// Places of vertices, by their names.
    places: HashTable<Vertex>,
    names: Vec<u64>,
    level: Level,
    /// The next generation, which already holds for the vertices that it has.
    next: Option<Level>,
    /// The stamps of edges that were gone when their vertex came into a generation, by where they
    /// led to and came from.
    gone: BTreeMap<(Vertex, Vertex), Stamp>,
    /// What is known besides, with stamps beside it, where nothing is known any more, and where
    /// each edge is in it.
    links: Vec<Link>,
    stamps: Vec<Stamp>,
    free: Vec<u32>,
    fresh: HashTable<u32>,
    /// For each vertex the first of its links.
    heads: Vec<u32>,
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
            let (level, old) = (self.level_of(to), self.find_old(&link));
            let known = match old {
                Some(at) => level.stamps.get(at),
                None => self.gone.get(&(to, from)).copied(),
            };
            if known.is_some_and(|it| it >= stamp) {
                return false;
            }
            self.add(Link { is_old: old.is_some(), ..link }, stamp);
            old.is_some()
        };
        if was_there == is_there {
            return false;
        }
        if let Some(at) = self.find_old(&link) {
            let bit = 1 << (at % 64);
            let word = &mut self.level_of_mut(to).lost[at / 64];
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

    /// Adds what is new about an edge.
    fn add(&mut self, link: Link, stamp: Stamp) {
        // Memory ends long before there are as many links.
        let at = self.free.pop().unwrap_or(self.links.len() as u32);
        if at as usize == self.links.len() {
            self.links.push(link);
            self.stamps.push(stamp);
        } else {
            (self.links[at as usize], self.stamps[at as usize]) = (link, stamp);
        }
        self.heads[link.to as usize] = at;
        let links = &self.links;
        self.fresh.insert_unique(link.hash(), at, |it| links[*it as usize].hash());
    }

    /// The generation that holds for a vertex.
    fn level_of(&self, to: Vertex) -> &Level {
        let next = self.next.as_ref().filter(|next| (to as usize) < next.vertices());
        next.unwrap_or(&self.level)
    }

    fn level_of_mut(&mut self, to: Vertex) -> &mut Level {
        let next = self.next.as_mut().filter(|next| (to as usize) < next.vertices());
        next.unwrap_or(&mut self.level)
    }

    /// Where in its generation an edge is.
    fn find_old(&self, link: &Link) -> Option<usize> {
        let level = self.level_of(link.to);
        let place = level.place(link.to);
        let start = place.start;
        level.froms[place].binary_search(&link.from).ok().map(|at| start + at)
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

    /// Calls `each` with every vertex that an edge leads to this one from, in no order; how many
    /// they are.
    pub fn each_to(&self, to: Vertex, mut each: impl FnMut(Vertex)) -> usize {
        let level = self.level_of(to);
        let place = level.place(to);
        let (mut count, mut lost) = (place.len(), 0);
        for (_, link) in self.links(to) {
            lost += usize::from(link.is_old && !link.is_there);
            if link.is_there && !link.is_old {
                count += 1;
                each(link.from);
            }
        }
        let old = level.froms[place.clone()].iter().copied();
        if lost == 0 {
            old.for_each(each);
        } else {
            let old = old.zip(place).filter(|(_, at)| !level.is_lost(*at));
            old.for_each(|(from, _)| each(from));
        }
        count - lost
    }

    /// Whether there is so much new that it should become a generation.
    pub fn is_fresh(&self) -> bool {
        self.fresh.len() > LEAST_FRESH.max(self.level.edges() / 8)
    }

    /// Begins with the next generation, unless one is being built.
    pub fn begin_level(&mut self) {
        let count = self.count as usize;
        self.next.get_or_insert_with(|| Level {
            ends: Vec::with_capacity(self.names.len()),
            froms: Vec::with_capacity(count + count / 64),
            ..Level::default()
        });
    }

    /// Whether the next generation is being built.
    pub fn is_building(&self) -> bool {
        self.next.is_some()
    }

    /// Builds on at the next generation, over about so many edges and vertices. Whether it is
    /// whole now: it has all that was known when it was begun, and some of what has come since.
    pub fn build(&mut self, most: usize) -> bool {
        let Some(mut next) = self.next.take() else { return false };
        let (first, mut done) = (next.vertices() as Vertex, 0);
        // What is left of the old one, from where the new one ends.
        let level = mem::take(&mut self.level);
        let mut old = level.stamps.from(level.place(first).start);
        let mut fresh = Vec::new();
        while next.vertices() < self.vertices() && done < most {
            let to = next.vertices() as Vertex;
            let before = next.edges();
            self.take_links(to, &mut fresh);
            done += fresh.len() + 1;
            let froms = level.froms[level.place(to)].iter().copied();
            self.merge(to, froms.zip(&mut old), &fresh, &mut next);
            next.end_vertex();
            done += next.edges() - before;
        }
        drop(old);
        let is_whole = next.vertices() == self.vertices();
        (self.level, self.next) = if is_whole { (next, None) } else { (level, Some(next)) };
        is_whole
    }

    /// Takes what is new about the edges to a vertex, sorted by where they come from.
    fn take_links(&mut self, to: Vertex, fresh: &mut Vec<(Link, Stamp)>) {
        fresh.clear();
        let mut at = mem::replace(&mut self.heads[to as usize], NONE);
        while let Some(link) = self.links.get(at as usize).copied() {
            fresh.push((link, self.stamps[at as usize]));
            if let Ok(entry) = self.fresh.find_entry(link.hash(), |it| *it == at) {
                entry.remove();
            }
            self.free.push(at);
            at = link.next;
        }
        fresh.sort_unstable_by_key(|(link, _)| link.from);
    }

    /// Adds the edges to a vertex: the old ones, and what is new.
    fn merge(
        &mut self,
        to: Vertex,
        old: impl Iterator<Item = (Vertex, Stamp)>,
        fresh: &[(Link, Stamp)],
        next: &mut Level,
    ) {
        let mut old = old.peekable();
        for (link, stamp) in fresh {
            let from = link.from;
            while let Some((before, stamp)) = old.next_if(|(it, _)| *it < from) {
                next.push(before, stamp);
            }
            let _ = old.next_if(|(it, _)| *it == from);
            if link.is_there {
                next.push(from, *stamp);
                self.gone.remove(&(to, from));
            } else {
                self.gone.insert((to, from), *stamp);
            }
        }
        old.for_each(|(from, stamp)| next.push(from, stamp));
    }

    /// What the generation has of a vertex: how many edges lead to it, from where, and their
    /// stamps.
    pub fn level(&self, to: Vertex) -> (usize, impl Iterator<Item = (Vertex, Stamp)>) {
        let place = self.level.place(to);
        let stamps = self.level.stamps.from(place.start);
        (place.len(), self.level.froms[place].iter().copied().zip(stamps))
    }

    /// How many vertices and edges the generation has.
    pub fn level_size(&self) -> (usize, usize) {
        (self.level.vertices(), self.level.edges())
    }

    /// The edges that were gone when the generation was made.
    pub fn gone(&self) -> &BTreeMap<(Vertex, Vertex), Stamp> {
        &self.gone
    }

    /// Edges of these vertices, of one level, and those that are gone.
    pub fn restore(
        names: Vec<u64>,
        level: Level,
        gone: BTreeMap<(Vertex, Vertex), Stamp>,
    ) -> Read<Edges> {
        let is_there = |it: &Vertex| (*it as usize) < names.len();
        let are_there = gone.keys().all(|(to, from)| is_there(to) && is_there(from));
        if !are_there || !level.froms.iter().all(is_there) {
            return Err(Damaged("an edge leads to no vertex"));
        }
        let mut degrees = vec![0; names.len()];
        level.froms.iter().for_each(|from| degrees[*from as usize] += 1);
        let count = level.edges() as u64;
        let mut edges = Edges::default();
        for name in &names {
            edges.place(*name);
        }
        if edges.names.len() != names.len() {
            return Err(Damaged("a vertex is there twice"));
        }
        Ok(Edges { level, gone, degrees, count, ..edges })
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
