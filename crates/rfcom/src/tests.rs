//! Channels beside two queues, by one thread and by two; what is nonsense; and ends that die.

use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use nile_ring::{Message, Region};
use proptest::prelude::*;

use crate::*;

const PORTS: usize = 3;

fn world(bytes: usize) -> Region {
    Region::owned(bytes)
}

fn ends(region: &Region, port: usize) -> (Channel, Channel) {
    let [first, second] =
        [1, 2].map(|seat| Rfcom::attach(region.clone(), PORTS, seat).unwrap().open(port).unwrap());
    (first, second)
}

fn read(channel: &Channel) -> Result<Vec<u8>, ReadError> {
    let mut packet = vec![0; MOST_PACKET];
    let length = channel.read(&mut packet)?;
    packet.truncate(length);
    Ok(packet)
}

#[test]
fn packets_arrive_once_and_in_their_order_with_their_bounds() {
    let region = world(1 << 16);
    let (first, second) = ends(&region, 1);
    for packet in [&b""[..], b"a", b"12345678", b"123456789"] {
        first.write(packet).unwrap();
    }
    second.write(b"back").unwrap();
    for packet in [&b""[..], b"a", b"12345678", b"123456789"] {
        assert_eq!(read(&second), Ok(packet.to_vec()));
    }
    assert_eq!((read(&second), read(&first)), (Err(ReadError::Empty), Ok(b"back".to_vec())));
    first.write(b"four").unwrap();
    assert_eq!(second.read(&mut [0; 3]), Err(ReadError::TooLong(4)));
    assert_eq!(read(&second), Ok(b"four".to_vec()), "it stays");
    let long = vec![7; first.most_bytes() + 1];
    assert_eq!(first.write(&long), Err(WriteError::TooLong(long.len() - 1)));
    first.write(&long[1..]).unwrap();
    assert_eq!(first.write(b""), Err(WriteError::Full));
    assert_eq!(read(&second).unwrap().len(), first.most_bytes());
}

#[test]
fn a_port_has_two_ends_and_is_free_when_both_have_gone() {
    let region = world(1 << 16);
    let rfcom = |seat| Rfcom::attach(region.clone(), PORTS, seat).unwrap();
    assert_eq!(rfcom(9).open(PORTS).err(), Some(OpenError::NoPort));
    let (first, second) = ends(&region, 0);
    assert_eq!(rfcom(3).open(0).err(), Some(OpenError::Busy));
    first.write(b"last").unwrap();
    first.close();
    assert_eq!(second.write(b"x"), Err(WriteError::Closed));
    assert_eq!((read(&second), read(&second)), (Ok(b"last".to_vec()), Err(ReadError::Closed)));
    assert_eq!(rfcom(3).open(0).err(), Some(OpenError::Busy), "one end is still somebody's");
    drop(second);
    // Nobody reads what was sent before; nor what was sent to nobody.
    let alone = rfcom(3).open(0).unwrap();
    alone.write(b"to nobody").unwrap();
    drop(alone);
    let (first, second) = ends(&region, 0);
    assert_eq!((read(&first), read(&second)), (Err(ReadError::Empty), Err(ReadError::Empty)));
}

#[test]
fn who_dies_has_closed_and_its_next_life_is_not_its_last() {
    let region = world(1 << 16);
    let (first, second) = ends(&region, 2);
    first.write(b"before").unwrap();
    // It does nothing any more, and closes nothing.
    core::mem::forget(first);
    assert_eq!(read(&second), Ok(b"before".to_vec()));
    assert_eq!(read(&second), Err(ReadError::Empty));
    let again = Rfcom::attach(region.clone(), PORTS, 1).unwrap();
    assert_eq!(read(&second), Err(ReadError::Closed));
    assert_eq!(again.open(2).err(), Some(OpenError::Busy));
    drop(second);
    assert!(again.open(2).is_ok());
    // Somebody else says that it is gone.
    let (first, second) = ends(&region, 1);
    core::mem::forget(second);
    Rfcom::attach(region.clone(), PORTS, 9).unwrap().clear(2);
    assert_eq!(read(&first), Err(ReadError::Closed));
}

