//! Both ends of a channel together, on one core.

use alloc::vec::Vec;

use nile_abi::{EndpointId, Generation};

use super::*;
use crate::cell::{Message, PAYLOAD_BYTES};
use crate::receiver::{ReceiveError, Receiver};
use crate::sender::{Full, Sender};
use crate::sync::Ordering::Relaxed;

const AT: Endpoint = Endpoint { id: EndpointId(3), generation: Generation(7) };

fn message(number: u32) -> Message {
    Message::new(number as u8, &number.to_le_bytes()).unwrap()
}

fn ends(capacity: usize) -> (Region, Sender, Receiver) {
    let region = Region::owned(region_len(capacity));
    let sender = Sender::attach(region.clone(), AT).unwrap();
    let receiver = Receiver::attach(region.clone(), AT).unwrap();
    (region, sender, receiver)
}

#[test]
fn messages_come_out_in_order_over_many_laps() {
    for capacity in [1, 2, 8] {
        let (_, mut sender, mut receiver) = ends(capacity);
        let (mut sent, mut received) = (0, 0);
        for turn in 0..100 {
            for _ in 0..turn % (capacity + 1) {
                sender.try_send(&message(sent)).unwrap();
                sent += 1;
            }
            while receiver.is_ready() {
                assert_eq!(receiver.try_recv(), Ok(Some(message(received))));
                received += 1;
            }
            assert_eq!(receiver.try_recv(), Ok(None));
            assert_eq!(received, sent);
        }
    }
}

#[test]
fn a_full_ring_refuses_and_takes_again_after_one_is_received() {
    let (_, mut sender, mut receiver) = ends(4);
    for number in 0..4 {
        sender.try_send(&message(number)).unwrap();
    }
    assert_eq!(sender.try_send(&message(4)), Err(Full));
    assert_eq!(receiver.try_recv(), Ok(Some(message(0))));
    assert_eq!(sender.try_send(&message(4)), Ok(()));
    assert_eq!(sender.try_send(&message(5)), Err(Full));
    let rest: Vec<_> = core::iter::from_fn(|| receiver.try_recv().unwrap()).collect();
    assert_eq!(rest, [1, 2, 3, 4].map(message));
}

#[test]
fn positions_wrap() {
    let region = Region::owned(region_len(4));
    for line in [0, 1] {
        region.lines()[line][0].store(u64::from(u32::MAX - 1), Relaxed);
    }
    let mut sender = Sender::attach(region.clone(), AT).unwrap();
    let mut receiver = Receiver::attach(region, AT).unwrap();
    for round in 0..3 {
        for number in 0..4 {
            sender.try_send(&message(round * 4 + number)).unwrap();
        }
        assert_eq!(sender.try_send(&message(0)), Err(Full));
        for number in 0..4 {
            assert_eq!(receiver.try_recv(), Ok(Some(message(round * 4 + number))));
        }
        assert_eq!(receiver.try_recv(), Ok(None));
    }
}

#[test]
fn either_end_goes_on_where_another_stopped() {
    let (_, mut sender, mut receiver) = ends(4);
    for number in 0..50 {
        sender.try_send(&message(2 * number)).unwrap();
        sender = Sender::attach(sender.detach(), AT).unwrap();
        sender.try_send(&message(2 * number + 1)).unwrap();
        assert_eq!(receiver.try_recv(), Ok(Some(message(2 * number))));
        receiver = Receiver::attach(receiver.detach(), AT).unwrap();
        assert_eq!(receiver.try_recv(), Ok(Some(message(2 * number + 1))));
    }
}

#[test]
fn a_sender_that_died_before_noting_its_position_loses_and_repeats_nothing() {
    let (region, mut sender, mut receiver) = ends(4);
    sender.try_send(&message(0)).unwrap();
    sender.try_send(&message(1)).unwrap();
    region.lines()[0][0].store(1, Relaxed);
    let mut next = Sender::attach(region, AT).unwrap();
    next.try_send(&message(2)).unwrap();
    let all: Vec<_> = core::iter::from_fn(|| receiver.try_recv().unwrap()).collect();
    assert_eq!(all, [0, 1, 2].map(message));
}

