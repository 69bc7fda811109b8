//! Channels between packages, as far as the kernel has to do with them, and those between a package
//! and a service of a kernel ([`kernels`]).
//!
//! Messages go through a *ring* in the user memory of both packages, and no kernel sees them.
//! Beside each ring stands a *line*: a channel of the kernel's own, in its own memory, from the
//! opener's core to the acceptor's. Its first message offers the ring, every later one is a
//! wake-up, and its end tells either side that the other is gone: by what the management core
//! knows of every channel, whichever core or package ends. All lines have one tag that packages
//! cannot name; the tags of packages are content of the offer, so that a package can neither open
//! nor accept a channel of a kernel's.
//!
//! Between two packages of one core there is no line ([`near`]): their kernel tells each what the
//! other one does.
//!
//! *No wake-up is lost.* In user mode the sender publishes its cell, executes a fence and looks at
//! the receiver's state; the receiver sets its state to "sleeping", executes a fence and looks at
//! the ring (`nile_ring::doorbell`, modelled in `crates/ring/tests/loom/sleep.rs`): either the
//! receiver sees the cell, or the sender sees it sleep and makes the system call. The call puts a
//! message in the line; if that is full, there is one that the receiver's kernel has yet to take,
//! and takes after the cell was published. Taken, it is noted in [`Ends`] until the package waits
//! (`SystemCall::Wait`), however late that is, and the package, once told, looks at its ring again.
//!
//! A ring goes back when its end is closed: first the end, then the memory.
//!
//! *No ring is somebody else's memory.* The acceptor's core enters a ring in its tables by naming
//! the line it was offered on (`Request::Join`). The opener's core gives its part of the ring back
//! only after the management core has closed that line ([`Hold`]), and if the core itself ends,
//! both happen at once.

mod kernels;
mod near;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::{Rc, Weak};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::task::Waker;

use nile_abi::call::{ChannelCall, ChannelPlace, Event, UserSlot, is_kernels};
use nile_abi::{ChannelId, CoreId, Instant, PhysAddr, Status, VirtAddr};
use nile_order::SortedMap;
use nile_platform::{Grant, Machine};
use nile_ring::channel::region_len;
use nile_ring::{LINE_BYTES, Message};
use nile_sync::{Flag, Notify, Waiter};

use crate::channel::{Inbound, Outbound};
use crate::core::Core;
use crate::executor::Join;
use crate::packages::{Hold, LocalFuture, Package};

/// The tag of lines.
const TAG: u32 = u32::from_be_bytes(*b"PCH\0");

/// Cells of a line: a wake-up that finds it full is one that is under way.
const LINE_CELLS: u32 = 4;

/// Ends that a package may have open at once.
const MOST_ENDS: usize = 64;

/// The most cells of a package's channel: its ring is one grant, of less than 2 MiB.
const MOST_CELLS: u32 = 1 << 14;

/// The kinds of a line's messages.
const OFFER: u8 = 1;
const WAKE: u8 = 2;

/// What a line says to the receiver's kernel.
fn wake_up() -> Message {
    Message::new(WAKE, &[]).expect("nothing fits a cell")
}

/// Bytes of a ring: a line of doorbell, and what `nile_ring` wants.
fn ring_bytes(cells: u32) -> u64 {
    (LINE_BYTES + region_len(cells as usize)) as u64
}

/// A ring, as the first message of its line offers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Offer {
    tag: u32,
    cells: u32,
    /// By a kernel, and not by a package.
    by_kernel: bool,
    grant: Grant,
}

/// In the word that says how many cells there are: a kernel offers them.
const BY_KERNEL: u64 = 1 << 32;

impl Offer {
    fn message(self) -> Message {
        let cells = u64::from(self.cells) | if self.by_kernel { BY_KERNEL } else { 0 };
        let words = [u64::from(self.tag), cells, self.grant.start.0];
        let bytes = [words[0], words[1], words[2], self.grant.bytes].map(u64::to_le_bytes);
        Message::new(OFFER, bytes.as_flattened()).expect("32 bytes fit a cell")
    }

