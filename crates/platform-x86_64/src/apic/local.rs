//! The local APIC: takes the core's interrupts, sends interrupts to other cores, and has the
//! core's timer (Intel SDM volume 3, chapter 11).
//!
//! Its registers are the same set in two dresses: in memory (xAPIC, 8-bit ids), or as
//! model-specific registers (x2APIC, 32-bit ids), which is taken wherever CPUID has it, as
//! firmware may have switched it on already and it cannot be switched off again safely.
//!
//! The timer is used one-shot only; see [`crate::timer`]. It counts down at full rate, or, with
//! TSC-deadline, interrupts when the time-stamp counter reaches a value.

use core::arch::x86_64::{_mm_lfence, _mm_mfence};
use core::fmt;
use core::hint;

use nile_guard::Violation;

use crate::cpu::Features;
use crate::guard;
use crate::mmio::Mmio;
use crate::privileged;
use crate::vector::Vector;

/// A core's name in its machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct ApicId(pub u32);

impl fmt::Display for ApicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "APIC id {}", self.0)
    }
}

/// Bytes of the registers in memory.
pub const REGISTER_BYTES: usize = 4096;

/// The model-specific register with the switches, and two of them.
const BASE_MSR: u32 = 0x1b;
const BASE_ENABLED: u64 = 1 << 11;
const BASE_X2: u64 = 1 << 10;

/// As model-specific registers, register `r` has the number `0x800 + r / 16`.
const X2_MSRS: u32 = 0x800;

const ID: usize = 0x20;
const VERSION: usize = 0x30;
const TASK_PRIORITY: usize = 0x80;
const END_OF_INTERRUPT: usize = 0xb0;
const SPURIOUS: usize = 0xf0;
const IN_SERVICE: usize = 0x100;
const ERROR_STATUS: usize = 0x280;
const COMMAND_LOW: usize = 0x300;
const COMMAND_HIGH: usize = 0x310;
const LVT_TIMER: usize = 0x320;
const LVT_THERMAL: usize = 0x330;
const LVT_PERFORMANCE: usize = 0x340;
const LVT_LINT0: usize = 0x350;
const LVT_LINT1: usize = 0x360;
const LVT_ERROR: usize = 0x370;
const TIMER_INITIAL: usize = 0x380;
const TIMER_CURRENT: usize = 0x390;
const TIMER_DIVIDE: usize = 0x3e0;

const SOFTWARE_ENABLED: u32 = 1 << 8;
const MASKED: u32 = 1 << 16;
const DELIVER_NMI: u32 = 0b100 << 8;
const TIMER_TSC_DEADLINE: u32 = 0b10 << 17;
const DIVIDE_BY_ONE: u32 = 0b1011;

const SEND_FIXED: u32 = 1 << 14;
const SEND_INIT: u32 = 1 << 14 | 0b101 << 8;
const SEND_STARTUP: u32 = 1 << 14 | 0b110 << 8;
const SEND_PENDING: u32 = 1 << 12;

const TSC_DEADLINE_MSR: u32 = 0x6e0;

/// Looks at a pending send before it is taken for stuck. Hardware needs a handful.
const MAX_SEND_WAITS: u32 = 1 << 20;

#[derive(Clone, Copy, Debug)]
enum Registers {
    InMemory(Mmio),
    X2,
}

/// The local APIC of the core that uses this value. Every core has its own at the same address,
/// so that a copy used on another core means that core's.
#[derive(Clone, Copy, Debug)]
pub struct LocalApic {
    registers: Registers,
    tsc_deadline: bool,
    /// A send has left when its store is done, as it has where a program is the APIC.
    sends_at_once: bool,
}

impl LocalApic {
    /// The local APIC of a processor with `features`; `registers` is where this core has the
    /// registers in memory mapped, unused with x2APIC.
    pub fn new(features: &Features, registers: Mmio) -> LocalApic {
        let registers =
            if features.x2apic { Registers::X2 } else { Registers::InMemory(registers) };
        LocalApic {
            registers,
            tsc_deadline: features.tsc_deadline,
            sends_at_once: features.hypervisor,
        }
    }