#[test]
fn nonsense_is_told_and_no_byte_beyond_is_read() {
    // Counts that are none, and a length that no packet has: of the ring that the second end reads.
    let (put, length) = (PORTS * 8, PORTS * 8 + 16);
    for (place, word) in [(put, 1), (put, u64::MAX - 7), (length, u64::MAX), (length, 48)] {
        let region = world(2048);
        let (first, second) = ends(&region, 0);
        first.write(&[1; 40]).unwrap();
        region.words()[place].store(word, core::sync::atomic::Ordering::Relaxed);
        assert_eq!(read(&second), Err(ReadError::Broken), "{place} {word:x}");
    }
    for word in [1, 7, 8, 64 << 10, u64::MAX, u64::MAX - 7, 1 << 63] {
        for place in 0..32 {
            let region = world(2048);
            let (first, second) = ends(&region, 0);
            let _ = first.write(&[1; 40]);
            region.words()[PORTS * 8 + place].store(word, core::sync::atomic::Ordering::Relaxed);
            for _ in 0..4 {
                match read(&second) {
                    Ok(packet) => assert!(packet.len() <= second.most_bytes()),
                    Err(error) => assert!(!error.to_string().is_empty()),
                }
                let _ = first.write(&[2; 9]);
            }
        }
    }
    assert!(Rfcom::attach(world(PORTS * 64 + 6 * 128), PORTS, 0).is_none(), "too small");
    assert!(Rfcom::attach(world(0), 0, 0).is_none());
}

#[test]
fn two_threads_see_every_byte() {
    const PACKETS: u32 = 20_000;
    let region = world(1 << 15);
    let (first, second) = ends(&region, 0);
    let length = |number: u32| (number.wrapping_mul(2_654_435_761) >> 20) as usize % 1500;
    let byte = |number: u32, place: usize| (number as usize * 31 + place) as u8;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..PACKETS {
                let packet: Vec<u8> =
                    (0..length(number)).map(|place| byte(number, place)).collect();
                while first.write(&packet) == Err(WriteError::Full) {
                    std::thread::yield_now();
                }
            }
        });
        for number in 0..PACKETS {
            let packet = loop {
                match read(&second) {
                    Err(ReadError::Empty) => std::thread::yield_now(),
                    packet => break packet.unwrap(),
                }
            };
            assert_eq!(packet.len(), length(number));
            assert!(packet.iter().enumerate().all(|(place, it)| *it == byte(number, place)));
        }
        while read(&second) == Err(ReadError::Empty) {
            std::thread::yield_now();
        }
        assert_eq!(read(&second), Err(ReadError::Closed));
    });
}

#[test]
fn messages_go_to_one_to_some_and_to_all() {
    const MEMBERS: usize = 4;
    let region = world(Post::region_len(MEMBERS));
    let mut posts: Vec<Post> =
        (0..MEMBERS).map(|own| Post::attach(&region, MEMBERS, own).unwrap()).collect();
    let message = |text: &str| Message::new(3, text.as_bytes()).unwrap();
    let said = |post: &mut Post| -> Vec<(usize, Vec<u8>)> {
        core::iter::from_fn(|| post.receive())
            .map(|(from, it)| (from, it.payload().into()))
            .collect()
    };
    assert_eq!(posts[0].send(2, &message("one")), Ok(()));
    assert_eq!(posts[1].multicast([2, 3], &message("some")), []);
    assert_eq!(posts[3].broadcast(&message("all")), []);
    let of = |from: usize, text: &str| (from, text.as_bytes().to_vec());
    assert_eq!(said(&mut posts[2]), [of(0, "one"), of(1, "some"), of(3, "all")]);
    assert_eq!(said(&mut posts[3]), [of(1, "some")]);
    assert_eq!(said(&mut posts[1]), [of(3, "all")]);
    let nobody = [(1, NotSent::Nobody), (4, NotSent::Nobody)];
    assert_eq!(posts[1].multicast([1, 4], &message("x")), nobody);
    // Who takes nothing keeps nobody else waiting, and its next life has it all.
    for _ in 0..CELLS {
        assert_eq!(posts[1].broadcast(&message("more")), []);
        assert_eq!(said(&mut posts[2]), [of(1, "more")]);
        said(&mut posts[3]);
    }
    // It has yet to take what the third said.
    assert_eq!(posts[1].broadcast(&message("last")), [(0, NotSent::Full)]);
    assert_eq!(said(&mut posts[2]), [of(1, "last")]);
    posts[0] = Post::attach(&region, MEMBERS, 0).unwrap();
    assert_eq!(said(&mut posts[0]).len(), CELLS + 1);
    assert!(Post::attach(&region, MEMBERS, MEMBERS).is_none());
    assert!(Post::attach(&region, MEMBERS + 1, 0).is_none(), "no room");
}

