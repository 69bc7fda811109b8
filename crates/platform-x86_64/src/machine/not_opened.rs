//! Why a core drives no device.

use core::fmt;

use nile_guard::Violation;

use crate::apic::ApicId;
use crate::disk::block;
use crate::network::interface::OpenError;

/// Why this core cannot use a device.
pub enum NotOpened {
    OutOfReach(ApicId),
    Interface(OpenError),
    Disk(block::OpenError),
    Ahci(&'static str),
    Guard(Violation),
}

impl fmt::Display for NotOpened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotOpened::OutOfReach(core) => write!(f, "no device can interrupt {core}"),
            NotOpened::Interface(error) => error.fmt(f),
            NotOpened::Disk(error) => error.fmt(f),
            NotOpened::Ahci(error) => f.write_str(error),
            NotOpened::Guard(violation) => write!(f, "the guard refuses: {violation}"),
        }
    }
}