    fn of(message: &Message) -> Option<Offer> {
        let (words, []) = message.payload().as_chunks::<8>() else { return None };
        let words: &[[u8; 8]; 4] = words.try_into().ok()?;
        let [tag, cells, start, bytes] = words.map(u64::from_le_bytes);
        let by_kernel = cells & BY_KERNEL != 0;
        let (tag, cells) = (u32::try_from(tag).ok()?, u32::try_from(cells & !BY_KERNEL).ok()?);
        let fits = message.kind() == OFFER && cells <= MOST_CELLS && ring_bytes(cells) <= bytes;
        let grant = Grant { start: PhysAddr(start), bytes };
        fits.then_some(Offer { tag, cells, by_kernel, grant })
    }
}

/// What a package can do with one of its ends.
trait End {
    /// Has the receiver's kernel note a wake-up.
    fn wake(&self) -> Result<(), Status>;

    /// The end of a neighbour that would be woken.
    fn neighbour(&self) -> Option<&Inlet> {
        None
    }

    /// Gives the end up; ends when the management core knows, where that matters.
    fn close(&self) -> LocalFuture<()>;
}

/// The sending end of a line.
struct Outlet<M: Machine> {
    line: Outbound<M>,
    /// Raised when the package gives the end up.
    leaving: Flag,
}

impl<M: Machine> End for Outlet<M> {
    fn wake(&self) -> Result<(), Status> {
        match self.line.try_send(&wake_up()) {
            Err(Status::Busy) => Ok(()),
            result => result,
        }
    }

    fn close(&self) -> LocalFuture<()> {
        self.leaving.raise();
        let closing = self.line.close();
        Box::pin(async move {
            if let Some(closing) = closing {
                closing.await;
            }
        })
    }
}

/// The receiving end of a channel, from its offer on.
struct Inlet {
    source: Source,
    from: CoreId,
    offer: Offer,
    /// Raised when the package gives the end up.
    leaving: Flag,
    /// The other end is gone.
    dead: Cell<bool>,
    /// The package that has accepted the ring, and its name for it.
    owner: Owner,
    /// The service of this kernel that has accepted it, while it waits.
    kernel: Waiter,
}

/// Who offers a ring.
enum Source {
    /// The core at the other end of this line.
    Line(ChannelId),
    /// A package of this core, in this slot.
    Near { slot: UserSlot, sender: Owner },
}

/// The package that has an end, and its name for it.
#[derive(Default)]
struct Owner(RefCell<Option<(Weak<Ends>, ChannelId)>>);

impl Owner {
    fn set(&self, ends: &Rc<Ends>, channel: ChannelId) {
        *self.0.borrow_mut() = Some((Rc::downgrade(ends), channel));
    }

    fn tell(&self, closed: bool) {
        if let Some((ends, channel)) = &*self.0.borrow()
            && let Some(ends) = ends.upgrade()
        {
            ends.happened(*channel, closed);
        }
    }

    /// Notes a wake-up, of which nobody is told yet: in which slot the package is.
    fn note_woken(&self) -> Option<UserSlot> {
        let owner = self.0.borrow();
        let (ends, channel) = owner.as_ref()?;
        let ends = ends.upgrade().filter(|ends| ends.note(*channel, false))?;
        ends.slot.get()
    }
}

impl Inlet {
    fn new(source: Source, from: CoreId, offer: Offer) -> Rc<Inlet> {
        let (leaving, dead, owner, kernel) = Default::default();
        Rc::new(Inlet { source, from, offer, leaving, dead, owner, kernel })
    }

    fn tell(&self) {
        self.owner.tell(self.dead.get());
        self.kernel.wake();
    }

    /// Nobody has this end any more, or will.
    fn leave(&self) {
        self.leaving.raise();
        if let Source::Near { sender, .. } = &self.source {
            sender.tell(true);
        }
    }

    /// Whether a package of this slot offers it.
    fn is_of(&self, package: UserSlot) -> bool {
        matches!(self.source, Source::Near { slot, .. } if slot == package)
    }
}

impl End for Rc<Inlet> {
    /// There is nobody to wake: the other end sends.
    fn wake(&self) -> Result<(), Status> {
        Err(Status::Invalid)
    }

    fn close(&self) -> LocalFuture<()> {
        self.leave();
        Box::pin(async {})
    }
}

/// The rings that are offered to a core's packages, and to services of its kernel, and that none
/// has accepted. They stay for the core's next package, until their openers take them back.
#[derive(Default)]
pub(super) struct Offers {
    waiting: RefCell<VecDeque<Rc<Inlet>>>,
    /// Something was offered.
    comes: Notify,
}

