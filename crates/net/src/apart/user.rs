//! A user's side: its copies of the connections that it has, and what it asks for.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddr};
use core::ops::Bound;

use super::say::{CELL_BYTES, Cell, Say};
use super::users::Nonsense;
use crate::memory::{Field, Memory, RECEIVE_BYTES};
use crate::own::Own;
use crate::peer::Peer;
use crate::stream::{ABORTED, Stream};
use crate::tcp::OWN_PORTS;
use crate::udp::Datagram;

/// Datagrams that may wait at a port; more are dropped.
const WAITING: usize = 64;

/// What has become of something that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// Nothing yet.
    Waits,
    /// It is done.
    Done,
    /// Somebody has the port.
    Taken,
    /// The other side takes no connections at that port.
    Refused,
    /// Nobody answers.
    NoAnswer,
    /// All ports to this peer are in use.
    NoPort,
}

impl Asked {
    const ALL: [Asked; 6] =
        [Asked::Waits, Asked::Done, Asked::Taken, Asked::Refused, Asked::NoAnswer, Asked::NoPort];

    fn of(code: u32) -> Option<Asked> {
        Asked::ALL.into_iter().find(|it| *it as u32 == code)
    }
}

/// What a user is told first, and again when it changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// The node.
    pub node: u32,
    /// Its addresses.
    pub own: Own,
    /// Who is asked for the addresses of names, if anybody is.
    pub resolver: Option<Ipv4Addr>,
    /// A number that nobody else knows.
    pub seed: u64,
}

/// A connection, and what the stack was told of it.
struct Known<'m> {
    stream: Stream<'m>,
    /// The stack has said in this session that it has it.
    is_there: bool,
    consumed: u64,
    produced: u64,
    closed: u64,
}

/// What a user asks for, until it has come about.
#[derive(Clone, Copy)]
enum Request {
    Connect(SocketAddr),
    Bind(u16),
}

/// A datagram that is coming: its port, what has come, and how many bytes are still to come.
type Coming = (u16, Datagram, usize);

/// A user of a stack that is elsewhere.
pub struct User<'m> {
    name: String,
    memory: Memory<'m>,
    welcome: Option<Welcome>,
    out: VecDeque<Cell>,
    known: BTreeMap<u64, Known<'m>>,
    /// The connection that was the last to be told of.
    last: u64,
    /// Connections that nobody has taken yet.
    fresh: VecDeque<Stream<'m>>,
    listens: BTreeMap<u16, Asked>,
    requests: BTreeMap<u32, (Request, Asked, u64)>,
    next_request: u32,
    binds: BTreeMap<u16, VecDeque<Datagram>>,
    coming: Option<Coming>,
}

