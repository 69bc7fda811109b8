//! A channel whose memory somebody else writes to, too.

use std::cell::RefCell;
use std::sync::atomic::Ordering::Relaxed;

use nile_abi::{CoreId, EndpointId, Generation};
use nile_ring::channel::region_len;
use nile_ring::{
    Doorbells, Endpoint, Message, Notifier, PAYLOAD_BYTES, ReceiveError, Receiver, ReceiverMap,
    Region, Sender, Signal,
};

use crate::input::Input;

const CORES: usize = 4;

const AT: Endpoint = Endpoint { id: EndpointId(1), generation: Generation(7) };

/// Remembers who was signalled.
#[derive(Default)]
struct Signals(RefCell<Vec<CoreId>>);

impl Signal for Signals {
    fn signal(&self, core: CoreId) {
        self.0.borrow_mut().push(core);
    }
}

/// Both ends of one channel and all the memory that they share with others.
struct Channel {
    ring: Region,
    bells: Region,
    map: Region,
    capacity: usize,
    sender: Sender,
    receiver: Receiver,
    notifier: Notifier,
    signals: Signals,
}

/// The first byte is the capacity of a ring; the others say what its ends do and what a hostile
/// peer writes meanwhile to everything that is shared. Accepted: a message was received that
/// nobody sent.
pub fn channel(bytes: &[u8]) -> bool {
    let mut input = Input::new(bytes);
    let mut channel = Channel::new(1 << (input.byte().unwrap_or(0) % 4));
    let (mut sent, mut received) = (0, 0);
    while let Some(step) = input.byte() {
        match step % 6 {
            0 => {
                let (Some(at), Some(word)) = (input.byte(), input.word()) else { break };
                channel.write(at, word);
            }
            1 => sent += usize::from(channel.send(step)),
            2 => received += usize::from(channel.receive()),
            3 => sent += channel.fill(),
            4 => received += channel.drain(),
            _ => channel.restart(),
        }
    }
    received > sent
}

impl Channel {
    fn new(capacity: usize) -> Channel {
        let ring = Region::owned(region_len(capacity));
        let bells = Region::owned(Doorbells::region_len(CORES));
        let map = Region::owned(ReceiverMap::region_len(1));
        let receivers = ReceiverMap::attach(map.clone()).expect("the size is a map's");
        Channel {
            sender: Sender::attach(ring.clone(), AT).expect("the size is a ring's"),
            receiver: Receiver::attach(ring.clone(), AT).expect("the size is a ring's"),
            notifier: Notifier::new(Doorbells::attach(bells.clone()), receivers),
            signals: Signals::default(),
            ring,
            bells,
            map,
            capacity,
        }
    }

    /// The peer writes `word`: to the ring, or to the words that say where the receiver runs and
    /// how it sleeps.
    fn write(&self, at: u8, word: u64) {
        let (region, at) = match at {
            // Each core's state and bell, and where the receiver's bit and its home are.
            0xf0..0xf8 => (&self.bells, usize::from(at % 8 / 2) * 8 + usize::from(at % 2)),
            0xf8.. => (&self.map, usize::from(at % 2) * 8),
            _ => (&self.ring, usize::from(at)),
        };
        let words = region.words();
        words[at % words.len()].store(word, Relaxed);
    }

    /// One message and its notification, which signals one core of the node at most.
    fn send(&mut self, kind: u8) -> bool {
        let message = Message::new(kind, &[kind; PAYLOAD_BYTES]).expect("it fits");
        let before = self.signals.0.borrow().len();
        let sent = self.sender.send(&message, &self.notifier, &self.signals).is_ok();
        let signalled = &self.signals.0.borrow()[before..];
        assert!(signalled.len() <= usize::from(sent));
        assert!(signalled.iter().all(|core| core.index() < CORES));
        sent
    }

    fn receive(&mut self) -> bool {
        let ready = self.receiver.is_ready();
        let received = self.receiver.try_recv();
        assert_eq!(ready, received != Ok(None));
        match received {
            Ok(Some(message)) | Err(ReceiveError::Stale(message)) => {
                assert!(message.payload().len() <= PAYLOAD_BYTES);
                true
            }
            Ok(None) | Err(ReceiveError::Corrupt) => false,
        }
    }

    /// Sends until the ring is full, which it is after one lap; after two, if the receiver's
    /// position has changed since it was last looked at.
    fn fill(&mut self) -> usize {
        let sent = (0..=2 * self.capacity).take_while(|_| self.send(0)).count();
        assert!(sent <= 2 * self.capacity);
        sent
    }

    /// Receives until nothing is left: however the cells lie, that takes one lap.
    fn drain(&mut self) -> usize {
        let mut received = 0;
        for _ in 0..self.capacity {
            received += usize::from(self.receive());
        }
        assert!(!self.receiver.is_ready());
        received
    }

    /// Both ends begin again from what the memory says, and the core goes to sleep once.
    fn restart(&mut self) {
        let (sender, receiver) = (self.ring.clone(), self.ring.clone());
        self.sender = Sender::attach(sender, AT).expect("the size has not changed");
        self.receiver = Receiver::attach(receiver, AT).expect("the size has not changed");
        let bell = self.notifier.doorbells().of(CoreId(1)).expect("the node has that core");
        assert!(!bell.prepare().is_over(), "nobody has rung");
    }
}
