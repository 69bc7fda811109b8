//! What happened, as a hash: two runs are the same run exactly when their hashes agree. Feed it
//! integers and bytes in the order of the events; no floats, and nothing whose order depends on
//! the build.

use std::hash::Hasher;

use fnv::FnvHasher;
use nile_abi::Instant;

/// The events of a run.
#[derive(Default)]
pub struct Trace {
    hasher: FnvHasher,
    events: u64,
}

impl Trace {
    /// Notes one event: when, who, which kind, and a number that belongs to it.
    pub fn note(&mut self, at: Instant, who: u64, what: u8, detail: u64) {
        self.events += 1;
        for word in [at.as_nanos(), who, u64::from(what), detail] {
            self.hasher.write(&word.to_le_bytes());
        }
    }

    /// Notes bytes that belong to the event before.
    pub fn note_bytes(&mut self, bytes: &[u8]) {
        self.hasher.write(&(bytes.len() as u64).to_le_bytes());
        self.hasher.write(bytes);
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The hash of all of them, in order.
    pub fn hash(&self) -> u64 {
        self.hasher.finish()
    }
}
