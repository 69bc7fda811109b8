//! What happened, as a hash: two runs are the same run exactly when their hashes agree.

use std::hash::Hasher;

use fnv::FnvHasher;
use nile_abi::{CoreId, Instant};

/// One kind of event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Happening {
    /// A core's loop made a pass.
    Turn = 1,
    /// A core went to sleep.
    Sleep = 2,
    /// A core was woken.
    Wake = 3,
    /// A core sent a signal; the target is the detail.
    Signal = 4,
    /// A core was interrupted; the cause is the detail.
    Interrupt = 5,
    /// A core's incarnation ended; the kind of fault is the detail.
    Stop = 6,
    /// A core began an incarnation; its generation is the detail.
    Start = 7,
    /// A line of the log; its bytes are hashed, too.
    Log = 8,
    /// A package had a turn; the detail is one if it got somewhere.
    Package = 10,
    /// The node ended; zero is success.
    End = 9,
}

/// The events of a run.
#[derive(Default)]
pub struct Trace {
    hasher: FnvHasher,
    events: u64,
}

impl Trace {
    /// Notes one event.
    pub fn note(&mut self, at: Instant, core: CoreId, what: Happening, detail: u64) {
        self.events += 1;
        for word in [at.as_nanos(), u64::from(core.0), what as u64, detail] {
            self.hasher.write(&word.to_le_bytes());
        }
    }

    /// Notes bytes that belong to the event before.
    pub fn note_bytes(&mut self, bytes: &[u8]) {
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
