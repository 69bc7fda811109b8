//! The records after the manager stopped at every store.

use super::super::*;
use super::model::{Model, ModelRegion};
use super::{LARGE, OWNERS, Pieces};
use alloc::rc::Rc;
use core::cell::RefCell;

/// Words whose every store is noted, so that a test can stop a manager between any two.
#[derive(Clone)]
struct Journal {
    words: Rc<RefCell<Vec<u64>>>,
    stores: Rc<RefCell<Vec<(usize, u64)>>>,
}

impl Journal {
    fn new(words: Vec<u64>) -> Journal {
        Journal { words: Rc::new(RefCell::new(words)), stores: Rc::default() }
    }
}

impl Words for Journal {
    fn count(&self) -> usize {
        self.words.borrow().len()
    }

    fn load(&self, index: usize) -> u64 {
        self.words.borrow()[index]
    }

    fn store(&mut self, index: usize, value: u64) {
        self.words.borrow_mut()[index] = value;
        self.stores.borrow_mut().push((index, value));
    }
}

/// The pieces that an interrupted service says it has handed out.
fn handed_out<W: Words>(memory: &PhysicalMemory<W>, start: u64, bytes: u64) -> Pieces {
    let mut pieces = Pieces::new();
    let mut at = start;
    while at < start + bytes {
        match memory.allocation(PhysAddr(at)) {
            Some(Allocation { owner, size }) => {
                pieces.insert(at, (size, owner));
                at += size.bytes();
            }
            None => at += 4096,
        }
    }
    pieces
}

#[test]
fn a_manager_stopped_at_any_store_has_done_all_or_nothing_of_one_request() {
    let (start, bytes) = (3 * LARGE - 0x5000, 2 * LARGE + 0x7000);
    let words = PhysicalMemory::<Journal>::words_for(PhysAddr(start), bytes);
    let journal = Journal::new(std::vec![0x5555_5555_5555_5555; words]);
    let initial = journal.words.borrow().clone();
    let mut memory = PhysicalMemory::new();
    memory.add_region(PhysAddr(start), bytes, journal.clone()).expect("a region of frames");
    let created = journal.stores.borrow().len();

    // Every request of a run in which collections are split, joined and handed out whole, with
    // the pieces before it and the number of stores at its end.
    let mut model = Model::default();
    model.regions.push(ModelRegion { start, bytes, draining: false });
    let mut steps = std::vec![(created, model.pieces.clone())];
    let mut note = |pieces: &Pieces| {
        steps.push((journal.stores.borrow().len(), pieces.clone()));
    };
    let sizes = [PageSize::Small; 9].into_iter().chain([PageSize::Large, PageSize::Small]);
    for (number, size) in sizes.enumerate() {
        let owner = OWNERS[number % 3];
        let address = memory.alloc(size, owner).expect("enough memory");
        model.pieces.insert(address.0, (size, owner));
        note(&model.pieces);
    }
    while let Some((address, (size, _))) = model.pieces.pop_first() {
        memory.free(PhysAddr(address), size).expect("a piece handed out");
        note(&model.pieces);
    }
    assert!(handed_out(&memory, start, bytes).is_empty());

    let stores = journal.stores.borrow().clone();
    let mut steps = steps.windows(2).peekable();
    for stop in 0..=stores.len() {
        let mut words = initial.clone();
        stores[..stop].iter().for_each(|(index, value)| words[*index] = *value);
        let survivor = Journal::new(words);
        let recovered = PhysicalMemory::recover([survivor.clone()]);
        if stop < created {
            assert_eq!(recovered.err(), Some(RecoverError::NoRecord));
            continue;
        }
        let mut recovered = recovered.expect("a record");
        while steps.peek().is_some_and(|step| stop > step[1].0) {
            steps.next();
        }
        let step = steps.peek().expect("a request");
        let pieces = handed_out(&recovered, start, bytes);
        assert!(pieces == step[0].1 || pieces == step[1].1, "after store {stop}");
        let mut model = Model { pieces, ..model.clone() };
        model.check(&recovered).expect("counts that agree with the pieces");

        // Recovery repairs; it must stand an interruption, too.
        for stop in 0..survivor.stores.borrow().len() {
            let mut words = initial.clone();
            stores[..stop].iter().for_each(|(index, value)| words[*index] = *value);
            let repairs = survivor.stores.borrow()[..stop].to_vec();
            repairs.iter().for_each(|(index, value)| words[*index] = *value);
            let again = PhysicalMemory::recover([Journal::new(words)]);
            assert!(again.is_ok() || stop < created);
        }

        // All that is left can be handed out, and nothing of what is.
        while let Ok(address) = recovered.alloc(PageSize::Small, CoreId(1)) {
            assert_eq!(model.covered(address.0), None);
            model.pieces.insert(address.0, (PageSize::Small, CoreId(1)));
        }
        assert_eq!(recovered.statistics().free_bytes, 0);
        assert!(model.collections(&model.regions[0]).iter().all(|c| c.free == 0));
    }
}
