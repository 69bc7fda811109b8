//! The stack's side: all its users, and whose each connection is.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddr};
use core::ops::Bound;
use core::time::Duration;

use nile_abi::Instant;

use super::say::{Cell, Say};
use super::user::Asked;
use crate::Progress;
use crate::own::Own;
use crate::peer::Peer;
use crate::siphash;
use crate::stack::Stack;
use crate::stream::{ABORTED, CLOSED, SHUT, Stream};
use crate::tcp::OWN_PORTS;
use crate::udp::Datagram;

/// How long a connection waits for a user that knows it, and a port for one that listens.
const UNCLAIMED: Duration = Duration::from_secs(5);

/// Cells that may wait for a user before it gets no more datagrams.
const WAITING: usize = 256;

/// Bytes of a datagram that a cell carries.
const PIECE: usize = super::CELL_BYTES;

/// What a user has said makes no sense: its session is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nonsense;

/// What a user was told of a connection.
struct Told<'m> {
    stream: Stream<'m>,
    received: u64,
    acknowledged: u64,
    finished: bool,
}

/// A user in its session.
#[derive(Default)]
struct Session<'m> {
    name: String,
    out: VecDeque<Cell>,
    told: BTreeMap<u64, Told<'m>>,
    /// The connection that was the last to be told of.
    last: u64,
    listens: BTreeSet<u16>,
    binds: BTreeSet<u16>,
    opening: Vec<(u32, Peer)>,
    /// A datagram that is coming, and how many bytes of it are still to come.
    datagram: Option<(u16, SocketAddr, Vec<u8>, usize)>,
}

/// The users of a stack.
#[derive(Default)]
pub struct Users<'m> {
    node: u32,
    /// What users are given numbers from that nobody else knows.
    secret: [u64; 2],
    /// What all users were told of the stack.
    told: Option<(Own, Option<Ipv4Addr>)>,
    sessions: BTreeMap<u32, Session<'m>>,
    /// Connections that no user has, and since when.
    left: Vec<(Instant, u64, Stream<'m>)>,
    /// Ports that a user listened to whose session is over, and since when.
    away: BTreeMap<u16, Instant>,
    /// What users were opening whose session is over.
    orphans: Vec<Peer>,
}