impl Offers {
    fn add(&self, inlet: Rc<Inlet>) {
        self.waiting.borrow_mut().push_back(inlet);
        self.comes.notify();
    }

    /// One for the package of `slot`, which is not offered what is its own; of a kernel's tag what
    /// a kernel offers alone.
    fn take(&self, tag: u32, slot: UserSlot) -> Option<Rc<Inlet>> {
        let by_kernel = is_kernels(tag);
        self.find(tag, by_kernel, |inlet| !inlet.is_of(slot))
    }

    fn find(&self, tag: u32, by_kernel: bool, fits: impl Fn(&Inlet) -> bool) -> Option<Rc<Inlet>> {
        let mut waiting = self.waiting.borrow_mut();
        let is_it = |inlet: &Rc<Inlet>| {
            let Offer { tag: its, by_kernel: whose, .. } = inlet.offer;
            its == tag && whose == by_kernel && fits(inlet)
        };
        let at = waiting.iter().position(is_it)?;
        waiting.remove(at)
    }

    fn remove(&self, inlet: &Rc<Inlet>) {
        self.waiting.borrow_mut().retain(|other| !Rc::ptr_eq(other, inlet));
    }
}

impl<M: Machine> Core<M> {
    /// Takes the lines that other cores open for their packages.
    pub(super) fn start_package_channels(&self) {
        let core = self.clone();
        self.spawn(async move {
            while let Ok(line) = core.accept(TAG).await {
                let keeper = core.clone();
                core.spawn(async move { keeper.keep_inlet(line).await });
            }
        });
    }

    /// Listens to a line until either end is given up.
    async fn keep_inlet(&self, line: Inbound<M>) {
        let Ok(message) = line.receive().await else { return };
        let Some(offer) = Offer::of(&message) else { return };
        let inlet = Inlet::new(Source::Line(line.channel()), line.from(), offer);
        let offers = &self.services.rings;
        offers.add(inlet.clone());
        while let Some(received) = inlet.leaving.or(line.receive()).await {
            inlet.dead.set(received.is_err());
            inlet.tell();
            if received.is_err() {
                break;
            }
        }
        offers.remove(&inlet);
    }
}

/// An end, and the memory of its ring.
struct Open {
    end: Rc<dyn End>,
    at: VirtAddr,
    bytes: u64,
}

/// The ends that a package has, and what it is to be told of them.
#[derive(Default)]
pub(super) struct Ends {
    open: RefCell<SortedMap<ChannelId, Open>>,
    last: Cell<u32>,
    /// What has happened and was not told: for each end once, and whether it is closed.
    happened: RefCell<SortedMap<ChannelId, bool>>,
    waiter: Waiter,
    /// The package's slot, once it has opened or accepted anything.
    slot: Cell<Option<UserSlot>>,
    /// The package has ended.
    over: Cell<bool>,
}

impl Ends {
    /// The next event, as `wait` gives it; `waker` is woken when there may be one.
    pub fn next_event(&self, waker: &Waker) -> Option<u64> {
        let event = self.pop_event();
        if event.is_none() {
            self.waiter.wait(waker);
        }
        event
    }

    /// The next event, if there is one.
    pub fn pop_event(&self) -> Option<u64> {
        let first = self.happened.borrow_mut().pop_first();
        first.map(|(channel, closed)| Event::value_of(channel, closed))
    }

    fn happened(&self, channel: ChannelId, closed: bool) {
        if self.note(channel, closed) {
            self.waiter.wake();
        }
    }

    /// Notes an event of an end; whether the package has that.
    fn note(&self, channel: ChannelId, closed: bool) -> bool {
        let is_open = self.open.borrow().contains_key(&channel);
        if is_open {
            *self.happened.borrow_mut().entry(channel).or_default() |= closed;
        }
        is_open
    }

    /// Wakes the package at the other end of a channel.
    pub fn wake(&self, channel: u64) -> Result<(), Status> {
        let channel = u32::try_from(channel).map(ChannelId).map_err(|_| Status::NotFound)?;
        let end = self.open.borrow().get(&channel).map(|it| it.end.clone());
        end.ok_or(Status::NotFound)?.wake()
    }

