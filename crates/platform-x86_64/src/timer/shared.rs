//! Timers that a machine has beside those of its cores, and that can end a core's sleep as well:
//! the comparators of the HPET, one for each of the first cores (IA-PC HPET specification, 2.3.8),
//! and channel 0 of the PIT, which is the boot core's.
//!
//! The boot path says once which core each of them interrupts, through the same vector as that
//! core's own timer, by a message where the comparator can send one, else by the I/O APIC.

use nile_abi::{CoreId, PhysAddr, VirtAddr};

use crate::acpi::{InterruptOverride, Platform, Polarity, Trigger};
use crate::apic::ApicId;
use crate::layout;
use crate::mmio::Mmio;
use crate::pci::msix;
use crate::privileged;
use crate::vector::Vector;

/// Those that interrupt a core.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shared {
    /// Where the HPET is; nowhere if it interrupts nobody.
    pub hpet: PhysAddr,
    /// Femtoseconds from one of its counts to the next.
    pub femtos: u64,
    /// The first so many cores have a comparator each.
    pub comparators: u16,
    /// Whether the boot core has the PIT.
    pub pit: bool,
}

/// Has a line of the I/O APICs interrupt a core by the vector of its timer; whether it does.
pub type Route<'a> = &'a dyn Fn(u32, ApicId, Trigger, Polarity) -> bool;

/// What a comparator is armed for at least: one that is passed while it is written would be silent.
pub const LEAST_COUNTS: u32 = 128;

/// As far as two values of a counter of 32 bits can be told apart.
pub const MOST_COUNTS: u32 = i32::MAX as u32;

pub(crate) const PIT_HERTZ: u64 = 1_193_182;

const CAPABILITIES: usize = 0x00;
const PERIOD: usize = 0x04;
const CONFIGURATION: usize = 0x10;
const LEGACY: u32 = 1 << 1;
const COUNTER: usize = 0xf0;

const INTERRUPTS: u32 = 1 << 2;
const OF_32_BITS: u32 = 1 << 8;
const LINE_SHIFT: u32 = 9;
const BY_MESSAGE: u32 = 1 << 14;
const CAN_SEND: u32 = 1 << 15;
/// Lines of a comparator, in the high half of its first register, that no old device has.
const FREE_LINES: u32 = 0xffff_0000;
const COMPARATOR: usize = 0x8;
const MESSAGE: usize = 0x10;

const PIT_CHANNEL: u16 = 0x40;
const PIT_COMMAND: u16 = 0x43;
/// Channel 0, low byte then high byte, one interrupt at the end of the count.
const PIT_ONCE: u8 = 0b0011_0000;
const PIT_LATCH: u8 = 0;

/// Where the registers of comparator `index` are.
const fn comparator(index: u16) -> usize {
    0x100 + 0x20 * index as usize
}

impl Shared {
    /// Silences them, and says which core each one interrupts. `hpet` is one that counts.
    pub fn find(
        platform: &Platform,
        hpet: Option<Mmio>,
        cores: impl Iterator<Item = ApicId> + Clone,
        route: Route<'_>,
    ) -> Shared {
        let mut shared = Shared::default();
        if let (Some(hpet), Some(at)) = (hpet, platform.hpet) {
            shared.comparators = share_out(hpet, cores.clone(), route);
            (shared.hpet, shared.femtos) = (at, hpet.read32(PERIOD).into());
        }
        let of_timer = platform.overrides.iter().find(|it| it.irq == 0);
        let (line, trigger, polarity) = match of_timer {
            Some(&InterruptOverride { line, trigger, polarity, .. }) => (line, trigger, polarity),
            None => (0, Trigger::Edge, Polarity::ActiveHigh),
        };
        let mut cores = cores;
        let boot = cores.next().filter(|_| pit_counts());
        pit_stop();
        shared.pit = boot.is_some_and(|core| route(line, core, trigger, polarity));
        shared
    }

    /// The HPET as a core sees it that has a comparator.
    fn registers(&self) -> Mmio {
        let offset = self.hpet.0 % 4096;
        // SAFETY: the cores that have a comparator have its page there for ever.
        unsafe { Mmio::new(VirtAddr(layout::HPET.0 + offset), 0x400) }
    }

    /// Whether a core has a comparator.
    pub fn has_comparator(&self, core: CoreId) -> bool {
        core.0 < self.comparators
    }

    /// Interrupts this core, which has a comparator, after so many nanoseconds or the longest that
    /// it can count, if that is less.
    pub fn hpet_start(&self, core: CoreId, nanos: u64) {
        start(self.registers(), core, nanos, self.femtos);
    }

    /// Takes that back. An interrupt may already be on its way.
    pub fn hpet_stop(&self, core: CoreId) {
        let (hpet, at) = (self.registers(), comparator(core.0));
        hpet.write32(at, hpet.read32(at) & !INTERRUPTS);
    }
}

fn start(hpet: Mmio, core: CoreId, nanos: u64, femtos: u64) {
    let at = comparator(core.0);
    let counts = u128::from(nanos) * 1_000_000 / u128::from(femtos.max(1)) + 1;
    let mut counts = u32::try_from(counts).unwrap_or(MOST_COUNTS);
    counts = counts.clamp(LEAST_COUNTS, MOST_COUNTS);
    loop {
        let target = hpet.read32(COUNTER).wrapping_add(counts);
        hpet.write32(at + COMPARATOR, target);
        hpet.write32(at, hpet.read32(at) | INTERRUPTS);
        // This core may have been held up before it wrote.
        if target.wrapping_sub(hpet.read32(COUNTER)) as i32 > 0 {
            return;
        }
        counts = counts.saturating_mul(2).min(MOST_COUNTS);
    }
}

