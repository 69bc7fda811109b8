//! What a port has seen. Faults count at the port in whose cable they happened.

use serde::{Deserialize, Serialize};

/// Counters of one port since it was attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Frames that the port's owner sent into the network.
    pub received: u64,
    /// Bytes of them.
    pub received_bytes: u64,
    /// Frames that the network gave to the port's owner.
    pub sent: u64,
    /// Bytes of them.
    pub sent_bytes: u64,
    /// Frames lost by the cable.
    pub lost: u64,
    /// Frames that came out of the cable twice.
    pub duplicated: u64,
    /// Frames held back so that others overtook them.
    pub reordered: u64,
    /// Frames whose bytes were changed.
    pub corrupted: u64,
    /// Frames that found the cable's queue full.
    pub overflowed: u64,
    /// Frames that the port's owner did not take in time.
    pub overrun: u64,
    /// Frames that the port's owner sent in the name of another port.
    pub misnamed: u64,
    /// Frames for the port that came from the other side of a partition.
    pub partitioned: u64,
    /// Frames that had to be dropped because the port is not plugged in.
    pub unplugged: u64,
    /// What the owner sent that is no frame: too short, too long, or from a group of addresses.
    pub malformed: u64,
}
