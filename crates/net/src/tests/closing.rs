//! Connections that the user has closed, whose peers have not: their slots become free.

use std::time::Duration;

use super::{GOOD, Ip, Lost, World, run_with, words};
use crate::Stream;

/// Bytes of an answer.
pub const ANSWER: usize = 10_000;

/// Answers the first bytes, and wants no more. What was produced is all its state.
pub fn answer(stream: &Stream<'_>) {
    if stream.readable() > 0 && stream.produced() == 0 {
        stream.stage(0, &[7; ANSWER]);
        stream.produce(ANSWER as u64);
    }
    if stream.produced() > 0 {
        stream.close();
    }
}

#[test]
fn a_peer_that_says_more_than_is_wanted_comes_to_its_end() {
    let (mut world, words) = (World::new(Ip::V4, 4, GOOD, &[100_000]), words());
    assert!(run_with(&mut world, &words, Lost::Early(20), "", answer).is_ok());
    let client = &world.clients[0];
    assert_eq!((client.sent, client.got.len()), (100_000, ANSWER));
    assert!(world.now.as_nanos() < 60_000_000_000, "{:?}", world.now);
}

#[test]
fn a_peer_that_never_ends_is_given_up() {
    let (mut world, words) = (World::new(Ip::V6, 5, GOOD, &[100_000]), words());
    world.stays = true;
    assert!(run_with(&mut world, &words, Lost::Early(0), "", answer).is_ok());
    let client = &world.clients[0];
    assert!(client.failed && client.got.len() == ANSWER);
    let after = Duration::from_nanos(world.now.as_nanos());
    assert!((60..70).contains(&after.as_secs()), "{after:?}");
}
