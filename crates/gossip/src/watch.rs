//! Whom this node probes. SWIM probes any member at random; `foca` keeps its members in a vector
//! that it searches from end to end for every message, and 10,000 of them would take most of a
//! core's time. A node therefore watches those who are nearest to it, by [`place`], on either side
//! of a ring: everybody, in a cluster of up to 65 nodes. As distances are the same from
//! both ends, whoever is watched watches back, and every node is watched by as many.

use alloc::vec::Vec;

use nile_abi::NodeId;

use crate::table::place;
use crate::wire::Row;

/// How many are watched on each side.
pub(crate) const SIDE: usize = 32;

/// Who is watched.
pub(crate) struct Watch {
    own: u32,
    after: Side,
    before: Side,
}

/// Distances and nodes, the nearest first. Places are distinct, since mixing is one to one.
type Side = Vec<(u32, NodeId)>;

impl Watch {
    /// Nobody, around `own`.
    pub fn new(own: NodeId) -> Watch {
        Watch { own: place(own.0), after: Side::new(), before: Side::new() }
    }

    /// Those who are watched; some may be given twice.
    pub fn all(&self) -> impl Iterator<Item = NodeId> {
        self.after.iter().chain(&self.before).map(|(_, node)| *node)
    }

    pub fn has(&self, node: NodeId) -> bool {
        let (after, before) = self.distances(node);
        has(&self.after, after, node) || has(&self.before, before, node)
    }

    fn distances(&self, node: NodeId) -> (u32, u32) {
        let place = place(node.0);
        (place.wrapping_sub(self.own), self.own.wrapping_sub(place))
    }

    /// A node lives. Gives those who are not watched any more, because it is nearer.
    pub fn add(&mut self, node: NodeId) -> Vec<NodeId> {
        let (after, before) = self.distances(node);
        let far = [add(&mut self.after, after, node), add(&mut self.before, before, node)];
        far.into_iter().flatten().filter(|far| *far != node && !self.has(*far)).collect()
    }

    /// A node does not live any more. Gives those who are now watched of the living.
    pub fn remove<'a>(&mut self, node: NodeId, rows: impl Iterator<Item = &'a Row>) -> Vec<NodeId> {
        if !self.has(node) {
            return Vec::new();
        }
        for side in [&mut self.after, &mut self.before] {
            side.retain(|(_, other)| *other != node);
        }
        let mut new = Vec::new();
        for row in rows.filter(|row| row.live && row.node != node.0) {
            let other = NodeId(row.node);
            if place(row.node) == self.own {
                continue;
            }
            let was_watched = self.has(other);
            let far = self.add(other);
            new.retain(|it| !far.contains(it));
            if !was_watched && self.has(other) {
                new.push(other);
            }
        }
        new
    }
}

fn has(side: &Side, distance: u32, node: NodeId) -> bool {
    // Of many nodes most are far.
    side.last().is_some_and(|(farthest, _)| distance <= *farthest)
        && side.binary_search(&(distance, node)).is_ok()
}

/// Gives who is put out, or `node` itself if it is too far.
fn add(side: &mut Side, distance: u32, node: NodeId) -> Option<NodeId> {
    if side.len() == SIDE && side.last().is_some_and(|(farthest, _)| distance > *farthest) {
        return Some(node);
    }
    if let Err(place) = side.binary_search(&(distance, node))
        && place < SIDE
    {
        side.insert(place, (distance, node));
    }
    if side.len() > SIDE { side.pop().map(|(_, far)| far) } else { None }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;

    fn row(node: u32) -> Row {
        Row { node, generation: 1, nonce: 0, renewal: 0, live: true, version: 0 }
    }

    /// Whom one of so many should watch.
    fn nearest(own: u32, living: &BTreeSet<u32>) -> BTreeSet<NodeId> {
        let mut others: Vec<u32> = living.iter().copied().filter(|it| *it != own).collect();
        let mut watched = BTreeSet::new();
        others.sort_by_key(|it| place(*it).wrapping_sub(place(own)));
        watched.extend(others.iter().take(SIDE).map(|it| NodeId(*it)));
        watched.extend(others.iter().rev().take(SIDE).map(|it| NodeId(*it)));
        watched
    }

    #[test]
    fn the_nearest_of_the_living_are_watched_and_nobody_else() {
        let mut living = BTreeSet::from([1]);
        let mut watch = Watch::new(NodeId(1));
        let mut watched = BTreeSet::new();
        let mut number = 7_u32;
        for step in 0..2_000 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let node = 2 + (number >> 8) % 300;
            if step < 300 || number >> 31 == 0 {
                living.insert(node);
                for far in watch.add(NodeId(node)) {
                    watched.remove(&far);
                }
                if watch.has(NodeId(node)) {
                    watched.insert(NodeId(node));
                }
            } else if living.remove(&node) {
                watched.remove(&NodeId(node));
                let rows: Vec<Row> = living.iter().map(|node| row(*node)).collect();
                watched.extend(watch.remove(NodeId(node), rows.iter()));
            }
            assert_eq!(watched, nearest(1, &living), "after step {step}");
        }
    }

    #[test]
    fn whoever_is_watched_watches_back() {
        let watches: Vec<Watch> = (0..200)
            .map(|own| {
                let mut watch = Watch::new(NodeId(own));
                (0..200).filter(|it| *it != own).for_each(|it| drop(watch.add(NodeId(it))));
                watch
            })
            .collect();
        for a in 0..200 {
            for b in (0..200).filter(|b| *b != a) {
                assert_eq!(watches[a].has(NodeId(b as u32)), watches[b].has(NodeId(a as u32)));
            }
        }
    }
}