/// Silences the comparators and gives the first cores one each; how many have one.
fn share_out(hpet: Mmio, mut cores: impl Iterator<Item = ApicId>, route: Route<'_>) -> u16 {
    let configuration = hpet.read32(CONFIGURATION);
    hpet.write32(CONFIGURATION, configuration & !LEGACY);
    let count = (hpet.read32(CAPABILITIES) >> 8 & 0x1f) as u16 + 1;
    for at in (0..count).map(comparator) {
        hpet.write32(at, hpet.read32(at) & !INTERRUPTS);
    }
    let mut free = FREE_LINES;
    let reached = |index: &u16| {
        cores.next().is_some_and(|core| interrupts(hpet, *index, core, &mut free, route))
    };
    (0..count).take_while(reached).count() as u16
}

/// Has comparator `index` interrupt a core, once it is switched on; whether it can.
fn interrupts(hpet: Mmio, index: u16, core: ApicId, free: &mut u32, route: Route<'_>) -> bool {
    let at = comparator(index);
    if hpet.read32(at) & CAN_SEND != 0 && msix::reaches(core) {
        hpet.write32(at + MESSAGE, Vector::TIMER.0.into());
        hpet.write32(at + MESSAGE + 4, msix::address(core));
        hpet.write32(at, BY_MESSAGE | OF_32_BITS);
        return true;
    }
    let lines = hpet.read32(at + 4) & *free;
    let usable = |line: &u32| {
        lines & 1 << line != 0 && route(*line, core, Trigger::Edge, Polarity::ActiveHigh)
    };
    let Some(line) = (0..u32::BITS).find(usable) else { return false };
    *free &= !(1 << line);
    hpet.write32(at, line << LINE_SHIFT | OF_32_BITS);
    true
}

/// Interrupts the boot core after so many nanoseconds, or the longest that the PIT can count.
pub fn pit_start(nanos: u64) {
    let counts = u128::from(nanos) * u128::from(PIT_HERTZ) / 1_000_000_000 + 1;
    let [low, high] = u16::try_from(counts).unwrap_or(u16::MAX).to_le_bytes();
    pit_stop();
    for byte in [low, high] {
        // SAFETY: the channel's port on every PC, which the boot core alone uses.
        unsafe { privileged::out8(PIT_CHANNEL, byte) }
    }
}

/// Takes that back: the channel waits for a count.
pub fn pit_stop() {
    // SAFETY: as in `pit_start`.
    unsafe { privileged::out8(PIT_COMMAND, PIT_ONCE) }
}

/// Whether there is a PIT.
fn pit_counts() -> bool {
    let left = || {
        // SAFETY: as in `pit_start`.
        unsafe {
            privileged::out8(PIT_COMMAND, PIT_LATCH);
            let low = privileged::in8(PIT_CHANNEL);
            u16::from_le_bytes([low, privileged::in8(PIT_CHANNEL)])
        }
    };
    pit_start(u64::MAX);
    let first = left();
    (0..1_000).any(|_| left() != first)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::cell::RefCell;
    use std::vec::Vec;

    use super::*;

    /// The registers of an HPET with three comparators.
    fn registers(words: &mut [u32; 256]) -> Mmio {
        words[0] = 2 << 8;
        words[CONFIGURATION / 4] = 0b11;
        // SAFETY: the words outlive the registers.
        unsafe { Mmio::new(VirtAddr(words.as_mut_ptr().addr() as u64), size_of_val(words)) }
    }

    #[test]
    fn the_first_cores_have_a_comparator_each_that_is_silent_until_it_is_started() {
        let mut words = [0; 256];
        let hpet = registers(&mut words);
        // Lines 2, 16 and 17; by message; lines 16 and 17.
        hpet.write32(comparator(0) + 4, 0x3_0004);
        hpet.write32(comparator(1), CAN_SEND | INTERRUPTS);
        hpet.write32(comparator(2) + 4, 0x3_0000);
        let routed = RefCell::new(Vec::new());
        let route = |line, core: ApicId, trigger, _| {
            routed.borrow_mut().push((line, core.0, trigger == Trigger::Edge));
            true
        };
        let cores = [4, 6, 5, 7].map(ApicId);
        assert_eq!(share_out(hpet, cores.into_iter(), &route), 3);
        assert_eq!(routed.take(), [(16, 4, true), (17, 5, true)]);
        let message = [MESSAGE, MESSAGE + 4].map(|at| hpet.read32(comparator(1) + at));
        assert_eq!(message, [240, 0xfee0_6000]);
        let silent = |index| hpet.read32(comparator(index)) & INTERRUPTS == 0;
        assert!((0..3).all(silent));
        assert_eq!(hpet.read32(CONFIGURATION), 1, "it counts, and is nobody else's");
        let none = |_, _, _, _| false;
        hpet.write32(comparator(1), 0);
        let unreached = share_out(hpet, cores.into_iter(), &none);
        assert_eq!(unreached, 0, "no line is free");
    }

    #[test]
    fn a_comparator_is_set_ahead_of_the_counter_and_for_what_it_can_count_at_most() {
        let mut words = [0; 256];
        let hpet = registers(&mut words);
        hpet.write32(COUNTER, u32::MAX - 5);
        for (nanos, counts) in [(0, LEAST_COUNTS), (10_000, 1_001), (u64::MAX, MOST_COUNTS)] {
            start(hpet, CoreId(1), nanos, 10_000_000);
            let target = hpet.read32(comparator(1) + COMPARATOR);
            assert_eq!(target, (u32::MAX - 5).wrapping_add(counts));
            assert_ne!(hpet.read32(comparator(1)) & INTERRUPTS, 0);
        }
    }
}
