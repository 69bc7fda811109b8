//! Channels in user memory, of which one end or both are a package's. The kernels of the two cores
//! know nothing of their messages, so a channel brings its own doorbell: one line, by which the
//! sender knows whether the receiver is there and sleeps, then a ring. Zeroed memory is an empty
//! channel. The other end may be hostile: what it writes causes wrong messages at worst.

use core::mem;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Acquire, Release};

use nile_abi::{CoreId, EndpointId, Generation};

use crate::channel::region_len;
use crate::{
    BadSize, Doorbell, Doorbells, Endpoint, Full, LINE_BYTES, Message, ReceiveError, Receiver,
    Region, Sender, Signal, Sleep,
};

/// A channel in user memory has one receiver, which has one incarnation.
pub const USER_END: Endpoint = Endpoint { id: EndpointId(0), generation: Generation::FIRST };

/// A channel that has no end yet.
#[derive(Debug)]
pub struct UserChannel {
    bells: Doorbells,
    line: Region,
    ring: Region,
}

/// The sending end of a channel in user memory.
#[derive(Debug)]
pub struct UserSender {
    bells: Doorbells,
    line: Region,
    ring: Sender,
}

/// The receiving end of a channel in user memory.
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

    /// Its sending end. Only one package, or kernel, may have it.
    pub fn sender(self, to: Endpoint) -> Result<UserSender, BadSize> {
        let ring = Sender::attach(self.ring, to)?;
        Ok(UserSender { bells: self.bells, line: self.line, ring })
    }

    /// Its receiving end. Only one package, or kernel, may have it.
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

    /// Says that the receiver sleeps, unless there is a message; whether it does. It is awake when
    /// it says so ([`UserReceiver::wake_up`]), or when the sender has woken it.
    pub fn fall_asleep(&self) -> bool {
        self.sleep_by(|sleep| mem::forget(sleep))
    }

    /// Says that the receiver is awake.
    pub fn wake_up(&self) {
        drop(self.bell.prepare());
    }

    /// Sleeps once, unless there is a message: calls `wait`, in which the package sleeps until the
    /// sender wakes it, and which may come back too early. Says whether it did.
    pub fn sleep(&self, wait: impl FnOnce()) -> bool {
        self.sleep_by(|_| wait())
    }

    fn sleep_by(&self, wait: impl FnOnce(Sleep<'_>)) -> bool {
        let sleep = self.bell.prepare();
        // Either this look sees the message, or its sender sees the sleeper.
        let sleeps = !self.ring.is_ready() && !sleep.is_over();
        if sleeps {
            wait(sleep);
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
    extern crate std;

    use super::*;
    use core::cell::Cell;

    use std::sync::mpsc;
    use std::thread;

    fn ends(capacity: usize) -> (UserSender, UserReceiver) {
        let region = Region::owned(UserChannel::bytes(capacity));
        let channel = || UserChannel::over(&region).unwrap();
        (channel().sender(USER_END).unwrap(), channel().receiver(USER_END).unwrap())
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
    fn a_receiver_that_says_so_sleeps_until_it_is_woken_or_wakes_up() {
        let (mut sender, mut receiver) = ends(4);
        let woken = Cell::new(0);
        let mut send = |number| {
            sender.send(&message(number), || woken.set(woken.get() + 1)).unwrap();
            woken.get()
        };
        assert!(receiver.fall_asleep());
        assert_eq!((send(0), send(1)), (1, 1));
        assert!(!receiver.fall_asleep(), "there is a message");
        assert_eq!(receiver.try_receive(), Ok(Some(message(0))));
        assert_eq!(receiver.try_receive(), Ok(Some(message(1))));
        assert!(receiver.fall_asleep());
        receiver.wake_up();
        assert_eq!(send(2), 1);
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
            assert!(channel.and_then(|channel| channel.sender(USER_END)).is_err(), "{bytes}");
        }
        // SAFETY: refused before anything is touched.
        assert!(unsafe { UserChannel::at(NonNull::dangling(), 0) }.is_err());
    }
}
