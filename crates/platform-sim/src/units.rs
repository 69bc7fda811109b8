//! The memory that a supervised machine has to give, in units of 2 MiB, and what of it a domain
//! has. What a unit holds stays there until somebody writes something else, or clears it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::Ordering::Acquire;

use nile_abi::PhysAddr;
use nile_domain::{DomainId, Thing, UNIT, has};
use nile_platform::Grant;
use nile_platform::domains::LedgerWords;
use nile_ring::{HeapPool, Region};

/// The memory that there is to give. A unit that nobody has written is zero.
pub struct Units {
    given: Grant,
    memory: RefCell<BTreeMap<u64, Region>>,
}

impl Units {
    /// So much memory, whole units.
    pub fn new(given: Grant) -> Units {
        Units { given, memory: RefCell::default() }
    }

    /// All of it.
    pub fn given(&self) -> Grant {
        self.given
    }

    /// The memory of a grant that lies in one unit.
    fn region(&self, grant: Grant) -> Option<Region> {
        let offset = grant.start.0.checked_sub(self.given.start.0)?;
        let within = offset % UNIT;
        if offset >= self.given.bytes || within + grant.bytes > UNIT {
            return None;
        }
        let mut memory = self.memory.borrow_mut();
        let unit = memory.entry(offset / UNIT).or_insert_with(|| Region::owned(UNIT as usize));
        unit.slice(within as usize, grant.bytes as usize)
    }

    /// Clears whole units.
    pub fn zero(&self, grant: Grant) {
        let first = (grant.start.0 - self.given.start.0) / UNIT;
        let mut memory = self.memory.borrow_mut();
        (first..first + grant.bytes / UNIT).for_each(|unit| drop(memory.remove(&unit)));
    }

    /// Whether these units are zero.
    pub fn are_zero(&self, grant: Grant) -> bool {
        let first = (grant.start.0 - self.given.start.0) / UNIT;
        let memory = self.memory.borrow();
        let mut units = memory.range(first..first + grant.bytes / UNIT);
        units.all(|(_, unit)| unit.words().iter().all(|word| word.load(Acquire) == 0))
    }
}

/// What a domain is put together on, and how it uses that.
pub struct Own {
    machine: Rc<Units>,
    ledger: LedgerWords,
    id: DomainId,
    /// For its page tables, and all that a boot path takes besides.
    pub tables: Grant,
    /// For its pool of buffers.
    pub pool: Grant,
    /// What is left of it.
    pub free: Vec<Grant>,
}

impl Own {
    /// A domain on this memory, of which page tables and pool take so many bytes; `None` if it is
    /// too little, or in pieces that are too small.
    pub fn cut(
        machine: &Rc<Units>,
        ledger: &LedgerWords,
        id: DomainId,
        memory: &[Grant],
        [tables, pool]: [u64; 2],
    ) -> Option<Own> {
        let mut free = memory.to_vec();
        let mut take = |bytes: u64| {
            let bytes = bytes.next_multiple_of(UNIT);
            let piece = free.iter_mut().find(|piece| piece.bytes >= bytes)?;
            let taken = Grant { start: piece.start, bytes };
            *piece = Grant { start: PhysAddr(piece.start.0 + bytes), bytes: piece.bytes - bytes };
            Some(taken)
        };
        let (pool, tables) = (take(pool)?, take(tables)?);
        free.retain(|piece| piece.bytes > 0);
        let (machine, ledger) = (machine.clone(), ledger.clone());
        (!free.is_empty()).then_some(Own { machine, ledger, id, tables, pool, free })
    }

    /// The domain.
    pub fn id(&self) -> DomainId {
        self.id
    }

    /// Whether the ledger gives it all of this.
    pub fn has(&self, grant: Grant) -> bool {
        let Some(offset) = grant.start.0.checked_sub(self.machine.given.start.0) else {
            return false;
        };
        let mut units = offset / UNIT..(offset + grant.bytes).div_ceil(UNIT);
        units.all(|unit| has(&self.ledger, self.id, Thing::Unit(unit as u32)))
    }