impl<'m> User<'m> {
    /// A user that goes on with the connections in `memory`. Those that it has opened itself are
    /// ended, as nobody knows what for.
    pub fn new(name: &str, memory: Memory<'m>) -> User<'m> {
        let mut user = User {
            name: name.into(),
            memory,
            welcome: None,
            out: VecDeque::new(),
            known: BTreeMap::new(),
            last: 0,
            fresh: VecDeque::new(),
            listens: BTreeMap::new(),
            requests: BTreeMap::new(),
            next_request: 1,
            binds: BTreeMap::new(),
            coming: None,
        };
        for index in 0..memory.slots() {
            let slot = memory.slot(index);
            let serial = slot.get(Field::Serial);
            let stream = Stream::of(slot);
            if serial == 0 {
                continue;
            }
            if !slot.is_sound() || user.known.contains_key(&serial) {
                slot.set(Field::Serial, 0);
                continue;
            }
            match OWN_PORTS.contains(&stream.peer().local) {
                true => stream.abort(),
                false => user.fresh.push_back(stream),
            }
            user.known.insert(serial, Known::of(stream));
        }
        user
    }

    /// Begins a session: what is said from now on is of it.
    pub fn begin(&mut self) {
        self.out.clear();
        self.coming = None;
        self.out
            .push_back(Say::Name(&self.name.as_bytes()[..self.name.len().min(CELL_BYTES)]).cell());
        for (serial, known) in &mut self.known {
            let (peer, serial) = (known.stream.peer(), *serial);
            let (received, consumed) = (known.stream.received(), known.stream.consumed());
            (known.is_there, known.consumed) = (false, consumed);
            self.out.push_back(Say::Know { serial, peer, received, consumed }.cell());
        }
        for (port, asked) in &mut self.listens {
            *asked = Asked::Waits;
            self.out.push_back(Say::Listen(*port).cell());
        }
        // What is bound already is asked for again, and nobody waits for the answer.
        self.out.extend(self.binds.keys().map(|port| Say::Bind { request: 0, port: *port }.cell()));
        for (request, (what, asked, _)) in &self.requests {
            if *asked == Asked::Waits {
                self.out.push_back(what.say(*request).cell());
            }
        }
    }

    /// What it was told first; none before its first session.
    pub fn welcome(&self) -> Option<Welcome> {
        self.welcome
    }

    /// Takes a cell of the stack's.
    pub fn take(&mut self, cell: &Cell) -> Result<(), Nonsense> {
        match Say::of(cell).ok_or(Nonsense)? {
            Say::Welcome { node, own, resolver, seed } => {
                let resolver = Some(resolver).filter(|it| !it.is_unspecified());
                self.welcome = Some(Welcome { node, own, resolver, seed });
            }
            Say::Opened { serial, peer, request } => self.opened(serial, peer, request),
            Say::Has { serial, produced } => {
                let known = self.known.get_mut(&serial).ok_or(Nonsense)?;
                let stream = known.stream;
                known.closed = 0;
                known.is_there = true;
                match (stream.acknowledged()..=stream.produced()).contains(&produced) {
                    true => known.produced = produced,
                    false => {
                        known.produced = stream.produced();
                        stream.abort();
                    }
                }
            }
            Say::Bytes { serial, bytes } => {
                let known = self.known.get(&serial).ok_or(Nonsense)?;
                let slot = known.stream.slot();
                let (received, consumed) = (known.stream.received(), known.stream.consumed());
                if received + bytes.len() as u64 > consumed + RECEIVE_BYTES as u64 {
                    return Err(Nonsense);
                }
                slot.received().write(received, bytes);
                slot.set(Field::Received, received + bytes.len() as u64);
            }
            Say::Acknowledged { serial, acknowledged, finished } => {
                let stream = self.known.get(&serial).ok_or(Nonsense)?.stream;
                let acknowledged = acknowledged.clamp(stream.acknowledged(), stream.produced());
                stream.slot().set(Field::Acknowledged, acknowledged);
                if finished {
                    stream.slot().set(Field::Finished, 1);
                }
            }
            Say::Gone(serial) => {
                if let Some(known) = self.known.remove(&serial) {
                    known.stream.slot().set(Field::Serial, 0);
                }
            }
            Say::Answer { request, code, port } => self.answered(request, code, port)?,
            Say::Listens { port, taken } => {
                if let Some(asked) = self.listens.get_mut(&port) {
                    *asked = if taken { Asked::Taken } else { Asked::Done };
                }
            }
            Say::Datagram { port, other, bytes } => {
                let datagram = Datagram { from: other, bytes: Vec::new() };
                self.coming = Some((port, datagram, bytes as usize));
                self.has_come();
            }
            Say::More(bytes) => {
                let (_, datagram, rest) = self.coming.as_mut().ok_or(Nonsense)?;
                *rest = rest.checked_sub(bytes.len()).ok_or(Nonsense)?;
                datagram.bytes.extend_from_slice(bytes);
                self.has_come();
            }
            _ => return Err(Nonsense),
        }
        Ok(())
    }

    fn opened(&mut self, serial: u64, peer: Peer, request: u32) {
        let is_free = |index: &usize| self.memory.slot(*index).get(Field::Serial) == 0;
        let index = (0..self.memory.slots()).find(is_free);
        let asked = self.requests.get_mut(&request).filter(|it| it.1 == Asked::Waits);
        // There is no room for it, or nobody waits for it any more.
        let Some(index) = index.filter(|_| request == 0 || asked.is_some()) else {
            let how = ABORTED;
            return self.out.push_back(Say::Close { serial, how }.cell());
        };
        let slot = self.memory.slot(index);
        slot.open(serial, peer.encode(), [0, 0], 0);
        let stream = Stream::of(slot);
        self.known.insert(serial, Known { is_there: true, ..Known::of(stream) });
        match asked {
            Some(asked) => (asked.1, asked.2) = (Asked::Done, serial),
            None => self.fresh.push_back(stream),
        }
    }

    fn answered(&mut self, request: u32, code: u32, port: u16) -> Result<(), Nonsense> {
        let came_to = Asked::of(code).ok_or(Nonsense)?;
        if let Some(asked) = self.requests.get_mut(&request) {
            (asked.1, asked.2) = (came_to, port.into());
            if let (Request::Bind(_), Asked::Done) = (asked.0, came_to) {
                self.binds.insert(port, VecDeque::new());
            }
        }
        Ok(())
    }

    /// Has a datagram that has come whole wait at its port.
    fn has_come(&mut self) {
        let whole = self.coming.take_if(|it| it.2 == 0);
        if let Some((port, datagram, _)) = whole
            && let Some(waiting) = self.binds.get_mut(&port)
            && waiting.len() < WAITING
        {
            waiting.push_back(datagram);
        }
    }

    /// The next thing that the stack is to be told.
    pub fn tell(&mut self) -> Option<Cell> {
        if let Some(cell) = self.out.pop_front() {
            return Some(cell);
        }
        let behind = (Bound::Excluded(self.last), Bound::Unbounded);
        let all = self.known.range(behind).chain(self.known.range(..=self.last));
        let (serial, cell) =
            all.filter_map(|(serial, it)| Some((*serial, it.next(*serial)?))).next()?;
        self.last = serial;
        let known = self.known.get_mut(&serial)?;
        match Say::of(&cell) {
            Some(Say::Bytes { bytes, .. }) => known.produced += bytes.len() as u64,
            Some(Say::Consumed { consumed, .. }) => known.consumed = consumed,
            Some(Say::Close { how, .. }) => known.closed = how,
            _ => {}
        }
        Some(cell)
    }

    /// Asks for a port that connections are taken to: how that stands is what
    /// [`listens`](Self::listens) says.
    pub fn listen(&mut self, port: u16) {
        self.listens.insert(port, Asked::Waits);
        self.out.push_back(Say::Listen(port).cell());
    }

    /// How it stands with a port that was asked for.
    pub fn listens(&self, port: u16) -> Option<Asked> {
        self.listens.get(&port).copied()
    }

    /// Takes no more connections to a port; those that there are go on.
    pub fn unlisten(&mut self, port: u16) {
        // Of one that was asked for again in a new session the answer may be on its way.
        if self.listens.remove(&port).is_some_and(|it| it != Asked::Taken) {
            self.out.push_back(Say::Unlisten(port).cell());
        }
    }

    /// A connection to a port that nobody has taken yet.
    pub fn accept(&mut self, port: u16) -> Option<Stream<'m>> {
        let is_its = |it: &Stream<'_>| it.serial() != 0 && it.peer().local == port;
        let place = self.fresh.iter().position(is_its)?;
        self.fresh.remove(place)
    }

