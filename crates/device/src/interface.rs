//! A network interface as the one core that drives it sees it.

use nile_abi::{MacAddress, Part};

use crate::Line;

/// A network interface. Frames are Ethernet II frames without their check sequence; nothing here
/// blocks or allocates. What misbehaves beneath is counted and dropped.
pub trait Interface {
    /// The address that frames to this interface carry.
    fn address(&self) -> MacAddress;

    /// What it interrupts by; `None` if nobody is to see and to steer that.
    fn line(&self) -> Option<Line> {
        None
    }

    /// Bytes of the largest frame that the link carries, header included.
    fn max_frame(&self) -> usize;

    /// Whether a frame has come. From the moment it says no, the next frame that comes rings the
    /// core's doorbell: the core asks after it said that it sleeps, and before it does.
    fn is_ready(&self) -> bool;

    /// Gives at most `limit` frames that have come to `take`, in their order; how many there were.
    /// A frame lies where the device wrote it, for as long as the call.
    fn receive(&self, limit: usize, take: &mut dyn FnMut(&[u8])) -> usize;

    /// Has `fill` write one frame after the other where the device reads them, of
    /// [`max_frame`](Interface::max_frame) bytes at most, until it gives `None` for "no more" or
    /// there is no room; the device is told once, after the last. `false` if there was no room:
    /// some comes without notice, within microseconds.
    fn transmit(&self, fill: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> bool;

    /// By which name this node's pool can be read at the other ends of this interface's links,
    /// where these are memory.
    fn shows_pool(&self) -> Option<u64> {
        None
    }

    /// Fills `into` with parts, one after the other, of the pool that the node with this address
    /// shows by this name. `false`: the pool is gone, or the read raced with the owner, which gave
    /// a buffer up; `into` holds garbage.
    fn read_pool(&self, _of: MacAddress, _name: u64, _parts: &[Part], _into: &mut [u8]) -> bool {
        false
    }

    /// Frames that came and went, and what was dropped.
    fn traffic(&self) -> Traffic;
}

/// What an interface has carried since its core's incarnation began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Frames that came.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames that went.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames that came and were dropped, or could not be sent.
    pub dropped: u64,
}
