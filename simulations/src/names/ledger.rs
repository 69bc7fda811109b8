//! What clients have seen of each name, and whether that can be.

use std::collections::BTreeMap;

use nile_names::{Entry, Expect, Outcome, Task, What};

use crate::linear::{Operation, check};

/// What was done with a name, and seen of it.
#[derive(Clone, Debug)]
pub enum Seen {
    /// It stood for this.
    Entry(Entry),
    /// A list did not have it.
    Absent,
    /// A change, and what came of it if that is known.
    Change { id: u64, expect: Expect, to: What, outcome: Option<Outcome> },
}

/// The histories of all names.
#[derive(Default)]
pub struct Ledger {
    clock: u64,
    histories: Vec<Vec<Operation<Seen>>>,
    /// Operations that ended, and those of which nobody knows how.
    pub ended: u64,
    pub unknown: u64,
}

impl Ledger {
    pub fn new(names: usize) -> Ledger {
        Ledger { histories: vec![Vec::new(); names], ..Ledger::default() }
    }

    /// A moment that is later than all before.
    pub fn moment(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Something that was called at `call` has returned just now.
    pub fn saw(&mut self, name: usize, call: u64, what: Seen) {
        let returned = Some(self.moment());
        self.histories[name].push(Operation { call, returned, what });
    }

    /// An operation ended; how is not said if its client died.
    pub fn end(&mut self, name: usize, call: u64, task: &Task, outcome: Option<Outcome>) {
        let Task::Change { id, expect, to } = task.clone() else {
            self.ended += 1;
            if let Some(Outcome::Done(entry)) = outcome {
                self.saw(name, call, Seen::Entry(entry));
            }
            return;
        };
        match outcome {
            // It is promised that this never happens.
            Some(Outcome::NoMajority(_)) => self.ended += 1,
            Some(Outcome::Done(_) | Outcome::Refused(_)) => {
                self.ended += 1;
                self.saw(name, call, Seen::Change { id, expect, to, outcome });
            }
            Some(Outcome::Unknown(_)) | None => {
                self.unknown += 1;
                let what = Seen::Change { id, expect, to, outcome: None };
                self.histories[name].push(Operation { call, returned: None, what });
            }
        }
    }

    /// Whether the history of each name is linearizable.
    pub fn check(&self) -> Result<(), String> {
        for (name, history) in self.histories.iter().enumerate() {
            let known = entries(history).map_err(|(one, other)| {
                format!("name {name} has no one history: {one:?} and {other:?}")
            })?;
            // There is one entry for each stamp, and nothing after the last is to be explained: so
            // little is left to search.
            let last = known.keys().next_back().copied().unwrap_or(0);
            let step = |entry: &Entry, seen: &Seen| {
                let fits = |it: &Entry| {
                    known.get(&it.stamp).map_or(it.stamp <= last + 1, |seen| *seen == it)
                };
                step(entry, seen).filter(fits)
            };
            check(Entry::NEVER, history, step).map_err(|stuck| {
                let last = stuck.row.iter().rev().take(3).rev().map(|at| &history[*at]);
                let (last, next): (Vec<_>, Vec<_>) =
                    (last.collect(), stuck.next.iter().map(|at| &history[*at]).collect());
                format!("name {name} has no one history: after {last:?} none of {next:?} can be")
            })?;
        }
        Ok(())
    }
}

/// All entries that were seen, by their stamps. Fails with two of one stamp.
fn entries(history: &[Operation<Seen>]) -> Result<BTreeMap<u64, &Entry>, (&Entry, &Entry)> {
    let mut known = BTreeMap::new();
    for operation in history {
        let entry = match &operation.what {
            Seen::Entry(entry) => entry,
            Seen::Change {
                outcome: Some(Outcome::Done(entry) | Outcome::Refused(entry)), ..
            } => entry,
            _ => continue,
        };
        let other = *known.entry(entry.stamp).or_insert(entry);
        if other != entry {
            return Err((other, entry));
        }
    }
    Ok(known)
}

/// What a name stands for after an operation; none if that cannot have been.
fn step(entry: &Entry, seen: &Seen) -> Option<Entry> {
    let (id, expect, to, outcome) = match seen {
        Seen::Entry(other) => return (other == entry).then(|| entry.clone()),
        Seen::Absent => return (entry.what == What::Absent).then(|| entry.clone()),
        Seen::Change { id, expect, to, outcome } => (id, expect, to, outcome),
    };
    let after = match entry.change == *id {
        true => Outcome::Done(entry.clone()),
        false if expect.holds(entry) => {
            Outcome::Done(Entry { stamp: entry.stamp + 1, change: *id, what: to.clone() })
        }
        false => Outcome::Refused(entry.clone()),
    };
    let is_so = outcome.as_ref().is_none_or(|outcome| *outcome == after);
    match after {
        Outcome::Done(entry) | Outcome::Refused(entry) => is_so.then_some(entry),
        Outcome::NoMajority(_) | Outcome::Unknown(_) => None,
    }
}