    fn read(&self, register: usize) -> u32 {
        match self.registers {
            Registers::InMemory(registers) => registers.read32(register),
            // SAFETY: CPUID has x2APIC, `enable` switched it on, and the register is one of it.
            Registers::X2 => unsafe { privileged::read_msr(x2_msr(register)) as u32 },
        }
    }

    fn write(&self, register: usize, value: u32) {
        match self.registers {
            Registers::InMemory(registers) => {
                guard::amend(|| registers.write32(register, value));
            }
            // SAFETY: as in `read`; what is written steers interrupts only.
            Registers::X2 => unsafe { privileged::write_msr(x2_msr(register), value.into()) },
        }
    }

    /// Switches it on, with no source open but other cores, the timer's gate (stopped), NMIs and
    /// its own errors. Run on each core with interrupts masked, before anything else here, and
    /// again when a core restarts: what its last incarnation left in service is ended.
    pub fn enable(&self) {
        let mode = if matches!(self.registers, Registers::X2) { BASE_X2 } else { 0 };
        // SAFETY: every x86-64 processor has the register. From "off", x2APIC is reached by way
        // of xAPIC only.
        unsafe {
            let base = privileged::read_msr(BASE_MSR);
            privileged::write_msr(BASE_MSR, base | BASE_ENABLED);
            privileged::write_msr(BASE_MSR, base | BASE_ENABLED | mode);
        }
        self.write(TASK_PRIORITY, 0);
        self.write(SPURIOUS, SOFTWARE_ENABLED | u32::from(Vector::SPURIOUS.0));
        self.write(LVT_LINT0, MASKED);
        self.write(LVT_LINT1, DELIVER_NMI);
        let last_local_entry = self.read(VERSION) >> 16 & 0xff;
        for (entry, register) in [(4, LVT_PERFORMANCE), (5, LVT_THERMAL)] {
            if last_local_entry >= entry {
                self.write(register, MASKED);
            }
        }
        self.write(LVT_ERROR, u32::from(Vector::ERROR.0));
        self.take_errors();
        let left_in_service = (0..8).map(|word| self.read(IN_SERVICE + word * 16).count_ones());
        for _ in 0..left_in_service.sum() {
            self.end_of_interrupt();
        }
        self.write(TIMER_DIVIDE, DIVIDE_BY_ONE);
        let mode = if self.tsc_deadline { TIMER_TSC_DEADLINE } else { 0 };
        let timer = mode | u32::from(Vector::TIMER.0);
        self.write(LVT_TIMER, MASKED | timer);
        // The mode must have taken effect before a deadline is written or taken back.
        fence();
        self.timer_stop();
        self.write(LVT_TIMER, timer);
    }

    /// This core's name.
    pub fn id(&self) -> ApicId {
        let id = self.read(ID);
        ApicId(if matches!(self.registers, Registers::X2) { id } else { id >> 24 })
    }

    /// Whether the core's id can be reached: in memory, the command register has 8 bits for it.
    pub fn reaches(&self, core: ApicId) -> bool {
        matches!(self.registers, Registers::X2) || core.0 < 0xff
    }

    /// Interrupts another core, or this one, through `vector`.
    pub fn send_fixed(&self, to: ApicId, vector: Vector) {
        self.send(to, SEND_FIXED | u32::from(vector.0));
    }

    /// Resets another core; it waits for a start-up.
    pub fn send_init(&self, to: ApicId) {
        self.send(to, SEND_INIT);
    }

    /// Starts a core that waits for it, in real mode at `page` × 4 KiB.
    pub fn send_startup(&self, to: ApicId, page: u8) {
        self.send(to, SEND_STARTUP | u32::from(page));
    }

    /// Gives the command, unless this core may not: who was its domain's core a moment ago may be
    /// nobody's by now.
    fn send(&self, to: ApicId, command: u32) {
        let _ = self.command(to, command);
    }

