//! The network of a package whose stack is another package's: `net`. What the sockets do is in the
//! package's own copy of its connections; cells go through two channels.

use core::cell::{Cell as Place, RefCell};
use core::net::SocketAddr;
use core::time::Duration;

use nile_abi::Status;
use nile_interfaces::net::NetClient;
use nile_interfaces::packages::PackagesClient;
use nile_interfaces::registry::RegistryClient;
use nile_net::Stream;
use nile_net::apart::{Asked, Cell, User};
use nile_ring::Message;
use nile_stl::{CallError, CallResult, Stl};

use super::{NetError, NetResult, Network};
use crate::channel::{ChannelReceiver, ChannelSender};
use crate::threads::Runtime;

/// Messages that a channel has room for.
pub const CELLS: u32 = 4096;

/// How often it is looked whether somebody has waited too long.
const LOOK: Duration = Duration::from_millis(20);

/// How long a channel may take to come.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long it may take until there is a session again, and how often that is tried.
const AWAY: Duration = Duration::from_secs(20);
const AGAIN: Duration = Duration::from_millis(2);

/// How long a package `net` that was started may take to serve.
const BEGINS: Duration = Duration::from_secs(5);

/// Messages that are taken before what has come of them is acted upon.
const BATCH: usize = 256;

/// The way to `net`.
pub(super) struct Apart<'s> {
    pub user: RefCell<User<'s>>,
    sender: RefCell<Option<ChannelSender<'s>>>,
    /// What the channel had no room for.
    held: Place<Option<Cell>>,
}

impl<'s> Apart<'s> {
    pub fn new(user: User<'s>) -> Apart<'s> {
        Apart { user: RefCell::new(user), sender: RefCell::default(), held: Place::new(None) }
    }

    /// How an attempt to open a connection stands.
    pub fn progress(&self, request: u32, to: SocketAddr) -> Option<NetResult<Stream<'s>>> {
        let mut user = self.user.borrow_mut();
        let (asked, serial) = user.asked(request);
        match asked {
            Asked::Waits => None,
            Asked::Done => Some(user.stream(serial).ok_or(NetError::Reset)),
            Asked::Refused => Some(Err(NetError::Refused(to))),
            Asked::NoPort => Some(Err(NetError::NoPort(to))),
            Asked::NoAnswer | Asked::Taken => Some(Err(NetError::NoAnswer(to))),
        }
    }

    /// Tells `net` all that is to be told, as far as there is room.
    pub fn flush(&self) {
        let mut sender = self.sender.borrow_mut();
        let Some(end) = &mut *sender else { return };
        let next = || self.held.take().or_else(|| self.user.borrow_mut().tell());
        while let Some(cell) = next() {
            match end.try_send(&message(&cell)) {
                Ok(()) => {}
                Err(Status::Busy) => return self.held.set(Some(cell)),
                // The session is over, of which its thread learns as well.
                Err(_) => return,
            }
        }
    }
}

/// A cell as a channel has it.
pub fn message(cell: &Cell) -> Message {
    Message::new(cell.kind, cell.bytes()).expect("a cell is no longer than a message")
}

/// What a channel's message says.
pub fn cell(message: &Message) -> Option<Cell> {
    Cell::new(message.kind(), message.payload())
}

/// Whether the node has the package `net`. Waits for one that was started and has yet to say so.
pub(super) fn is_there(runtime: &Runtime<'_>, stl: &Stl) -> CallResult<bool> {
    let until = stl.host().now() + BEGINS;
    loop {
        let ready = runtime.block_on(async { NetClient::find(stl).await?.ready().await });
        let now = stl.host().now();
        match ready.map_err(|error| (error.status, error)) {
            // It may begin anew just now.
            Ok(()) | Err((Status::Dead | Status::Timeout, _)) => return Ok(true),
            Err((Status::NotFound, _)) => {
                let is_started = || runtime.block_on(is_started(stl)).unwrap_or_default();
                if now >= until || !is_started() {
                    return Ok(false);
                }
                runtime.sleep_until(now + AGAIN);
            }
            Err((_, error)) => return Err(error),
        }
    }
}

/// Whether a core of this node has it.
async fn is_started(stl: &Stl) -> CallResult<bool> {
    let places = RegistryClient::find(stl).await?.places("packages").await?;
    for place in places.into_iter().filter(|it| it.is_here()) {
        let packages = PackagesClient::at(stl, place).list().await?;
        if packages.iter().any(|it| it.name == "net") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Begins the first session, and starts the thread that begins the others.
pub(super) fn start<'s>(network: &Network<'s>, stl: &Stl) -> NetResult<()> {
    let (stl, runtime) = (stl.clone(), network.runtime().clone());
    let served = network.clone();
    let host = stl.host().clone();
    runtime.spawn(move |runtime| {
        let mut since = stl.host().now();
        loop {
            let failed = session(&served, runtime, &stl).err();
            let now = stl.host().now();
            match failed {
                None => since = now,
                Some(error) if now.since(since) > AWAY => {
                    *served.0.failure.borrow_mut() = Some(error);
                    served.0.changed.wake_all(runtime);
                    return;
                }
                Some(_) => runtime.sleep_until(now + AGAIN),
            }
        }
    });
    let ticking = network.clone();
    runtime.spawn(move |runtime| {
        while ticking.0.failure.borrow().is_none() {
            let now = host.now();
            ticking.0.now.set(now);
            ticking.0.flush();
            ticking.0.changed.wake_all(runtime);
            runtime.sleep_until(now + LOOK);
        }
    });
    // Who it is, is known with the first word.
    network.wait(None, |_| network.0.welcome().map(|_| Ok(())))
}

/// One session, from its beginning to its end.
fn session<'s>(network: &Network<'s>, runtime: &Runtime<'s>, stl: &Stl) -> CallResult<()> {
    let inner = &network.0;
    let Some(apart) = inner.apart() else { return Ok(()) };
    let channels = runtime.block_on(async { NetClient::find(stl).await?.attach().await })?;
    let until = stl.host().now() + PATIENCE;
    let channel = |status: Status| CallError::new(status, "no channel to the package net");
    let receiver = runtime.accept_channel(channels.down, until).map_err(channel)?;
    let sender = runtime.open_channel(receiver.from(), channels.up, CELLS).map_err(channel)?;
    apart.held.set(None);
    apart.user.borrow_mut().begin();
    *apart.sender.borrow_mut() = Some(sender);
    inner.flush();
    let ended = receive(network, runtime, receiver);
    apart.sender.borrow_mut().take().into_iter().for_each(ChannelSender::close);
    ended
}

/// Takes what `net` says, until it is gone.
fn receive<'s>(
    network: &Network<'s>,
    runtime: &Runtime<'s>,
    mut receiver: ChannelReceiver<'s>,
) -> CallResult<()> {
    let inner = &network.0;
    let Some(apart) = inner.apart() else { return Ok(()) };
    let nonsense = || CallError::new(Status::Invalid, "net says what makes no sense");
    let take = |said: &Message| match cell(said).map(|it| apart.user.borrow_mut().take(&it)) {
        Some(Ok(())) => Ok(()),
        _ => Err(nonsense()),
    };
    let mut result = Ok(());
    while result.is_ok()
        && let Ok(first) = receiver.receive()
    {
        result = take(&first);
        for _ in 0..BATCH {
            let Ok(Some(next)) = receiver.try_receive() else { break };
            result = result.and_then(|()| take(&next));
        }
        inner.flush();
        inner.changed.wake_all(runtime);
        runtime.yield_now();
    }
    receiver.close();
    result
}
