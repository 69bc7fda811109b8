//! What packages have, as services see it.

use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::call::UserSlot;
use nile_abi::{CoreId, KeepName};

/// A region: memory that packages of several cores share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegionUse {
    /// Its name, as that of a keep of nobody's.
    pub name: KeepName,
    /// Bytes that it has.
    pub bytes: u64,
    /// Whether other domains have it, too.
    pub is_shared: bool,
    /// Who has it: cores, and the slots of their packages.
    pub packages: Vec<(CoreId, UserSlot)>,
}

/// Memory that a domain shares with others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionShare {
    /// Its first unit of 2 MiB, as the supervisor numbers them.
    pub unit: u32,
    /// The domain's place, from 1: seats in the region go by it.
    pub place: u8,
}

/// What a package has now, and has had of its core since it began.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PackageUsage {
    /// Bytes of memory of its own.
    pub memory_bytes: u64,
    /// How long it had the core, with what the kernel did there for its system calls.
    pub busy: Duration,
    /// Its system calls.
    pub system_calls: u64,
}
