//! Buffers between nodes: they go around all nodes and come back with every byte, more of them than
//! the pools hold, past a mailbox that nobody empties; a send to a core that ends is `Dead`.
//!
//! Every node has *stations*, one on its first core and one on its last: a mailbox each, whose
//! buffers are sent on as their labels say. n1 conducts. With `apart=1` the node's configuration
//! has the transfers on another core than the calls, with `shown=1` nodes show each other their
//! pools. With `cut=MS` nobody sends for so long, and a
//! test cuts the nodes off from each other meanwhile.

mod apart;
mod shown;

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::time::Duration;

use nile_abi::{NodeId, Status};
use nile_kernel::{Core, Join};
use nile_platform::Machine;
use nile_services::bulk::port::{Mailbox, Port, Received};
use nile_stl::node::{Buffer, Pool};
use nile_stl::{CallError, CallResult, Stl};

use crate::arguments::Arguments;
use crate::cluster::{start_through, until};
use crate::conduct::Findings;

/// The mailboxes: of the stations, of n1, and one on every node that nobody reads.
const FIRST: u64 = 1;
const LAST: u64 = 2;
const HOME: u64 = 3;
const ASIDE: u64 = 4;
const UNREAD: u64 = 5;
const NOBODY_S: u64 = 6;

/// What a station is to do with a buffer.
const RELAY: u8 = 0;
const RELAY_ASIDE: u8 = 1;
const PANIC: u8 = 2;
const COUNT: u8 = 3;

const CONDUCTOR: NodeId = NodeId(1);
const PATIENCE: Duration = Duration::from_secs(40);
const LOOK: Duration = Duration::from_micros(200);

/// How long until every transfer that was begun has been answered, on a bad link, too, on which one
/// frame of twenty is lost: it is said seven times by then. One that nobody has answered when its
/// node begins anew is the successor's, and waits there for room.
const ANSWERED: Duration = Duration::from_millis(100);

/// A label: what to do, the nodes still to be visited, and a number.
#[derive(Clone, Copy)]
struct Label {
    what: u8,
    route: [u8; 3],
    number: u32,
}

impl Label {
    fn pack(self) -> u64 {
        let [a, b, c] = self.route;
        let [d, e, f, g] = self.number.to_be_bytes();
        u64::from_be_bytes([self.what, a, b, c, d, e, f, g])
    }

    fn of(label: u64) -> Label {
        let [what, a, b, c, d, e, f, g] = label.to_be_bytes();
        Label { what, route: [a, b, c], number: u32::from_be_bytes([d, e, f, g]) }
    }

    /// The next node of the route, and the label to send there.
    fn next(self) -> (NodeId, Label) {
        let [next, b, c] = self.route;
        (NodeId(next.into()), Label { route: [b, c, 0], ..self })
    }
}

/// The byte at a place of a buffer.
fn byte(number: u32, at: usize) -> u8 {
    let word = u64::from(number).wrapping_mul(0x9e37_79b9).wrapping_add(at as u64);
    (word.wrapping_mul(0x2545_f491) >> 24) as u8
}

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let (nodes, rounds) = (arguments.number("nodes", 3), arguments.number("buffers", 100));
    let [apart, shown] = ["apart", "shown"].map(|it| arguments.number(it, 0) == 1);
    let stl = core.stl().with_patience(PATIENCE);
    let last = core.peers().last() == Some(core.id());
    let first = core.id() == nile_abi::CoreId::BOOT;
    // The last core may be up long after the first.
    let late = Duration::from_millis(arguments.number("late", 0));
    let cut = Duration::from_millis(arguments.number("cut", 0));
    for (name, here, after) in [(FIRST, first, Duration::ZERO), (LAST, last, late)] {
        if here {
            let (stl, own) = (stl.clone(), core.clone());
            core.spawn(async move {
                own.sleep(after).await;
                let log = move |line: core::fmt::Arguments<'_>| own.machine().log(line);
                loop {
                    let ended = station(&stl, name, log.clone()).await;
                    log(format_args!("station {name}: {ended:?}"));
                    stl.host().sleep_until(stl.host().now() + LOOK).await;
                }
            });
        }
    }
    let own = core.clone();
    start_through(core, nodes, "bulk", cut, move |findings| async move {
        let conductor = Conductor { core: own, stl, findings, nodes: nodes as u32 };
        if let Err(error) = conductor.run(rounds as u32, [apart, shown], cut).await {
            conductor.findings.check(false, format_args!("{error}"));
        }
    });
}

