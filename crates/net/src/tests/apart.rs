//! A stack and its user apart, either of which dies before any store that commits something. The
//! streams of the peers come back whole.

use alloc::collections::VecDeque;

use super::closing::{ANSWER, answer};
use super::steps::dying;
use super::*;
use crate::apart::{Asked, Cell, User, Users};

/// Who dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Who {
    Stack,
    User,
}

/// Who dies, before which of the steps that he makes from the beginning on, and how often: so many
/// steps after he has begun anew, again.
#[derive(Clone, Copy, Debug)]
struct Plan {
    who: Who,
    dies_at: u64,
    deaths: u64,
    /// The control: the user's memory is lost with him.
    forgets: bool,
}

const NOBODY: Plan = Plan { who: Who::Stack, dies_at: 0, deaths: 0, forgets: false };

type Serve = fn(&Stream<'_>);

struct Pair<'m> {
    stack: Stack<'m>,
    users: Users<'m>,
    user: User<'m>,
    session: u32,
    to_user: VecDeque<Cell>,
    to_stack: VecDeque<Cell>,
    /// Steps of the one who is to die, until he dies.
    left: u64,
    /// Steps that both have made.
    steps: [u64; 2],
    /// What the user does with each connection.
    serve: Serve,
}

fn begin_user<'m>(words: &'m [AtomicU64]) -> User<'m> {
    let mut user = User::new("echo", Memory::new(words, [1, 2]).unwrap());
    user.listen(PORT);
    user
}

impl<'m> Pair<'m> {
    fn new(words: [&'m [AtomicU64]; 2], now: Instant, plan: Plan, serve: Serve) -> Pair<'m> {
        let stack = Stack::new(settings(), Memory::new(words[0], [7, 8]).unwrap(), now);
        let mut pair = Pair {
            stack,
            users: Users::new(1, [3, 4]),
            user: begin_user(words[1]),
            session: 0,
            to_user: VecDeque::new(),
            to_stack: VecDeque::new(),
            left: plan.dies_at,
            steps: [0; 2],
            serve,
        };
        pair.begin(now);
        pair
    }

    /// Begins a session, in place of the last one.
    fn begin(&mut self, now: Instant) {
        self.users.end(now, &mut self.stack, self.session);
        self.session += 1;
        self.users.begin(&self.stack, self.session);
        self.user.begin();
        self.to_user.clear();
        self.to_stack.clear();
    }

    fn work_stack(&mut self, now: Instant, frames: Vec<Vec<u8>>) {
        let Pair { stack, users, session, to_user, to_stack, .. } = self;
        frames.iter().for_each(|frame| stack.receive(now, frame));
        while let Some(cell) = to_stack.pop_front() {
            assert_eq!(users.take(now, stack, *session, &cell), Ok(()));
        }
        stack.turn(now);
        users.turn(now, stack);
        to_user.extend(core::iter::from_fn(|| users.tell(*session)));
    }

    fn work_user(&mut self) {
        let Pair { user, to_user, to_stack, serve, .. } = self;
        while let Some(cell) = to_user.pop_front() {
            assert_eq!(user.take(&cell), Ok(()));
        }
        assert_ne!(user.listens(PORT), Some(Asked::Taken));
        user.streams().for_each(|stream| serve(&stream));
        to_stack.extend(core::iter::from_fn(|| user.tell()));
    }
}

/// Runs until all streams are over. How many steps both made, or why it does not end.
fn run_apart(world: &mut World, plan: Plan) -> Result<[u64; 2], &'static str> {
    run_apart_with(world, plan, echo)
}

/// The same with another user.
fn run_apart_with(
    world: &mut World,
    mut plan: Plan,
    serve: Serve,
) -> Result<[u64; 2], &'static str> {
    let (own, its) = (words(), words());
    let mut pair = Pair::new([&own, &its], world.now, plan, serve);
    world.turn(Vec::new());
    for _ in 0..20_000 {
        if world.is_over() && pair.stack.streams().next().is_none() {
            return Ok(pair.steps);
        }
        let ours = pair.stack.next_due(world.now);
        let theirs = world.interface.poll_at(engine_time(world.now), &world.sockets);
        let theirs = theirs.map(crate::from_engine_time);
        let flying = world.flying.keys().next().map(|(at, _)| *at);
        let cells = !(pair.to_user.is_empty() && pair.to_stack.is_empty());
        let cells = cells.then_some(world.now);
        let Some(next) = [ours, theirs, flying, cells].into_iter().flatten().min() else {
            return Err("nothing is due");
        };
        world.now = next.max(world.now + Duration::from_micros(1));
        let now = world.now;
        let (mut comes, mut arrived) = (Vec::new(), Vec::new());
        while let Some(entry) = world.flying.first_entry()
            && entry.key().0 <= now
        {
            let (to_us, frame) = entry.remove();
            if to_us { comes.push(frame) } else { arrived.push(frame) }
        }
        for who in [Who::Stack, Who::User] {
            let is_it = who == plan.who && plan.deaths > 0;
            let made = dying(if is_it { pair.left } else { 0 }, || match who {
                Who::Stack => pair.work_stack(now, core::mem::take(&mut comes)),
                Who::User => pair.work_user(),
            });
            if let Some(made) = made {
                pair.steps[who as usize] += made;
                pair.left -= if is_it { made } else { 0 };
                continue;
            }
            plan.deaths -= 1;
            match who {
                Who::Stack => {
                    let memory = Memory::new(&own, [7, 8]).unwrap();
                    pair.stack = Stack::new(settings(), memory, now);
                    pair.users = Users::new(1, [3, 4]);
                }
                Who::User => {
                    if plan.forgets {
                        its.iter().for_each(|word| word.store(0, Relaxed));
                    }
                    pair.user = begin_user(&its);
                }
            }
            pair.left = plan.dies_at;
            pair.begin(now);
        }
        while let Some(frame) = pair.stack.transmit() {
            world.fly(false, frame);
        }
        world.turn(arrived);
    }
    Err("it takes too long")
}