impl<'m> Users<'m> {
    /// None yet, of this node. `secret`: two numbers that nobody can predict.
    pub fn new(node: u32, secret: [u64; 2]) -> Users<'m> {
        Users { node, secret, ..Users::default() }
    }

    /// Begins the session of a user by this number.
    pub fn begin(&mut self, stack: &Stack<'m>, number: u32) {
        let mut session = Session::default();
        self.told.get_or_insert(told_of(stack));
        session.out.push_back(self.welcome(stack, number));
        self.sessions.insert(number, session);
    }

    /// What a user is told of a stack.
    fn welcome(&self, stack: &Stack<'_>, number: u32) -> Cell {
        let ((own, resolver), node) = (told_of(stack), self.node);
        let resolver = resolver.unwrap_or(Ipv4Addr::UNSPECIFIED);
        let seed = siphash::hash(self.secret, [number.into(), 0]);
        Say::Welcome { node, own, resolver, seed }.cell()
    }

    /// A session is over. What the user has of the stack waits a while for its next one.
    pub fn end(&mut self, now: Instant, stack: &mut Stack<'m>, number: u32) {
        let Some(session) = self.sessions.remove(&number) else { return };
        self.left.extend(session.told.into_iter().map(|(serial, it)| (now, serial, it.stream)));
        self.away.extend(session.listens.into_iter().map(|port| (port, now)));
        self.orphans.extend(session.opening.into_iter().map(|it| it.1));
        session.binds.into_iter().for_each(|port| stack.unbind(port));
    }

    /// Whose a port that connections are taken to is: its user's name.
    pub fn listener(&self, port: u16) -> Option<&str> {
        let its = self.sessions.values().find(|it| it.listens.contains(&port));
        its.map(|it| it.name.as_str())
    }

    /// Whose a connection is.
    pub fn owner(&self, serial: u64) -> Option<&str> {
        let its = self.sessions.values().find(|it| it.told.contains_key(&serial));
        its.map(|it| it.name.as_str())
    }

    /// Takes a cell of a user's.
    pub fn take(
        &mut self,
        now: Instant,
        stack: &mut Stack<'m>,
        number: u32,
        cell: &Cell,
    ) -> Result<(), Nonsense> {
        let said = Say::of(cell).ok_or(Nonsense)?;
        match said {
            Say::Name(name) => {
                let name = String::from_utf8(name.into()).map_err(|_| Nonsense)?;
                let is_it = |it: &(&u32, &Session<'_>)| *it.0 != number && it.1.name == name;
                let earlier = self.sessions.iter().find(is_it).map(|it| *it.0);
                earlier.into_iter().for_each(|earlier| self.end(now, stack, earlier));
                self.session(number)?.name = name;
            }
            Say::Know { serial, peer, received, consumed } => {
                self.sort(now, stack);
                let known = self.left.iter().position(|it| it.1 == serial);
                let stream = known.map(|place| self.left.swap_remove(place).2);
                let stream = stream.filter(|it| it.serial() == serial);
                let session = self.session(number)?;
                let fits = |it: &Stream<'_>| {
                    it.peer() == peer
                        && (it.consumed() <= consumed || it.closed() == CLOSED)
                        && consumed <= received
                        && received <= it.received()
                };
                match stream {
                    Some(stream) if fits(&stream) => {
                        stream.consume(consumed);
                        let produced = stream.produced();
                        session.out.push_back(Say::Has { serial, produced }.cell());
                        let told = Told { stream, received, acknowledged: 0, finished: false };
                        session.told.insert(serial, told);
                    }
                    other => {
                        other.into_iter().for_each(|it| it.abort());
                        session.out.push_back(Say::Gone(serial).cell());
                    }
                }
            }
            Say::Listen(port) => {
                let taken = self.listener(port).is_some();
                let session = self.session(number)?;
                session.out.push_back(Say::Listens { port, taken }.cell());
                if !taken {
                    session.listens.insert(port);
                    self.away.remove(&port);
                    stack.listen(port);
                    self.sort(now, stack);
                }
            }
            Say::Unlisten(port) => {
                if self.session(number)?.listens.remove(&port) {
                    stack.unlisten(port);
                }
            }
            Say::Connect { request, to } => {
                let session = self.session(number)?;
                match stack.connect(now, to) {
                    Some(peer) => session.opening.push((request, peer)),
                    None => session.answer(request, Asked::NoPort, 0),
                }
            }
            Say::Consumed { serial, consumed } => {
                if let Some(stream) = self.session(number)?.stream(serial) {
                    stream.consume(consumed);
                }
            }
            Say::Bytes { serial, bytes } => {
                if let Some(stream) = self.session(number)?.stream(serial) {
                    let count = stream.stage(0, bytes);
                    stream.produce(stream.produced() + count as u64);
                    if count < bytes.len() {
                        stream.abort();
                    }
                }
            }
            Say::Close { serial, how } => {
                let stream = self.session(number)?.stream(serial);
                match (stream, how) {
                    (Some(stream), CLOSED) => stream.close(),
                    (Some(stream), SHUT) => stream.shut(),
                    (Some(stream), ABORTED) => stream.abort(),
                    _ => {}
                }
            }
            Say::Bind { request, port } => {
                let bound = match port {
                    0 => OWN_PORTS.into_iter().find(|port| stack.bind(*port)),
                    port => stack.bind(port).then_some(port),
                };
                let session = self.session(number)?;
                session.binds.extend(bound);
                let came_to = if bound.is_some() { Asked::Done } else { Asked::Taken };
                session.answer(request, came_to, bound.unwrap_or(port));
            }
            Say::Unbind(port) => {
                if self.session(number)?.binds.remove(&port) {
                    stack.unbind(port);
                }
            }
            Say::Datagram { port, other, bytes } => {
                let bytes = bytes as usize;
                let fits = bytes <= stack.max_datagram(other.ip());
                let session = self.session(number)?;
                if !fits || !session.binds.contains(&port) {
                    return Err(Nonsense);
                }
                session.datagram = Some((port, other, Vec::new(), bytes));
                session.send_whole(now, stack);
            }
            Say::More(bytes) => {
                let session = self.session(number)?;
                let (.., had, rest) = session.datagram.as_mut().ok_or(Nonsense)?;
                *rest = rest.checked_sub(bytes.len()).ok_or(Nonsense)?;
                had.extend_from_slice(bytes);
                session.send_whole(now, stack);
            }
            _ => return Err(Nonsense),
        }
        Ok(())
    }

    fn session(&mut self, number: u32) -> Result<&mut Session<'m>, Nonsense> {
        self.sessions.get_mut(&number).ok_or(Nonsense)
    }

    /// Gives connections that have come about to those who listen.
    fn sort(&mut self, now: Instant, stack: &mut Stack<'m>) {
        let fresh = core::iter::from_fn(|| stack.next_fresh());
        self.left.extend(fresh.map(|it| (now, it.serial(), it)));
        let sessions = &mut self.sessions;
        self.left.retain(|(_, serial, stream)| {
            let is_there = stream.serial() == *serial;
            let port = stream.peer().local;
            let its = sessions.values_mut().find(|it| it.listens.contains(&port));
            match its {
                Some(session) if is_there => session.own(*stream, 0),
                _ => return is_there,
            }
            false
        });
    }

    /// Does what is due, and looks what has become of what users wait for.
    pub fn turn(&mut self, now: Instant, stack: &mut Stack<'m>) {
        let told = told_of(stack);
        if self.told.replace(told).is_some_and(|it| it != told) {
            for number in self.sessions.keys().copied().collect::<Vec<_>>() {
                let welcome = self.welcome(stack, number);
                let session = self.sessions.get_mut(&number);
                session.into_iter().for_each(|it| it.out.push_back(welcome));
            }
        }
        self.sort(now, stack);
        for (.., stream) in self.left.extract_if(.., |it| now.since(it.0) > UNCLAIMED) {
            stream.abort();
        }
        self.away.retain(|port, since| {
            let waits = now.since(*since) <= UNCLAIMED;
            if !waits {
                stack.unlisten(*port);
            }
            waits
        });
        self.orphans.retain(|peer| match stack.progress(*peer) {
            Progress::Waits => true,
            Progress::Open(stream) => {
                stream.abort();
                false
            }
            Progress::Refused | Progress::NoAnswer => false,
        });
        for session in self.sessions.values_mut() {
            for (request, peer) in core::mem::take(&mut session.opening) {
                match stack.progress(peer) {
                    Progress::Waits => session.opening.push((request, peer)),
                    Progress::Open(stream) => session.own(stream, request),
                    Progress::Refused => session.answer(request, Asked::Refused, 0),
                    Progress::NoAnswer => session.answer(request, Asked::NoAnswer, 0),
                }
            }
            for port in session.binds.iter().copied() {
                while session.out.len() < WAITING
                    && let Some(Datagram { from, bytes }) = stack.take(port)
                {
                    let length = bytes.len() as u32;
                    let head = Say::Datagram { port, other: from, bytes: length };
                    session.out.push_back(head.cell());
                    session.out.extend(bytes.chunks(PIECE).map(|it| Say::More(it).cell()));
                }
            }
        }
    }

    /// The next thing that a user is to be told.
    pub fn tell(&mut self, number: u32) -> Option<Cell> {
        let session = self.sessions.get_mut(&number)?;
        session.out.pop_front().or_else(|| session.next())
    }
}

