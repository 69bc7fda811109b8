//! Parts on their own, where a whole transfer would take too long to get there.

use core::time::Duration;

use nile_abi::{CoreId, Instant, NodeId};

use super::frames::announce;
use crate::incoming::{Incoming, Verdict};
use crate::outgoing::{Answer, Outgoing};
use crate::pace::{Pace, Permit};
use crate::wire::Data;
use crate::{Link, Send};

#[test]
fn frame_numbers_begin_again_after_the_last() {
    let now = Instant::START;
    let send = Send {
        to: NodeId(1),
        generation: None,
        source_core: CoreId(0),
        core: CoreId(0),
        tag: 0,
        label: 0,
        total: Some(100 * 3000),
    };
    let mut sender = Outgoing::new(now, &send, 100);
    sender.start_at(u32::MAX - 1000);
    let first = crate::wire::Announce { block: 100, ..announce(300_000) };
    let mut receiver = Incoming::new(now, &first, 100, 200, Duration::from_millis(1));
    receiver.start_at(u32::MAX - 1000);
    receiver.accept(now, u64::MAX);
    let mut frames = 0;
    loop {
        let wants = receiver.wants().min(10);
        receiver.grant(now, wants);
        let mut bitmap = [0; 512];
        let bytes = receiver.window().bitmap_bytes();
        receiver.window().write_bitmap(&mut bitmap[..bytes]);
        match sender.credit(now, &receiver.credit(), &bitmap[..bytes]) {
            Answer::Complete => break,
            answer => assert_eq!(answer, Answer::Goes),
        }
        while let Some(pick) = sender.pick(now).filter(|_| frames < 100_000) {
            frames += 1;
            // Every seventh is lost.
            if frames % 7 != 0 {
                let verdict = receiver.data(now, &pick.data, pick.bytes);
                assert_eq!(verdict, Verdict::New(pick.offset));
            }
        }
        // The last of a batch may have been lost, so that nobody knows: the timer.
        if !sender.can_send() && receiver.wants() == 0 && !receiver.is_complete() {
            sender.expire(now, 0);
            if let Some(pick) = sender.pick(now) {
                receiver.data(now, &pick.data, pick.bytes);
            }
        }
        assert!(frames < 100_000, "it does not end");
    }
    assert!(frames > 3000 && receiver.credit().next < 10_000, "{frames}");
}

#[test]
fn blocks_that_do_not_fit_are_nonsense() {
    let now = Instant::START;
    let first = crate::wire::Announce { block: 100, ..announce(250) };
    let mut receiver = Incoming::new(now, &first, 100, 200, Duration::from_millis(1));
    receiver.accept(now, u64::MAX);
    let mut take = |index, last, bytes| {
        let data = Data { index, sequence: 0, ready: 3, last };
        receiver.data(now, &data, bytes)
    };
    assert_eq!(take(0, false, 99), Verdict::Nonsense, "too short");
    assert_eq!(take(0, false, 101), Verdict::Nonsense, "too long");
    assert_eq!(take(0, true, 100), Verdict::Nonsense, "not the last");
    assert_eq!(take(2, false, 100), Verdict::Nonsense, "beyond the end");
    assert_eq!(take(2, true, 49), Verdict::Nonsense, "another end");
    assert_eq!(take(3, false, 100), Verdict::Nonsense, "after the end");
    assert_eq!(take(2, true, 50), Verdict::New(200));
    assert_eq!(take(2, true, 50), Verdict::Duplicate);
    assert_eq!(take(1, false, 100), Verdict::New(100));
}

#[test]
fn the_rate_is_kept_and_the_window_too() {
    let link = Link::network(1514, 1_000_000_000, Duration::from_micros(100));
    assert_eq!(link.window, 25_000 + 4 * 1514);
    let mut pace = Pace::new(&link);
    let mut now = Instant::START;
    let (mut granted, mut way) = (0, 0);
    while now < Instant::from_nanos(100_000_000) {
        match pace.permits(now, 1538) {
            Permit::Now => {
                pace.grant(now, 1538);
                pace.account(way, way + 1538);
                (granted, way) = (granted + 1538, way + 1538);
            }
            Permit::At(at) => {
                assert!(at > now);
                now = at;
            }
            Permit::Full => {
                // It comes at the rate of the link: 1538 bytes in 12.3 us.
                pace.account(way, way - 1538);
                way -= 1538;
                now = now + Duration::from_nanos(12_304);
            }
        }
        assert!(way <= link.window);
    }
    // 100 ms of 1 Gbit/s are 12.5 MB.
    assert!((12_400_000..12_550_000).contains(&granted), "{granted}");
}
