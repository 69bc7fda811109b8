//! Ranks, as `PageRank` has them: a walker follows one of the edges of a vertex with probability
//! `d`, and begins anew anywhere otherwise, always where there is no edge.
//!
//! A vertex has `x = 1 - d + d · Σ x(u) / degree(u)` over the edges that lead to it: what vertices
//! without edges have leaks away, which changes all ranks by the same factor, so that they are
//! right once they are divided by their sum. Sweeps put in, one vertex after the other, what
//! follows from the others, and begin with what the last one has left; so a few new edges take few
//! sweeps.
//!
//! **The bound.** After a sweep in which each `u` has moved by `δ(u)`, what a vertex lacks comes of
//! others that moved after it: `d · Σ|δ|` in all. What is lacking leads to at most `1 / (1 - d)` as
//! much in the end. So the sum of all errors is at most `d / (1 - d) · Σ|δ|`, and what rounding
//! adds, of the graph as it was all through the sweep: edges change between sweeps only.

use alloc::vec::Vec;

use crate::edges::{Edges, Vertex};
use crate::part::Part;

/// One, in the fixed point of ranks: 32 bits of it are behind the point.
pub const ONE: u64 = 1 << 32;

/// The probability to follow an edge, of [`ONE`]: 0.85.
const FOLLOW: u64 = 3_650_722_201;

/// What each vertex has of its own.
const OWN: u64 = ONE - FOLLOW;

/// The ranks of all vertices, in the midst of a sweep.
#[derive(Default)]
pub struct Ranks {
    /// The mean is [`ONE`] where every vertex has an edge. 0: another part owns the vertex.
    values: Vec<u64>,
    /// What goes over each edge of a vertex.
    shares: Vec<u64>,
    /// How many edges lead from a vertex to those of other parts, if there are any.
    elsewhere: Vec<u32>,
    next: Vertex,
    /// How far all vertices have moved in this sweep.
    moved: u128,
    /// The values after the last whole sweep, their sum, and how wrong all may be together.
    published: Vec<u64>,
    sum: u128,
    bound: u128,
}

/// What a sweep has done.
#[derive(Clone, Copy)]
pub struct Swept {
    /// How far all vertices have moved.
    pub moved: u128,
    /// The sum of their values.
    pub sum: u128,
    /// How often something was rounded down, by less than one each time.
    pub rounded: u64,
}

impl Ranks {
    /// Before a sweep: the edges from these vertices have changed, and new ones have come.
    pub fn change(&mut self, edges: &Edges, part: Part, changed: impl IntoIterator<Item = Vertex>) {
        for vertex in self.values.len()..edges.vertices() {
            let is_own = edges.name(vertex as Vertex).is_some_and(|it| part.owns(it));
            self.values.push(if is_own { ONE } else { 0 });
        }
        self.shares.resize(edges.vertices(), 0);
        for vertex in changed {
            self.share(edges, vertex);
        }
    }

    /// Sweeps on over about so many edges and vertices; whether the sweep is over.
    pub fn step(&mut self, edges: &Edges, most: usize) -> bool {
        let vertices = self.values.len();
        let mut done = 0;
        while (self.next as usize) < vertices && done < most {
            if self.values[self.next as usize] == 0 {
                (self.next, done) = (self.next + 1, done + 1);
                continue;
            }
            let (shares, mut sum) = (&self.shares, 0_u64);
            let add = |from: Vertex| sum = sum.saturating_add(shares[from as usize]);
            done += edges.each_to(self.next, add) + 1;
            let value = OWN + scaled(sum);
            let before = core::mem::replace(&mut self.values[self.next as usize], value);
            self.moved += u128::from(value.abs_diff(before));
            self.share(edges, self.next);
            self.next += 1;
        }
        self.next as usize >= vertices
    }

    fn share(&mut self, edges: &Edges, vertex: Vertex) {
        let value = self.values[vertex as usize];
        if value == 0 {
            return;
        }
        let elsewhere = self.elsewhere.get(vertex as usize).copied().unwrap_or(0);
        let share = value.checked_div(u64::from(edges.degree(vertex)) + u64::from(elsewhere));
        self.shares[vertex as usize] = share.unwrap_or(0);
    }

    /// A sweep is over; what it has done.
    pub fn end(&mut self, edges: &Edges) -> Swept {
        let swept = Swept {
            moved: self.moved,
            sum: self.values.iter().map(|value| u128::from(*value)).sum(),
            // Each share is rounded down, and each value.
            rounded: edges.count() + self.values.len() as u64,
        };
        (self.next, self.moved) = (0, 0);
        swept
    }

    /// Publishes the values after a sweep that has done this in all parts.
    pub fn publish(&mut self, swept: &Swept) {
        self.published.clone_from(&self.values);
        self.sum = swept.sum;
        let moved = (swept.moved * u128::from(FOLLOW)).div_ceil(u128::from(ONE));
        let lacking = moved + u128::from(swept.rounded);
        self.bound = (lacking * u128::from(ONE)).div_ceil(u128::from(OWN));
    }

    /// Of the edges from a vertex that lead to another part there are so many now.
    pub fn lead_elsewhere(&mut self, vertex: Vertex, before: u32, count: u32) {
        let length = self.elsewhere.len().max(vertex as usize + 1);
        self.elsewhere.resize(length, 0);
        let all = &mut self.elsewhere[vertex as usize];
        *all = (*all - before).saturating_add(count);
    }

    /// What goes over each edge of another part's vertex.
    pub fn borrow(&mut self, vertex: Vertex, share: u64) {
        if self.values.get(vertex as usize) == Some(&0) {
            self.shares[vertex as usize] = share;
        }
    }

    /// What goes over each edge of a vertex.
    pub fn share_of(&self, vertex: Vertex) -> u64 {
        self.shares.get(vertex as usize).copied().unwrap_or(0)
    }

    /// How many vertices this part owns.
    pub fn owned(&self) -> u64 {
        self.values.iter().filter(|it| **it > 0).count() as u64
    }

    /// Nothing is known of edges to other parts any more, and no sweep is under way.
    pub fn begin_anew(&mut self) {
        self.elsewhere.clear();
        (self.next, self.moved) = (0, 0);
    }

    /// The values after the last whole sweep.
    pub fn published(&self) -> &[u64] {
        &self.published
    }

    /// Their sum, and how far all together may be from what they should be.
    pub fn sum_and_bound(&self) -> (u128, u128) {
        (self.sum, self.bound)
    }
}

/// As much of a number as goes over edges.
fn scaled(number: u64) -> u64 {
    ((u128::from(number) * u128::from(FOLLOW)) >> 32) as u64
}