/// What users are told of a stack that may change.
fn told_of(stack: &Stack<'_>) -> (Own, Option<Ipv4Addr>) {
    (stack.own(), stack.settings().resolver)
}

impl<'m> Session<'m> {
    fn answer(&mut self, request: u32, asked: Asked, port: u16) {
        self.out.push_back(Say::Answer { request, code: asked as u32, port }.cell());
    }

    fn stream(&self, serial: u64) -> Option<Stream<'m>> {
        self.told.get(&serial).map(|it| it.stream).filter(|it| it.serial() == serial)
    }

    /// A connection is this user's from now on, which knows nothing of it.
    fn own(&mut self, stream: Stream<'m>, request: u32) {
        if stream.consumed() > 0 || stream.produced() > 0 {
            // Somebody has known it, and has lost what he knew.
            return stream.abort();
        }
        let (serial, peer) = (stream.serial(), stream.peer());
        self.out.push_back(Say::Opened { serial, peer, request }.cell());
        let told = Told { stream, received: 0, acknowledged: 0, finished: false };
        self.told.insert(serial, told);
    }

    /// Sends the datagram that has come whole.
    fn send_whole(&mut self, now: Instant, stack: &mut Stack<'m>) {
        if let Some((port, to, bytes, _)) = self.datagram.take_if(|it| it.3 == 0) {
            stack.send(now, port, to, &bytes);
        }
    }

    /// What is to be told of connections, each in its turn.
    fn next(&mut self) -> Option<Cell> {
        let behind = (Bound::Excluded(self.last), Bound::Unbounded);
        let all = self.told.range(behind).chain(self.told.range(..=self.last));
        let (serial, cell) =
            all.filter_map(|(serial, it)| Some((*serial, it.next(*serial)?))).next()?;
        self.last = serial;
        let it = self.told.get_mut(&serial)?;
        match Say::of(&cell) {
            Some(Say::Bytes { bytes, .. }) => it.received += bytes.len() as u64,
            Some(Say::Acknowledged { acknowledged, finished, .. }) => {
                (it.acknowledged, it.finished) = (acknowledged, finished);
            }
            _ => drop(self.told.remove(&serial)),
        }
        Some(cell)
    }
}

impl Told<'_> {
    /// What is to be told of it.
    fn next(&self, serial: u64) -> Option<Cell> {
        if self.stream.serial() != serial {
            return Some(Say::Gone(serial).cell());
        }
        let (received, acknowledged) = (self.stream.received(), self.stream.acknowledged());
        let finished = self.stream.has_ended() && self.received == received;
        if (acknowledged, finished) != (self.acknowledged, self.finished) {
            return Some(Say::Acknowledged { serial, acknowledged, finished }.cell());
        }
        if self.stream.closed() == CLOSED {
            // What comes yet is dropped, and nobody wants it.
            return None;
        }
        let mut bytes = [0; Say::MOST];
        let count = self.stream.peek_at(self.received, &mut bytes);
        (count > 0).then(|| Say::Bytes { serial, bytes: &bytes[..count] }.cell())
    }
}
