//! Who has which frame of those that were given out through the service.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use core::cell::RefCell;

use nile_abi::{CoreId, Generation, PhysAddr, Status};
use nile_stl::node::Frame;
use nile_stl::{CallError, CallResult};

use nile_interfaces::physical_memory::CoreShare;

/// An incarnation of a core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Holder {
    pub core: CoreId,
    pub generation: Generation,
}

/// The frames, by where they are.
#[derive(Default)]
pub struct Held(RefCell<BTreeMap<PhysAddr, Piece>>);

/// A frame, and whose it is.
type Piece = (Holder, Box<dyn Frame>);

impl Held {
    /// Keeps a frame for a core: where it is.
    pub fn keep(&self, holder: Holder, frame: Box<dyn Frame>) -> PhysAddr {
        let start = frame.start();
        self.0.borrow_mut().insert(start, (holder, frame));
        start
    }

    /// The frame that is held for `core` at an address. `NotFound` if no frame begins there,
    /// `Denied` if it is another core's.
    pub fn take(&self, core: CoreId, at: PhysAddr) -> CallResult<Box<dyn Frame>> {
        let mut frames = self.0.borrow_mut();
        let at_text = at.0;
        match frames.get(&at) {
            None => {
                let what = format!("no frame at {at_text:#x} was given out here");
                return Err(CallError::new(Status::NotFound, what));
            }
            Some((holder, _)) if holder.core != core => {
                let what = format!("the frame at {at_text:#x} is held for core {}", holder.core);
                return Err(CallError::new(Status::Denied, what));
            }
            Some(_) => {}
        }
        let missing = || CallError::from(Status::NotFound);
        frames.remove(&at).map(|(_, frame)| frame).ok_or_else(missing)
    }

    /// Gives back all that an incarnation, or an earlier one of its core, had.
    pub fn give_back(&self, gone: Holder) {
        let is_gone = |it: &Holder| it.core == gone.core && it.generation <= gone.generation;
        let left = self.0.borrow_mut().extract_if(.., |_, (holder, _)| is_gone(holder)).collect();
        // Outside of the borrow: giving back starts tasks.
        drop::<Vec<_>>(left);
    }

    /// What is held for each core.
    pub fn by_core(&self) -> Vec<CoreShare> {
        let mut shares = BTreeMap::new();
        for (holder, frame) in self.0.borrow().values() {
            let empty = CoreShare { core: holder.core.0, frames: 0, bytes: 0 };
            let share = shares.entry(holder.core).or_insert(empty);
            share.frames += 1;
            share.bytes += frame.size().bytes();
        }
        shares.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::rc::Rc;
    use core::cell::Cell;
    use nile_abi::{PageSize, VirtAddr};
    use nile_stl::node::NodeFuture;

    /// A frame that counts how many like it there are.
    struct Counted(PhysAddr, Rc<Cell<i32>>);

    impl Frame for Counted {
        fn start(&self) -> PhysAddr {
            self.0
        }

        fn at(&self) -> VirtAddr {
            VirtAddr(self.0.0)
        }

        fn size(&self) -> PageSize {
            PageSize::Small
        }

        fn release(self: Box<Self>) -> NodeFuture<()> {
            Box::pin(async { Ok(()) })
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.1.set(self.1.get() - 1);
        }
    }

    #[test]
    fn a_frame_is_its_holders_until_that_is_gone() {
        let (held, there) = (Held::default(), Rc::new(Cell::new(4)));
        let holder =
            |core, generation| Holder { core: CoreId(core), generation: Generation(generation) };
        for (page, owner) in [(1, holder(1, 1)), (2, holder(1, 1)), (3, holder(2, 1))] {
            held.keep(owner, Box::new(Counted(PhysAddr(page << 12), there.clone())));
        }
        held.keep(holder(1, 2), Box::new(Counted(PhysAddr(4 << 12), there.clone())));
        let status = |core, page: u64| {
            held.take(CoreId(core), PhysAddr(page << 12)).err().map(|error| error.status)
        };
        assert_eq!(status(1, 3), Some(Status::Denied));
        assert_eq!(status(1, 9), Some(Status::NotFound));
        let share = CoreShare { core: 1, frames: 3, bytes: 3 << 12 };
        assert_eq!(held.by_core()[0], share);

        assert_eq!(status(1, 1), None);
        assert_eq!(status(1, 1), Some(Status::NotFound));
        assert_eq!(there.get(), 3);
        // Its next incarnation keeps what it has.
        held.give_back(holder(1, 1));
        assert_eq!((there.get(), held.by_core().len()), (2, 2));
        held.give_back(holder(1, 2));
        held.give_back(holder(2, 1));
        assert_eq!((there.get(), held.by_core().len()), (0, 0));
    }
}
