//! What a simulation is asked for.

/// The options of `nile sim`. What is not said has the scenario's own default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// The seed of the first run; the others have the seeds after it.
    pub seed: u64,
    /// How many runs.
    pub runs: u32,
    /// How many nodes take part.
    pub nodes: Option<u32>,
    /// How many nodes send at once, in scenarios that tell senders from receivers.
    pub senders: Option<u32>,
}

impl Default for Options {
    /// One run with the seed 1.
    fn default() -> Options {
        Options { seed: 1, runs: 1, nodes: None, senders: None }
    }
}
