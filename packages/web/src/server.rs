//! The server: a thread for each connection, which goes on where the connection's memory says.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::convert::Infallible;
use core::time::Duration;

use nile_net::memory::RECEIVE_BYTES;
use nile_stl::Stl;
use nile_user::net::{NetError, NetResult, Network, TcpListener, TcpStream};

use crate::answer::{Answer, Status as Http};
use crate::data::Data;
use crate::pages::{self, Figures};
use crate::request;
use crate::session::{self, Note};

/// For how long it is tried to read what is to be sent, and how long until it is tried again.
const UNREADABLE: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(50);

/// How long a connection may do nothing.
const IDLE: Duration = Duration::from_secs(60);

/// How long a request's head may take from its first byte on: half a one holds a place that others
/// wait for.
const HEAD: Duration = Duration::from_secs(30);

/// How long a call may take: what waits longer for a disk or another node is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Room for which it is worth to give bytes.
const WORTH: usize = 16 << 10;

struct Server<'s> {
    network: Network<'s>,
    data: Data,
    requests: Cell<u64>,
    bytes: Cell<u64>,
}

/// Serves on this port. Fails if the port or the network cannot be had any more.
pub fn serve(network: &Network<'_>, stl: &Stl, port: u16) -> NetResult<Infallible> {
    let server = Rc::new(Server {
        network: network.clone(),
        data: Data::new(&stl.with_patience(PATIENCE)),
        requests: Cell::new(0),
        bytes: Cell::new(0),
    });
    let listener = TcpListener::bind(network, port)?;
    loop {
        let connection = listener.accept()?;
        let server = server.clone();
        network.runtime().spawn(move |_| server.answer_all(&connection));
    }
}

/// Bytes of a dataset that were read, and how many of them were given to be sent. They are of the
/// answer that is being sent, and none is left at its end.
#[derive(Default)]
struct Ahead {
    bytes: Vec<u8>,
    given: usize,
}

/// What becomes of a connection after a step.
enum Next {
    Stays,
    Ends,
}

impl Server<'_> {
    /// Answers requests until the connection ends.
    fn answer_all(&self, connection: &TcpStream<'_>) {
        connection.set_timeout(Some(IDLE));
        let mut ahead = Ahead::default();
        loop {
            let step = match Note::of(&connection.log()) {
                Some(note) => self.step(connection, &note, &mut ahead),
                None => None,
            };
            match step {
                Some(Next::Stays) => {}
                Some(Next::Ends) => return,
                None => return connection.abort(),
            }
        }
    }

    /// The next step of what is noted; `None` if it cannot be done.
    fn step(&self, connection: &TcpStream<'_>, note: &Note, ahead: &mut Ahead) -> Option<Next> {
        note.catch_up(&connection.log());
        match note.is_done(&connection.log()) {
            false => self.send(connection, note, ahead),
            true if note.closes => Some(Next::Ends),
            true => self.read(connection),
        }
    }

    /// Gives more of a dataset to be sent: first it is read, while what was given before is on its
    /// way, then there is to be room. What cannot be read for a while ends the connection, as its
    /// length was said: who has it may begin anew, or not be known yet.
    fn send(&self, connection: &TcpStream<'_>, note: &Note, ahead: &mut Ahead) -> Option<Next> {
        let (piece, log) = (note.piece.as_ref()?, connection.log());
        if ahead.bytes.is_empty() {
            let (host, runtime) = (self.data.stl().host(), self.network.runtime());
            let until = host.now() + UNREADABLE;
            let bytes = loop {
                match runtime.block_on(self.data.read(piece, note.sent(&log))) {
                    Ok(bytes) => break bytes,
                    Err(_) if host.now() < until => runtime.block_on(host.pause(AGAIN)),
                    Err(error) => {
                        host.log(format_args!("{}: {error}", piece.name));
                        return None;
                    }
                }
            };
            *ahead = Ahead { bytes, given: 0 };
        }
        let rest = &ahead.bytes[ahead.given..];
        let (worth, acknowledged) = (rest.len().min(WORTH), log.acknowledged());
        // A peer that takes little at a time is not idle.
        let waited = connection
            .wait(|log| (log.room() >= worth || log.acknowledged() > acknowledged).then_some(()));
        waited.ok()?;
        let given = connection.write(&rest[..rest.len().min(log.room())]).ok()?;
        self.bytes.set(self.bytes.get() + given as u64);
        ahead.given += given;
        if ahead.given == ahead.bytes.len() {
            *ahead = Ahead::default();
        }
        Some(Next::Stays)
    }

    /// Reads the next request, once it has come, and begins to answer it.
    fn read(&self, connection: &TcpStream<'_>) -> Option<Next> {
        let mut bytes = [0; RECEIVE_BYTES];
        let mut count = 0;
        let mut until = None;
        let (answer, length, stays, is_head) = loop {
            let known = count;
            if known > 0 {
                let now = self.data.stl().host().now();
                let until = *until.get_or_insert(now + HEAD);
                connection.set_timeout(Some(until.since(now)));
            }
            let has_ended = connection.wait(|log| {
                count = log.peek(&mut bytes);
                (count > known || log.has_ended()).then(|| log.has_ended())
            });
            connection.set_timeout(Some(IDLE));
            let has_ended = match has_ended {
                Err(NetError::TimedOut) if known > 0 => {
                    let why = "a request's head is to come within 30 s";
                    break (Answer::refusal(Http::RequestTimeout, why), count, false, false);
                }
                other => other.ok()?,
            };
            match request::parse(&bytes[..count]) {
                Ok(Some(request)) => {
                    let figures = self.figures();
                    let answer = pages::answer(&request, &self.data, &figures);
                    let answer = self.network.runtime().block_on(answer);
                    break (answer, request.length, request.stays, request.is_head);
                }
                Ok(None) if count == RECEIVE_BYTES => {
                    let why = "a request's head has less than 8 KiB here";
                    break (Answer::refusal(Http::HeadersTooLarge, why), count, false, false);
                }
                Ok(None) if has_ended => return Some(Next::Ends),
                Ok(None) => {}
                Err(status) => {
                    let why = "GET and HEAD of HTTP/1.1 are served, without a body";
                    break (Answer::refusal(status, why), count, false, false);
                }
            }
        };
        // There is room once earlier answers were acknowledged.
        let begins = |log: &_| session::begin(log, &answer, length, stays, is_head).then_some(());
        connection.wait(begins).ok()?;
        self.requests.set(self.requests.get() + 1);
        Some(Next::Stays)
    }

    fn figures(&self) -> Figures {
        Figures {
            node: self.network.node().0,
            uptime: self.data.stl().host().now().as_nanos() as f64 / 1e9,
            connections: self.network.connections(),
            requests: self.requests.get(),
            bytes: self.bytes.get(),
            counts: self.network.counts(),
            frames: self.network.frame_counts().unwrap_or_default(),
        }
    }
}
