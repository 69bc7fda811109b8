//! Why a core was interrupted. Every interrupt is counted per core and per cause, and once more if
//! it came while the core slept. The worker promise ("zero interrupts inside a job") is read off
//! these counters.

/// The cause of one interrupt. Faults are not interrupts: they end the core's incarnation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Cause {
    /// The periodic timer of a management core.
    Tick = 0,
    /// A one-shot timer that the core's own next deadline armed.
    Timer = 1,
    /// Another core's signal: an inter-processor interrupt, a futex wake.
    Signal = 2,
    /// A device.
    Device = 3,
    /// An interrupt that no source owns up to.
    Spurious = 4,
    /// A non-maskable interrupt.
    Nmi = 5,
    /// The interrupt controller reports an error of its own.
    Error = 6,
}

impl Cause {
    /// Every cause, in the order in which reports list them.
    pub const ALL: [Cause; 7] = [
        Cause::Tick,
        Cause::Timer,
        Cause::Signal,
        Cause::Device,
        Cause::Spurious,
        Cause::Nmi,
        Cause::Error,
    ];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Tick => "tick",
            Cause::Timer => "timer",
            Cause::Signal => "signal",
            Cause::Device => "device",
            Cause::Spurious => "spurious",
            Cause::Nmi => "nmi",
            Cause::Error => "error",
        }
    }
}
