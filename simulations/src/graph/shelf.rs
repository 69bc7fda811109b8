//! Where the graph is kept: slots in memory, with what disks and networks do. An operation happens
//! at one moment between its call and its end; the one who called may be dead by either.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use nile_graph::{Damaged, Held, Put, Shelf, Slot};

use super::World;
use super::steps::pause;

/// A slot: its stamp, and what is in it.
type Content = (u64, Option<Vec<u8>>);

/// What is stored, whoever dies.
#[derive(Default)]
pub struct Stored {
    slots: RefCell<BTreeMap<Slot, Content>>,
    pub puts: Cell<u64>,
    /// Those who keep it are away.
    pub is_away: Cell<bool>,
}

/// The way of one host to it.
pub struct Memory {
    world: Rc<World>,
    part: usize,
}

impl Memory {
    /// To what there is of a part.
    pub fn new(world: &Rc<World>, part: usize) -> Memory {
        Memory { world: world.clone(), part }
    }

    fn stored(&self) -> &Stored {
        &self.world.parts[self.part].stored
    }

    async fn pauses(&self) {
        for _ in 0..self.world.below(4) {
            pause().await;
        }
    }

    /// One in so many, in times of trouble, and all while who keeps it is away.
    fn fails(&self, of: u64) -> bool {
        self.is_away() || !self.world.is_calm.get() && self.world.below(of) == 0
    }

    fn is_away(&self) -> bool {
        !self.world.is_calm.get() && self.stored().is_away.get()
    }

    async fn change(&self, slot: Slot, stamp: u64, to: Option<Vec<u8>>) -> Result<Put, ()> {
        self.pauses().await;
        if self.fails(20) {
            return Err(());
        }
        let is_lost = self.fails(40);
        if is_lost && self.world.below(2) == 0 {
            return Ok(Put::Unknown);
        }
        let put = {
            let slots = &mut *self.stored().slots.borrow_mut();
            let held = slots.entry(slot).or_default();
            if held.0 == stamp || self.world.conduct.overwrites {
                *held = (held.0 + 1, to);
                Put::Done(held.0)
            } else {
                Put::Changed
            }
        };
        self.pauses().await;
        Ok(if is_lost || self.is_away() { Put::Unknown } else { put })
    }
}

impl Shelf for Memory {
    type Error = ();

    async fn look(&self, slot: Slot) -> Result<Held, ()> {
        self.pauses().await;
        if self.fails(60) {
            return Err(());
        }
        let held = {
            let slots = self.stored().slots.borrow();
            let found = slots.get(&slot);
            found.map_or(Held::default(), |(stamp, bytes)| Held {
                stamp: *stamp,
                is_there: bytes.is_some(),
            })
        };
        self.pauses().await;
        Ok(held)
    }

    async fn read(
        &self,
        slot: Slot,
        held: Held,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), Damaged>,
    ) -> Result<(), ()> {
        self.pauses().await;
        if self.fails(60) {
            return Err(());
        }
        let bytes = {
            let slots = self.stored().slots.borrow();
            let found = slots.get(&slot).filter(|(stamp, _)| *stamp == held.stamp);
            found.and_then(|(_, bytes)| bytes.clone()).ok_or(())?
        };
        for part in bytes.chunks(100) {
            sink(part).map_err(drop)?;
        }
        Ok(())
    }

    async fn put(
        &self,
        slot: Slot,
        stamp: u64,
        bytes: &mut dyn FnMut() -> Option<Vec<u8>>,
    ) -> Result<Put, ()> {
        let mut all = Vec::new();
        while let Some(more) = bytes() {
            all.extend(more);
            self.pauses().await;
        }
        let puts = &self.stored().puts;
        puts.set(puts.get() + 1);
        self.change(slot, stamp, Some(all)).await
    }

    async fn clear(&self, slot: Slot, stamp: u64) -> Result<Put, ()> {
        self.change(slot, stamp, None).await
    }
}
