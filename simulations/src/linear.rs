//! Whether a history is *linearizable*: each operation could have happened at one moment between
//! when it was called and when it returned, one after the other, with what was seen.
//!
//! The search is that of Wing and Gong with Lowe's memory: it takes the operations that none comes
//! wholly before, one after the other, and remembers which of them in which state led nowhere.

use std::collections::HashSet;
use std::hash::Hash;

/// An operation of a history. Moments are numbers, no two of which are the same.
#[derive(Clone, Debug)]
pub struct Operation<C> {
    /// When it was called.
    pub call: u64,
    /// When it returned. None: nobody knows what came of it; it may have happened at any time
    /// after it was called, or never.
    pub returned: Option<u64>,
    /// What was done and seen.
    pub what: C,
}

/// A history that is not linearizable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stuck {
    /// The longest row of operations that fit after each other, by their place in the history.
    pub row: Vec<usize>,
    /// Those one of which would have had to come next.
    pub next: Vec<usize>,
    /// There was too much to try: it may be linearizable all the same.
    pub is_unsure: bool,
}

/// The most states that are tried.
const MOST_STATES: usize = 300_000;

/// Checks a history that begins in `state`. `step` is the state after an operation, or none if the
/// operation cannot have happened in the state before. It gives up where it would take for ever.
pub fn check<S: Clone + Eq + Hash, C>(
    state: S,
    history: &[Operation<C>],
    step: impl Fn(&S, &C) -> Option<S>,
) -> Result<(), Stuck> {
    let mut order: Vec<usize> = (0..history.len()).collect();
    order.sort_unstable_by_key(|at| history[*at].call);
    let known = history.iter().filter(|it| it.returned.is_some()).count();
    let mut seen = HashSet::new();
    let mut taken = Taken(vec![0; history.len().div_ceil(64)]);
    let mut stuck =
        Stuck { row: Vec::new(), next: candidates(history, &order, &taken), is_unsure: false };
    let mut row: Vec<usize> = Vec::new();
    let mut left = known;
    // What is to be tried after each operation of the row, and the state there.
    let mut levels = vec![(state, stuck.next.clone())];
    while let Some((state, next)) = levels.last_mut() {
        if left == 0 {
            return Ok(());
        }
        let Some(at) = next.pop() else {
            levels.pop();
            if let Some(at) = row.pop() {
                taken.flip(at);
                left += usize::from(history[at].returned.is_some());
            }
            continue;
        };
        let Some(after) = step(state, &history[at].what) else { continue };
        if history[at].returned.is_none() && after == *state {
            continue;
        }
        taken.flip(at);
        if !seen.insert((taken.clone(), after.clone())) {
            taken.flip(at);
            continue;
        }
        if seen.len() > MOST_STATES {
            return Err(Stuck { is_unsure: true, ..stuck });
        }
        row.push(at);
        left -= usize::from(history[at].returned.is_some());
        let next = candidates(history, &order, &taken);
        if row.len() > stuck.row.len() {
            stuck = Stuck { row: row.clone(), next: next.clone(), ..stuck };
        }
        levels.push((after, next));
    }
    if left == 0 { Ok(()) } else { Err(stuck) }
}

/// The operations that are not taken and called before any of these has returned: the latest call
/// first, because it is tried last.
fn candidates<C>(history: &[Operation<C>], order: &[usize], taken: &Taken) -> Vec<usize> {
    let mut first_return = u64::MAX;
    let mut found = Vec::new();
    for at in order.iter().copied().filter(|at| !taken.has(*at)) {
        if history[at].call > first_return {
            break;
        }
        first_return = first_return.min(history[at].returned.unwrap_or(u64::MAX));
        found.push(at);
    }
    found.reverse();
    found
}

/// A set of operations.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Taken(Vec<u64>);