    /// Gives a command for another core, or says why this core may not.
    pub(crate) fn command(&self, to: ApicId, command: u32) -> Result<(), Violation> {
        guard::interrupt(to, command)?;
        // What this core stored before is seen by the core that the interrupt reaches.
        fence();
        match self.registers {
            Registers::InMemory(registers) => {
                // Two stores make one command: an interrupt handler that sends between them puts
                // the first one back; and a last command must have left before.
                self.wait_until_sent(registers);
                guard::amend(|| {
                    registers.write32(COMMAND_HIGH, to.0 << 24);
                    registers.write32(COMMAND_LOW, command);
                });
            }
            // SAFETY: as in `write`.
            Registers::X2 => unsafe {
                let wide = u64::from(to.0) << 32 | u64::from(command);
                privileged::write_command(x2_msr(COMMAND_LOW), wide);
            },
        }
        Ok(())
    }

    fn wait_until_sent(&self, registers: Mmio) {
        let is_pending = || registers.read32(COMMAND_LOW) & SEND_PENDING != 0;
        let pending = || !self.sends_at_once && is_pending();
        let mut waits = 0;
        while pending() && waits < MAX_SEND_WAITS {
            hint::spin_loop();
            waits += 1;
        }
    }

    /// [`Self::send_fixed`] in an interrupt handler, which may have come between the two stores of
    /// another command.
    pub fn send_fixed_from_handler(&self, to: ApicId, vector: Vector) {
        let Registers::InMemory(registers) = self.registers else {
            return self.send_fixed(to, vector);
        };
        let first = registers.read32(COMMAND_HIGH);
        self.send_fixed(to, vector);
        self.wait_until_sent(registers);
        guard::amend(|| registers.write32(COMMAND_HIGH, first));
    }

    /// Tells it that the handler of the interrupt in service is done.
    pub fn end_of_interrupt(&self) {
        self.write(END_OF_INTERRUPT, 0);
    }

    /// Whether it delivered an interrupt through `vector` that has not been ended.
    pub fn in_service(&self, vector: Vector) -> bool {
        let (word, bit) = (usize::from(vector.0 / 32), vector.0 % 32);
        self.read(IN_SERVICE + word * 16) & 1 << bit != 0
    }

    /// The errors that it found since it was last asked, a bit each.
    pub fn take_errors(&self) -> u32 {
        // A write latches what was found since the last one.
        self.write(ERROR_STATUS, 0);
        self.read(ERROR_STATUS)
    }

    /// Whether the timer compares with the time-stamp counter.
    pub fn has_tsc_deadline(&self) -> bool {
        self.tsc_deadline
    }

    /// Interrupts after `ticks` of the timer. Not with TSC-deadline.
    pub fn timer_start(&self, ticks: u32) {
        self.write(TIMER_INITIAL, ticks);
    }

    /// Interrupts when the time-stamp counter is at `tsc` or past it. Only with TSC-deadline.
    pub fn timer_start_at(&self, tsc: u64) {
        // SAFETY: CPUID has TSC-deadline.
        unsafe { privileged::write_msr(TSC_DEADLINE_MSR, tsc) }
    }

    /// Takes the timer's last start back. An interrupt may already be on its way.
    pub fn timer_stop(&self) {
        if self.tsc_deadline {
            self.timer_start_at(0);
        } else {
            self.timer_start(0);
        }
    }

    /// What is left of the timer's count.
    pub fn timer_left(&self) -> u32 {
        self.read(TIMER_CURRENT)
    }
}

fn x2_msr(register: usize) -> u32 {
    X2_MSRS + (register / 16) as u32
}

/// Orders stores and loads before it with what comes after it, model-specific registers included.
fn fence() {
    // SAFETY: every x86-64 processor has both fences.
    unsafe {
        _mm_mfence();
        _mm_lfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_the_numbers_of_the_manual() {
        assert_eq!(x2_msr(ID), 0x802);
        assert_eq!(x2_msr(COMMAND_LOW), 0x830);
        assert_eq!(x2_msr(TIMER_DIVIDE), 0x83e);
    }
}
