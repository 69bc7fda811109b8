//! How far a core has come.

/// How far a core has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum CorePhase {
    /// Not started.
    Offline = 0,
    /// Started, its loop not yet running.
    Starting = 1,
    /// Its loop runs.
    Running = 2,
    /// Its incarnation ended in a fault; the next one is being prepared.
    Restarting = 3,
    /// Its loop has ended for good.
    Stopped = 4,
    /// Its loop runs and is about to end as planned: it takes no calls any more.
    Leaving = 5,
    /// Its last incarnation has left, and the next one begins when the core is called back.
    Away = 6,
}

impl CorePhase {
    /// All of them, each at its number.
    pub const ALL: [CorePhase; 7] = [
        CorePhase::Offline,
        CorePhase::Starting,
        CorePhase::Running,
        CorePhase::Restarting,
        CorePhase::Stopped,
        CorePhase::Leaving,
        CorePhase::Away,
    ];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            CorePhase::Offline => "offline",
            CorePhase::Starting => "starting",
            CorePhase::Running => "running",
            CorePhase::Restarting => "restarting",
            CorePhase::Stopped => "stopped",
            CorePhase::Leaving => "leaving",
            CorePhase::Away => "away",
        }
    }

    /// Whether the core runs nothing: it has stopped for good, or is away.
    pub fn is_out(self) -> bool {
        matches!(self, CorePhase::Stopped | CorePhase::Away)
    }
}