    fn ask(&mut self, what: Request) -> u32 {
        let request = self.next_request;
        self.next_request = request.wrapping_add(1).max(1);
        self.requests.insert(request, (what, Asked::Waits, 0));
        self.out.push_back(what.say(request).cell());
        request
    }

    /// Begins to open a connection: what [`asked`](Self::asked) names it by.
    pub fn connect(&mut self, to: SocketAddr) -> u32 {
        self.ask(Request::Connect(to))
    }

    /// Asks for a port for datagrams, any for 0: what [`asked`](Self::asked) names it by.
    pub fn bind(&mut self, port: u16) -> u32 {
        self.ask(Request::Bind(port))
    }

    /// How it stands with what was asked for, which is forgotten once it has come to something: the
    /// port, or the number of the connection.
    pub fn asked(&mut self, request: u32) -> (Asked, u64) {
        match self.requests.get(&request).map(|it| (it.1, it.2)) {
            Some((Asked::Waits, of)) => (Asked::Waits, of),
            Some(over) => {
                self.requests.remove(&request);
                over
            }
            None => (Asked::NoAnswer, 0),
        }
    }

    /// All connections, in the order of their numbers.
    pub fn streams(&self) -> impl Iterator<Item = Stream<'m>> + use<'m, '_> {
        self.known.values().map(|it| it.stream)
    }

    /// A connection by its number.
    pub fn stream(&self, serial: u64) -> Option<Stream<'m>> {
        self.known.get(&serial).map(|it| it.stream)
    }

    /// Gives a port for datagrams back.
    pub fn unbind(&mut self, port: u16) {
        if self.binds.remove(&port).is_some() {
            self.out.push_back(Say::Unbind(port).cell());
        }
    }

    /// The first datagram that waits at a port.
    pub fn receive(&mut self, port: u16) -> Option<Datagram> {
        self.binds.get_mut(&port)?.pop_front()
    }

    /// Sends a datagram. `false`, and nothing is sent: it is too long.
    pub fn send(&mut self, port: u16, to: SocketAddr, bytes: &[u8]) -> bool {
        if self.welcome.is_none_or(|it| bytes.len() > it.own.max_datagram(to.ip())) {
            return false;
        }
        let head = Say::Datagram { port, other: to, bytes: bytes.len() as u32 };
        self.out.push_back(head.cell());
        self.out.extend(bytes.chunks(CELL_BYTES).map(|it| Say::More(it).cell()));
        true
    }

    /// How many cells wait that are not of connections.
    pub fn waiting(&self) -> usize {
        self.out.len()
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.known.len()
    }
}