    /// Notes for a neighbour at the other end that it was woken: its slot.
    pub fn wake_neighbour(&self, channel: ChannelId) -> Option<UserSlot> {
        self.open.borrow().get(&channel)?.end.neighbour()?.owner.note_woken()
    }

    /// Gives an end its name. Its ring has so many bytes at `at`.
    fn add(&self, end: Rc<dyn End>, at: VirtAddr, bytes: u64) -> ChannelId {
        self.last.set(self.last.get().wrapping_add(1));
        let channel = ChannelId(self.last.get());
        self.open.borrow_mut().insert(channel, Open { end, at, bytes });
        channel
    }

    fn has_room(&self) -> Result<(), Status> {
        if self.open.borrow().len() < MOST_ENDS { Ok(()) } else { Err(Status::Busy) }
    }

    /// The package has ended: its ends are given up before its memory is.
    pub fn end<M: Machine>(&self, package: &Package<M>) {
        self.over.set(true);
        for Open { end, .. } in self.open.take().into_values() {
            // Nobody has begun to give the memory back.
            if let Ok(hold) = package.hold() {
                shut(package.core(), end, hold, None);
            }
        }
        self.happened.take();
    }
}

/// Gives an end up, and its ring if that is named, in a task of its own, until which the package's
/// memory stays.
fn shut<M: Machine>(
    core: &Core<M>,
    end: Rc<dyn End>,
    hold: Hold<M>,
    ring: Option<(VirtAddr, u64)>,
) -> Join<()> {
    core.spawn(async move {
        end.close().await;
        if let Some((at, bytes)) = ring {
            hold.unshare(at, bytes).await;
        }
        drop(hold);
    })
}

/// Answers the system call `channel`, whose input this is.
pub(super) async fn answer<M: Machine>(
    package: Package<M>,
    ends: Rc<Ends>,
    input: Vec<u8>,
) -> Result<Vec<u8>, Status> {
    match ChannelCall::decode(&input).ok_or(Status::Invalid)? {
        ChannelCall::Open { to, tag, cells } => {
            let place = open(package, ends, to, tag, cells).await?;
            Ok(Vec::from(place.encode()))
        }
        ChannelCall::Accept { tag, until } => {
            let place = accept(package, ends, tag, until).await?;
            Ok(Vec::from(place.encode()))
        }
        ChannelCall::Close(channel) => {
            let open = ends.open.borrow_mut().remove(&channel).ok_or(Status::NotFound)?;
            ends.happened.borrow_mut().remove(&channel);
            let ring = Some((open.at, open.bytes));
            shut(package.core(), open.end, package.hold()?, ring).await;
            Ok(Vec::new())
        }
    }
}

async fn open<M: Machine>(
    package: Package<M>,
    ends: Rc<Ends>,
    to: CoreId,
    tag: u32,
    cells: u32,
) -> Result<ChannelPlace, Status> {
    let core = package.core().clone();
    if !cells.is_power_of_two() || cells > MOST_CELLS {
        return Err(Status::Invalid);
    }
    ends.has_room()?;
    ends.slot.set(Some(package.slot()));
    if to == core.id() {
        return near::open(package, ends, tag, cells).await;
    }
    let hold = package.hold()?;
    // A task of its own: when the package is stopped meanwhile, all is still in order.
    let task = core.clone().spawn(async move {
        let line = core.open(to, TAG, LINE_CELLS).await?;
        let bytes = ring_bytes(cells);
        let (at, grant) = package.share(bytes).await?;
        line.try_send(&Offer { tag, cells, by_kernel: false, grant }.message())?;
        let outlet = Rc::new(Outlet { line, leaving: Flag::default() });
        if ends.over.get() {
            // From the offer on, the ring is not to be given back before the line is closed.
            shut(&core, outlet, hold, None).await;
            return Err(Status::Dead);
        }
        let channel = ends.add(outlet.clone(), at, bytes);
        core.spawn(async move {
            if outlet.leaving.or(outlet.line.closed()).await.is_some() {
                ends.happened(channel, true);
            }
        });
        Ok(ChannelPlace { channel, peer: to, at, bytes })
    });
    task.await
}

