//! Channels between two packages of one core. The opener's ring gets a second place, in the slot of
//! the acceptor, and there is no line: of a wake-up, and of the end of either, this kernel tells
//! the other one itself. A package that is woken has the core at once, as far as that may be lent
//! (`packages::lending`); else it is ready, and has its turn when the core's policy says.
//!
//! *No ring is somebody else's memory* here either: the acceptor's place is entered only as long as
//! the opener is there, which says that it is gone before it gives its own place back.

use super::*;

/// The sending end.
struct Outlet {
    inlet: Rc<Inlet>,
    offers: Rc<Offers>,
}

impl End for Outlet {
    fn wake(&self) -> Result<(), Status> {
        if self.inlet.leaving.is_raised() {
            return Err(Status::Dead);
        }
        self.inlet.tell();
        Ok(())
    }

    fn neighbour(&self) -> Option<&Inlet> {
        (!self.inlet.leaving.is_raised()).then_some(&*self.inlet)
    }

    fn close(&self) -> LocalFuture<()> {
        self.inlet.dead.set(true);
        self.inlet.tell();
        self.offers.remove(&self.inlet);
        Box::pin(async {})
    }
}

/// Opens a channel from `package` to whichever other package of its core accepts `tag`.
pub(super) async fn open<M: Machine>(
    package: Package<M>,
    ends: Rc<Ends>,
    tag: u32,
    cells: u32,
) -> Result<ChannelPlace, Status> {
    if is_kernels(tag) {
        // A kernel has no memory that its own user half has, too.
        return Err(Status::Invalid);
    }
    let core = package.core().clone();
    let hold = package.hold()?;
    // A task of its own: when the package is stopped meanwhile, all is still in order.
    let task = core.clone().spawn(async move {
        let bytes = ring_bytes(cells);
        let (at, grant) = package.share(bytes).await?;
        if ends.over.get() {
            return Err(Status::Dead);
        }
        let source = Source::Near { slot: package.slot(), sender: Owner::default() };
        let inlet = Inlet::new(source, core.id(), Offer { tag, cells, by_kernel: false, grant });
        let offers = core.services.rings.clone();
        let outlet = Rc::new(Outlet { inlet: inlet.clone(), offers: offers.clone() });
        let channel = ends.add(outlet, at, bytes);
        if let Source::Near { sender, .. } = &inlet.source {
            sender.set(&ends, channel);
        }
        offers.add(inlet);
        drop(hold);
        Ok(ChannelPlace { channel, peer: core.id(), at, bytes })
    });
    task.await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_that_is_woken_at_once_finds_that_noted_until_it_is_gone() {
        let grant = Grant { start: PhysAddr(0), bytes: 4096 };
        let (first, second) = (UserSlot::FIRST, UserSlot::all().nth(1).unwrap());
        let (own, its) = (Ends::default(), Rc::new(Ends::default()));
        its.slot.set(Some(second));
        let source = Source::Near { slot: first, sender: Owner::default() };
        let inlet =
            Inlet::new(source, CoreId(0), Offer { tag: 0, cells: 1, by_kernel: false, grant });
        let outlet = Outlet { inlet: inlet.clone(), offers: Rc::default() };
        let there = own.add(Rc::new(outlet), VirtAddr(0), 0);
        assert_eq!(own.wake_neighbour(there), None, "nobody has accepted it");
        let here = its.add(Rc::new(inlet.clone()), VirtAddr(0), 0);
        inlet.owner.set(&its, here);
        assert_eq!(own.wake_neighbour(ChannelId(7)), None);
        assert_eq!(its.wake_neighbour(here), None, "from there messages come");
        assert_eq!((its.pop_event(), own.wake_neighbour(there)), (None, Some(second)));
        assert_eq!(its.pop_event(), Some(Event::value_of(here, false)));
        assert_eq!((its.pop_event(), own.wake(u64::from(there.0))), (None, Ok(())));
        assert_eq!(its.pop_event(), Some(Event::value_of(here, false)));
        inlet.leave();
        assert_eq!((own.wake_neighbour(there), its.pop_event()), (None, None));
        assert_eq!(own.wake(u64::from(there.0)), Err(Status::Dead));
        assert_eq!(own.wake(u64::MAX), Err(Status::NotFound));
    }
}
