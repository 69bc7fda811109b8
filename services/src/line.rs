//! The network interface that this core drives, and the protocols over it: frames in, frames out,
//! deadlines kept. The EtherType says whose a frame is.

use alloc::boxed::Box;
use alloc::rc::{Rc, Weak};
use core::cell::{Cell, RefCell};
use core::task::Context;
use core::time::Duration;

use nile_abi::ethernet::HEADER_BYTES;
use nile_abi::{Instant, Status, Window};
use nile_stl::node::DrivenInterface;
use nile_stl::{CallError, CallResult, Stl};
use nile_sync::yield_now;

use crate::alarm::Alarm;

/// Frames that are taken before what came of them is looked at.
const BATCH: usize = 64;

/// How long until a device that had no room for a frame is asked again.
const NO_ROOM: Duration = Duration::from_micros(50);

/// A protocol, for the one who drives its interface.
pub trait Protocol {
    /// Takes a frame that has come.
    fn receive(&self, now: Instant, frame: &[u8]);

    /// Does what is due, and what has come of the frames.
    fn turn(self: Rc<Self>, now: Instant);

    /// Writes the next frame that is to be sent; its bytes.
    fn transmit(&self, now: Instant, frame: &mut [u8]) -> Option<usize>;

    /// When there is something to do although nothing comes.
    fn next_due(&self, now: Instant) -> Option<Window>;
}

/// An interface and the protocols over it, served by a task of this core as long as that lives.
pub struct Line {
    stl: Stl,
    interface: Rc<DrivenInterface>,
    /// By EtherType: whoever has a lower one goes first.
    protocols: RefCell<Rc<[Attached]>>,
    /// The task that takes frames and keeps the deadlines.
    pump: Alarm,
    /// Whether the device had no room for all that is to be sent.
    crowded: Cell<bool>,
    /// Frames that came and are of no protocol here.
    strays: Cell<u64>,
}

#[derive(Clone)]
struct Attached {
    kind: u16,
    /// Whoever speaks it keeps it.
    protocol: Option<Weak<dyn Protocol>>,
    /// Frames that came and went.
    carried: Rc<Cell<u64>>,
}

impl Attached {
    fn present(&self) -> Option<Rc<dyn Protocol>> {
        self.protocol.as_ref()?.upgrade()
    }

    fn count(&self) {
        self.carried.set(self.carried.get() + 1);
    }
}

impl Line {
    /// The line of the core of `stl`, the same for all who ask. `NotFound` if it drives no
    /// interface.
    pub fn of(stl: &Stl) -> CallResult<Rc<Line>> {
        stl.shared(|| Line::open(stl))
    }

    fn open(stl: &Stl) -> CallResult<Rc<Line>> {
        let none = || CallError::new(Status::NotFound, "this core drives no interface");
        let interface = stl.node()?.interfaces().into_iter().next().ok_or_else(none)?;
        let line = Rc::new(Line {
            stl: stl.clone(),
            interface,
            protocols: RefCell::new(Rc::new([])),
            pump: Alarm::default(),
            crowded: Cell::new(false),
            strays: Cell::new(0),
        });
        let pumped = line.clone();
        stl.host().spawn(Box::pin(async move {
            loop {
                if pumped.turn() {
                    // Whoever floods the network must not hold up the other tasks.
                    yield_now().await;
                    continue;
                }
                let frames = |context: &mut Context<'_>| pumped.interface.poll_frame(context);
                pumped.pump.wait(&pumped.stl, pumped.due(), frames).await;
            }
        }));
        Ok(line)
    }

    /// The interface.
    pub fn interface(&self) -> &Rc<DrivenInterface> {
        &self.interface
    }

    /// Frames of this EtherType are `protocol`'s from now on, as long as somebody keeps it.
    pub fn attach(&self, kind: u16, protocol: &Rc<impl Protocol + 'static>) {
        let weak: Weak<dyn Protocol> = Rc::downgrade(protocol) as _;
        self.set(kind, Some(weak));
        self.look();
    }

    /// Frames of this EtherType are nobody's from now on.
    pub fn detach(&self, kind: u16) {
        self.set(kind, None);
    }

    fn set(&self, kind: u16, protocol: Option<Weak<dyn Protocol>>) {
        let mut protocols = self.protocols.borrow().to_vec();
        match protocols.iter_mut().find(|it| it.kind == kind) {
            Some(known) => known.protocol = protocol,
            None => protocols.push(Attached { kind, protocol, carried: Rc::default() }),
        }
        nile_order::sort_by_key(&mut protocols, |it| it.kind);
        *self.protocols.borrow_mut() = protocols.into();
    }

    /// Frames that came and went for protocols of this EtherType.
    pub fn carried(&self, kind: u16) -> u64 {
        let protocols = self.protocols.borrow();
        protocols.iter().find(|it| it.kind == kind).map_or(0, |it| it.carried.get())
    }

    /// Frames that came and were of no protocol here.
    pub fn strays(&self) -> u64 {
        self.strays.get()
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.stl.host().now()
    }

    /// Has the pump look around: there may be something to do that it cannot know of.
    pub fn look(&self) {
        self.pump.ring();
    }

    /// Sends what is to be sent. The pump is told if it has to look sooner than it meant to.
    pub fn flush(&self) {
        self.send();
        self.pump.plan(self.due());
    }

    /// Takes a batch of what has come, and sends what is to be sent. Whether more may have come.
    fn turn(&self) -> bool {
        let now = self.now();
        let protocols = self.protocols.borrow().clone();
        let taken = self.interface.receive(BATCH, &mut |frame| {
            let meant = protocols.iter().find(|it| is_of(it.kind, frame));
            match meant.and_then(|it| Some((it, it.present()?))) {
                Some((attached, protocol)) => {
                    attached.count();
                    protocol.receive(now, frame);
                }
                None => self.strays.set(self.strays.get() + 1),
            }
        });
        for protocol in protocols.iter().filter_map(Attached::present) {
            protocol.turn(now);
        }
        self.send();
        taken == BATCH
    }

    fn send(&self) {
        let now = self.now();
        let protocols = self.protocols.borrow().clone();
        let mut speakers = protocols.iter().filter_map(|it| Some((it, it.present()?))).peekable();
        let sent = self.interface.transmit(&mut |frame| {
            loop {
                let (attached, protocol) = speakers.peek()?;
                if let Some(bytes) = protocol.transmit(now, frame) {
                    attached.count();
                    return Some(bytes);
                }
                speakers.next();
            }
        });
        self.crowded.set(!sent);
    }

    fn due(&self) -> Option<Window> {
        let now = self.now();
        let retry = self.crowded.get().then(|| Window::at(now + NO_ROOM));
        let protocols = self.protocols.borrow().clone();
        let speakers = protocols.iter().filter_map(Attached::present);
        speakers.filter_map(|it| it.next_due(now)).chain(retry).reduce(Window::first_of)
    }
}

/// Whether a frame has this EtherType.
fn is_of(kind: u16, frame: &[u8]) -> bool {
    frame.get(HEADER_BYTES - 2..HEADER_BYTES) == Some(&kind.to_be_bytes())
}
