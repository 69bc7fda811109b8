//! The stack and the sessions of its users. One thread exchanges frames; each session has one that
//! takes what its user says. Whoever has changed something has the stack take its turn.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::convert::Infallible;
use core::sync::atomic::AtomicU64;
use core::time::Duration;

use nile_abi::{CoreId, Instant, Status};
use nile_bosml::Bytes;
use nile_interfaces::frames::{FramesClient, pack, unpack};
use nile_interfaces::net::NetChannels;
use nile_net::Stack;
use nile_net::apart::{Cell as Said, Users};
use nile_stl::{CallResult, Stl};
use nile_user::channel::Message;
use nile_user::net::apart::{CELLS, cell, message};
use nile_user::net::rules::Kept;
use nile_user::net::shown::{self, Shown};
use nile_user::net::{self, NetError, NetResult};
use nile_user::{ChannelReceiver, ChannelSender, Runtime, Services};

use crate::attach::{self, Door};

/// The version of what is in the keep: that of packages with a stack of their own.
const VERSION: u16 = net::VERSION;

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long it waits for frames: while there are connections, else, and while a user's channel is
/// full.
const BUSY: Duration = Duration::from_millis(10);
const IDLE: Duration = Duration::from_millis(500);
const FULL: Duration = Duration::from_micros(200);

/// How often what is shown is brought up to date.
const SHOWN: Duration = Duration::from_millis(100);

/// How long a user may take to open its channel, and how often it is looked whether it has.
const OPENS: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_micros(200);

/// Messages of a user that are taken before what has come of them is acted upon.
const BATCH: usize = 256;

struct Server<'s> {
    runtime: Runtime<'s>,
    stl: Stl,
    frames: FramesClient,
    ticket: u64,
    /// Where a lease of the address is kept.
    lease: &'s [AtomicU64],
    rules: Kept<'s>,
    stack: RefCell<Stack<'s>>,
    users: RefCell<Users<'s>>,
    sessions: RefCell<BTreeMap<u32, Session<'s>>>,
    /// A frame that the last batch had no room for.
    left: RefCell<Option<Vec<u8>>>,
    last: Cell<u32>,
}

/// The way to a user, and what it had no room for.
struct Session<'s> {
    sender: ChannelSender<'s>,
    held: Option<Said>,
}

/// Serves for as long as it has the frames.
pub fn serve(
    runtime: &Runtime<'_>,
    services: &Services,
    connections: usize,
) -> NetResult<Infallible> {
    let keep = runtime.keep("connections", net::keep_bytes(connections), VERSION);
    let words = keep.map_err(NetError::Keep)?.words();
    let stl = services.stl().with_patience(PATIENCE);
    services.wait_alone(true);
    let attached = async {
        let frames = FramesClient::find(&stl).await?;
        let attached = frames.attach().await?;
        CallResult::Ok((frames, attached))
    };
    let (frames, attached) = runtime.block_on(attached)?;
    let lease = net::lease_keep(runtime, &attached);
    let now = stl.host().now();
    let mut stack = net::stack_of(&attached, words, lease, now)?;
    let shown = Shown::of(&stl)?;
    let rules = Kept::open(runtime, shown, (&mut stack, now), &attached.rules);
    let server = Rc::new(Server {
        runtime: runtime.clone(),
        stl: stl.clone(),
        frames,
        ticket: attached.ticket,
        lease,
        rules,
        stack: RefCell::new(stack),
        users: RefCell::new(Users::new(attached.node, [attached.seed, attached.salt])),
        sessions: RefCell::default(),
        left: RefCell::default(),
        last: Cell::new(0),
    });
    let (door, greeter) = (Door::of(&stl)?, server.clone());
    runtime.spawn(move |runtime| {
        loop {
            let (core, channels) = runtime.block_on(door.next());
            let server = greeter.clone();
            runtime.spawn(move |_| server.session(core, channels));
        }
    });
    attach::publish(services)?;
    shown::publish(services)?;
    server.run()
}

impl<'s> Server<'s> {
    fn now(&self) -> Instant {
        self.stl.host().now()
    }

    /// Exchanges frames.
    fn run(&self) -> NetResult<Infallible> {
        let shown = Shown::of(&self.stl)?;
        let mut update = self.now();
        loop {
            let now = self.turn();
            if now >= update {
                let users = self.users.borrow();
                let name = |name: Option<&str>| String::from(name.unwrap_or_default());
                let listener = |port| name(users.listener(port));
                let owner = |number| name(users.owner(number));
                shown.update(now, &self.stack.borrow(), listener, owner);
                update = now + SHOWN;
            }
            let is_full = self.sessions.borrow().values().any(|it| it.held.is_some());
            let most = {
                let stack = self.stack.borrow();
                let usual = if stack.streams().next().is_some() { BUSY } else { IDLE };
                if is_full { FULL } else { usual }
            };
            self.exchange(most)?;
        }
    }

