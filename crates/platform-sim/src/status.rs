//! What a core is at.

use std::fmt;

use nile_abi::Instant;

/// A core's line in a cache, as a waiting core remembers it.
pub(crate) type LineImage = Vec<u64>;

#[derive(Debug)]
pub(crate) enum Status {
    /// Makes a pass when the clock comes to this.
    Ready(Instant),
    /// Has prepared its doorbell and has yet to look once more.
    Dozing { until: Option<Instant>, line: LineImage },
    /// Waits.
    Asleep { until: Option<Instant>, line: LineImage },
    /// Its package computes: it makes no pass before it is signalled, or before this has come.
    Held(Instant),
    /// Its code does not return; a signal ends it once the managing core has said so.
    Endless,
    /// Its incarnation ended; the next one starts with an event.
    Down,
    /// It has left, and begins anew when it is called back.
    Away,
    /// Its loop has ended.
    Stopped,
}

impl Status {
    /// Whether the core runs nothing, and nothing that happens by itself changes that.
    pub fn is_over(&self) -> bool {
        matches!(self, Status::Stopped | Status::Away)
    }

    /// Whether it runs nothing now.
    pub fn is_down(&self) -> bool {
        matches!(self, Status::Down) || self.is_over()
    }

    /// Whether it is to make a pass, or to look once more, by now.
    pub fn is_due(&self, clock: Instant) -> bool {
        match self {
            Status::Ready(at) | Status::Held(at) => *at <= clock,
            Status::Dozing { .. } => true,
            Status::Asleep { .. } | Status::Endless => false,
            Status::Down | Status::Away | Status::Stopped => false,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Status::Ready(at) => write!(f, "ready at {at}"),
            Status::Held(at) => write!(f, "in a package that computes, until {at}"),
            Status::Dozing { .. } => f.write_str("dozing"),
            Status::Asleep { until: Some(until), .. } => write!(f, "asleep until {until}"),
            Status::Asleep { until: None, .. } => f.write_str("asleep"),
            Status::Endless => f.write_str("in an endless loop"),
            Status::Down => f.write_str("down"),
            Status::Away => f.write_str("away"),
            Status::Stopped => f.write_str("stopped"),
        }
    }
}
