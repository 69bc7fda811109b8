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

/// One, in the fixed point of ranks: 32 bits of it are behind the point.
pub const ONE: u64 = 1 << 32;

/// The probability to follow an edge, of [`ONE`]: 0.85.
const FOLLOW: u64 = 3_650_722_201;

/// What each vertex has of its own.
const OWN: u64 = ONE - FOLLOW;

/// The ranks of all vertices, in the midst of a sweep.
#[derive(Default)]
pub struct Ranks {
    /// The mean is [`ONE`] where every vertex has an edge.
    values: Vec<u64>,
    /// What goes over each edge of a vertex.
    shares: Vec<u64>,
    next: Vertex,
    /// How far all vertices have moved in this sweep.
    moved: u128,
    /// The values after the last whole sweep, their sum, and how wrong all may be together.
    published: Vec<u64>,
    sum: u128,
    bound: u128,
}

impl Ranks {
    /// Before a sweep: there are so many vertices, and the edges from these have changed.
    pub fn change(&mut self, edges: &Edges, changed: impl IntoIterator<Item = Vertex>) {
        self.values.resize(edges.vertices(), ONE);
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
            let (shares, mut sum) = (&self.shares, 0_u64);
            let add = |from: Vertex| sum = sum.saturating_add(shares[from as usize]);
            done += edges.each_to(self.next, add) + 1;
            let value = OWN + scaled(sum);
            let before = core::mem::replace(&mut self.values[self.next as usize], value);
            self.moved += u128::from(value.abs_diff(before));
            self.share(edges, self.next);
            self.next += 1;
        }
        let is_over = self.next as usize >= vertices;
        if is_over {
            self.publish(edges);
        }
        is_over
    }

    fn share(&mut self, edges: &Edges, vertex: Vertex) {
        let value = self.values[vertex as usize];
        let share = value.checked_div(u64::from(edges.degree(vertex)));
        self.shares[vertex as usize] = share.unwrap_or(0);
    }

    fn publish(&mut self, edges: &Edges) {
        self.published.clone_from(&self.values);
        self.sum = self.values.iter().map(|value| u128::from(*value)).sum();
        // Each share is rounded down, and each value.
        let rounded = u128::from(edges.count()) + self.values.len() as u128;
        let lacking = (self.moved * u128::from(FOLLOW)).div_ceil(u128::from(ONE)) + rounded;
        self.bound = (lacking * u128::from(ONE)).div_ceil(u128::from(OWN));
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
