//! Two threads, many messages: order, wake-ups and ownership on the real machine.
#![cfg(not(loom))]

use std::sync::mpsc;
use std::thread::{self, Thread};

use nile_abi::{CoreId, EndpointId, Generation};
use nile_ring::channel::region_len;
use nile_ring::{
    Doorbells, Endpoint, Handle, Message, Mover, Notifier, Pool, PoolId, Receiver, ReceiverMap,
    Region, Sender, Signal, Wake,
};

const AT: Endpoint = Endpoint { id: EndpointId(0), generation: Generation::FIRST };
const MESSAGES: u64 = 100_000;

fn number(message: &Message) -> u64 {
    u64::from_le_bytes(*message.payload().first_chunk().expect("eight bytes"))
}

fn numbered(number: u64) -> Message {
    Message::new(0, &number.to_le_bytes()).expect("it fits")
}

#[test]
fn both_ends_move_between_threads_in_mid_stream() {
    let region = Region::owned(region_len(16));
    let sending = region.clone();
    let sender = thread::spawn(move || {
        let mut sender = Sender::attach(sending, AT).unwrap();
        for next in 0..MESSAGES {
            while sender.try_send(&numbered(next)).is_err() {
                thread::yield_now();
            }
            if next % 997 == 0 {
                let region = sender.detach();
                sender = thread::spawn(|| Sender::attach(region, AT).unwrap()).join().unwrap();
            }
        }
    });
    let mut region = region;
    let mut expected = 0;
    while expected < MESSAGES {
        let until = (expected + 1_009).min(MESSAGES);
        let moved = thread::spawn(move || {
            let mut receiver = Receiver::attach(region, AT).unwrap();
            for next in expected..until {
                let message = loop {
                    match receiver.try_recv().unwrap() {
                        Some(message) => break message,
                        None => thread::yield_now(),
                    }
                };
                assert_eq!(number(&message), next);
            }
            receiver.detach()
        });
        region = moved.join().unwrap();
        expected = until;
    }
    sender.join().unwrap();
    assert_eq!(Receiver::attach(region, AT).unwrap().try_recv(), Ok(None));
}

/// A core that parks its thread and is signalled by unparking it.
struct Unpark(Thread);

impl Signal for Unpark {
    fn signal(&self, _: CoreId) {
        self.0.unpark();
    }
}

#[test]
fn a_receiver_that_sleeps_misses_nothing() {
    let (send_core, receive_core) = (CoreId(0), CoreId(1));
    let (there, back) = (Region::owned(region_len(4)), Region::owned(region_len(4)));
    let back_at = Endpoint { id: EndpointId(1), ..AT };
    let bells = Doorbells::attach(Region::owned(Doorbells::region_len(2)));
    let map = ReceiverMap::attach(Region::owned(ReceiverMap::region_len(2))).unwrap();
    let notifier = Notifier::new(bells.clone(), map.clone());
    let mut mover = Mover::new(map, bells.clone());
    let asker = Unpark(thread::current());
    mover.begin(AT.id, receive_core, Wake::Signal).unwrap().finish(&asker);
    mover.begin(back_at.id, send_core, Wake::Signal).unwrap().finish(&asker);

    /// Receives one message, parked while there is none.
    fn receive(receiver: &mut Receiver, bells: &Doorbells, core: CoreId) -> Message {
        let bell = bells.of(core).unwrap();
        loop {
            if let Some(message) = receiver.try_recv().unwrap() {
                return message;
            }
            let sleep = bell.prepare();
            if !receiver.is_ready() {
                while !sleep.is_over() {
                    thread::park();
                }
            }
        }
    }

    let (echo_bells, echo_notifier) = (bells.clone(), notifier.clone());
    let (echo_there, echo_back) = (there.clone(), back.clone());
    let rounds = MESSAGES / 10;
    let echo = thread::spawn(move || {
        let mut receiver = Receiver::attach(echo_there, AT).unwrap();
        let mut sender = Sender::attach(echo_back, back_at).unwrap();
        for _ in 0..rounds {
            let message = receive(&mut receiver, &echo_bells, receive_core);
            sender.send(&message, &echo_notifier, &asker).unwrap();
        }
    });
    let echoer = Unpark(echo.thread().clone());
    let mut sender = Sender::attach(there, AT).unwrap();
    let mut receiver = Receiver::attach(back, back_at).unwrap();
    for round in 0..rounds {
        sender.send(&numbered(round), &notifier, &echoer).unwrap();
        assert_eq!(number(&receive(&mut receiver, &bells, send_core)), round);
    }
    echo.join().unwrap();
}

#[test]
fn a_buffer_has_one_owner_at_a_time() {
    const BYTES: usize = 256;
    let region = Region::owned(Pool::region_len(3, BYTES));
    // SAFETY: the region is reached through the pools of this test only.
    let here = unsafe { Pool::format(region.clone(), PoolId(0), CoreId(0), BYTES).unwrap() };
    // SAFETY: as above.
    let there = unsafe { Pool::attach(region, PoolId(0), CoreId(1)).unwrap() };
    let (send, receive) = mpsc::channel::<Handle>();
    let rounds = MESSAGES / 10;
    let reader = thread::spawn(move || {
        for (round, handle) in receive.into_iter().enumerate() {
            let buffer = there.claim(handle).unwrap();
            assert_eq!(buffer.len(), BYTES - round % BYTES);
            assert!(buffer.iter().all(|byte| *byte == round as u8), "round {round}");
            assert!(there.claim(handle).is_err());
        }
    });
    for round in 0..rounds as usize {
        let mut buffer = loop {
            match here.alloc() {
                Some(buffer) => break buffer,
                None => thread::yield_now(),
            }
        };
        buffer.fill(round as u8);
        send.send(buffer.into_handle(BYTES - round % BYTES)).unwrap();
    }
    drop(send);
    reader.join().unwrap();
    assert_eq!(std::iter::from_fn(|| here.alloc().map(std::mem::ManuallyDrop::new)).count(), 3);
}
