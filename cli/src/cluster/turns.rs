//! Who is asked next for what several nodes have: one after the other, those last that have failed
//! a command before. While another may have it, none is waited for long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nile_abi::{NodeId, Status};

/// How long a node is waited for at first that is not the only one to have something.
pub const BRIEF: Duration = Duration::from_secs(2);

/// Nodes that have failed since a command began. Clones are of the same set.
#[derive(Clone, Default)]
pub struct Doubts(Arc<Mutex<BTreeMap<NodeId, u64>>>);

impl Doubts {
    /// Remembers that a node has failed.
    pub fn add(&self, node: NodeId) {
        *self.nodes().entry(node).or_default() += 1;
    }

    /// Whether it has.
    pub fn has(&self, node: NodeId) -> bool {
        self.nodes().contains_key(&node)
    }

    /// How often any has.
    pub fn count(&self) -> u64 {
        self.nodes().values().sum()
    }

    /// How often each has.
    fn nodes(&self) -> MutexGuard<'_, BTreeMap<NodeId, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How one of them was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// Not yet.
    Open,
    /// It did not answer at once: it is asked once more, and waited for, if no other has it.
    Late,
    /// It has failed.
    Over,
}

/// Whose turn it is, of some that have the same.
pub struct Turns {
    all: Vec<Turn>,
}

impl Turns {
    /// None of so many has been asked.
    pub fn of(count: usize) -> Turns {
        Turns { all: vec![Turn::Open; count] }
    }

    /// Who is asked next, and how long to wait for the answer, at most `patience`; none if all have
    /// failed. Those that are least
    /// `doubted` go before the others.
    pub fn next<D: Ord>(
        &self,
        patience: Duration,
        doubted: impl Fn(usize) -> D,
    ) -> Option<(usize, Duration)> {
        let those = |turn| (0..self.all.len()).filter(move |at| self.all[*at] == turn);
        // Of several that are least, the first.
        if let Some(at) = those(Turn::Open).min_by_key(|at| doubted(*at)) {
            let is_only = self.all.len() == 1;
            return Some((at, if is_only { patience } else { patience.min(BRIEF) }));
        }
        those(Turn::Late).next().map(|at| (at, patience))
    }

    /// One that was asked has failed.
    pub fn failed(&mut self, at: usize, status: Status) {
        self.all[at] = match (self.all[at], status) {
            (Turn::Open, Status::Timeout) if self.all.len() > 1 => Turn::Late,
            _ => Turn::Over,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(5);

    #[test]
    fn a_doubted_one_is_asked_last_and_a_late_one_once_more() {
        let mut turns = Turns::of(3);
        let doubts = Doubts::default();
        doubts.add(NodeId(0));
        let next = |turns: &Turns| turns.next(LONG, |at| doubts.has(NodeId(at as u32)));
        assert_eq!(next(&turns), Some((1, BRIEF)));
        turns.failed(1, Status::Failed);
        assert_eq!(next(&turns), Some((2, BRIEF)));
        turns.failed(2, Status::Timeout);
        assert_eq!(next(&turns), Some((0, BRIEF)));
        turns.failed(0, Status::Timeout);
        assert_eq!(next(&turns), Some((0, LONG)));
        turns.failed(0, Status::Dead);
        assert_eq!(next(&turns), Some((2, LONG)));
        turns.failed(2, Status::Timeout);
        assert_eq!(next(&turns), None);
    }

    #[test]
    fn the_only_one_is_waited_for_at_once() {
        let mut turns = Turns::of(1);
        assert_eq!(turns.next(LONG, |_| true), Some((0, LONG)));
        turns.failed(0, Status::Timeout);
        assert_eq!(turns.next(LONG, |_| true), None);
    }
}
