//! One era: gossip's messages and deadlines, as long as the network core is the same.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::convert::Infallible;
use core::future::{Future, poll_fn};
use core::task::Poll;
use core::time::Duration;

use nile_abi::{Generation, Instant, MacAddress, NodeId, Status};
use nile_bosml::Bytes;
use nile_gossip::{Destination, Event, Gossip, Settings};
use nile_stl::{CallError, CallResult, LocalFuture, Stl};

use super::{local, not_joined, remote};
use crate::alarm::Alarm;
use crate::missed::Missed;
use nile_interfaces::network::{Heard, Identity, NetworkClient, News};
use nile_interfaces::registry::RegistryClient;

/// How long a call waits that ends when something happens.
const LONG: Duration = Duration::from_secs(3600);

/// How long until a call is made again for which the network core had no room.
const BUSY: Duration = Duration::from_millis(5);

/// How late a node is that has stood still.
const STOOD_STILL: Duration = Duration::from_secs(1);

/// Messages that wait for the network core; later ones are lost, as on the network.
const MOST_WAITING: usize = 1024;

/// What the tasks of an era and the service share.
#[derive(Default)]
pub struct Shared {
    gossip: RefCell<Option<Gossip>>,
    out: RefCell<VecDeque<(NodeId, Vec<u8>)>>,
    /// What of other nodes has changed and the registry has not been told.
    pub news: RefCell<VecDeque<Event>>,
    /// When this service began.
    pub born: Cell<Instant>,
    /// The last other node that had this one's number: its address and its generation.
    pub namesake: RefCell<Option<Namesake>>,
    /// Whether that one keeps the number: this node is in no cluster any more.
    pub has_given_up: Cell<bool>,
    /// This core's watcher of the registry, which lasts for all eras.
    pub watcher: Cell<Option<u64>>,
    /// The task that keeps gossip's deadlines.
    clock: Alarm,
    /// The task that gives messages to the network core.
    sender: Alarm,
    /// The task that tells the registry.
    pub teller: Alarm,
}

/// Another node that has this one's number.
#[derive(Clone)]
pub struct Namesake {
    /// Where its frames come from.
    pub address: MacAddress,
    /// Its generation.
    pub generation: Generation,
    /// When it was heard of last.
    pub heard: Instant,
}

impl Shared {
    /// Does something with gossip. `Busy` between two eras.
    pub fn with<T>(&self, act: impl FnOnce(&mut Gossip) -> T) -> CallResult<T> {
        self.gossip.borrow_mut().as_mut().map(act).ok_or_else(not_joined)
    }

    /// Takes what gossip wants to send and to tell.
    pub fn pump(&self) {
        let mut held = self.gossip.borrow_mut();
        let Some(gossip) = held.as_mut() else { return };
        let (mut out, mut news) = (self.out.borrow_mut(), self.news.borrow_mut());
        while let Some((to, message)) = gossip.poll_transmit() {
            let node = match to {
                Destination::Node(node) => node,
                Destination::Broadcast => NodeId(0),
            };
            if out.len() < MOST_WAITING {
                out.push_back((node, message));
            }
        }
        while let Some(event) = gossip.poll_event() {
            news.push_back(event);
        }
        if !out.is_empty() {
            self.sender.ring();
        }
        if !news.is_empty() {
            self.teller.ring();
        }
        self.clock.plan(gossip.next_window());
    }

    /// Forgets all that was known.
    pub fn end_era(&self) {
        self.gossip.borrow_mut().take();
        self.out.borrow_mut().clear();
        self.news.borrow_mut().clear();
    }
}

/// What one of an era's tasks comes to: it never ends well.
pub type Ends = CallResult<Infallible>;

/// Lives for one era, and says why it is over.
pub async fn live(stl: &Stl, shared: &Rc<Shared>) -> Ends {
    let network = NetworkClient::find(&stl.with_patience(LONG)).await?;
    if network.place().is_some_and(|place| !place.is_here()) {
        return Err(CallError::new(Status::Dead, "this node's network core is not there"));
    }
    let own = network.identity().await?;
    // A node that died between two eras is told of by nobody.
    RegistryClient::find(stl).await?.forget_others().await?;
    let mut seed = [0; 8];
    if !stl.node()?.entropy(&mut seed) {
        seed = stl.host().now().as_nanos().to_le_bytes();
    }
    let seed = u64::from_le_bytes(seed);
    let mut settings = Settings::new(NodeId(own.node), Generation(own.generation), seed);
    settings.born = shared.born.get();
    let mut gossip = Gossip::new(settings);
    // The first broadcast tells of cores and services already.
    let mut exported = local::Exported::default();
    let told = local::update(stl, &network, &mut gossip, &mut exported).await;
    if told.as_ref().is_err_and(|error| error.status == Status::NoMemory) {
        return begin_anew(stl, &network, Generation(own.generation)).await;
    }
    told?;
    gossip.start(stl.host().now());
    *shared.gossip.borrow_mut() = Some(gossip);
    shared.pump();
    Missed::of(stl).tell();
    let tasks: [LocalFuture<'_, Ends>; 5] = [
        Box::pin(hear(stl, shared, &network)),
        Box::pin(send(stl, shared, &network)),
        Box::pin(keep_time(stl, shared)),
        Box::pin(local::publish(stl, shared, &network, exported)),
        Box::pin(remote::tell(stl, shared, &network)),
    ];
    match first(tasks).await {
        // The numbers for exports are used up: another generation has them all again.
        Err(error) if error.status == Status::NoMemory => {
            begin_anew(stl, &network, Generation(own.generation)).await
        }
        end => end,
    }
}