impl Request {
    fn say(self, request: u32) -> Say<'static> {
        match self {
            Request::Connect(to) => Say::Connect { request, to },
            Request::Bind(port) => Say::Bind { request, port },
        }
    }
}

impl<'m> Known<'m> {
    /// A connection as it is in the memory; nothing was told of it.
    fn of(stream: Stream<'m>) -> Known<'m> {
        let (consumed, produced) = (stream.consumed(), stream.produced());
        Known { stream, is_there: false, consumed, produced, closed: 0 }
    }

    /// What the stack is to be told of it: how it ends only when it has all before that.
    fn next(&self, serial: u64) -> Option<Cell> {
        let stream = self.stream;
        if !self.is_there {
            return None;
        }
        let how = stream.closed();
        let mut bytes = [0; Say::MOST];
        let count = stream.produced_at(self.produced, &mut bytes);
        if count > 0 && how != ABORTED {
            return Some(Say::Bytes { serial, bytes: &bytes[..count] }.cell());
        }
        if stream.consumed() > self.consumed {
            return Some(Say::Consumed { serial, consumed: stream.consumed() }.cell());
        }
        (how != self.closed && how != 0).then(|| Say::Close { serial, how }.cell())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU64;

    #[test]
    fn a_port_that_is_asked_for_again_is_given_back() {
        let words: Vec<AtomicU64> =
            (0..crate::memory::words(1)).map(|_| AtomicU64::new(0)).collect();
        let mut user = User::new("user", Memory::new(&words, [1, 2]).unwrap());
        user.listen(80);
        let taken = Say::Listens { port: 80, taken: false }.cell();
        assert_eq!(user.take(&taken), Ok(()));
        user.begin();
        assert_eq!(user.listens(80), Some(Asked::Waits));
        user.unlisten(80);
        let said: Vec<Cell> = core::iter::from_fn(|| user.tell()).collect();
        assert_eq!(said.last(), Some(&Say::Unlisten(80).cell()));
        user.listen(7);
        assert_eq!(user.take(&Say::Listens { port: 7, taken: true }.cell()), Ok(()));
        user.unlisten(7);
        let said: Vec<Cell> = core::iter::from_fn(|| user.tell()).collect();
        assert_eq!(said, [Say::Listen(7).cell()], "it was never the user's");
    }
}
