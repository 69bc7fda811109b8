//! How long masters and workers wait, and how often they try.

use core::time::Duration;

/// What masters and workers are made with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How long an answer may take before something is said again; later ones wait longer.
    pub patience: Duration,
    /// How long a worker may be silent before it is asked.
    pub silence: Duration,
    /// How long a worker may be silent before its tasks run elsewhere.
    pub lost: Duration,
    /// How long a task waits for a worker on a node that has its block, and another worker for a
    /// task, before they are given to each other: as long as tasks take, but at least this.
    pub locality: Duration,
    /// And at most this.
    pub locality_most: Duration,
    /// How long a new master waits for workers to say what they have of former masters' time.
    pub settle: Duration,
    /// How long no living node has a copy of a block before it is lost.
    pub block_patience: Duration,
    /// How often a task may fail by itself.
    pub attempts: u32,
    /// An attempt that runs for more than this many times the mean of its sort runs a second time
    /// on a worker that has nothing else to do; 0: never.
    pub straggler: u32,
    /// What it is given besides: a second attempt has all that it makes in memory once more.
    pub second_try: Duration,
    /// How many pieces a reduce task fetches at a time.
    pub fetches: usize,
    /// How often a piece is asked for before it is told to be missing.
    pub fetch_tries: u32,
    /// How often the output of one map task may be made again because a piece of it was missing.
    pub missing: u32,
    /// How long a worker hears nothing before it asks the job's record, and between two asks.
    pub orphan: Duration,
    /// How long a master that has ended its job waits for its workers to say that they know.
    pub closing: Duration,
}

impl Default for Settings {
    /// For a cluster whose messages take milliseconds.
    fn default() -> Settings {
        Settings {
            patience: Duration::from_millis(100),
            silence: Duration::from_millis(500),
            lost: Duration::from_millis(2500),
            locality: Duration::from_millis(50),
            locality_most: Duration::from_secs(3),
            settle: Duration::from_secs(1),
            block_patience: Duration::from_secs(10),
            attempts: 4,
            straggler: 3,
            second_try: Duration::from_secs(1),
            fetches: 4,
            fetch_tries: 6,
            missing: 12,
            orphan: Duration::from_secs(4),
            closing: Duration::from_secs(5),
        }
    }
}