/// The end of the first task that ends; with it all end.
async fn first(mut tasks: [LocalFuture<'_, Ends>; 5]) -> Ends {
    poll_fn(|context| {
        let ends = tasks.iter_mut().map(|task| task.as_mut().poll(context));
        ends.into_iter().find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

/// Takes what comes from other nodes.
async fn hear(stl: &Stl, shared: &Shared, network: &NetworkClient) -> Ends {
    loop {
        for Heard { from, what } in
            patiently(insist(stl, || network.hear())).await?.unwrap_or_default()
        {
            let (node, now) = (NodeId(from.node), stl.host().now());
            match what {
                News::Gossip(message) => {
                    shared.with(|it| it.receive(now, node, &message.0, false))?
                }
                News::Announced(message) => {
                    shared.with(|it| it.receive(now, node, &message.0, true))?
                }
                News::Namesake { address, message } => {
                    let Ok(address) = <[u8; 6]>::try_from(&address.0[..]) else { continue };
                    let (address, generation) = (MacAddress(address), Generation(from.generation));
                    let namesake = Namesake { address, generation, heard: now };
                    *shared.namesake.borrow_mut() = Some(namesake);
                    shared.with(|it| it.receive(now, node, &message.0, true))?;
                }
                News::Outdated => {
                    return begin_anew(stl, network, Generation(from.generation)).await;
                }
                News::Talked => shared.with(|gossip| gossip.talked(node))?,
                // Gossip meets nodes by itself.
                News::Met => {}
            }
        }
        shared.pump();
    }
}

/// This node's generation is another life's: it takes a later one, and a new era begins.
pub async fn begin_anew(stl: &Stl, network: &NetworkClient, above: Generation) -> Ends {
    let Identity { node, generation } = insist(stl, || network.renew(above.0)).await?;
    let message = format!("{above} of n{node} was known already: now it is g{generation}");
    Err(CallError::new(Status::Exists, message))
}

/// The result of a call, `None` if it only took too long.
pub async fn patiently<T>(call: impl Future<Output = CallResult<T>>) -> CallResult<Option<T>> {
    match call.await {
        Err(error) if error.status == Status::Timeout => Ok(None),
        result => result.map(Some),
    }
}

/// The result of a call to this node's network core, made anew while that has no room for it.
/// Nothing was done then, and a busy core is no other one: the era goes on. To end it would have
/// all other nodes take this one for restarted, and end what they have to do with it.
pub async fn insist<T, F>(stl: &Stl, mut call: impl FnMut() -> F) -> CallResult<T>
where
    F: Future<Output = CallResult<T>>,
{
    loop {
        match call().await {
            Err(error) if error.status == Status::Busy => {
                stl.host().sleep_until(stl.host().now() + BUSY).await;
            }
            end => return end,
        }
    }
}

/// Gives messages to the network core.
async fn send(stl: &Stl, shared: &Shared, network: &NetworkClient) -> Ends {
    loop {
        let next = shared.out.borrow_mut().pop_front();
        match next {
            Some((to, message)) => match network.gossip(to.0, Bytes::from(&message[..])).await {
                // As lost on the network.
                Err(error) if error.status.try_again() => {}
                sent => sent?,
            },
            None => shared.sender.wait(stl, None, |_| Poll::Pending).await,
        }
    }
}

/// Keeps gossip's deadlines. One that is very late tells that this node stood still.
async fn keep_time(stl: &Stl, shared: &Shared) -> Ends {
    loop {
        let now = stl.host().now();
        let due = shared.with(|gossip| {
            if let Some(due) = gossip.next_due().filter(|due| *due <= now) {
                gossip.on_time(now);
                if now.since(due) >= STOOD_STILL {
                    Missed::of(stl).tell();
                }
            }
            gossip.next_window()
        })?;
        shared.pump();
        shared.clock.wait(stl, due, |_| Poll::Pending).await;
    }
}
