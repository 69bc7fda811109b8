//! Channel ends of packages: sending and receiving make no system call; only a receiver that goes
//! to sleep makes one, and a sender that wakes it.
//!
//! A package's channel is a region of whole lines that both ends map: one line of doorbell, by
//! which the sender knows whether the receiver is there and sleeps, then a ring as in
//! [`nile_ring`]. Zeroed memory is an empty channel. The other end may be hostile: what it writes
//! causes wrong messages at worst.
//!
//! [`Runtime::open_channel`](crate::Runtime::open_channel) and
//! [`accept_channel`](crate::Runtime::accept_channel) give ends that do the system calls.

#[cfg(test)]
mod end_tests;
mod ends;
mod lasting;

use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Acquire, Release};

use nile_abi::CoreId;
use nile_ring::channel::region_len;
use nile_ring::{
    BadSize, Doorbell, Doorbells, Endpoint, Full, LINE_BYTES, ReceiveError, Receiver, Region,
    Sender, Signal,
};

pub(crate) use ends::Watched;
pub use ends::{ChannelReceiver, ChannelSender};
pub use lasting::{Down, LastingReceiver, LastingSender};
pub use nile_ring::Message;

/// A channel that has no end yet.
#[derive(Debug)]
pub struct UserChannel {
    bells: Doorbells,
    line: Region,
    ring: Region,
}

/// The sending end of a package's channel.
#[derive(Debug)]
pub struct UserSender {
    bells: Doorbells,
    line: Region,
    ring: Sender,
}

/// The receiving end of a package's channel.
#[derive(Debug)]
pub struct UserReceiver {
    bell: Doorbell,
    ring: Receiver,
}

/// The word of the doorbell's line that is not zero once there is a receiver.
const ACCEPTED: usize = 2;

/// The only doorbell of a channel.
const RECEIVER: CoreId = CoreId(0);

impl UserChannel {
    /// Bytes of the region of a channel with room for `capacity` messages, a power of two.
    pub const fn bytes(capacity: usize) -> usize {
        LINE_BYTES + region_len(capacity)
    }

    /// The channel in a region of [`UserChannel::bytes`] bytes.
    pub fn over(region: &Region) -> Result<UserChannel, BadSize> {
        let rest = region.len().checked_sub(LINE_BYTES).ok_or(BadSize)?;
        let bell = region.slice(0, LINE_BYTES).ok_or(BadSize)?;
        let ring = region.slice(LINE_BYTES, rest).ok_or(BadSize)?;
        Ok(UserChannel { bells: Doorbells::attach(bell.clone()), line: bell, ring })
    }

    /// The channel in the `bytes` bytes from `base` on.
    ///
    /// # Safety
    /// The range is mapped, readable, writable and aligned to 64 bytes as long as this channel and
    /// its ends exist, and is reached through channels alone.
    pub unsafe fn at(base: NonNull<u8>, bytes: u64) -> Result<UserChannel, BadSize> {
        let bytes = usize::try_from(bytes).map_err(|_| BadSize)?;
        // SAFETY: the caller's promise.
        UserChannel::over(&unsafe { Region::from_raw(base, bytes) })
    }

    /// Its sending end. Only one package may have it.
    pub fn sender(self, to: Endpoint) -> Result<UserSender, BadSize> {
        let ring = Sender::attach(self.ring, to)?;
        Ok(UserSender { bells: self.bells, line: self.line, ring })
    }

    /// Its receiving end. Only one package may have it.
    pub fn receiver(self, own: Endpoint) -> Result<UserReceiver, BadSize> {
        let bell = self.bells.of(RECEIVER).ok_or(BadSize)?;
        let ring = Receiver::attach(self.ring, own)?;
        self.line.words()[ACCEPTED].store(1, Release);
        Ok(UserReceiver { bell, ring })
    }
}

impl UserSender {
    /// Whether somebody has the receiving end, or had it.
    pub fn is_accepted(&self) -> bool {
        self.line.words()[ACCEPTED].load(Acquire) != 0
    }

    /// How many messages the receiver has yet to take.
    pub fn untaken(&self) -> u32 {
        self.ring.untaken()
    }

    /// Sends a message. `wake` is called if the receiver sleeps: it makes the system call that
    /// wakes it. Does not block.
    pub fn send(&mut self, message: &Message, wake: impl Fn()) -> Result<(), Full> {
        self.ring.try_send(message)?;
        self.bells.wake(RECEIVER, &Wake(wake));
        Ok(())
    }
}

