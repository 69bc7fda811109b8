//! Parts of a graph that is divided among several owners.

use alloc::vec;
use alloc::vec::Vec;

use crate::segment::Call;

/// Which part of a graph one is. It owns the vertices whose hash says so, and has all edges that
/// lead to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Which it is, from 0.
    pub number: u32,
    /// How many there are.
    pub of: u32,
}

impl Part {
    /// All of a graph.
    pub const ALL: Part = Part { number: 0, of: 1 };

    /// Whether there are others.
    pub fn is_divided(self) -> bool {
        self.of > 1
    }

    /// The part that owns a vertex.
    pub fn owner(self, vertex: u64) -> u32 {
        // Other bits than those by which a part finds its vertices.
        let hash = (vertex ^ 0x1319_8A2E_0370_7344).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let hash = (hash ^ (hash >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        (((hash >> 32) * u64::from(self.of)) >> 32) as u32
    }

    /// Whether this part owns a vertex.
    pub fn owns(self, vertex: u64) -> bool {
        self.of <= 1 || self.owner(vertex) == self.number
    }

    /// Divides a call: what each part is given of it. All are told which numbers of the source it
    /// covers, so that each knows of a source what all know; what is no event goes to all.
    pub fn divide(self, call: Call) -> Vec<Call> {
        let Call { source, until, mut events, rejects, .. } = call;
        nile_order::sort_by_key(&mut events, |it| it.sequence);
        let mut covers = Vec::new();
        events.iter().for_each(|it| add(&mut covers, it.sequence));
        let (none, rejects) = (Vec::new(), rejects);
        let each = Call { source, until, events: none, rejects, covers };
        let mut calls = vec![each; self.of as usize];
        for event in events {
            calls[self.owner(event.to) as usize].events.push(event);
        }
        calls
    }
}

/// Adds a number to runs, each its first and how many it has. It is the last one, or higher.
pub fn add(runs: &mut Vec<(u64, u64)>, number: u64) {
    match runs.last_mut() {
        Some((first, count)) if number - *first < *count => {}
        Some((first, count)) if number - *first == *count => *count += 1,
        _ => runs.push((number, 1)),
    }
}

/// The highest of all parts' highest vertices: values, the highest first, of equal ones the lowest
/// vertex first.
pub fn merged(parts: impl IntoIterator<Item = Vec<(u64, u64)>>) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = parts.into_iter().flatten().collect();
    nile_order::sort_by_key(&mut all, |(vertex, value)| (core::cmp::Reverse(*value), *vertex));
    all
}