fn is_whole(world: &World, end: Result<[u64; 2], &str>) -> bool {
    end.is_ok() && world.clients.iter().all(|it| !it.failed && it.got == it.sends)
}

const STREAMS: [usize; 3] = [0, 3000, 20_000];

const BAD: Link = Link { lost: 20, repeated: 10, damaged: 5, spread: 20 };

#[test]
fn streams_survive_a_death_of_either_side_at_every_step() {
    for (ip, seed, link) in [(Ip::V4, 31, GOOD), (Ip::V4, 32, BAD), (Ip::V6, 33, BAD)] {
        let mut world = World::new(ip, seed, link, &STREAMS);
        let end = run_apart(&mut world, NOBODY);
        assert!(is_whole(&world, end), "without a death: {end:?}");
        let steps = end.unwrap();
        for who in [Who::Stack, Who::User] {
            let made = steps[who as usize];
            assert!(made > 100, "{made} steps of {who:?}");
            // All steps on the good link; every fourth on the bad one, which takes longer.
            let every = if link.lost == 0 { 1 } else { 4 };
            let once = (1..=made).step_by(every).map(|dies_at| (dies_at, 1));
            let often = (60..=made).step_by(7 * every).map(|dies_at| (dies_at, u64::MAX));
            for (dies_at, deaths) in once.chain(often) {
                let plan = Plan { who, dies_at, deaths, forgets: false };
                let mut world = World::new(ip, seed, link, &STREAMS);
                let end = run_apart(&mut world, plan);
                assert!(is_whole(&world, end), "{ip:?}, seed {seed}, {plan:?}: {end:?}");
            }
        }
    }
}

#[test]
fn a_user_that_forgets_loses_its_streams() {
    let breaks = |dies_at: &u64| {
        let mut world = World::new(Ip::V4, 31, GOOD, &STREAMS);
        let plan = Plan { who: Who::User, dies_at: *dies_at, deaths: 1, forgets: true };
        let end = run_apart(&mut world, plan);
        !is_whole(&world, end)
    };
    assert!((100..900).step_by(50).filter(breaks).count() > 0, "what it forgets is to be missed");
}

#[test]
fn a_closed_connection_has_its_last_bytes_whoever_dies() {
    let run = |plan| {
        let mut world = World::new(Ip::V4, 31, GOOD, &[30_000]);
        let end = run_apart_with(&mut world, plan, answer);
        let got = world.clients[0].got.len();
        (end, got)
    };
    let (end, got) = run(NOBODY);
    assert_eq!(got, ANSWER, "{end:?}");
    let steps = end.unwrap();
    for who in [Who::Stack, Who::User] {
        for dies_at in 1..=steps[who as usize] {
            let (end, got) = run(Plan { who, dies_at, deaths: 1, forgets: false });
            assert!(end.is_ok() && got == ANSWER, "{who:?} at {dies_at}: {end:?}, {got} bytes");
        }
    }
}
