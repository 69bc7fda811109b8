//! Buffers of the pool between nodes: bulk transfer as a service of the node (NileOS paper, III.F).
//!
//! A buffer is sent to a *mailbox* of a node, with a *label* that says what it is. A core opens a
//! mailbox, and what comes is its own, buffer by buffer. On the same node the buffer itself goes
//! over; to another one its bytes, by the protocol of docs/bulk.md, from pool to pool.
//!
//! It runs on the network core that makes the node's calls, and shares its interface; or, if the
//! configuration says so, on another network core, over an interface of its own. Either way it
//! follows what the network service knows of the node and of all others.
//!
//! * [`port`]: all of this as a core uses it.
//! * `mailboxes`: what has come, and for how much there is room.
//! * `post`: the mailboxes of this node, and the way to those of others.
//! * `source`: what is sent.
//! * `link`: the protocol over this core's line, in one incarnation of the node.
//! * `transfers`: the protocol's endpoint with the buffers of its transfers.

mod counters;
mod link;
mod mailboxes;
pub mod port;
mod post;
mod source;
mod transfers;

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;

use nile_abi::ethernet::{BULK, CALLS};
use nile_abi::{CoreId, Generation, NodeId, Part, Status};
use nile_bosml::Buffer;
use nile_stl::node::{from_call, in_call};
use nile_stl::{CallError, CallResult, Caller, Start, Stl, service};

use crate::in_time::in_time;
use nile_interfaces::bulk::{BulkKernel, Came, Piece};
use nile_interfaces::network::{Counter, Identity};
use post::Post;
use source::Source;

/// The mailboxes of this node, and the way to those of others.
pub struct Bulk {
    stl: Stl,
    post: Rc<Post>,
}

impl Start for Bulk {
    fn start(stl: &Stl) -> Bulk {
        let post = Post::start(stl);
        if !post.is_alone() && post.pool().is_ok() {
            stl.host().spawn(Box::pin(link::follow(stl.clone(), post.clone())));
        }
        Bulk { stl: stl.clone(), post }
    }
}

#[service(on = network, keywords(network = 3, bulk = 5, buffer = 3, mailbox = 4))]
impl BulkKernel for Bulk {
    async fn send(
        &self,
        caller: &Caller,
        to: Identity,
        mailbox: u64,
        label: u64,
        buffer: Buffer,
    ) -> CallResult<()> {
        let source_core = self.post.sender(caller)?;
        let stale = |error| CallError::new(Status::Invalid, alloc::format!("{error}"));
        let buffer = self.post.pool()?.claim(from_call(buffer)).map_err(stale)?;
        if to.node == 0 || self.post.is_here(NodeId(to.node)) {
            return in_time(&self.stl, caller, self.post.pass(mailbox, label, buffer)).await;
        }
        let source = Source::Buffer(buffer);
        let send = announcement(to, source_core, mailbox, label, &source);
        in_time(&self.stl, caller, self.post.deliver(send, source)).await
    }

    async fn send_pieces(
        &self,
        caller: &Caller,
        to: Identity,
        mailbox: u64,
        label: u64,
        pieces: Vec<Piece>,
    ) -> CallResult<()> {
        let source_core = self.post.sender(caller)?;
        let source = Source::Parts(pieces.into_iter().map(Part::from).collect());
        let most = self.post.pool()?.buffer_size() as u64;
        if to.node == 0 || self.post.is_here(NodeId(to.node)) || source.bytes() > most {
            let text = "pieces go to other nodes, as many as a buffer holds";
            return Err(CallError::new(Status::Invalid, text));
        }
        let send = announcement(to, source_core, mailbox, label, &source);
        in_time(&self.stl, caller, self.post.deliver(send, source)).await
    }

    fn open(&self, caller: &Caller, mailbox: u64) -> CallResult<()> {
        self.post.open(caller, mailbox)
    }

    fn close(&self, caller: &Caller, mailbox: u64) -> CallResult<()> {
        self.post.close(caller, mailbox)
    }

    async fn next(&self, caller: &Caller, mailbox: u64) -> CallResult<Came> {
        let given = in_time(&self.stl, caller, self.post.next(caller, mailbox)).await?;
        let from = Identity { node: given.from.0, generation: given.generation.0 };
        Ok(Came { from, label: given.label, buffer: in_call(given.handle) })
    }

    fn counters(&self) -> CallResult<Vec<Counter>> {
        let link = self.post.link()?;
        let carried = [
            ("carried-calls", link.line.carried(CALLS)),
            ("carried-bulk", link.line.carried(BULK)),
            ("strays", link.line.strays()),
        ];
        let counted = counters::of(link.transfers.borrow().counters());
        Ok(counted.into_iter().chain(carried).map(Counter::from).collect())
    }
}

/// What a receiver is told of something that is to be sent.
fn announcement(
    to: Identity,
    source_core: CoreId,
    mailbox: u64,
    label: u64,
    source: &Source,
) -> nile_bulk::Send {
    nile_bulk::Send {
        to: NodeId(to.node),
        generation: (to.generation != 0).then_some(Generation(to.generation)),
        source_core,
        core: CoreId::BOOT,
        tag: mailbox,
        label,
        total: Some(source.bytes()),
    }
}
