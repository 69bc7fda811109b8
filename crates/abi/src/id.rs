//! Names. What can restart carries a generation, so that a message to a dead incarnation is
//! answered [`Status::Dead`](crate::Status::Dead) and never reaches its successor.

use core::fmt;

/// A machine, virtual machine or process group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct NodeId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// A core of one node, counted from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CoreId(pub u16);

impl CoreId {
    /// The core that starts the node and manages it first.
    pub const BOOT: CoreId = CoreId(0);

    /// This core's place in a table with one row a core.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for CoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}", self.0)
    }
}

/// Which incarnation of something is meant: 1 at first, one more at every restart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Generation(pub u32);

impl Generation {
    /// The first incarnation.
    pub const FIRST: Generation = Generation(1);

    /// The incarnation after this one.
    #[must_use]
    pub fn next(self) -> Generation {
        Generation(self.0.wrapping_add(1).max(1))
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g{}", self.0)
    }
}

/// The receiving end of a channel: its bit in the receiver map.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EndpointId(pub u16);

/// A channel of one node; never given twice within a boot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChannelId(pub u32);
