//! Cooperative threads: each runs until it yields, waits or ends, and the next in line goes on. A
//! switch is a dozen instructions and no system call; only when every thread waits, the package
//! makes one, and sleeps in it.
//!
//! A *thread* has a stack of its own from the package's heap, 64 KiB unless it asks otherwise, and
//! never leaves its package's core. The *main* thread is the one that called
//! [`Runtime::new`]. When main returns, the package ends, and with it every thread.
//!
//! Unparking a thread that is not parked is remembered once: its next [`Runtime::park`] returns at
//! once. Waiting is built on this: [`JoinHandle::join`], [`WaitQueue`], [`Runtime::sleep_until`].

mod begun;
mod future;
mod stack;
#[cfg(test)]
mod tests;
mod thread;
mod wait;

use core::cell::{Cell, RefCell};
use core::fmt;
use core::ptr::NonNull;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::vec::Vec;
use nile_abi::call::{Answer, Event, System, SystemCall};
use nile_abi::{Instant, Status, VirtAddr};

use crate::channel::Watched;
use thread::Phase;
pub use thread::Thread;
pub use wait::{JoinHandle, WaitQueue};

/// Bytes of a thread's stack unless it asks for more or less.
pub const STACK_BYTES: usize = 64 << 10;

/// The most bytes of an event: a call's message of 64 KiB and what stands before it.
const EVENT_BYTES: usize = (64 << 10) + 4096;

/// A package's threads, and its kernel. A clone is the same runtime.
#[derive(Clone)]
pub struct Runtime<'s>(Rc<Inner<'s>>);

/// What is done with an event that the kernel had for a package in which every thread waits.
type OnEvent<'s> = Box<dyn FnMut(&Runtime<'s>, &[u8]) + 's>;

struct Inner<'s> {
    system: &'s dyn System,
    system_calls: Cell<u64>,
    main: Thread,
    current: RefCell<Thread>,
    /// Who can go on, in the order in which they will.
    ready: RefCell<VecDeque<Thread>>,
    /// Who sleeps, by when they wake and in which order they asked.
    sleepers: RefCell<BTreeMap<(Instant, u64), Thread>>,
    asleep: Cell<u64>,
    waiting: future::Waiting,
    event: RefCell<Vec<u8>>,
    on_event: RefCell<Option<OnEvent<'s>>>,
    channels: Watched,
    begun: begun::Begun,
}

