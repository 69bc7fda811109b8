//! Publishing and consuming: messages arrive whole, in order, and none is overwritten unread.

use loom::thread;
use nile_ring::{Line, PAYLOAD_BYTES, Region};

use crate::{ends, mark, marked, must_fail};
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};

#[test]
fn messages_are_published_whole_and_in_order() {
    loom::model(|| {
        let (_, mut sender, mut receiver) = ends(2, 0);
        let sending = thread::spawn(move || {
            for next in [1, 2] {
                sender.try_send(&marked(next)).expect("there is room for two");
            }
        });
        let mut last = 0;
        for _ in 0..2 {
            if let Some(message) = receiver.try_recv().expect("it is whole") {
                last += 1;
                assert_eq!(mark(&message), last);
            }
        }
        sending.join().unwrap();
        while let Some(message) = receiver.try_recv().expect("it is whole") {
            last += 1;
            assert_eq!(mark(&message), last);
        }
        assert_eq!(last, 2);
    });
}

#[test]
fn control_a_header_before_its_payload() {
    must_fail("torn message", || {
        let (region, _, mut receiver) = ends(2, 0);
        let sending = thread::spawn(move || {
            let cell = &region.lines()[2];
            cell[0].store(header(1, 9), Release);
            fill(cell, 9);
        });
        if let Some(message) = receiver.try_recv().expect("its length is right") {
            mark(&message);
        }
        sending.join().unwrap();
    });
}

#[test]
fn a_cell_is_used_again_only_after_it_was_read() {
    loom::model(|| {
        let (region, ..) = ends(1, 0);
        // The lap before the positions wrap has just ended.
        for line in [0, 1] {
            region.lines()[line][0].store(u64::from(u32::MAX), Relaxed);
        }
        region.lines()[2][0].store(u64::from(u32::MAX), Relaxed);
        let (mut sender, mut receiver) = attach(region);
        let sending = thread::spawn(move || {
            let first = sender.try_send(&marked(1));
            let second = sender.try_send(&marked(2));
            assert!(first.is_ok());
            1 + u8::from(second.is_ok())
        });
        let mut last = 0;
        for _ in 0..2 {
            if let Some(message) = receiver.try_recv().expect("it is whole") {
                last += 1;
                assert_eq!(mark(&message), last);
            }
        }
        let sent = sending.join().unwrap();
        while let Some(message) = receiver.try_recv().expect("it is whole") {
            last += 1;
            assert_eq!(mark(&message), last);
        }
        assert_eq!(last, sent);
    });
}

#[test]
fn control_a_cell_is_given_back_before_it_is_read() {
    must_fail("torn message", || {
        let (region, ..) = ends(1, 0);
        let (mut sender, _) = attach(region.clone());
        sender.try_send(&marked(1)).expect("the ring is empty");
        let sending = thread::spawn(move || {
            let _ = sender.try_send(&marked(2));
        });
        let (cell, own) = (&region.lines()[2], &region.lines()[1]);
        assert_eq!(cell[0].load(Acquire) as u32, 1);
        own[0].store(1, Release);
        for word in &cell[1..][..PAYLOAD_BYTES / 8] {
            assert_eq!(word.load(Relaxed), u64::from_le_bytes([1; 8]), "torn message");
        }
        sending.join().unwrap();
    });
}

fn attach(region: Region) -> (nile_ring::Sender, nile_ring::Receiver) {
    let sender = nile_ring::Sender::attach(region.clone(), crate::endpoint(0));
    let receiver = nile_ring::Receiver::attach(region, crate::endpoint(0));
    (sender.expect("a ring's size"), receiver.expect("a ring's size"))
}

/// The header of a full-length message.
fn header(sequence: u32, kind: u8) -> u64 {
    u64::from(sequence) | u64::from(kind) << 32 | (PAYLOAD_BYTES as u64) << 40 | 1 << 48
}

fn fill(cell: &Line, mark: u8) {
    for word in &cell[1..][..PAYLOAD_BYTES / 8] {
        word.store(u64::from_le_bytes([mark; 8]), Relaxed);
    }
}
