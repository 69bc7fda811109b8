//! That this node may have missed what the cluster has decided: it was cut off, stood still or was
//! held for dead. Services of the managing core that hold what is on its disks against that look
//! again then.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

use nile_stl::Stl;

/// Who is told.
#[derive(Default)]
pub struct Missed {
    told: RefCell<Vec<Box<dyn Fn()>>>,
}

impl Missed {
    /// That of the core of `stl`, as long as one of its services keeps it.
    pub fn of(stl: &Stl) -> Rc<Missed> {
        stl.shared(|| Ok(Rc::default())).unwrap_or_default()
    }

    /// Has `told` called whenever something may have been missed.
    pub fn on(&self, told: impl Fn() + 'static) {
        self.told.borrow_mut().push(Box::new(told));
    }

    /// Something may have been missed.
    pub fn tell(&self) {
        self.told.borrow().iter().for_each(|told| told());
    }
}
