//! Behind which port an address was seen. An address belongs to the port that used it last; a
//! port holds a bounded number of them, so that one that invents addresses forgets only its own.

use alloc::vec::Vec;

use fnv::FnvBuildHasher;
use hashbrown::HashMap;
use nile_abi::MacAddress;

/// The most addresses that are remembered for one port.
pub const PER_PORT: usize = 256;

/// The table of the switch: an address, and the place of its port.
#[derive(Default)]
pub struct Addresses {
    places: HashMap<MacAddress, usize, FnvBuildHasher>,
}

/// The addresses of one port, in a ring whose oldest entry is replaced when it is full. What has
/// moved to another port meanwhile may still stand here; the table has the truth.
#[derive(Default)]
pub struct Learned {
    ring: Vec<MacAddress>,
    oldest: usize,
}

impl Addresses {
    /// The place of the port behind which `address` is.
    pub fn find(&self, address: MacAddress) -> Option<usize> {
        self.places.get(&address).copied()
    }

    /// Notes that `address` is behind the port at `place`, which has learned `learned`.
    pub fn learn(&mut self, address: MacAddress, place: usize, learned: &mut Learned) {
        if self.places.insert(address, place) == Some(place) {
            return;
        }
        if learned.ring.len() < PER_PORT {
            learned.ring.push(address);
            return;
        }
        let replaced = core::mem::replace(&mut learned.ring[learned.oldest], address);
        learned.oldest = (learned.oldest + 1) % PER_PORT;
        if replaced != address {
            self.forget_one(replaced, place);
        }
    }

    /// Forgets what is behind the port at `place`.
    pub fn forget(&mut self, place: usize, learned: &mut Learned) {
        for address in core::mem::take(learned).ring {
            self.forget_one(address, place);
        }
    }

    fn forget_one(&mut self, address: MacAddress, place: usize) {
        if self.find(address) == Some(place) {
            self.places.remove(&address);
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.places.len()
    }
}
