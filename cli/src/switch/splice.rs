//! A connection to a port of this machine, and the one to a node that it is spliced to. Each side's
//! bytes wait in buffers of a fixed size, and a side that has no room for more stops the other. An
//! end and a failure of either side become the same of the other.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Instant as Clock;

use rustix::event::PollFlags;
use rustix::net::sockopt;
use smoltcp::iface::{Context, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Duration;
use smoltcp::wire::IpAddress;

/// Bytes that may wait from the node, and for it.
const FROM_NODE: usize = 256 << 10;
const TO_NODE: usize = 64 << 10;

/// How long a node may say nothing before its connection is given up; and how often it is asked.
const PATIENCE: Duration = Duration::from_secs(60);
const ASKED: Duration = Duration::from_secs(15);

/// How long a node may take to answer at all, and how long it is tried to tell it of a failure: one
/// that is not there, or has nobody who speaks IPv4, does neither.
const ANSWER: std::time::Duration = std::time::Duration::from_secs(5);

/// Two connections that are one.
pub struct Splice {
    pub stream: TcpStream,
    handle: SocketHandle,
    /// The machine's side sends no more.
    has_ended: bool,
    /// It was told that the node's side sends no more.
    was_told: bool,
    /// It has no room for more.
    is_full: bool,
    /// Since when the node has had to answer, or its connection has been closed.
    since: Clock,
    is_closed: bool,
}

impl Splice {
    /// Begins the connection to the node. `None` if it cannot be begun.
    pub fn begin(
        stream: TcpStream,
        sockets: &mut SocketSet<'static>,
        context: &mut Context,
        to: (IpAddress, u16),
        port: u16,
    ) -> Option<Splice> {
        stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).ok()?;
        let buffer = |bytes| SocketBuffer::new(vec![0; bytes]);
        let mut socket = Socket::new(buffer(FROM_NODE), buffer(TO_NODE));
        socket.set_congestion_control(CongestionControl::Reno);
        socket.set_nagle_enabled(false);
        socket.set_timeout(Some(PATIENCE));
        socket.set_keep_alive(Some(ASKED));
        socket.connect(context, to, port).ok()?;
        let handle = sockets.add(socket);
        let (has_ended, was_told, is_full) = (false, false, false);
        let (since, is_closed) = (Clock::now(), false);
        Some(Splice { stream, handle, has_ended, was_told, is_full, since, is_closed })
    }

    /// Moves what can be moved. Whether it goes on.
    pub fn turn(&mut self, sockets: &mut SocketSet<'static>) -> bool {
        let socket = sockets.get_mut::<Socket<'static>>(self.handle);
        if self.feed_node(socket).and_then(|()| self.feed_machine(socket)).is_err() {
            // The peer that is still there is told that this has failed.
            socket.abort();
            self.has_ended = true;
            self.was_told = true;
        }
        if socket.state() == State::Closed && !self.is_closed {
            (self.since, self.is_closed) = (Clock::now(), true);
        }
        match socket.state() {
            State::SynSent if self.since.elapsed() >= ANSWER => self.fail(),
            // All that was sent has arrived, and all that came was handed on.
            State::TimeWait if self.was_told => {}
            // A failed end is sent before the socket goes.
            State::Closed
                if socket.remote_endpoint().is_some() && self.since.elapsed() < ANSWER =>
            {
                return true;
            }
            State::Closed => {
                if !(self.has_ended && self.was_told) {
                    self.fail();
                }
            }
            _ => return true,
        }
        sockets.remove(self.handle);
        false
    }

    /// From the machine's side to the node's.
    fn feed_node(&mut self, socket: &mut Socket<'_>) -> Result<(), ErrorKind> {
        while !self.has_ended && socket.can_send() {
            let stream = &mut self.stream;
            let read = socket.send(|room| match stream.read(room) {
                Ok(count) => (count, Ok(count)),
                Err(error) => (0, Err(error.kind())),
            });
            match read {
                Ok(Ok(0)) => {
                    self.has_ended = true;
                    socket.close();
                }
                Ok(Ok(_)) | Ok(Err(ErrorKind::Interrupted)) => {}
                Ok(Err(ErrorKind::WouldBlock)) => break,
                Ok(Err(kind)) => return Err(kind),
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// From the node's side to the machine's.
    fn feed_machine(&mut self, socket: &mut Socket<'_>) -> Result<(), ErrorKind> {
        self.is_full = false;
        while socket.can_recv() {
            let stream = &mut self.stream;
            let written = socket.recv(|bytes| match stream.write(bytes) {
                Ok(count) => (count, Ok(count)),
                Err(error) => (0, Err(error.kind())),
            });
            match written {
                Ok(Ok(count)) if count > 0 => {}
                Ok(Err(ErrorKind::Interrupted)) => {}
                Ok(Err(ErrorKind::WouldBlock)) => {
                    self.is_full = true;
                    return Ok(());
                }
                Ok(Ok(_)) => return Err(ErrorKind::WriteZero),
                Ok(Err(kind)) => return Err(kind),
                Err(_) => return Ok(()),
            }
        }
        let ended = [State::CloseWait, State::Closing, State::LastAck, State::TimeWait]
            .contains(&socket.state());
        if ended && !self.was_told {
            self.was_told = true;
            // It may be gone already.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        Ok(())
    }

    /// Tells the machine's side that this has failed, not ended.
    fn fail(&self) {
        let _ = sockopt::set_socket_linger(&self.stream, Some(std::time::Duration::ZERO));
    }

    /// What is waited for on the machine's side.
    pub fn waits_for(&self, sockets: &SocketSet<'static>) -> PollFlags {
        let socket = sockets.get::<Socket<'static>>(self.handle);
        let mut wants = PollFlags::empty();
        if !self.has_ended && socket.can_send() {
            wants |= PollFlags::IN;
        }
        if self.is_full {
            wants |= PollFlags::OUT;
        }
        wants
    }
}