async fn accept<M: Machine>(
    package: Package<M>,
    ends: Rc<Ends>,
    tag: u32,
    until: Instant,
) -> Result<ChannelPlace, Status> {
    let core = package.core().clone();
    ends.has_room()?;
    ends.slot.set(Some(package.slot()));
    loop {
        let offers = &core.services.rings;
        let inlet = offers.comes.until(|| offers.take(tag, package.slot()).map(Some));
        let deadline = async {
            core.sleep_until(until).await;
            None
        };
        let inlet = nile_sync::first(inlet, deadline).await.ok_or(Status::Timeout)?;
        let (package, ends) = (package.clone(), ends.clone());
        let task = core.spawn(async move {
            let result = take_ring(&package, &ends, &inlet).await;
            if result.is_err() {
                inlet.leave();
            }
            result
        });
        match task.await {
            // Its opener was gone before it could be accepted.
            Err(Status::NotFound) => {}
            result => return result,
        }
    }
}

async fn take_ring<M: Machine>(
    package: &Package<M>,
    ends: &Rc<Ends>,
    inlet: &Rc<Inlet>,
) -> Result<ChannelPlace, Status> {
    let Offer { cells, grant, .. } = inlet.offer;
    let at = match inlet.source {
        Source::Line(line) => package.join(line, grant).await?,
        Source::Near { .. } => package.join_neighbour(grant, || !inlet.dead.get()).await?,
    };
    if ends.over.get() {
        return Err(Status::Dead);
    }
    let channel = ends.add(Rc::new(inlet.clone()), at, grant.bytes);
    inlet.owner.set(ends, channel);
    if inlet.dead.get() {
        inlet.tell();
    }
    Ok(ChannelPlace { channel, peer: inlet.from, at, bytes: ring_bytes(cells) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_abi::call::KERNELS_TAGS;

    const GRANT: Grant = Grant { start: PhysAddr(1 << 20), bytes: 8192 };

    #[test]
    fn an_offer_survives_its_message_and_nonsense_is_none() {
        let offer = Offer { tag: u32::MAX, cells: 64, by_kernel: false, grant: GRANT };
        for offer in [offer, Offer { by_kernel: true, ..offer }] {
            assert_eq!(Offer::of(&offer.message()), Some(offer));
        }
        assert_eq!(Offer::of(&Offer { cells: 128, ..offer }.message()), None, "more than it has");
        for message in [Message::new(OFFER, &[0; 31]), Message::new(WAKE, &[0; 32])] {
            assert_eq!(Offer::of(&message.unwrap()), None);
        }
        let wide = Message::new(OFFER, &[0xff; 32]).unwrap();
        assert_eq!(Offer::of(&wide), None);
    }

    #[test]
    fn what_is_of_a_kernel_and_of_packages_is_kept_apart_by_tags() {
        let offers = Offers::default();
        let offer = |tag, by_kernel| {
            let offer = Offer { tag, cells: 4, by_kernel, grant: GRANT };
            offers.add(Inlet::new(Source::Line(ChannelId(1)), CoreId(1), offer));
        };
        let takes = |tag| offers.take(tag, UserSlot::FIRST).is_some();
        offer(KERNELS_TAGS, false);
        offer(7, true);
        assert!(!takes(KERNELS_TAGS) && !takes(7), "a package says that it is a kernel");
        assert!(offers.find(KERNELS_TAGS, false, |_| true).is_some());
        offer(KERNELS_TAGS, true);
        offer(7, false);
        assert!(offers.find(KERNELS_TAGS, false, |_| true).is_none(), "a kernel offers it");
        assert!(takes(KERNELS_TAGS) && takes(7));
    }

    struct Nothing;

    impl End for Nothing {
        fn wake(&self) -> Result<(), Status> {
            Ok(())
        }

        fn close(&self) -> LocalFuture<()> {
            Box::pin(async {})
        }
    }

    #[test]
    fn what_happens_to_an_end_is_told_once_however_late() {
        let ends = Ends::default();
        let add = || ends.add(Rc::new(Nothing), VirtAddr(0), 0);
        let (first, second) = (add(), add());
        let next = || ends.next_event(Waker::noop());
        assert_eq!(next(), None);
        ends.happened(second, false);
        ends.happened(second, true);
        ends.happened(second, false);
        ends.happened(first, false);
        ends.happened(ChannelId(7), true);
        assert_eq!(next(), Some(Event::value_of(first, false)));
        assert_eq!(next(), Some(Event::value_of(second, true)));
        assert_eq!(next(), None, "of what is no end nothing is told");
    }
}