impl<'s> Runtime<'s> {
    /// A runtime with one thread: the caller.
    pub fn new(system: &'s dyn System) -> Runtime<'s> {
        let main = Thread::main();
        Runtime(Rc::new(Inner {
            system,
            system_calls: Cell::new(0),
            current: RefCell::new(main.clone()),
            main,
            ready: RefCell::default(),
            sleepers: RefCell::default(),
            asleep: Cell::new(0),
            waiting: future::Waiting::default(),
            event: RefCell::default(),
            on_event: RefCell::default(),
            channels: Watched::default(),
            begun: begun::Begun::default(),
        }))
    }

    /// How many system calls have been made through this runtime, its own included.
    pub fn system_calls(&self) -> u64 {
        self.0.system_calls.get()
    }

    /// Starts a thread with a stack of [`STACK_BYTES`]; it runs when the caller gives the core
    /// away. A panic in it ends the package.
    pub fn spawn<T: 's>(&self, body: impl FnOnce(&Runtime<'s>) -> T + 's) -> JoinHandle<T> {
        self.spawn_with_stack(STACK_BYTES, body)
    }

    /// Starts a thread with a stack of at least `bytes` bytes.
    pub fn spawn_with_stack<T: 's>(
        &self,
        bytes: usize,
        body: impl FnOnce(&Runtime<'s>) -> T + 's,
    ) -> JoinHandle<T> {
        let (handle, finish) = JoinHandle::halves();
        let runtime = self.clone();
        // SAFETY: what `body` has borrowed outlives 's, which outlives the runtime.
        let thread = unsafe {
            Thread::new(&self.0.main, bytes, move || {
                let result = body(&runtime);
                finish.with(&runtime, result);
            })
        };
        self.0.ready.borrow_mut().push_back(thread.clone());
        handle.of(thread)
    }

    /// The thread that runs.
    pub fn current(&self) -> Thread {
        self.0.current.borrow().clone()
    }

    /// Lets every other thread that can go on have its turn first.
    pub fn yield_now(&self) {
        let own = self.current();
        self.0.ready.borrow_mut().push_back(own.clone());
        self.switch_from(&own);
    }

    /// Waits until somebody unparks this thread.
    pub fn park(&self) {
        let own = self.current();
        if own.0.unparked.take() {
            return;
        }
        own.0.phase.set(Phase::Parked);
        self.switch_from(&own);
    }

    /// Lets a parked thread go on in its turn; for any other, see the module. Panics for a thread
    /// of another runtime.
    pub fn unpark(&self, thread: &Thread) {
        assert!(thread.is_of(&self.0.main), "a thread of another runtime");
        match thread.0.phase.get() {
            Phase::Parked => {
                thread.0.phase.set(Phase::Ready);
                self.0.ready.borrow_mut().push_back(thread.clone());
            }
            Phase::Ready => thread.0.unparked.set(true),
            Phase::Ended => {}
        }
    }

    /// Waits until `deadline` at least: sleepers are looked at when no thread can go on, because
    /// asking for the time would be a system call.
    pub fn sleep_until(&self, deadline: Instant) {
        let order = self.0.asleep.get();
        self.0.asleep.set(order + 1);
        let key = (deadline, order);
        self.0.sleepers.borrow_mut().insert(key, self.current());
        // Somebody else may unpark this thread meanwhile.
        while self.0.sleepers.borrow().contains_key(&key) {
            self.park();
        }
    }

    /// The ends of channels that the package has.
    pub(crate) fn watched(&self) -> &Watched {
        &self.0.channels
    }

    /// Lets other cores and every other thread go on before the caller looks again at what it
    /// waits for. No system call.
    pub fn poll_later(&self) {
        self.relax();
        self.yield_now();
    }

    /// Says what is done with what the kernel has for the package when every thread waits: calls
    /// to its services. (What happens to channels wakes their threads.) It is called by any
    /// thread and must not wait; it may start and unpark threads. Without it such events are
    /// dropped.
    pub fn on_event(&self, handle: impl FnMut(&Runtime<'s>, &[u8]) + 's) {
        *self.0.on_event.borrow_mut() = Some(Box::new(handle));
    }

    /// Gives the core away. Comes back when `own` is ready and its turn has come.
    fn switch_from(&self, own: &Thread) {
        if *own != self.0.main {
            return own.suspend();
        }
        // The main thread's stack is where all others are resumed from.
        loop {
            let next = self.0.ready.borrow_mut().pop_front();
            match next {
                Some(next) if next == *own => return,
                Some(next) => {
                    *self.0.current.borrow_mut() = next.clone();
                    next.resume();
                    *self.0.current.borrow_mut() = own.clone();
                }
                None => self.idle(),
            }
        }
    }

    /// Every thread waits: so does the package, for an event or for the first who sleeps.
    fn idle(&self) {
        if !self.unpark_woken() {
            self.wait_until(self.next_sleeper().map_or(u64::MAX, Instant::as_nanos));
        }
    }

    /// When the first thread that sleeps wakes.
    pub(crate) fn next_sleeper(&self) -> Option<Instant> {
        self.0.sleepers.borrow().first_key_value().map(|((until, _), _)| *until)
    }

    /// Whether another thread can go on.
    pub(crate) fn has_ready(&self) -> bool {
        self.unpark_woken();
        !self.0.ready.borrow().is_empty()
    }

    /// Takes what the kernel has for the package, and wakes those whose time has come: for a thread
    /// that never waits, so that the package does not. One system call.
    pub(crate) fn look(&self, now: Instant) {
        self.wait_until(now.as_nanos());
    }

    /// Waits for an event, at most until this time.
    fn wait_until(&self, until: u64) {
        let mut event = self.0.event.take();
        event.resize(EVENT_BYTES, 0);
        match self.call(SystemCall::Wait, until, &[], &mut event).result() {
            Ok(0) | Err(Status::Timeout) => self.wake_sleepers(Instant::from_nanos(until)),
            Ok(value) => {
                let said = Event::of(value, &event);
                let is_mine = said.is_some_and(|said| {
                    self.0.channels.happened(self, said) || self.0.begun.happened(self, said)
                });
                if !is_mine {
                    let bytes = usize::try_from(value).unwrap_or(usize::MAX).min(event.len());
                    self.handle(&event[..bytes]);
                }
            }
            Err(status) => panic!("every thread waits, and the kernel has nothing: {status}"),
        }
        *self.0.event.borrow_mut() = event;
    }

    fn handle(&self, event: &[u8]) {
        // Whoever handles it may say who handles the next.
        let mut handler = self.0.on_event.take();
        if let Some(handle) = &mut handler {
            handle(self, event);
        }
        let mut place = self.0.on_event.borrow_mut();
        *place = place.take().or(handler);
    }

    fn wake_sleepers(&self, now: Instant) {
        let mut sleepers = self.0.sleepers.borrow_mut();
        while let Some(first) = sleepers.first_entry().filter(|first| first.key().0 <= now) {
            self.unpark(&first.remove());
        }
    }
}

impl System for Runtime<'_> {
    fn call(&self, call: SystemCall, word: u64, input: &[u8], output: &mut [u8]) -> Answer {
        self.0.system_calls.set(self.0.system_calls.get() + 1);
        self.0.system.call(call, word, input, output)
    }

    fn memory(&self, at: VirtAddr, bytes: u64) -> Option<NonNull<u8>> {
        self.0.system.memory(at, bytes)
    }

    fn relax(&self) {
        self.0.system.relax();
    }
}

impl fmt::Debug for Runtime<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runtime({} ready)", self.0.ready.borrow().len())
    }
}
