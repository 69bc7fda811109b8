//! Names that pass (docs/names.md) and that a command uses: it renews them as long as it lives and
//! asks stores, so they are gone soon after it was killed.

use std::time::Instant;

use nile_interfaces::name::RENEWAL;
use nile_interfaces::name::records::NameExpectation;

use super::names::Changed;
use super::stores::Stores;
use crate::failure::Failure;

/// Which names a command uses, and when they are renewed.
#[derive(Default)]
pub struct Held {
    names: Vec<String>,
    due: Option<Instant>,
}

impl Stores {
    /// From now on this command uses a name; whether it means a dataset or an output, which stays
    /// as long as the command lives then.
    pub fn hold(&mut self, name: &str) -> Result<bool, Failure> {
        let is_there = self.renew(name)?;
        if is_there {
            self.held.names.push(name.into());
            self.held.due.get_or_insert_with(|| Instant::now() + RENEWAL);
        }
        Ok(is_there)
    }

    /// Renews what this command uses, if it is time. What cannot be renewed now is the next time.
    pub(super) fn renew_held(&mut self) {
        if self.held.due.is_none_or(|due| Instant::now() < due) {
            return;
        }
        self.held.due = Some(Instant::now() + RENEWAL);
        for name in self.held.names.clone() {
            let _ = self.renew(&name);
        }
    }

    /// Changes a name to what it means; whether that is something.
    fn renew(&mut self, name: &str) -> Result<bool, Failure> {
        loop {
            let entry = self.look(name)?;
            if entry.meaning.facts().is_none() {
                return Ok(false);
            }
            match self.change(name, NameExpectation::Stamp(entry.stamp), &entry.meaning)? {
                // Somebody else has renewed it meanwhile, or ended it.
                Changed::Refused(_) => {}
                Changed::Done | Changed::Unknown => return Ok(true),
            }
        }
    }
}
