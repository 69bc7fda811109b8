//! The end of the node: the machine goes off, or says how things went and goes off.

use core::fmt;
use core::ptr::NonNull;

use nile_abi::VirtAddr;
use nile_platform::domains::SEAT_BYTES;
use nile_platform::{Outcome, Seat, SeatPhase};
use nile_ring::Region;

use crate::acpi::SoftOff;
use crate::private::Private;
use crate::privileged;
use crate::{serial, space};

/// How a node ends, for whoever started it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// What was asked for happened.
    Success,
    /// It started and failed.
    Failure,
    /// What was asked for cannot be done.
    WrongRequest,
}

impl From<Outcome> for Ending {
    fn from(outcome: Outcome) -> Ending {
        match outcome {
            Outcome::Success => Ending::Success,
            Outcome::Failure => Ending::Failure,
        }
    }
}

/// How this machine is switched off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Power {
    /// QEMU's debug exit device is there, at [`DEBUG_EXIT`]: the command line says so.
    pub debug_exit: bool,
    /// What ACPI says.
    pub soft_off: Option<SoftOff>,
    /// The node is a domain, whose seat is there: its end is told, and this core is parked.
    pub domain: Option<VirtAddr>,
}

impl Power {
    /// Nothing switches the machine off.
    pub const NONE: Power = Power { debug_exit: false, soft_off: None, domain: None };
}

/// The port of QEMU's debug exit device: a value `v` ends QEMU with status `2 v + 1`.
pub const DEBUG_EXIT: u16 = 0xf4;

const SLEEP_TYPE_SHIFT: u16 = 10;
const SLEEP_TYPE: u16 = 7 << SLEEP_TYPE_SHIFT;
const SLEEP_ENABLE: u16 = 1 << 13;
const ACPI_OWNS: u16 = 1;

/// Looks at whether firmware has handed the registers over before that is given up.
const MAX_HANDOVER_LOOKS: u32 = 1 << 16;

static POWER: Private<Power> = Private::new(Power::NONE);

/// Tells this core how to switch the machine off, again as more is known. A core that is not
/// told, as cores without the management role are not, stops alone.
pub fn install(power: Power) {
    POWER.set(power);
}

/// Ends the node, after its last words have gone out. Where nothing switches the machine off,
/// this core stops.
pub fn off(ending: Ending) -> ! {
    let power = POWER.get();
    serial::flush();
    if let Some(seat) = power.domain {
        // SAFETY: a domain's managing core, which alone is told, has its seat there for ever.
        unsafe { leave(seat, ending) }
    }
    if power.debug_exit {
        // SAFETY: the device is there, and no line of code comes after this.
        unsafe { privileged::out8(DEBUG_EXIT, debug_exit_value(ending)) }
    }
    if let Some(soft_off) = power.soft_off {
        // SAFETY: ACPI names these ports, and no line of code comes after this.
        unsafe { enter_s5(&soft_off) }
    }
    privileged::halt_forever()
}

/// Keeps why this core has failed for the domain's supervisor, if it manages one.
pub fn last_words(words: fmt::Arguments<'_>) {
    if let Some(at) = POWER.get().domain.and_then(|it| NonNull::new(it.0 as *mut u8)) {
        // SAFETY: as in `off`; it is reached as atomics.
        let seat = Seat::new(unsafe { Region::from_raw(at, SEAT_BYTES) });
        seat.into_iter().for_each(|seat| seat.say(words));
    }
}

/// Tells the supervisor that the domain has ended, and parks this core.
///
/// # Safety
/// The domain's seat is at that address.
unsafe fn leave(seat: VirtAddr, ending: Ending) -> ! {
    privileged::disable_interrupts();
    if let Some(at) = NonNull::new(seat.0 as *mut u8) {
        // SAFETY: the caller's promise; it is reached as atomics.
        let seat = Seat::new(unsafe { Region::from_raw(at, SEAT_BYTES) });
        let phase = if ending == Ending::Success { SeatPhase::Finished } else { SeatPhase::Failed };
        seat.into_iter().for_each(|seat| seat.set_phase(phase));
    }
    // SAFETY: the domain is done.
    unsafe { space::leave() }
}

fn debug_exit_value(ending: Ending) -> u8 {
    match ending {
        Ending::Success => 0x10,
        Ending::Failure => 0x11,
        Ending::WrongRequest => 0x12,
    }
}

/// Asks for state S5 (ACPI specification, 7.4.2 and 4.8.3.2).
///
/// # Safety
/// The ports are the machine's power management registers, and the node is done.
unsafe fn enter_s5(soft_off: &SoftOff) {
    // SAFETY: the caller vouches for the ports.
    unsafe {
        let owned = || privileged::in16(soft_off.control_a) & ACPI_OWNS != 0;
        if let Some((port, value)) = soft_off.enable
            && !owned()
        {
            privileged::out8(port, value);
            let _ = (0..MAX_HANDOVER_LOOKS).find(|_| owned());
        }
        sleep(soft_off.control_a, soft_off.type_a);
        if let Some(control_b) = soft_off.control_b {
            sleep(control_b, soft_off.type_b);
        }
    }
}

/// # Safety
/// As for [`enter_s5`].
unsafe fn sleep(control: u16, sleep_type: u8) {
    // SAFETY: the caller vouches for the port.
    unsafe {
        let kept = privileged::in16(control) & !(SLEEP_TYPE | SLEEP_ENABLE);
        privileged::out16(control, kept | sleep_bits(sleep_type));
    }
}

fn sleep_bits(sleep_type: u8) -> u16 {
    u16::from(sleep_type) << SLEEP_TYPE_SHIFT & SLEEP_TYPE | SLEEP_ENABLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ending_has_the_status_that_the_launcher_expects() {
        let status = |ending| u32::from(debug_exit_value(ending)) * 2 + 1;
        assert_eq!(status(Ending::Success), 33);
        assert_eq!(status(Ending::Failure), 35);
        assert_eq!(status(Ending::WrongRequest), 37);
        assert_eq!(Ending::from(Outcome::Failure), Ending::Failure);
    }

    #[test]
    fn a_sleep_type_stays_in_its_bits() {
        assert_eq!(sleep_bits(5), 0x3400);
        assert_eq!(sleep_bits(0xff), 0x3c00);
    }
}
