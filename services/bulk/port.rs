//! Buffers to and from other nodes, as any core's kernel sends and receives them: the bulk
//! service's mailboxes with the buffers claimed and given up at the right moments.

use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{Generation, NodeId, Part, Status};
use nile_registry::Caller as Binder;
use nile_stl::node::{Buffer, Handle, Pool, from_call, in_call};
use nile_stl::{CallError, CallResult, Place, Stl};

use nile_interfaces::bulk::{BulkClient, Piece};
use nile_interfaces::network::Identity;

/// How long a core waits that could not ask the bulk service, because too much is on its way
/// there.
const CROWDED: Duration = Duration::from_micros(100);

/// A core's way to the mailboxes of all nodes.
#[derive(Clone)]
pub struct Port {
    stl: Stl,
    bulk: Place,
    pool: Pool,
}

/// Something that came to a mailbox.
#[derive(Debug)]
pub struct Received {
    /// From which node; zero if it came from this one and the node is in no cluster.
    pub from: NodeId,
    /// From which of its incarnations.
    pub generation: Generation,
    /// What its sender calls it.
    pub label: u64,
    /// Its bytes, which are this core's now.
    pub buffer: Buffer,
}

/// An open mailbox of this core.
pub struct Mailbox {
    port: Port,
    name: u64,
}

/// A buffer that is on its way to the bulk service. If it never gets there it is taken back.
struct OnTheWay<'p> {
    pool: &'p Pool,
    handle: Option<Handle>,
}

impl OnTheWay<'_> {
    fn take_back(&mut self) -> Option<Buffer> {
        self.pool.claim(self.handle.take()?).ok()
    }
}

impl Drop for OnTheWay<'_> {
    fn drop(&mut self) {
        drop(self.take_back());
    }
}

impl Port {
    /// The way from the core of `stl`, whose patience its calls have. Waits for the registry.
    /// `NotFound` if the node has no pool or no network core.
    pub async fn find(stl: &Stl) -> CallResult<Port> {
        let stl = stl.acting_as(Binder::Operator);
        let no_pool = || CallError::new(Status::NotFound, "this node has no pool: [pool] bytes");
        let pool = stl.node()?.pool().ok_or_else(no_pool)?;
        let missing = || CallError::new(Status::NotFound, "this node has no network core");
        let place = BulkClient::find(&stl).await?.place();
        let bulk = place.filter(Place::is_here).ok_or_else(missing)?;
        Ok(Port { stl, bulk, pool })
    }

    /// The node's buffers.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The same, whose calls wait so long at most.
    #[must_use]
    pub fn with_patience(&self, patience: Duration) -> Port {
        Port { stl: self.stl.with_patience(patience), ..self.clone() }
    }

    /// Sends the first `bytes` bytes of a buffer to a mailbox of a node, zero for this one; over
    /// when they are there. The buffer is gone, however it ends: `NotFound` if nobody has the
    /// mailbox open, `Dead` if the node or the mailbox's owner ends, `Timeout`.
    pub async fn send(
        &self,
        to: NodeId,
        mailbox: u64,
        label: u64,
        buffer: Buffer,
        bytes: usize,
    ) -> CallResult<()> {
        let (mut buffer, host) = (buffer, self.stl.host());
        let deadline = self.stl.deadline();
        let to = Identity { node: to.0, generation: 0 };
        loop {
            let handle = buffer.into_handle(bytes);
            let mut way = OnTheWay { pool: &self.pool, handle: Some(handle) };
            let client = BulkClient::at(&self.stl, self.bulk);
            let result = client.send(to, mailbox, label, in_call(handle)).await;
            let Err(error) = result else { return Ok(()) };
            match way.take_back() {
                // It never got there.
                Some(left) if error.status == Status::Busy && host.now() < deadline => {
                    buffer = left;
                }
                _ => return Err(error),
            }
            host.sleep_until(host.now() + CROWDED).await;
        }
    }

    /// Sends parts of buffers that this core keeps until this has ended, one after the other and
    /// no more than a buffer holds, to a mailbox of another node, where they come as one buffer;
    /// over when they are there. Ends as [`send`](Port::send) does, or `Invalid`, or `NotFound` if
    /// a buffer was given up meanwhile.
    pub async fn send_parts(
        &self,
        to: NodeId,
        mailbox: u64,
        label: u64,
        parts: Vec<Part>,
    ) -> CallResult<()> {
        let (host, deadline) = (self.stl.host(), self.stl.deadline());
        let to = Identity { node: to.0, generation: 0 };
        let pieces: Vec<Piece> = parts.into_iter().map(Piece::from).collect();
        loop {
            let client = BulkClient::at(&self.stl, self.bulk);
            match client.send_pieces(to, mailbox, label, pieces.clone()).await {
                Err(error) if error.status == Status::Busy && host.now() < deadline => {}
                ended => return ended,
            }
            host.sleep_until(host.now() + CROWDED).await;
        }
    }

    /// Opens a mailbox. It is closed when this core's incarnation ends, at the latest. `Exists` if
    /// another core has it.
    pub async fn open(&self, name: u64) -> CallResult<Mailbox> {
        BulkClient::at(&self.stl, self.bulk).open(name).await?;
        Ok(Mailbox { port: self.clone(), name })
    }
}

impl Mailbox {
    /// What came first; waits for it. `Timeout` if nothing came; `NotFound` or `Dead` if the
    /// service's core has forgotten the mailbox or ended.
    pub async fn next(&self) -> CallResult<Received> {
        let Port { stl, bulk, pool } = &self.port;
        loop {
            let came = BulkClient::at(stl, *bulk).next(self.name).await?;
            // Of two tasks that ask at once, one can be given what the other lost; it asks again.
            let Ok(buffer) = pool.claim(from_call(came.buffer)) else { continue };
            return Ok(Received {
                from: NodeId(came.from.node),
                generation: Generation(came.from.generation),
                label: came.label,
                buffer,
            });
        }
    }

    /// Closes it: what it holds is dropped, and what still comes is refused with `NotFound`.
    pub async fn close(self) -> CallResult<()> {
        let Port { stl, bulk, .. } = &self.port;
        BulkClient::at(stl, *bulk).close(self.name).await
    }
}
