//! Interrupts of other cores, ports, and registers of the processor.

use core::ops::{Range, RangeInclusive};

use nile_abi::VirtAddr;

use crate::Violation;

/// Which cores a domain may interrupt, as nobody in it can change it.
pub trait Cores {
    /// Whether the core with this name is the domain's now.
    fn has_core(&self, name: u32) -> bool;

    /// Whether this is the core that waits for the domain's frames, and the vector that tells it.
    fn may_wake(&self, name: u32, vector: u8) -> bool;
}

/// How a command to an interrupt controller is delivered; zero is as an interrupt.
const DELIVERY: u32 = 0b111 << 8;
/// The target is a set of cores.
const LOGICAL: u32 = 1 << 11;
/// The targets are all cores, or all others, or the own one.
const SHORTHAND: u32 = 0b11 << 18;

/// Whether a core of a domain may give its interrupt controller this command (Intel SDM volume 3,
/// 11.6.1), to the core named `to`: an interrupt, neither a reset, a start nor one that cannot be
/// masked, to one core, which is the domain's or waits for it.
pub fn interrupt(cores: &impl Cores, to: u32, command: u32) -> Result<(), Violation> {
    if command & (DELIVERY | LOGICAL | SHORTHAND) != 0 {
        return Err(Violation::Command(command));
    }
    match cores.has_core(to) || cores.may_wake(to, command as u8) {
        true => Ok(()),
        false => Err(Violation::Core(to)),
    }
}

/// The ports that a domain writes: those of the console.
const CONSOLE: RangeInclusive<u16> = 0x3f8..=0x3ff;

/// Whether a domain may write to this port. Others switch the machine off, reset it, or set up
/// devices that are not the domain's.
pub fn port(port: u16) -> Result<(), Violation> {
    CONSOLE.contains(&port).then_some(()).ok_or(Violation::Port(port))
}

const EXTENDED_FEATURES: u32 = 0xc000_0080;
/// Long mode, and pages that are not executable.
const KEPT_FEATURES: u64 = 1 << 8 | 1 << 10 | 1 << 11;
/// Where the own interrupt controller's registers begin, those that command others' among them.
const CONTROLLER: RangeInclusive<u32> = 0x800..=0x8ff;
const COMMAND: u32 = 0x830;
const SELF_COMMAND: u32 = 0x83f;
/// The controller's switches, and where its registers are.
const SWITCHES: u32 = 0x1b;
const SWITCHED_ON: u64 = 1 << 11;
const PLACE: u64 = 0x000f_ffff_ffff_f000;
/// SYSENTER, its switch to off; SYSCALL; FS and GS; the timer's deadline.
const OWN: [u32; 7] =
    [0x174, 0xc000_0081, 0xc000_0082, 0xc000_0084, 0xc000_0100, 0xc000_0101, 0x6e0];

/// Whether a core of a domain may write this to a model-specific register: to those that the kernel
/// uses, but none that command other cores ([`interrupt`] judges these), nothing that lets data
/// be executed, and nothing that moves the interrupt controller's registers or switches it off.
/// `now` is what the register has.
pub fn register(register: u32, value: u64, now: impl FnOnce() -> u64) -> Result<(), Violation> {
    let may = match register {
        SWITCHES => value & SWITCHED_ON != 0 && (value ^ now()) & PLACE == 0,
        EXTENDED_FEATURES => value & KEPT_FEATURES == KEPT_FEATURES,
        COMMAND | SELF_COMMAND => false,
        _ => CONTROLLER.contains(&register) || OWN.contains(&register),
    };
    may.then_some(()).ok_or(Violation::Register(register))
}

/// Whether a core of a domain may take segments or interrupt gates from so many bytes: from those
/// that the guard keeps, `own`.
pub fn descriptors(own: &Range<VirtAddr>, at: VirtAddr, bytes: u64) -> Result<(), Violation> {
    let is_own = own.start <= at && at.0.checked_add(bytes).is_some_and(|end| end <= own.end.0);
    is_own.then_some(()).ok_or(Violation::Descriptors(at))
}