#[test]
fn a_message_for_another_incarnation_is_stale() {
    let (region, mut sender, receiver) = ends(4);
    sender.try_send(&message(1)).unwrap();
    drop(receiver);
    let next = Endpoint { generation: AT.generation.next(), ..AT };
    let mut receiver = Receiver::attach(region.clone(), next).unwrap();
    assert_eq!(receiver.try_recv(), Err(ReceiveError::Stale(message(1))));
    assert_eq!(receiver.try_recv(), Ok(None), "a stale message is consumed");
    let mut rebound = Sender::attach(region, next).unwrap();
    rebound.try_send(&message(2)).unwrap();
    assert_eq!(receiver.try_recv(), Ok(Some(message(2))));
}

#[test]
fn an_impossible_length_is_corrupt_and_skipped() {
    let (region, mut sender, mut receiver) = ends(4);
    sender.try_send(&message(1)).unwrap();
    sender.try_send(&message(2)).unwrap();
    let header = &region.lines()[2][0];
    let others = header.load(Relaxed) & !(0xff << 40);
    header.store(others | (PAYLOAD_BYTES as u64 + 1) << 40, Relaxed);
    assert_eq!(receiver.try_recv(), Err(ReceiveError::Corrupt));
    assert_eq!(receiver.try_recv(), Ok(Some(message(2))));
}

#[test]
fn a_receiver_position_that_cannot_be_makes_the_ring_full() {
    for lie in [5, u64::from(u32::MAX), 1 << 31] {
        let (region, mut sender, _receiver) = ends(4);
        for number in 0..4 {
            sender.try_send(&message(number)).unwrap();
        }
        region.lines()[1][0].store(lie, Relaxed);
        assert_eq!(sender.try_send(&message(4)), Err(Full), "{lie}");
    }
}

#[test]
fn any_bytes_are_a_ring_that_misbehaves_at_worst() {
    // A small generator of garbage; its seed is all that the test depends on.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut garbage = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut delivered = 0;
    for _ in 0..2_000 {
        let region = Region::owned(region_len(4));
        for word in region.words() {
            word.store(garbage(), Relaxed);
        }
        // Half of the time, sequences that look full.
        let position = garbage() as u32;
        region.lines()[1][0].store(u64::from(position), Relaxed);
        for ahead in 0..garbage() as u32 % 5 {
            let at = position.wrapping_add(ahead);
            let word = garbage() << 32 | u64::from(at.wrapping_add(1));
            region.lines()[2 + (at % 4) as usize][0].store(word, Relaxed);
        }
        let mut sender = Sender::attach(region.clone(), AT).unwrap();
        let mut receiver = Receiver::attach(region, AT).unwrap();
        for number in 0..8 {
            let _ = sender.try_send(&message(number));
            match receiver.try_recv() {
                Ok(Some(message)) | Err(ReceiveError::Stale(message)) => {
                    assert!(message.payload().len() <= PAYLOAD_BYTES);
                    delivered += 1;
                }
                Ok(None) | Err(ReceiveError::Corrupt) => {}
            }
        }
    }
    assert!(delivered > 0, "the garbage never looked like a message");
}

#[test]
fn a_region_that_is_no_ring_is_refused() {
    for cells in [0, 3, 5, 6, 7, 12] {
        let region = Region::owned(region_len(cells));
        assert_eq!(Sender::attach(region.clone(), AT).map(|_| ()), Err(BadSize));
        assert_eq!(Receiver::attach(region, AT).map(|_| ()), Err(BadSize));
    }
    assert_eq!(Receiver::attach(Region::owned(64), AT).map(|_| ()), Err(BadSize));
}
