//! Frames of the network for packages that speak protocols of their own: IPv4, ARP and IPv6. The
//! rest of what the network carries is the kernel's.

use alloc::string::String;
use alloc::vec::Vec;

use nile_bosml::{Blob, Bytes};
use nile_stl::{CallResult, Caller, Record, service};

/// The most bytes of the frames of one call, with [what stands before each](pack).
pub const MOST_BYTES: usize = 48 << 10;

/// What a package is told that is attached to the network.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Attachment {
    /// What it names itself by in the calls that follow.
    pub ticket: u64,
    /// Its node.
    pub node: u32,
    /// Its address, as a number; zero if it has none.
    pub address: u32,
    /// Bits that all addresses of the network have in common.
    pub prefix: u8,
    /// The gateway's address.
    pub gateway: u32,
    /// Whether it is to have its address lent, whatever these say.
    pub leases: bool,
    /// Its address of IPv6 beside that for its link, as two numbers; it has none if the bits that
    /// all have in common are zero.
    pub wide_high: u64,
    /// See above.
    pub wide_low: u64,
    /// See above.
    pub wide_prefix: u8,
    /// Whether it is to have that from a router, whatever these say.
    pub advertised: bool,
    /// The rules of the packet filter that the node's configuration has, one a line.
    pub rules: String,
    /// The interface's address: six bytes, the first one the most significant.
    pub mac: u64,
    /// Bytes of the largest frame.
    pub max_frame: u32,
    /// A number that nobody can predict, and another one.
    pub seed: u64,
    /// The other one.
    pub salt: u64,
}

/// Frames, and what became of others.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct FrameBatch {
    /// The frames, [packed](pack).
    pub frames: Blob,
}

/// What was counted since the core has begun.
#[derive(Record, Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct FrameCounts {
    /// Frames that were given to a package.
    pub received: u64,
    /// Frames of packages that were sent.
    pub sent: u64,
    /// Frames that came and found no room, or that nobody took in time.
    pub dropped: u64,
    /// Frames of packages that were none, or found no room.
    pub refused: u64,
}

/// Frames of the network for one package.
#[service(subsystem = "network", capability = "frames", layer = high)]
pub trait Frames {
    /// Gives the frames of this interface to the package that calls: one that stays on a core of
    /// this node and says in its manifest that it uses frames. `denied` for any other. Of several
    /// on one core the last that attaches has them.
    /// `exists`: another core's package has them, and runs. Frames that came since the last
    /// incarnation of the package was there are kept for it, a while.
    #[stl_k(reply = "attachment", allow(package))]
    async fn attach(&self, caller: &Caller) -> CallResult<Attachment>;

    /// Sends frames, and takes those that have come, as many as one call carries. If none has come
    /// it waits for the first one, at most so long. `denied`: the ticket is not that of the
    /// package that is attached.
    #[stl_k(reply = "batch", allow(package))]
    async fn exchange(
        &self,
        caller: &Caller,
        ticket: u64,
        frames: Bytes<'_>,
        #[range(0..=1000000)] patience_us: u32,
    ) -> CallResult<FrameBatch>;

    /// What was counted.
    #[stl_k(reply = "counts", allow(package, operator, peer))]
    fn counts(&self) -> CallResult<FrameCounts>;
}

/// Adds a frame to a batch, two bytes of its length before it, the lower one first. `false` if it
/// is too long, or the batch would be.
pub fn pack(batch: &mut Vec<u8>, frame: &[u8]) -> bool {
    let Ok(length) = u16::try_from(frame.len()) else { return false };
    if batch.len() + 2 + frame.len() > MOST_BYTES {
        return false;
    }
    batch.extend_from_slice(&length.to_le_bytes());
    batch.extend_from_slice(frame);
    true
}

/// The frames of a batch, up to the first thing that is none.
pub fn unpack(mut batch: &[u8]) -> impl Iterator<Item = &[u8]> {
    core::iter::from_fn(move || {
        let (length, rest) = batch.split_first_chunk()?;
        let (frame, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        batch = rest;
        Some(frame)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn what_is_packed_comes_out() {
        let frames: Vec<Vec<u8>> = [0, 1, 60, 1514].map(|n| vec![n as u8; n]).into();
        let mut batch = Vec::new();
        assert!(frames.iter().all(|frame| pack(&mut batch, frame)));
        assert_eq!(unpack(&batch).collect::<Vec<_>>(), frames);
        for cut in 0..batch.len() {
            assert!(unpack(&batch[..cut]).count() < frames.len());
        }
        let rest = MOST_BYTES - batch.len() - 2;
        assert!(!pack(&mut batch, &vec![0; rest + 1]) && pack(&mut batch, &vec![0; rest]));
        assert!(!pack(&mut Vec::new(), &vec![0; 1 << 16]));
    }
}