#[test]
fn who_always_speaks_keeps_nobody_from_being_heard() {
    const MEMBERS: usize = 5;
    let region = world(Post::region_len(MEMBERS));
    let mut posts: Vec<Post> =
        (0..MEMBERS).map(|own| Post::attach(&region, MEMBERS, own).unwrap()).collect();
    let message = Message::new(3, b"x").unwrap();
    for quiet in [1, 3, 4] {
        for _ in 0..2 * MEMBERS {
            let _ = posts[2].send(0, &message);
            assert_eq!(posts[0].receive().map(|(from, _)| from), Some(2));
        }
        assert_eq!(posts[quiet].send(0, &message), Ok(()));
        let heard = (0..MEMBERS).filter_map(|_| {
            let _ = posts[2].send(0, &message);
            posts[0].receive().map(|(from, _)| from)
        });
        assert!(heard.collect::<Vec<_>>().contains(&quiet), "{quiet} is heard in its turn");
    }
}

#[test]
fn members_in_threads_hear_each_message_once_and_in_order() {
    const MEMBERS: usize = 3;
    const MESSAGES: u32 = 5_000;
    let region = world(Post::region_len(MEMBERS));
    std::thread::scope(|scope| {
        for own in 0..MEMBERS {
            let region = region.clone();
            scope.spawn(move || {
                let mut post = Post::attach(&region, MEMBERS, own).unwrap();
                let mut heard = [0; MEMBERS];
                let mut sent = [0; MEMBERS];
                let others = || (0..MEMBERS).filter(move |it| *it != own);
                while others().any(|it| heard[it] < MESSAGES || sent[it] < MESSAGES) {
                    for to in others().filter(|to| sent[*to] < MESSAGES).collect::<Vec<_>>() {
                        let message = Message::new(1, &sent[to].to_le_bytes()).unwrap();
                        sent[to] += u32::from(post.send(to, &message).is_ok());
                    }
                    while let Some((from, message)) = post.receive() {
                        assert_eq!(message.payload(), heard[from].to_le_bytes());
                        heard[from] += 1;
                    }
                    std::thread::yield_now();
                }
            });
        }
    });
}

use std::string::ToString;

proptest! {
    /// Both directions are queues with room for so many bytes.
    #[test]
    fn a_channel_is_two_queues(
        steps in prop::collection::vec((0..4u8, 0..200usize), 0..400),
    ) {
        let region = world(4096);
        let (first, second) = ends(&region, 1);
        let mut queues = [VecDeque::new(), VecDeque::new()];
        let mut used = [0, 0];
        let room = first.most_bytes() + 8;
        for (number, (what, length)) in steps.into_iter().enumerate() {
            let way = usize::from(what & 1);
            let (from, to) = if way == 0 { (&first, &second) } else { (&second, &first) };
            let takes = |bytes: usize| 8 + bytes.next_multiple_of(8);
            if what < 2 {
                let packet = vec![number as u8; length];
                let fits = used[way] + takes(length) <= room;
                prop_assert_eq!(from.write(&packet).is_ok(), fits);
                if fits {
                    used[way] += takes(length);
                    queues[way].push_back(packet);
                }
            } else {
                let wanted = queues[way].pop_front();
                used[way] -= wanted.as_ref().map_or(0, |it: &Vec<u8>| takes(it.len()));
                prop_assert_eq!(read(to).ok(), wanted);
            }
        }
    }
}
