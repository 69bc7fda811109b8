//! The package dies at every publication step: before each store that commits something to the
//! memory of connections. Whatever was committed until then, the streams come back whole.

use std::boxed::Box;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::*;

std::thread_local! {
    /// Steps that were made.
    static MADE: Cell<u64> = const { Cell::new(0) };
    /// The step before which this thread's stack dies; zero for none.
    static DIES_AT: Cell<u64> = const { Cell::new(0) };
}

/// Runs `work`, which dies before the step `dies_at` of those that are counted from here on; zero
/// for none. How many steps it made, or that it has died.
pub fn dying(dies_at: u64, work: impl FnOnce()) -> Option<u64> {
    MADE.set(0);
    DIES_AT.set(dies_at);
    let lives = catch_unwind(AssertUnwindSafe(work));
    DIES_AT.set(0);
    lives.is_ok().then(|| MADE.get())
}

/// What every committing store calls first.
pub fn step() {
    MADE.set(MADE.get() + 1);
    if MADE.get() == DIES_AT.get() {
        // No panic: nothing is to be said of it.
        resume_unwind(Box::new("dead"));
    }
}

/// What is published before a death, and what is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// What is to be sent leaves when all is published.
    Kept,
    /// The control: it has left, and what the last turn has published is lost.
    Broken,
}

/// Runs until all streams are over; the stack dies before the step `dies_at`, and, so often, again
/// after as many more. How many steps were made, or why it does not end.
fn run(
    world: &mut World,
    dies_at: u64,
    mut deaths: u64,
    order: Order,
) -> Result<u64, &'static str> {
    let words = words();
    let start = |now| {
        let mut stack = Stack::new(settings(), Memory::new(&words, [7, 8]).unwrap(), now);
        stack.listen(PORT);
        stack
    };
    let mut stack = start(world.now);
    MADE.set(0);
    world.turn(Vec::new());
    for _ in 0..20_000 {
        if world.is_over() && stack.streams().next().is_none() {
            return Ok(MADE.get());
        }
        let ours = stack.next_due(world.now);
        let theirs = world.interface.poll_at(engine_time(world.now), &world.sockets);
        let theirs = theirs.map(crate::from_engine_time);
        let flying = world.flying.keys().next().map(|(at, _)| *at);
        let Some(next) = [ours, theirs, flying].into_iter().flatten().min() else {
            return Err("nothing is due");
        };
        world.now = next.max(world.now + Duration::from_micros(1));
        let (mut comes, mut arrived) = (Vec::new(), Vec::new());
        while let Some(entry) = world.flying.first_entry()
            && entry.key().0 <= world.now
        {
            let (to_us, frame) = entry.remove();
            if to_us { comes.push(frame) } else { arrived.push(frame) }
        }
        let before = (order == Order::Broken).then(|| (MADE.get(), stored(&words)));
        DIES_AT.set(if order == Order::Kept && deaths > 0 { dies_at } else { 0 });
        let lives = catch_unwind(AssertUnwindSafe(|| {
            comes.iter().for_each(|frame| stack.receive(world.now, frame));
            stack.streams().for_each(|stream| echo(&stream));
            stack.turn(world.now);
        }));
        DIES_AT.set(0);
        if lives.is_err() {
            stack = start(world.now);
            MADE.set(0);
            deaths -= 1;
        }
        while let Some(frame) = stack.transmit() {
            world.fly(false, frame);
        }
        if let Some((made, before)) = before
            && (made..MADE.get()).contains(&dies_at)
        {
            words.iter().zip(before).for_each(|(word, value)| word.store(value, Relaxed));
            stack = start(world.now);
            MADE.set(0);
        }
        world.turn(arrived);
    }
    Err("it takes too long")
}

fn is_whole(world: &World, end: Result<u64, &str>) -> bool {
    end.is_ok() && world.clients.iter().all(|it| !it.failed && it.got == it.sends)
}

const STREAMS: [usize; 3] = [0, 3000, 20_000];

const BAD: Link = Link { lost: 20, repeated: 10, damaged: 5, spread: 20 };

#[test]
fn streams_survive_a_death_at_every_step() {
    for (ip, seed, link) in [(Ip::V4, 21, GOOD), (Ip::V4, 22, BAD), (Ip::V6, 23, BAD)] {
        let mut world = World::new(ip, seed, link, &STREAMS);
        let end = run(&mut world, 0, 0, Order::Kept);
        assert!(is_whole(&world, end), "without a death: {end:?}");
        let steps = end.unwrap();
        assert!(steps > 100, "{steps} steps");
        // One that dies again too soon never comes to the end of a handshake.
        let once = (1..=steps).map(|dies_at| (dies_at, 1));
        let often = (60..=steps).step_by(3).map(|dies_at| (dies_at, u64::MAX));
        for (dies_at, deaths) in once.chain(often) {
            let mut world = World::new(ip, seed, link, &STREAMS);
            let end = run(&mut world, dies_at, deaths, Order::Kept);
            let whole = is_whole(&world, end);
            assert!(whole, "{ip:?}, seed {seed}, {deaths} deaths before step {dies_at}: {end:?}");
        }
    }
}

#[test]
fn a_broken_order_loses_streams() {
    let broken = |dies_at: &u64| {
        let mut world = World::new(Ip::V4, 21, GOOD, &STREAMS);
        let end = run(&mut world, *dies_at, 0, Order::Broken);
        !is_whole(&world, end)
    };
    let deaths = (60..200).step_by(10);
    assert!(deaths.filter(broken).count() > 0, "what was told and is not kept is to be missed");
}