/// Serves one mailbox of a node until something fails.
async fn station(
    stl: &Stl,
    name: u64,
    log: impl Fn(core::fmt::Arguments<'_>) + Clone + 'static,
) -> CallResult<()> {
    // The mailbox of an incarnation that ended is closed a moment later, and a service that ended
    // is found for a moment.
    let opened = async || {
        let port = Port::find(stl).await?;
        let inbox = port.open(name).await?;
        Ok((port, inbox))
    };
    let (port, inbox) = until(stl, opened).await?;
    let _unread = match name {
        LAST => Some(until(stl, async || port.open(UNREAD).await).await?),
        _ => None,
    };
    loop {
        match inbox.next().await {
            // Each in a task of its own: two stations that wait for room at each other would wait
            // for ever.
            Ok(received) => {
                let (port, log) = (port.clone(), log.clone());
                stl.host().spawn(Box::pin(async move {
                    if let Err(error) = serve(&port, received).await {
                        log(format_args!("station {name}: {error}"));
                    }
                }));
            }
            Err(error) if error.status == Status::Timeout => {}
            Err(error) => return Err(error),
        }
    }
}

async fn serve(port: &Port, received: Received) -> CallResult<()> {
    let Received { label, mut buffer, .. } = received;
    let label = Label::of(label);
    let mut bytes = buffer.len();
    assert!(label.what != PANIC, "the conductor asked for it");
    if label.what == COUNT {
        let pool = port.pool();
        // But for this one.
        let missing = (pool.capacity() - pool.free_buffers() - 1) as u64;
        bytes = 8;
        buffer[..bytes].copy_from_slice(&missing.to_le_bytes());
    }
    let (next, rest) = label.next();
    let (to, mailbox) = match (next, label.what) {
        (NodeId(0), RELAY) => (CONDUCTOR, HOME),
        (NodeId(0), _) => (CONDUCTOR, ASIDE),
        (next, _) => (next, LAST),
    };
    port.send(to, mailbox, rest.pack(), buffer, bytes).await
}

struct Conductor<M: Machine> {
    core: Core<M>,
    stl: Stl,
    findings: Findings,
    nodes: u32,
}

impl<M: Machine> Conductor<M> {
    async fn run(&self, rounds: u32, [apart, shown]: [bool; 2], cut: Duration) -> CallResult<()> {
        let port = until(&self.stl, async || Port::find(&self.stl).await).await?;
        let (home, aside) = (port.open(HOME).await?, port.open(ASIDE).await?);
        self.ask_all(&port, &aside).await?;
        if !cut.is_zero() {
            self.core.sleep(cut).await;
            self.ask_all(&port, &aside).await?;
        }
        self.around(&port, &home, &aside, rounds).await?;
        self.refusals(&port).await?;
        if shown {
            self.check_shown().await?;
        }
        if apart {
            self.check_apart().await?;
            self.ends(&port, &aside).await?;
        }
        // What nobody reads is gone with its reader.
        if self.nodes > 1 {
            self.restart(&port, &aside).await?;
        }
        home.close().await?;
        for node in (1..=self.nodes).map(NodeId) {
            let missing = until(&self.stl, async || {
                match self.ask(&port, (node, FIRST), COUNT, &aside).await? {
                    // What nobody reads is held by its mailbox.
                    0 => Ok(0),
                    _ => Err(CallError::new(Status::Busy, "buffers are missing")),
                }
            });
            if missing.await.is_err() {
                let missing = self.ask(&port, (node, FIRST), COUNT, &aside).await;
                self.findings.check(false, format_args!("{node} misses {missing:?} buffers"));
            }
        }
        aside.close().await
    }

    /// Asks every station until it answers.
    async fn ask_all(&self, port: &Port, aside: &Mailbox) -> CallResult<()> {
        for node in (1..=self.nodes).map(NodeId) {
            for station in [FIRST, LAST] {
                let asked = async || self.ask(port, (node, station), RELAY_ASIDE, aside).await;
                until(&self.stl, asked).await?;
            }
        }
        Ok(())
    }

    /// A word to a station of a node, and what comes back.
    async fn ask(
        &self,
        port: &Port,
        (node, station): (NodeId, u64),
        what: u8,
        aside: &Mailbox,
    ) -> CallResult<u64> {
        let mut buffer = self.buffer(port.pool()).await?;
        buffer[..8].fill(0);
        let label = Label { what, route: [0; 3], number: 7 };
        port.send(node, station, label.pack(), buffer, 8).await?;
        let came = aside.next().await?;
        let bytes = came.buffer.first_chunk().copied().unwrap_or([0xff; 8]);
        Ok(u64::from_le_bytes(bytes))
    }

    /// A free buffer, as soon as there is one.
    async fn buffer(&self, pool: &Pool) -> CallResult<Buffer> {
        let limit = self.core.now() + PATIENCE;
        loop {
            match pool.alloc() {
                Some(buffer) => return Ok(buffer),
                None if self.core.now() > limit => {
                    return Err(CallError::new(Status::NoMemory, "no buffer becomes free"));
                }
                None => self.core.sleep(LOOK).await,
            }
        }
    }

    /// Bytes of a buffer: none, few, all, and what is between.
    fn length(number: u32, most: usize) -> usize {
        match number % 8 {
            0 => 0,
            1 => 1,
            2 => 1456,
            3 => 1457,
            4 => most,
            5 => most - 1,
            _ => number as usize * 977 % most,
        }
    }

    async fn around(
        &self,
        port: &Port,
        home: &Mailbox,
        aside: &Mailbox,
        rounds: u32,
    ) -> CallResult<()> {
        const SENDERS: u32 = 4;
        let most = port.pool().buffer_size();
        let going = Rc::new(Going::default());
        let begin = self.core.now();
        let senders: Vec<Join<CallResult<()>>> = (0..SENDERS)
            .map(|_| {
                self.core.spawn(send_around(self.clone(), port.clone(), going.clone(), rounds))
            })
            .collect();
        // Nobody reads what comes home meanwhile, and others are served.
        self.core.sleep(Duration::from_millis(20)).await;
        for node in (1..=self.nodes).map(NodeId) {
            self.ask(port, (node, FIRST), RELAY_ASIDE, aside).await?;
        }
        let mut seen = alloc::vec![false; rounds as usize];
        let mut bytes = 0;
        for _ in 0..rounds {
            let Received { label, buffer, from, .. } = home.next().await?;
            let number = Label::of(label).number;
            let whole = buffer.len() == Self::length(number, most);
            let right = buffer.iter().enumerate().all(|(at, it)| *it == byte(number, at));
            let new = seen.get_mut(number as usize).is_some_and(|it| !core::mem::replace(it, true));
            self.findings.check(
                whole && right && new,
                format_args!("{number} from {from}: {} bytes, {right} {new}", buffer.len()),
            );
            bytes += buffer.len() as u64;
            going.back.set(going.back.get() + 1);
        }
        for sender in senders {
            sender.await?;
        }
        self.findings.figure("around_bytes", bytes);
        self.findings.figure("around_us", (self.core.now() - begin).as_micros() as u64);
        Ok(())
    }

    async fn refusals(&self, port: &Port) -> CallResult<()> {
        for node in (1..=self.nodes).map(NodeId) {
            let buffer = self.buffer(port.pool()).await?;
            let sent = port.send(node, NOBODY_S, 0, buffer, 5).await.map_err(|it| it.status);
            let refused = sent == Err(Status::NotFound);
            self.findings.check(refused, format_args!("{node}: an unknown mailbox gives {sent:?}"));
        }
        let (brief, buffer) =
            (port.with_patience(Duration::from_millis(50)), self.buffer(port.pool()).await?);
        let sent = brief.send(NodeId(99), FIRST, 0, buffer, 5).await.map_err(|it| it.status);
        self.findings.check(sent == Err(Status::Timeout), format_args!("n99 gives {sent:?}"));
        let stolen = port.open(FIRST).await.map(drop).map_err(|it| it.status);
        let own = self.core.peers().count() == 1 || stolen == Ok(());
        self.findings.check(own, format_args!("opening its own again gives {stolen:?}"));
        Ok(())
    }

    /// Sends to a mailbox of a node that nobody reads: more than it may hold, and not all buffers
    /// that there are.
    fn crowd(&self, port: &Port, there: NodeId) -> Vec<Join<Result<(), Status>>> {
        let send = |_| {
            let (own, port) = (self.clone(), port.clone());
            self.core.spawn(async move {
                let buffer = own.buffer(port.pool()).await.map_err(|it| it.status)?;
                port.send(there, UNREAD, 0, buffer, 3000).await.map_err(|it| it.status)
            })
        };
        (0..port.pool().capacity() / 2).map(send).collect()
    }

    /// The last core of n2 ends while transfers to a mailbox of its wait for room.
    async fn restart(&self, port: &Port, aside: &Mailbox) -> CallResult<()> {
        let there = NodeId(2);
        let sends = self.crowd(port, there);
        // Some are there by then, and the others have no room.
        self.core.sleep(ANSWERED).await;
        self.ask(port, (there, FIRST), RELAY_ASIDE, aside).await?;
        let label = Label { what: PANIC, route: [0; 3], number: 0 };
        // It has come before it is read.
        port.send(there, LAST, label.pack(), self.buffer(port.pool()).await?, 0).await?;
        let (mut there_before, mut dead) = (0, 0);
        for send in sends {
            match send.await {
                Ok(()) => there_before += 1,
                // The next incarnation may not have opened it yet.
                Err(Status::Dead | Status::NotFound) => dead += 1,
                Err(other) => self.findings.check(false, format_args!("a send ends {other}")),
            }
        }
        self.findings.check(dead > 0, format_args!("{there_before} came, none is dead"));
        until(&self.stl, async || {
            let buffer = self.buffer(port.pool()).await?;
            port.send(there, LAST, Label { what: RELAY_ASIDE, ..label }.pack(), buffer, 8).await?;
            aside.next().await.map(drop)
        })
        .await
    }

    fn clone(&self) -> Conductor<M> {
        Conductor {
            core: self.core.clone(),
            stl: self.stl.clone(),
            findings: self.findings.clone(),
            nodes: self.nodes,
        }
    }
}

/// How many buffers were sent around, and how many came back.
#[derive(Default)]
struct Going {
    sent: Cell<u32>,
    back: Cell<u32>,
}

/// Sends buffers around all nodes, one way or the other, until so many are on their way.
async fn send_around<M: Machine>(
    conductor: Conductor<M>,
    port: Port,
    going: Rc<Going>,
    rounds: u32,
) -> CallResult<()> {
    // On no node are they all that it has.
    let most = port.pool().capacity() as u32 / 2;
    while going.sent.get() < rounds {
        if going.sent.get() - going.back.get() >= most {
            conductor.core.sleep(LOOK).await;
            continue;
        }
        let number = going.sent.replace(going.sent.get() + 1);
        let mut buffer = conductor.buffer(port.pool()).await?;
        let length = Conductor::<M>::length(number, buffer.len());
        for (at, place) in buffer[..length].iter_mut().enumerate() {
            *place = byte(number, at);
        }
        // At most three more after the first, the conductor's own node among them.
        let mut nodes: Vec<u8> = (1..=conductor.nodes.min(4) as u8).collect();
        if number.is_multiple_of(2) {
            nodes.reverse();
        }
        let first = nodes.remove(0);
        nodes.resize(3, 0);
        let route = [nodes[0], nodes[1], nodes[2]];
        let label = Label { what: RELAY, route, number };
        port.send(NodeId(first.into()), LAST, label.pack(), buffer, length).await?;
    }
    Ok(())
}
