//! The server: a thread for each connection, which goes on where the connection's memory says.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::convert::Infallible;
use core::time::Duration;

use nile_abi::Instant;
use nile_interfaces::records::{RecordsClient, StoredRecord};
use nile_net::memory::RECEIVE_BYTES;
use nile_stl::{CallResult, Stl};
use nile_user::Runtime;
use nile_user::net::{NetResult, Network, TcpListener, TcpStream};

use crate::answer::{Answers, Figures, refused};
use crate::request::{Request, parse};
use crate::session::Note;
use crate::table::{MOST_VALUE, Records};

/// How long a call for a record may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The records of this core.
struct Own<'s> {
    runtime: Runtime<'s>,
    client: RecordsClient,
}

impl Records for Own<'_> {
    fn get(&self, key: &[u8]) -> CallResult<Option<StoredRecord>> {
        self.runtime.block_on(self.client.get(key.into()))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> CallResult<()> {
        self.runtime.block_on(self.client.put(key.into(), value.into())).map(drop)
    }

    fn remove(&self, key: &[u8]) -> CallResult<bool> {
        self.runtime.block_on(self.client.remove(key.into()))
    }

    fn compare(&self, key: &[u8], version: u64, value: &[u8]) -> CallResult<bool> {
        Ok(self.runtime.block_on(self.client.compare(key.into(), version, value.into()))?.done)
    }

    fn keys(&self, after: &[u8]) -> CallResult<Vec<Vec<u8>>> {
        let page = self.runtime.block_on(self.client.scan(0, Some(after.to_vec())))?;
        Ok(page.records.into_iter().map(|it| it.key).collect())
    }
}

struct Server<'s> {
    network: Network<'s>,
    stl: Stl,
    answers: Answers<Own<'s>>,
}

/// Serves on this port. Fails if the port or the network cannot be had any more, or the core has no
/// records.
pub fn serve(network: &Network<'_>, stl: &Stl, port: u16) -> NetResult<Infallible> {
    let runtime = network.runtime().clone();
    let stl = stl.with_patience(PATIENCE);
    let client = runtime.block_on(RecordsClient::find(&stl))?;
    let answers = Answers::new(Own { runtime, client });
    let server = Rc::new(Server { network: network.clone(), stl, answers });
    let listener = TcpListener::bind(network, port)?;
    loop {
        let connection = listener.accept()?;
        let server = server.clone();
        network.runtime().spawn(move |_| server.answer_all(&connection));
    }
}

impl<'s> Server<'s> {
    /// Answers requests until the connection ends, by the other side's will or by `quit`.
    fn answer_all(self: &Rc<Self>, connection: &TcpStream<'_>) {
        loop {
            let Some(note) = Note::of(&connection.log()) else { return connection.abort() };
            match self.step(connection, note) {
                Ok(true) => {}
                Ok(false) => return,
                // It has failed, and is gone.
                Err(_) => return,
            }
        }
    }

    /// Answers the next request, or a part of it; whether the connection goes on.
    fn step(self: &Rc<Self>, connection: &TcpStream<'_>, note: Note) -> NetResult<bool> {
        // Data that are passed over come bit by bit.
        let passed = |log: &_| {
            let has_passed = note.catch_up(log);
            (has_passed || log.has_ended()).then_some(has_passed)
        };
        if !connection.wait(passed)? || note.closes {
            return Ok(false);
        }
        let mut bytes = [0; RECEIVE_BYTES];
        let mut count = 0;
        loop {
            let known = count;
            let has_ended = connection.wait(|log| {
                count = log.peek(&mut bytes);
                (count > known || log.has_ended()).then(|| log.has_ended())
            })?;
            let Some(parsed) = parse(&bytes[..count], MOST_VALUE) else {
                if has_ended {
                    return Ok(false);
                }
                continue;
            };
            let piece = match &parsed.request {
                Ok(request) => {
                    let now = self.stl.host().now();
                    self.flush_later(request, now);
                    self.answers.answer(request, note.from, now, || self.figures())
                }
                Err(refusal) => refused(*refusal),
            };
            // There is room once earlier answers were acknowledged.
            connection.wait(|log| note.answer(log, &piece, parsed.bytes).then_some(()))?;
            return Ok(true);
        }
    }

    /// Has all values removed later, if that is asked for. It is forgotten if the package ends.
    fn flush_later(self: &Rc<Self>, request: &Request<'_>, now: Instant) {
        let Request::Flush { delay: seconds @ 1.., .. } = request else { return };
        let due = now + Duration::from_secs(seconds.unsigned_abs());
        let server = self.clone();
        self.network.runtime().spawn(move |runtime| {
            runtime.sleep_until(due);
            if let Err(error) = server.answers.table().flush() {
                server.stl.host().log(format_args!("flush_all: {error}"));
            }
        });
    }

    fn figures(&self) -> CallResult<Figures> {
        let state = self.network.runtime().block_on(self.answers.table().0.client.state())?;
        let connections = self.network.connections();
        Ok(Figures { connections, records: state.records, bytes: state.bytes })
    }
}
