//! Timers whose rate is known. Each is a counter that goes up and wraps; any of them is enough
//! for one calibration, the better ones come first.

use crate::acpi::PmTimer;
use crate::mmio::Mmio;
use crate::privileged;

/// Which timer it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReferenceKind {
    /// The HPET.
    Hpet,
    /// The power management timer.
    PmTimer,
    /// The PIT.
    Pit,
}

impl ReferenceKind {
    /// As the boot report calls it.
    pub const fn name(self) -> &'static str {
        match self {
            ReferenceKind::Hpet => "hpet",
            ReferenceKind::PmTimer => "pm-timer",
            ReferenceKind::Pit => "pit",
        }
    }
}

/// A counter of known rate.
pub trait Reference {
    /// Which timer it is.
    fn kind(&self) -> ReferenceKind;

    /// Femtoseconds from one count to the next.
    fn femtos_per_count(&self) -> u64;

    /// The highest count; the next one is zero.
    fn last_count(&self) -> u32;

    /// The count now.
    fn read(&self) -> u32;
}

const FEMTOS_PER_SECOND: u64 = 1_000_000_000_000_000;

/// The high precision event timer (IA-PC HPET specification, chapter 2). Its counter has 32 or 64
/// bits; the low 32 are enough.
pub struct Hpet {
    registers: Mmio,
    femtos_per_count: u64,
}

impl Hpet {
    /// Bytes of its registers.
    pub const REGISTER_BYTES: usize = 0x400;

    const PERIOD: usize = 0x04;
    const CONFIGURATION: usize = 0x10;
    const COUNTER: usize = 0xf0;
    const RUN: u32 = 1;
    /// The longest period that the specification allows: 100 ns.
    const MAX_PERIOD: u32 = 100_000_000;

    /// Starts the timer with these registers; `None` if what it says of itself cannot be true.
    pub fn start(registers: Mmio) -> Option<Hpet> {
        let period = registers.read32(Hpet::PERIOD);
        if period == 0 || period > Hpet::MAX_PERIOD {
            return None;
        }
        let configuration = registers.read32(Hpet::CONFIGURATION);
        registers.write32(Hpet::CONFIGURATION, configuration | Hpet::RUN);
        Some(Hpet { registers, femtos_per_count: period.into() })
    }
}

impl Reference for Hpet {
    fn kind(&self) -> ReferenceKind {
        ReferenceKind::Hpet
    }

    fn femtos_per_count(&self) -> u64 {
        self.femtos_per_count
    }

    fn last_count(&self) -> u32 {
        u32::MAX
    }

    fn read(&self) -> u32 {
        self.registers.read32(Hpet::COUNTER)
    }
}

/// The ACPI power management timer.
pub struct PmClock(pub PmTimer);

impl PmClock {
    const HERTZ: u64 = 3_579_545;
}

impl Reference for PmClock {
    fn kind(&self) -> ReferenceKind {
        ReferenceKind::PmTimer
    }

    fn femtos_per_count(&self) -> u64 {
        FEMTOS_PER_SECOND / PmClock::HERTZ
    }

    fn last_count(&self) -> u32 {
        if self.0.wide { u32::MAX } else { u32::MAX >> 8 }
    }

    fn read(&self) -> u32 {
        // SAFETY: the FADT names this port as the timer's; reading it changes nothing.
        unsafe { privileged::in32(self.0.port) }
    }
}

/// Channel 2 of the programmable interval timer, the one that no interrupt hangs on: once
/// started it counts 16 bits down, read here as counting up.
pub struct Pit;

impl Pit {
    const HERTZ: u64 = 1_193_182;
    const CHANNEL: u16 = 0x42;
    const COMMAND: u16 = 0x43;
    const GATE: u16 = 0x61;
    const GATE_OPEN: u8 = 1;
    const SPEAKER: u8 = 2;
    /// Channel 2, low byte then high byte, rate generator.
    const COUNT: u8 = 0b1011_0100;
    /// Channel 2, hold the count for reading.
    const LATCH: u8 = 0b1000_0000;

    /// Starts the channel from its highest count.
    pub fn start() -> Pit {
        // SAFETY: these are the timer's ports on every PC; the boot core is its only user. Where
        // there is none, nothing happens, and calibration finds that it does not count.
        unsafe {
            let gate = privileged::in8(Pit::GATE);
            privileged::out8(Pit::GATE, gate & !Pit::SPEAKER | Pit::GATE_OPEN);
            privileged::out8(Pit::COMMAND, Pit::COUNT);
            privileged::out8(Pit::CHANNEL, 0);
            privileged::out8(Pit::CHANNEL, 0);
        }
        Pit
    }
}

impl Reference for Pit {
    fn kind(&self) -> ReferenceKind {
        ReferenceKind::Pit
    }

    fn femtos_per_count(&self) -> u64 {
        FEMTOS_PER_SECOND / Pit::HERTZ
    }

    fn last_count(&self) -> u32 {
        u16::MAX.into()
    }

    fn read(&self) -> u32 {
        // SAFETY: as in `start`.
        let left = unsafe {
            privileged::out8(Pit::COMMAND, Pit::LATCH);
            let low = privileged::in8(Pit::CHANNEL);
            u16::from_le_bytes([low, privileged::in8(Pit::CHANNEL)])
        };
        u32::from(left.wrapping_neg())
    }
}