    /// Does what is due, and tells users what has come of it.
    fn turn(&self) -> Instant {
        let now = self.now();
        let mut stack = self.stack.borrow_mut();
        stack.turn(now);
        let mut users = self.users.borrow_mut();
        users.turn(now, &mut stack);
        for (number, session) in &mut *self.sessions.borrow_mut() {
            session.flush(&mut users, *number);
        }
        now
    }

    /// Sends the frames that wait, and gives those that have come to the stack: waits for the first
    /// of them, at most so long, and until something is due.
    fn exchange(&self, most: Duration) -> CallResult<()> {
        let mut batch = Vec::new();
        let mut left = self.left.take();
        while let Some(frame) = left.take().or_else(|| self.stack.borrow_mut().transmit()) {
            if !pack(&mut batch, &frame) {
                left = Some(frame);
                break;
            }
        }
        let now = self.now();
        let due = self.stack.borrow_mut().next_due(now);
        let patience = match &left {
            Some(_) => Duration::ZERO,
            None => due.map_or(most, |at| at.since(now).min(most)),
        };
        *self.left.borrow_mut() = left;
        let batch = Bytes(batch[..].into());
        let came = self.frames.exchange(self.ticket, batch, patience.as_micros() as u32);
        let came = self.runtime.block_on(came)?;
        let now = self.now();
        let mut stack = self.stack.borrow_mut();
        self.rules.apply(now, &mut stack);
        unpack(&came.frames.0).for_each(|frame| stack.receive(now, frame));
        net::keep_lease(&stack, self.lease, now);
        Ok(())
    }

    /// The session of a package, from its channels on.
    fn session(&self, core: CoreId, channels: NetChannels) {
        // Who is gone before it has its channels comes again.
        let Ok(sender) = self.runtime.open_channel(core, channels.down, CELLS) else { return };
        let until = self.now() + OPENS;
        let receiver = loop {
            let now = self.now();
            match self.runtime.accept_channel(channels.up, now) {
                Err(Status::Timeout) if now < until => self.runtime.sleep_until(now + LOOK),
                accepted => break accepted,
            }
        };
        let Ok(receiver) = receiver else { return sender.close() };
        let number = self.last.get() + 1;
        self.last.set(number);
        self.users.borrow_mut().begin(&self.stack.borrow(), number);
        let session = Session { sender, held: None };
        self.sessions.borrow_mut().insert(number, session);
        self.receive(number, receiver);
        let now = self.now();
        self.users.borrow_mut().end(now, &mut self.stack.borrow_mut(), number);
        let ended = self.sessions.borrow_mut().remove(&number);
        ended.into_iter().for_each(|it| it.sender.close());
    }

    /// Takes what a user says until it is gone, or says what makes no sense.
    fn receive(&self, number: u32, mut receiver: ChannelReceiver<'s>) {
        let mut makes_sense = true;
        while makes_sense && let Ok(first) = receiver.receive() {
            let now = self.now();
            let take = |said: &Message| {
                let mut users = self.users.borrow_mut();
                let mut stack = self.stack.borrow_mut();
                cell(said).map(|it| users.take(now, &mut stack, number, &it)) == Some(Ok(()))
            };
            makes_sense = take(&first);
            for _ in 0..BATCH {
                let Ok(Some(next)) = receiver.try_receive() else { break };
                makes_sense &= take(&next);
            }
            self.turn();
            let has_frames = self.stack.borrow().waiting() > 0;
            // That it has failed is told to the thread that waits for frames.
            if has_frames && self.exchange(Duration::ZERO).is_ok() {
                self.turn();
            }
            self.runtime.yield_now();
        }
        receiver.close();
    }
}

impl Session<'_> {
    /// Tells a user all that it is to be told, as far as there is room.
    fn flush(&mut self, users: &mut Users<'_>, number: u32) {
        while let Some(said) = self.held.take().or_else(|| users.tell(number)) {
            match self.sender.try_send(&message(&said)) {
                Ok(()) => {}
                Err(Status::Busy) => return self.held = Some(said),
                // Its thread learns that it is gone, too.
                Err(_) => return,
            }
        }
    }
}
