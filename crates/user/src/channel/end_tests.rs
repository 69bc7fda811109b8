//! Ends of channels over a kernel that has one ring: whoever opens sends on it to whoever accepts.

use core::cell::{Cell, RefCell};
use core::ptr::NonNull;

use alloc::rc::Rc;
use alloc::vec::Vec;

use nile_abi::call::{Answer, ChannelCall, ChannelPlace, Event, System, SystemCall};
use nile_abi::{ChannelId, CoreId, Instant, Status, VirtAddr};
use nile_ring::{Message, Region};

use super::UserChannel;
use crate::Runtime;

const SENDER: ChannelId = ChannelId(1);
const RECEIVER: ChannelId = ChannelId(2);
const CELLS: u32 = 4;

struct Kernel {
    ring: Region,
    events: RefCell<Vec<u64>>,
    wakes: Cell<u32>,
    waits: Cell<u32>,
    /// The receiver is gone.
    dead: Cell<bool>,
}

impl Kernel {
    fn new() -> Kernel {
        Kernel {
            ring: Region::owned(UserChannel::bytes(CELLS as usize)),
            events: RefCell::default(),
            wakes: Cell::new(0),
            waits: Cell::new(0),
            dead: Cell::new(false),
        }
    }

    fn happens(&self, channel: ChannelId, closed: bool) {
        self.events.borrow_mut().push(Event::value_of(channel, closed));
    }

    fn channel(&self, call: ChannelCall, output: &mut [u8]) -> Answer {
        let (channel, peer) = match call {
            ChannelCall::Open { to, .. } => (SENDER, to),
            ChannelCall::Accept { .. } => (RECEIVER, CoreId(0)),
            ChannelCall::Close(_) => return Answer::ok(0),
        };
        let bytes = self.ring.len() as u64;
        let place = ChannelPlace { channel, peer, at: VirtAddr(0), bytes };
        output.copy_from_slice(&place.encode());
        Answer::ok(ChannelPlace::BYTES as u64)
    }
}

impl System for Kernel {
    fn call(&self, call: SystemCall, word: u64, input: &[u8], output: &mut [u8]) -> Answer {
        match call {
            SystemCall::Channel => {
                self.channel(ChannelCall::decode(input).expect("a call"), output)
            }
            SystemCall::Wait => {
                self.waits.set(self.waits.get() + 1);
                match self.events.borrow_mut().pop() {
                    Some(event) => Answer::ok(event),
                    None if word < u64::MAX => Answer::failed(Status::Timeout),
                    None => panic!("everybody waits for nothing"),
                }
            }
            SystemCall::Wake => {
                assert_eq!(word, u64::from(SENDER.0));
                self.wakes.set(self.wakes.get() + 1);
                if self.dead.get() {
                    return Answer::failed(Status::Dead);
                }
                self.happens(RECEIVER, false);
                Answer::ok(0)
            }
            SystemCall::Now => Answer::ok(0),
            other => panic!("{other:?}"),
        }
    }

    fn memory(&self, _: VirtAddr, bytes: u64) -> Option<NonNull<u8>> {
        assert_eq!(bytes, self.ring.len() as u64);
        Some(NonNull::from(self.ring.words()).cast())
    }
}

fn message(number: u64) -> Message {
    Message::new(1, &number.to_le_bytes()).unwrap()
}

const EVER: Instant = Instant::from_nanos(u64::MAX);

#[test]
fn a_receiver_s_thread_sleeps_until_it_is_woken() {
    let kernel = Kernel::new();
    let runtime = Runtime::new(&kernel);
    let mut sender = runtime.open_channel(CoreId(3), 7, CELLS).unwrap();
    let mut receiver = runtime.accept_channel(7, EVER).unwrap();
    assert_eq!((sender.to(), sender.channel(), receiver.channel()), (CoreId(3), SENDER, RECEIVER));
    // Nobody sleeps: no call is made.
    assert_eq!(sender.try_send(&message(0)), Ok(()));
    assert_eq!(receiver.try_receive(), Ok(Some(message(0))));
    assert_eq!((receiver.try_receive(), kernel.wakes.get()), (Ok(None), 0));
    let sleeping = runtime.spawn(move |_| [receiver.receive(), receiver.receive()]);
    runtime.yield_now();
    // It has gone to sleep; of two messages the first wakes it.
    assert_eq!((sender.send(&message(1)), sender.send(&message(2))), (Ok(()), Ok(())));
    assert_eq!(kernel.wakes.get(), 1);
    assert_eq!(sleeping.join(&runtime), [Ok(message(1)), Ok(message(2))]);
    assert_eq!(kernel.waits.get(), 1);
}

#[test]
fn an_event_that_is_for_nobody_any_more_does_no_harm() {
    let kernel = Kernel::new();
    let runtime = Runtime::new(&kernel);
    let mut sender = runtime.open_channel(CoreId(3), 7, CELLS).unwrap();
    let mut receiver = runtime.accept_channel(7, EVER).unwrap();
    for _ in 0..3 {
        kernel.happens(RECEIVER, false);
        kernel.happens(ChannelId(9), true);
    }
    let seen = Rc::new(Cell::new(0));
    let count = seen.clone();
    let sleeping = runtime.spawn(move |_| {
        let message = receiver.receive();
        count.set(count.get() + 1);
        message
    });
    let sending = runtime.spawn(move |runtime| {
        // All that has happened is told first.
        runtime.sleep_until(Instant::from_nanos(5));
        sender.send(&message(1))
    });
    assert_eq!(sending.join(&runtime), Ok(()));
    assert_eq!(sleeping.join(&runtime), Ok(message(1)));
    assert_eq!(seen.get(), 1);
}

#[test]
fn the_end_of_the_other_side_comes_after_the_last_message() {
    let kernel = Kernel::new();
    let runtime = Runtime::new(&kernel);
    let mut sender = runtime.open_channel(CoreId(3), 7, CELLS).unwrap();
    let mut receiver = runtime.accept_channel(7, EVER).unwrap();
    let sleeping = runtime.spawn(move |_| (receiver.receive(), receiver.receive()));
    runtime.yield_now();
    sender.try_send(&message(1)).unwrap();
    kernel.happens(RECEIVER, true);
    assert_eq!(sleeping.join(&runtime), (Ok(message(1)), Err(Status::Dead)));
}

#[test]
fn a_sender_learns_that_nobody_receives() {
    // By a wake-up that has nowhere to go.
    let kernel = Kernel::new();
    let runtime = Runtime::new(&kernel);
    let mut sender = runtime.open_channel(CoreId(3), 7, CELLS).unwrap();
    let mut receiver = runtime.accept_channel(7, EVER).unwrap();
    runtime.spawn(move |_| receiver.receive());
    runtime.yield_now();
    kernel.dead.set(true);
    assert_eq!(sender.try_send(&message(1)), Ok(()), "it is in the ring");
    assert_eq!(sender.try_send(&message(2)), Err(Status::Dead));
    // While it waits for room.
    let kernel = Kernel::new();
    let runtime = Runtime::new(&kernel);
    let mut sender = runtime.open_channel(CoreId(3), 7, CELLS).unwrap();
    (0..4).for_each(|number| sender.try_send(&message(number)).unwrap());
    assert_eq!(sender.try_send(&message(4)), Err(Status::Busy));
    kernel.happens(SENDER, true);
    assert_eq!(sender.send(&message(4)), Err(Status::Dead));
    assert_eq!(kernel.waits.get(), 2, "the event, and the end of its sleep");
    sender.close();
    assert_eq!(runtime.watched().len(), 0);
}