impl Taken {
    fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    fn flip(&mut self, at: usize) {
        self.0[at / 64] ^= 1 << (at % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a register that begins with zero.
    #[derive(Clone, Copy, Debug)]
    enum Call {
        Write(u8),
        Read(u8),
        /// Writes the second, if it is the first.
        Swap(u8, u8),
    }
    use Call::{Read, Swap, Write};

    fn step(state: &u8, call: &Call) -> Option<u8> {
        match *call {
            Write(value) => Some(value),
            Read(value) => (value == *state).then_some(value),
            Swap(old, new) => Some(if *state == old { new } else { *state }),
        }
    }

    fn history(operations: &[(u64, u64, Call)]) -> Vec<Operation<Call>> {
        let operation = |(call, returned, what): &(u64, u64, Call)| {
            let returned = (*returned > 0).then_some(*returned);
            Operation { call: *call, returned, what: *what }
        };
        operations.iter().map(operation).collect()
    }

    /// Checks a history; one that returns at zero does not return.
    fn is_good(operations: &[(u64, u64, Call)]) -> bool {
        check(0, &history(operations), step).is_ok()
    }

    #[test]
    fn good_histories_are_found_good() {
        assert!(is_good(&[]));
        assert!(is_good(&[(1, 2, Read(0)), (3, 4, Write(1)), (5, 6, Read(1))]));
        // What is at the same time may be in any order.
        assert!(is_good(&[(1, 9, Write(1)), (2, 3, Read(0)), (4, 5, Read(1))]));
        assert!(is_good(&[(1, 9, Write(1)), (2, 8, Write(2)), (10, 11, Read(1))]));
        assert!(is_good(&[(1, 9, Write(1)), (2, 8, Write(2)), (10, 11, Read(2))]));
        // What has not returned may have happened, at any time, or never.
        assert!(is_good(&[(1, 0, Write(1)), (2, 3, Read(0)), (4, 5, Read(0))]));
        assert!(is_good(&[(1, 0, Write(1)), (2, 3, Read(0)), (4, 5, Read(1))]));
        let late = [(1, 0, Write(1)), (2, 3, Write(2)), (4, 5, Read(2)), (6, 7, Read(1))];
        assert!(is_good(&late));
        assert!(is_good(&[(1, 0, Swap(2, 3)), (4, 5, Write(2)), (6, 7, Read(3))]));
    }

    #[test]
    fn bad_histories_are_found_bad() {
        // A stale read.
        assert!(!is_good(&[(1, 2, Write(1)), (3, 4, Read(0))]));
        // Two reads that see two writes in the wrong order.
        assert!(!is_good(&[(1, 9, Write(1)), (2, 3, Read(1)), (4, 5, Read(0))]));
        let apart = [(1, 2, Write(1)), (3, 20, Write(2)), (4, 5, Read(2)), (6, 7, Read(1))];
        assert!(!is_good(&apart));
        // A write before it was called.
        assert!(!is_good(&[(1, 2, Read(1)), (3, 4, Write(1))]));
        assert!(!is_good(&[(1, 2, Read(1)), (3, 0, Write(1))]));
        // One that happened twice.
        let twice = [(1, 0, Write(1)), (2, 3, Write(2)), (4, 5, Read(1)), (6, 7, Write(3))];
        assert!(is_good(&twice));
        let twice = [twice[0], twice[1], twice[2], twice[3], (8, 9, Read(1))];
        assert!(!is_good(&twice));
        // Both of two that exclude each other.
        let both = [(1, 4, Swap(0, 1)), (2, 3, Swap(0, 2)), (5, 6, Read(1)), (7, 8, Read(2))];
        assert!(!is_good(&both));
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let bad = history(&[(1, 2, Write(1)), (3, 4, Read(1)), (5, 6, Read(0)), (7, 8, Read(1))]);
        assert_eq!(
            check(0, &bad, step),
            Err(Stuck { row: vec![0, 1], next: vec![2], is_unsure: false })
        );
    }

    #[test]
    fn what_would_take_for_ever_is_given_up() {
        let step = |state: &u64, call: &Option<u64>| {
            call.map(|number| state.wrapping_mul(31).wrapping_add(number))
        };
        let number = |at: u64| Operation { call: at, returned: Some(100 + at), what: Some(at) };
        let mut history: Vec<_> = (1..30).map(number).collect();
        history.push(Operation { call: 200, returned: Some(201), what: None });
        assert!(check(0, &history, step).is_err_and(|stuck| stuck.is_unsure));
    }

    /// Without memory this would take all orders of the writes.
    #[test]
    fn many_at_the_same_time_take_no_time() {
        let mut many: Vec<_> = (0..12).map(|it| (it + 1, 100 + it, Write(it as u8 % 3))).collect();
        many.push((200, 201, Read(9)));
        assert!(!is_good(&many));
        many.pop();
        many.extend((0..60).map(|it| (300 + it, 0, Write(5))));
        many.push((400, 401, Read(5)));
        assert!(is_good(&many));
    }
}
