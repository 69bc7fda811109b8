//! The sockets that the switch waits for, who is behind each, and which of them is behind a port.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nile_switch::PortId;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::client::ControlClient;
use super::framing::Framing;
use super::outbox::Outbox;

/// The most sockets at once.
const LIMIT: usize = 8192;

/// What `epoll` calls a socket; never given twice.
pub type Token = u64;

/// Who is at the other end of a socket.
pub enum Source {
    /// Somebody who has not yet said its name.
    Newcomer(OwnedFd),
    /// A hosted node, a peer, or the network outside.
    Hosted(Hosted),
    /// A machine behind a stream.
    Machine(Box<Machine>),
    /// Somebody with requests.
    Client(Box<ControlClient>),
}

/// A hosted node or a peer, or the network outside.
pub struct Hosted {
    pub socket: OwnedFd,
    pub port: PortId,
    /// Whether it is the network outside, whose device comes and goes as others like.
    pub outside: bool,
    /// Whether it had no room for what it was sent last.
    pub waits: bool,
}

/// A machine behind a stream.
pub struct Machine {
    pub socket: OwnedFd,
    pub name: String,
    pub port: PortId,
    pub framing: Framing,
    pub outbox: Outbox,
}

/// All sockets.
pub struct Sources {
    epoll: OwnedFd,
    table: BTreeMap<Token, Source>,
    next: Token,
    /// Which socket is behind a port, in the order of ports.
    behind: Vec<Option<Token>>,
}

impl Sources {
    /// None; those that are added have names from `first` on.
    pub fn new(first: Token) -> io::Result<Sources> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Sources { epoll, table: BTreeMap::new(), next: first, behind: Vec::new() })
    }

    /// Waits until a socket has something, at most for `timeout`; `None` is for ever.
    pub fn wait(
        &self,
        events: &mut Vec<epoll::Event>,
        timeout: Option<Timespec>,
    ) -> io::Result<()> {
        match epoll::wait(&self.epoll, spare_capacity(events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for `socket`, too, which somebody else keeps.
    pub fn watch(&self, socket: impl AsFd, token: Token) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token);
        Ok(epoll::add(&self.epoll, socket, data, epoll::EventFlags::IN)?)
    }

    /// Takes a socket in. It is closed if there are too many.
    pub fn add(&mut self, source: Source) -> io::Result<Token> {
        if self.table.len() >= LIMIT {
            return Err(io::Error::other("too many sockets"));
        }
        let token = self.next;
        self.watch(source.socket(), token)?;
        self.next += 1;
        self.table.insert(token, source);
        Ok(token)
    }

    /// Takes a socket out, to be closed or put back.
    pub fn take(&mut self, token: Token) -> Option<Source> {
        self.table.remove(&token)
    }

    /// Puts a socket back, or another source with the same socket.
    pub fn put(&mut self, token: Token, source: Source) {
        self.table.insert(token, source);
    }

    /// Who is behind a socket.
    pub fn get(&self, token: Token) -> Option<&Source> {
        self.table.get(&token)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, token: Token) -> Option<&mut Source> {
        self.table.get_mut(&token)
    }

    /// Waits for the socket to take more, too, exactly if something waits for it.
    pub fn refresh(&self, token: Token) {
        let Some(source) = self.table.get(&token) else { return };
        let waits = match source {
            Source::Machine(machine) => !machine.outbox.is_empty(),
            Source::Client(client) => client.waits(),
            Source::Hosted(hosted) => hosted.waits,
            Source::Newcomer(_) => false,
        };
        let also = if waits { epoll::EventFlags::OUT } else { epoll::EventFlags::empty() };
        let data = epoll::EventData::new_u64(token);
        // The socket is open and watched, so that there is nothing that can fail.
        let _ = epoll::modify(&self.epoll, source.socket(), data, epoll::EventFlags::IN | also);
    }

    /// The socket behind `port`.
    pub fn behind(&self, port: PortId) -> Option<Token> {
        self.behind.get(port.index()).copied().flatten()
    }

    /// Says which socket is behind `port`.
    pub fn set_behind(&mut self, port: PortId, token: Option<Token>) {
        if self.behind.len() <= port.index() {
            self.behind.resize(port.index() + 1, None);
        }
        self.behind[port.index()] = token;
    }
}

impl Source {
    fn socket(&self) -> BorrowedFd<'_> {
        match self {
            Source::Newcomer(socket) => socket.as_fd(),
            Source::Hosted(hosted) => hosted.socket.as_fd(),
            Source::Machine(machine) => machine.socket.as_fd(),
            Source::Client(client) => client.socket(),
        }
    }
}
