//! Nodes that show each other their pools, as nodes of one machine do.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use nile_abi::{MacAddress, Part};
use nile_ring::HeapPool;

/// The pools that nodes show, by the addresses of their interfaces. Clones are the same.
#[derive(Clone, Default)]
pub struct Neighbours(Rc<RefCell<Pools>>);

#[derive(Default)]
struct Pools {
    by_address: BTreeMap<MacAddress, (u64, HeapPool)>,
    /// The name of the last one.
    last: u64,
}

impl fmt::Debug for Neighbours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.borrow().by_address.keys()).finish()
    }
}

impl Neighbours {
    /// A node with these addresses shows a new pool, in place of any that it had.
    pub fn show(&self, addresses: impl Iterator<Item = MacAddress>, pool: &HeapPool) {
        let pools = &mut *self.0.borrow_mut();
        pools.last += 1;
        for address in addresses {
            pools.by_address.insert(address, (pools.last, pool.clone()));
        }
    }

    /// By which name a pool is shown.
    pub fn name_of(&self, address: MacAddress) -> Option<u64> {
        self.0.borrow().by_address.get(&address).map(|(name, _)| *name)
    }

    /// Fills `into` with parts of the pool of this name, if it is still shown.
    pub fn read(&self, of: MacAddress, name: u64, parts: &[Part], into: &mut [u8]) -> bool {
        let pools = self.0.borrow();
        let pool = pools.by_address.get(&of).filter(|(known, _)| *known == name);
        pool.is_some_and(|(_, pool)| {
            let mut rest = into;
            parts.iter().all(|part| {
                let taken = std::mem::take(&mut rest);
                let Some((here, after)) = taken.split_at_mut_checked(part.bytes as usize) else {
                    return false;
                };
                rest = after;
                pool.read(*part, here).is_ok()
            }) && rest.is_empty()
        })
    }
}