    /// The memory of a grant that lies in one unit.
    pub fn region(&self, grant: Grant) -> Option<Region> {
        self.machine.region(grant)
    }

    /// Its pool of buffers, with what was in its memory before; `None` if it has none.
    pub fn open_pool(&self) -> Option<HeapPool> {
        (self.pool.bytes > 0).then(|| HeapPool::holding(self.pool_units()))
    }

    /// What was in its pool is in its memory from now on.
    pub fn close_pool(&self, pool: &HeapPool) {
        pool.copy_to(self.pool_units());
    }

    fn pool_units(&self) -> impl Iterator<Item = Region> + '_ {
        let units = (0..self.pool.bytes).step_by(UNIT as usize);
        units.filter_map(|at| {
            self.region(Grant { start: PhysAddr(self.pool.start.0 + at), bytes: UNIT })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use nile_abi::Generation;

    use super::*;

    const GIVEN: Grant = Grant { start: PhysAddr(64 << 20), bytes: 8 * UNIT };
    const ID: DomainId = DomainId { slot: 1, generation: Generation(1) };

    fn piece(first: u64, units: u64) -> Grant {
        Grant { start: PhysAddr(GIVEN.start.0 + first * UNIT), bytes: units * UNIT }
    }

    #[test]
    fn a_domain_is_cut_from_what_it_is_given() {
        let machine = Rc::new(Units::new(GIVEN));
        let ledger = LedgerWords(Region::owned(64));
        let cut = |memory: &[Grant], sizes| Own::cut(&machine, &ledger, ID, memory, sizes);
        let memory = [piece(0, 1), piece(2, 3), piece(6, 2)];
        let own = cut(&memory, [4096, 2 * UNIT]).unwrap();
        assert_eq!((own.pool, own.tables), (piece(2, 2), piece(0, 1)));
        assert_eq!(own.free, [piece(4, 1), piece(6, 2)]);
        assert!(cut(&memory, [4096, 4 * UNIT]).is_none(), "no piece is so large");
        assert!(cut(&memory[..1], [4096, 0]).is_none(), "nothing is left");
        assert!(!own.has(piece(0, 1)), "the ledger is none");
    }

    #[test]
    fn units_hold_what_is_written_until_they_are_cleared() {
        let machine = Rc::new(Units::new(GIVEN));
        let small = Grant { start: PhysAddr(GIVEN.start.0 + UNIT + 4096), bytes: 4096 };
        let region = machine.region(small).unwrap();
        region.words()[1].store(7, Relaxed);
        let whole = machine.region(piece(1, 1)).unwrap();
        assert_eq!(whole.words()[4096 / 8 + 1].load(Relaxed), 7);
        assert!(machine.are_zero(piece(2, 6)) && !machine.are_zero(piece(0, 3)));
        assert!(machine.region(piece(1, 2)).is_none(), "not in one unit");
        assert!(machine.region(piece(8, 1)).is_none(), "not to give");
        machine.zero(piece(1, 1));
        assert!(machine.are_zero(GIVEN));
    }

    #[test]
    fn a_pool_leaves_what_was_in_it() {
        let machine = Rc::new(Units::new(GIVEN));
        let ledger = LedgerWords(Region::owned(64));
        let own = Own::cut(&machine, &ledger, ID, &[GIVEN], [4096, 2 * UNIT]).unwrap();
        let last = piece(1, 1);
        machine.region(last).unwrap().words()[100].store(9, Relaxed);
        let pool = own.open_pool().unwrap();
        assert_eq!(pool.bytes() as u64, 2 * UNIT);
        machine.zero(last);
        own.close_pool(&pool);
        assert_eq!(machine.region(last).unwrap().words()[100].load(Relaxed), 9);
    }
}
