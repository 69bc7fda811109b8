//! What a core is for (NileOS paper, section III.A).

use core::fmt;
use core::str::FromStr;

/// One role of a core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Role {
    /// Manages the node: memory, channels, restarts; the only role with a periodic timer.
    Management = 0,
    /// Moves frames between the node and its network.
    Network = 1,
    /// Reads and writes the node's disks.
    Disk = 2,
    /// Runs one job without ticks or stray interrupts.
    Worker = 3,
}

impl Role {
    /// Every role, in the order in which reports list them.
    pub const ALL: [Role; 4] = [Role::Management, Role::Network, Role::Disk, Role::Worker];

    /// The name used in configuration files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Role::Management => "management",
            Role::Network => "network",
            Role::Disk => "disk",
            Role::Worker => "worker",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text is not the name of a role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownRole;

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Role, UnknownRole> {
        Role::ALL.into_iter().find(|role| role.name() == text).ok_or(UnknownRole)
    }
}

/// The roles of one core; on a small machine a core holds several.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RoleSet(u8);

impl RoleSet {
    /// No role.
    pub const EMPTY: RoleSet = RoleSet(0);

    /// Every role, as the core of a one-core node has.
    pub const ALL: RoleSet = RoleSet(0b1111);

    /// This set and `role`.
    #[must_use]
    pub const fn with(self, role: Role) -> RoleSet {
        RoleSet(self.0 | 1 << role as u8)
    }

    /// Whether `role` is in the set.
    pub fn contains(self, role: Role) -> bool {
        self.0 & 1 << role as u8 != 0
    }

    /// Whether the set has no role.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The roles in the set, in report order.
    pub fn iter(self) -> impl Iterator<Item = Role> {
        Role::ALL.into_iter().filter(move |role| self.contains(*role))
    }

    /// The set as one byte, a bit per role; see [`RoleSet::from_bits`].
    pub fn bits(self) -> u8 {
        self.0
    }

    /// The set that `bits` names; bits without a role are dropped.
    pub fn from_bits(bits: u8) -> RoleSet {
        RoleSet(bits & RoleSet::ALL.0)
    }
}

impl FromIterator<Role> for RoleSet {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> RoleSet {
        roles.into_iter().fold(RoleSet::EMPTY, RoleSet::with)
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_set_gives_back_its_roles_in_report_order() {
        let set = RoleSet::from_iter([Role::Worker, Role::Management]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [Role::Management, Role::Worker]);
        assert_eq!(RoleSet::from_bits(set.bits()), set);
        assert_eq!(RoleSet::from_bits(0xff), RoleSet::ALL);
    }

    #[test]
    fn every_name_parses_to_its_role() {
        for role in Role::ALL {
            assert_eq!(role.name().parse(), Ok(role));
        }
        assert_eq!("Worker".parse::<Role>(), Err(UnknownRole));
    }
}
