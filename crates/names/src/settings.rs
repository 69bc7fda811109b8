//! How long is waited.

use core::time::Duration;

/// The protocol's times.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long an answer is waited for before the question is repeated.
    pub silence: Duration,
    /// How long an operation tries, from its beginning.
    pub patience: Duration,
    /// How long who was in another's way waits at most before it tries again; twice as long each
    /// time, up to 32 times.
    pub pause: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            silence: Duration::from_millis(250),
            patience: Duration::from_secs(5),
            pause: Duration::from_millis(10),
        }
    }
}
