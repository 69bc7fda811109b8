//! The FADT: the ports of power management, and the value that asks them for state S5, "soft
//! off" (ACPI specification, 5.2.9, 7.4.2, 16.1.6).
//!
//! The value stands in the DSDT as a named package, `Name (_S5, Package () { a, b, … })`, in byte
//! code. We do not interpret byte code; the encoding of that one statement is fixed and is looked
//! for. Only registers in I/O space are used, which is where PCs have them.

use nile_abi::PhysAddr;

use super::MapPhysical;
use super::table::Table;

/// The power management timer: a counter at 3,579,545 Hz.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PmTimer {
    /// Its I/O port, read 32 bits wide.
    pub port: u16,
    /// Whether it counts in 32 bits; else in 24.
    pub wide: bool,
}

/// How to switch the machine off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SoftOff {
    /// The control register of block a.
    pub control_a: u16,
    /// The control register of block b, where there is one.
    pub control_b: Option<u16>,
    /// The sleep type to write to block a.
    pub type_a: u8,
    /// The sleep type to write to block b.
    pub type_b: u8,
    /// Port and value that hand the registers from firmware to the operating system, where that
    /// is needed.
    pub enable: Option<(u16, u8)>,
}

const DSDT: usize = 40;
const SMI_COMMAND: usize = 48;
const ACPI_ENABLE: usize = 52;
const PM1A_CONTROL: usize = 64;
const PM1B_CONTROL: usize = 68;
const PM_TIMER: usize = 76;
const FLAGS: usize = 112;
const WIDE_DSDT: usize = 140;
const WIDE_PM1A_CONTROL: usize = 172;
const WIDE_PM1B_CONTROL: usize = 184;
const WIDE_PM_TIMER: usize = 208;

/// In the flags: the timer counts in 32 bits.
const TIMER_IS_32_BIT: u32 = 1 << 8;

/// The power management timer, if there is one.
pub fn pm_timer(fadt: &Table<'_>) -> Option<PmTimer> {
    let port = port(fadt, PM_TIMER, WIDE_PM_TIMER)?;
    let wide = fadt.u32(FLAGS).is_some_and(|flags| flags & TIMER_IS_32_BIT != 0);
    Some(PmTimer { port, wide })
}

/// How to switch the machine off, if these tables say it.
pub fn soft_off(fadt: &Table<'_>, map: MapPhysical<'_, '_>) -> Option<SoftOff> {
    let wide = fadt.u64(WIDE_DSDT).filter(|at| *at != 0);
    let at = wide.or(fadt.u32(DSDT).map(u64::from))?;
    let dsdt = Table::read(PhysAddr(at), map).filter(|table| table.signature() == b"DSDT")?;
    let (type_a, type_b) = s5_package(dsdt.content())?;
    let smi = fadt.u32(SMI_COMMAND).and_then(|port| u16::try_from(port).ok());
    let enable = smi.zip(fadt.u8(ACPI_ENABLE)).filter(|(port, value)| *port != 0 && *value != 0);
    Some(SoftOff {
        control_a: port(fadt, PM1A_CONTROL, WIDE_PM1A_CONTROL)?,
        control_b: port(fadt, PM1B_CONTROL, WIDE_PM1B_CONTROL),
        type_a,
        type_b,
        enable,
    })
}

/// A register's port: from the generic address at `wide` if that names one, else from `narrow`.
fn port(fadt: &Table<'_>, narrow: usize, wide: usize) -> Option<u16> {
    const IO_SPACE: u8 = 1;
    let extended = fadt
        .u64(wide + 4)
        .filter(|_| fadt.u8(wide) == Some(IO_SPACE))
        .and_then(|port| u16::try_from(port).ok())
        .filter(|port| *port != 0);
    let plain = fadt.u32(narrow).and_then(|port| u16::try_from(port).ok());
    extended.or(plain.filter(|port| *port != 0))
}

/// The first two numbers of the package that is named `_S5`.
fn s5_package(code: &[u8]) -> Option<(u8, u8)> {
    const NAME: u8 = 0x08;
    const ROOT: u8 = b'\\';
    const PACKAGE: u8 = 0x12;
    let named = code.windows(4).enumerate().filter(|(_, word)| word == b"_S5_");
    named.into_iter().find_map(|(at, _)| {
        let is_definition = matches!(code.get(..at)?, [.., NAME] | [.., NAME, ROOT]);
        let (&op, rest) = code.get(at + 4..)?.split_first()?;
        if !is_definition || op != PACKAGE {
            return None;
        }
        // The length of the package takes one byte and up to three more, then comes a count.
        let lead = rest.first()?;
        let elements = rest.get(usize::from(lead >> 6) + 2..)?;
        let (type_a, elements) = small_integer(elements)?;
        let (type_b, _) = small_integer(elements)?;
        Some((type_a, type_b))
    })
}

/// The number at the start of `code`, if it is below 8 as sleep types are, and what follows it.
fn small_integer(code: &[u8]) -> Option<(u8, &[u8])> {
    const BYTE: u8 = 0x0a;
    const WORD: u8 = 0x0b;
    const DOUBLE_WORD: u8 = 0x0c;
    let (value, rest) = match *code {
        [value @ 0..=1, ref rest @ ..] => (value, rest),
        [BYTE, value, ref rest @ ..] => (value, rest),
        [WORD, value, 0, ref rest @ ..] => (value, rest),
        [DOUBLE_WORD, value, 0, 0, 0, ref rest @ ..] => (value, rest),
        _ => return None,
    };
    (value < 8).then_some((value, rest))
}
