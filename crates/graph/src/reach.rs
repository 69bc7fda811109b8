//! What can be reached: components, whichever way edges go, and distances along them.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use crate::edges::{Edges, Vertex};

/// The component of each vertex: its vertex with the lowest name.
pub fn components(edges: &Edges) -> Vec<Vertex> {
    let count = edges.vertices() as Vertex;
    let mut parents: Vec<Vertex> = (0..count).collect();
    for to in 0..count {
        edges.each_to(to, |from| {
            let (one, other) = (root(&mut parents, from), root(&mut parents, to));
            let (low, high) = match edges.name(one) < edges.name(other) {
                true => (one, other),
                false => (other, one),
            };
            parents[high as usize] = low;
        });
    }
    for vertex in 0..count {
        let root = root(&mut parents, vertex);
        parents[vertex as usize] = root;
    }
    parents
}

/// The vertex that stands for all that are united with this one.
pub fn root(parents: &mut [Vertex], mut vertex: Vertex) -> Vertex {
    while parents[vertex as usize] != vertex {
        let above = parents[parents[vertex as usize] as usize];
        parents[vertex as usize] = above;
        vertex = above;
    }
    vertex
}

/// How many edges the shortest way has; `None` if there is none.
pub fn distance(edges: &Edges, from: Vertex, to: Vertex) -> Option<u32> {
    // From the end, as edges are known by where they lead to.
    let mut seen = vec![false; edges.vertices()];
    let mut waiting = VecDeque::from([(to, 0)]);
    seen[to as usize] = true;
    while let Some((vertex, steps)) = waiting.pop_front() {
        if vertex == from {
            return Some(steps);
        }
        edges.each_to(vertex, |before| {
            if !core::mem::replace(&mut seen[before as usize], true) {
                waiting.push_back((before, steps + 1));
            }
        });
    }
    None
}