impl UserReceiver {
    /// The next message, if there is one.
    pub fn try_receive(&mut self) -> Result<Option<Message>, ReceiveError> {
        self.ring.try_recv()
    }

    /// Whether there is a message.
    pub fn is_ready(&self) -> bool {
        self.ring.is_ready()
    }

    /// The next message. As long as there is none, `wait` is called: it makes the system call in
    /// which the package sleeps until the sender wakes it, and may come back too early.
    pub fn receive(&mut self, mut wait: impl FnMut()) -> Result<Message, ReceiveError> {
        loop {
            if let Some(message) = self.ring.try_recv()? {
                return Ok(message);
            }
            self.sleep(&mut wait);
        }
    }

    /// Sleeps once, unless there is a message: calls `wait`, in which the package sleeps until the
    /// sender wakes it, and which may come back too early. Says whether it did.
    pub fn sleep(&self, wait: impl FnOnce()) -> bool {
        let sleep = self.bell.prepare();
        // Either this look sees the message, or its sender sees the sleeper.
        let sleeps = !self.ring.is_ready() && !sleep.is_over();
        if sleeps {
            wait();
        }
        sleeps
    }
}

/// A sender's way to wake the receiver.
struct Wake<F>(F);

impl<F: Fn()> Signal for Wake<F> {
    fn signal(&self, _: CoreId) {
        (self.0)();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    use nile_abi::{EndpointId, Generation};
    use std::sync::mpsc;
    use std::thread;

    const END: Endpoint = Endpoint { id: EndpointId(1), generation: Generation::FIRST };

    fn ends(capacity: usize) -> (UserSender, UserReceiver) {
        let region = Region::owned(UserChannel::bytes(capacity));
        let channel = || UserChannel::over(&region).unwrap();
        (channel().sender(END).unwrap(), channel().receiver(END).unwrap())
    }

    fn message(number: u64) -> Message {
        Message::new(1, &number.to_le_bytes()).unwrap()
    }

    #[test]
    fn a_receiver_that_is_awake_costs_no_system_call() {
        let (mut sender, mut receiver) = ends(4);
        let calls = Cell::new(0);
        for number in 0..100 {
            sender.send(&message(number), || calls.set(calls.get() + 1)).unwrap();
            assert!(receiver.is_ready());
            let received = receiver.receive(|| calls.set(calls.get() + 1)).unwrap();
            assert_eq!(received, message(number));
        }
        assert_eq!(receiver.try_receive(), Ok(None));
        (0..4).for_each(|number| sender.send(&message(number), || ()).unwrap());
        assert_eq!(sender.send(&message(4), || ()), Err(Full));
        assert_eq!(calls.get(), 0);
    }

    #[test]
    fn a_receiver_that_sleeps_is_woken_once() {
        let (mut sender, mut receiver) = ends(4);
        let (slept, woken) = (Cell::new(0), Cell::new(0));
        let received = receiver.receive(|| {
            slept.set(slept.get() + 1);
            for number in 0..2 {
                sender.send(&message(number), || woken.set(woken.get() + 1)).unwrap();
            }
        });
        assert_eq!(received, Ok(message(0)));
        assert_eq!((slept.get(), woken.get()), (1, 1));
    }

    #[test]
    fn nothing_is_lost_between_two_cores() {
        const MESSAGES: u64 = 20_000;
        let (mut sender, mut receiver) = ends(8);
        let (wake, woken) = mpsc::channel();
        let sending = thread::spawn(move || {
            for number in 0..MESSAGES {
                while sender.send(&message(number), || wake.send(()).unwrap()).is_err() {
                    thread::yield_now();
                }
            }
            // The receiver still listens for a wake-up while it waits for the last message.
            wake
        });
        for number in 0..MESSAGES {
            let received = receiver.receive(|| woken.recv().expect("the sender is there"));
            assert_eq!(received, Ok(message(number)));
        }
        sending.join().unwrap();
    }

    #[test]
    fn a_region_of_the_wrong_size_is_refused() {
        for bytes in [0, 64, 128, 192, UserChannel::bytes(4) + 64] {
            let channel = UserChannel::over(&Region::owned(bytes));
            assert!(channel.and_then(|channel| channel.sender(END)).is_err(), "{bytes}");
        }
        // SAFETY: refused before anything is touched.
        assert!(unsafe { UserChannel::at(NonNull::dangling(), 0) }.is_err());
    }
}
