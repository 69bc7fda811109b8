//! Behind which port an address is. An address belongs to the port that used it first, for as long
//! as that is plugged in: whoever repeats or invents frames of others cannot have theirs. A port
//! can also own an address before it uses it. A port holds a bounded number of addresses, so that
//! one that invents them forgets only its own.

use alloc::vec::Vec;

use fnv::FnvBuildHasher;
use hashbrown::HashMap;
use nile_abi::MacAddress;

/// The most addresses that are remembered for one port.
pub const PER_PORT: usize = 256;

type Places = HashMap<MacAddress, usize, FnvBuildHasher>;

/// The table of the switch: an address, and the place of its port.
#[derive(Default)]
pub struct Addresses {
    places: Places,
    /// Those that belong to a port whether it is plugged in or not.
    owned: Places,
}

/// The addresses of one port, in a ring whose oldest entry is replaced when it is full.
#[derive(Default)]
pub struct Learned {
    ring: Vec<MacAddress>,
    oldest: usize,
}

impl Addresses {
    /// The place of the port behind which `address` is.
    pub fn find(&self, address: MacAddress) -> Option<usize> {
        self.owned.get(&address).or_else(|| self.places.get(&address)).copied()
    }

    /// Notes that `address` is used by the port at `place`, which has learned `learned`. Whether it
    /// belongs to that port.
    pub fn learn(&mut self, address: MacAddress, place: usize, learned: &mut Learned) -> bool {
        if let Some(owner) = self.find(address) {
            return owner == place;
        }
        self.places.insert(address, place);
        if learned.ring.len() < PER_PORT {
            learned.ring.push(address);
            return true;
        }
        let replaced = core::mem::replace(&mut learned.ring[learned.oldest], address);
        learned.oldest = (learned.oldest + 1) % PER_PORT;
        self.forget_one(replaced, place);
        true
    }

    /// Gives `address` to the port at `place`, whoever used it before.
    pub fn own(&mut self, address: MacAddress, place: usize) {
        self.owned.insert(address, place);
    }

    /// Takes back what the port at `place` owns.
    pub fn disown(&mut self, place: usize) {
        self.owned.retain(|_, owner| *owner != place);
    }

    /// Forgets what the port at `place` has used.
    pub fn forget(&mut self, place: usize, learned: &mut Learned) {
        for address in core::mem::take(learned).ring {
            self.forget_one(address, place);
        }
    }

    fn forget_one(&mut self, address: MacAddress, place: usize) {
        if self.places.get(&address) == Some(&place) {
            self.places.remove(&address);
        }
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.places.len()
    }
}
