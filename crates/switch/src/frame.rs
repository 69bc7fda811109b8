//! A frame on its way: shared, so that a broadcast to ten thousand ports is one copy.

use alloc::rc::Rc;
use core::fmt;
use core::ops::Deref;

use nile_abi::MacAddress;
use nile_abi::ethernet::HEADER_BYTES;

/// Bytes of the largest frame that the switch takes: a header and 64 KiB.
pub const MAX_FRAME: usize = HEADER_BYTES + (64 << 10);

/// An Ethernet frame from the destination address to the end of the data, without its check
/// sequence. A clone shares the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame(Rc<[u8]>);

impl Frame {
    /// A copy of `bytes`, if that many can be a frame and their sender names one interface.
    pub(crate) fn new(bytes: &[u8]) -> Option<Frame> {
        let valid = (HEADER_BYTES..=MAX_FRAME).contains(&bytes.len());
        let frame = valid.then(|| Frame(bytes.into()))?;
        (!frame.source().is_group()).then_some(frame)
    }

    pub(crate) fn destination(&self) -> MacAddress {
        self.address(0)
    }

    pub(crate) fn source(&self) -> MacAddress {
        self.address(6)
    }

    fn address(&self, at: usize) -> MacAddress {
        MacAddress(core::array::from_fn(|place| self.0[at + place]))
    }

    /// The same frame with the bytes from `at` on replaced by what `damage` makes of each.
    pub(crate) fn damaged(&self, at: usize, damage: &[u8]) -> Frame {
        let mut bytes: alloc::vec::Vec<u8> = self.0.to_vec();
        for (byte, flips) in bytes.iter_mut().skip(at).zip(damage) {
            *byte ^= flips;
        }
        Frame(bytes.into())
    }
}

impl Deref for Frame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}, {} bytes", self.source(), self.destination(), self.0.len())
    }
}
