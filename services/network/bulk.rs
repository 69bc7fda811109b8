//! Buffers of the pool between nodes: bulk transfer as a service of the node (NileOS paper, III.F).
//!
//! A buffer is sent to a *mailbox* of a node, with a *label* that says what it is. A core opens a
//! mailbox, and what comes is its own, buffer by buffer. On the same node the buffer itself goes
//! over; to another one its bytes, by the protocol of docs/bulk.md, from pool to pool.
//!
//! * `mailboxes`: what has come, and for how much there is room.
//! * `transfers`: the protocol's endpoint with the buffers of its transfers.
//! * [`port`]: all of this as a core uses it.

mod mailboxes;
pub mod port;
pub(super) mod transfers;

use alloc::boxed::Box;
use alloc::rc::Rc;
use core::cell::RefCell;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};

use nile_abi::{CoreId, Generation, NodeId, Status};
use nile_bulk::{OutgoingId, Refused, Why};
use nile_stl::node::{Buffer, Pool};
use nile_stl::{CallError, CallResult, Caller, Stl};

use self::mailboxes::{Arrived, Given, Mailboxes, NotOpened, Owner};
use self::transfers::Transfers;
use super::link::Link;

/// The fewest bytes that may be on their way to this node: with small frames a dozen of them would
/// not last until its sleeping core has looked.
const LEAST_WINDOW: u64 = 128 << 10;

/// How many of a link's largest frames may be on their way.
const WINDOW_FRAMES: u64 = 12;

/// The mailboxes of this node. They outlive links: a node that begins anew keeps what has come.
pub(super) struct Post {
    stl: Stl,
    pool: Option<Pool>,
    mailboxes: Rc<RefCell<Mailboxes>>,
    /// The way to other nodes, if there is one now.
    link: RefCell<Option<Rc<Link>>>,
}

impl Post {
    /// The mailboxes of the node of `stl`, none of them open. A mailbox is closed when its owner's
    /// incarnation ends.
    pub fn start(stl: &Stl) -> Rc<Post> {
        let post = Rc::new(Post {
            stl: stl.clone(),
            pool: stl.node().ok().and_then(|node| node.pool()),
            mailboxes: Rc::default(),
            link: RefCell::new(None),
        });
        let told = Rc::downgrade(&post);
        stl.on_death(move |_, _| {
            if let Some(post) = told.upgrade() {
                post.close_orphans();
            }
        });
        post
    }

    /// The transfers of a link that begins, whose endpoint has these settings.
    pub fn transfers(&self, mut settings: nile_bulk::Settings) -> Option<Transfers> {
        let link = &mut settings.link;
        link.window = (WINDOW_FRAMES * link.max_frame as u64).max(LEAST_WINDOW);
        Some(Transfers::new(settings, self.mailboxes.clone(), self.pool.clone()?))
    }

    /// The way to other nodes is this one now.
    pub fn connect(&self, link: Option<Rc<Link>>) {
        *self.link.borrow_mut() = link;
    }

    /// The node's buffers.
    pub fn pool(&self) -> CallResult<&Pool> {
        let none = || CallError::new(Status::NotFound, "this node has no pool: [pool] bytes");
        self.pool.as_ref().ok_or_else(none)
    }

    /// Opens a mailbox for the core that calls.
    pub fn open(&self, caller: &Caller, name: u64) -> CallResult<()> {
        let owner = self.owner(caller)?;
        self.pool()?;
        self.close_orphans();
        self.mailboxes.borrow_mut().open(name, owner).map_err(|error| match error {
            NotOpened::Exists => CallError::new(Status::Exists, "another core has this mailbox"),
            NotOpened::TooMany => CallError::new(Status::NoMemory, "too many mailboxes are open"),
        })
    }

    /// Closes a mailbox of the core that calls.
    pub fn close(&self, caller: &Caller, name: u64) -> CallResult<()> {
        self.check_owner(caller, name)?;
        self.shut(name, Status::NotFound);
        Ok(())
    }

    /// What came first to a mailbox of the core that calls; waits for it.
    pub async fn next(&self, caller: &Caller, name: u64) -> CallResult<Given> {
        let pool = self.pool()?;
        let given = poll_fn(|context| {
            if let Err(error) = self.check_owner(caller, name) {
                return Poll::Ready(Err(error));
            }
            match self.mailboxes.borrow_mut().take(name, pool, context.waker()) {
                Some(given) => Poll::Ready(Ok(given)),
                None => Poll::Pending,
            }
        });
        let given = given.await?;
        if let Some(link) = &*self.link.borrow() {
            // There is room for another transfer.
            link.look();
        }
        Ok(given)
    }

    /// Puts a buffer into a mailbox of this node; waits until there is room.
    pub async fn pass(
        &self,
        from: (NodeId, Generation),
        mailbox: u64,
        label: u64,
        buffer: Buffer,
    ) -> CallResult<()> {
        let (buffers, bytes) = (self.pool()?.capacity(), buffer.len());
        let (from, generation) = from;
        let mut arrived = Some(Arrived { from, generation, label, buffer, bytes });
        poll_fn(|context| {
            let mut mailboxes = self.mailboxes.borrow_mut();
            match mailboxes.has_room(mailbox, buffers) {
                None => Poll::Ready(Err(not_open())),
                Some(true) => {
                    arrived.take().into_iter().for_each(|it| mailboxes.put(mailbox, it));
                    Poll::Ready(Ok(()))
                }
                Some(false) => {
                    mailboxes.wait_for_room(mailbox, context.waker());
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn owner(&self, caller: &Caller) -> CallResult<Owner> {
        let core = caller.own_core()?;
        if caller.is_package() {
            return Err(CallError::new(Status::Denied, "a package does not reach the pool"));
        }
        Ok(Owner { core, generation: self.stl.host().generation_of(core) })
    }

    fn check_owner(&self, caller: &Caller, name: u64) -> CallResult<()> {
        let owner = self.owner(caller)?;
        let known = self.mailboxes.borrow().owner(name);
        if known == Some(owner) { Ok(()) } else { Err(not_open()) }
    }

    /// Who may send.
    pub fn sender(&self, caller: &Caller) -> CallResult<CoreId> {
        Ok(self.owner(caller)?.core)
    }

    fn close_orphans(&self) {
        let host = self.stl.host();
        let lives = |owner: Owner| host.generation_of(owner.core) == owner.generation;
        let orphans = self.mailboxes.borrow().orphans(lives);
        orphans.into_iter().for_each(|name| self.shut(name, Status::Dead));
    }

    fn shut(&self, name: u64, why: Status) {
        let link = self.link.borrow().clone();
        let closed = link.and_then(|link| link.with_bulk(|bulk, _| bulk.close(name, why)));
        if closed.is_none()
            && let Some(pool) = &self.pool
        {
            self.mailboxes.borrow_mut().close(name, pool);
        }
    }
}

fn not_open() -> CallError {
    CallError::new(Status::NotFound, "the mailbox is not open")
}

/// A transfer to another node. As a future it gives the transfer's end and its buffer; dropped
/// before that, it cancels it.
struct Sending {
    link: Rc<Link>,
    id: Option<OutgoingId>,
}

impl Future for Sending {
    type Output = (Result<(), Why>, Option<Buffer>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let gone = Poll::Ready((Err(Why::Dead), None));
        let Some(id) = self.id else { return gone };
        let ended = self.link.look_at_bulk(|bulk| bulk.ended(id, context.waker()));
        match ended {
            None => gone,
            Some(Poll::Pending) => Poll::Pending,
            Some(Poll::Ready((end, buffer))) => {
                self.id = None;
                Poll::Ready((end, Some(buffer)))
            }
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.link.with_bulk(|bulk, _| bulk.forget(id));
        }
    }
}

/// Why a transfer ended early, as the end of a call.
fn failed(why: Why, to: NodeId) -> CallError {
    let message = match why {
        Why::Dead => alloc::format!("{to}, or who has the mailbox there, is gone"),
        Why::Cancelled(Status::NotFound) => alloc::format!("nobody on {to} has the mailbox open"),
        why => alloc::format!("{to}: {why}"),
    };
    CallError::new(why.status(), message)
}

/// What an endpoint does not take, as the end of a call.
fn refused(refused: Refused) -> CallError {
    let status = match refused {
        Refused::Busy => Status::Busy,
        Refused::Dead => Status::Dead,
        Refused::Here | Refused::SmallFrames => Status::Invalid,
    };
    CallError::new(status, alloc::format!("{refused}"))
}

/// Gives the transfers of `link` a buffer to send; waits while as many as may be are under way.
pub(super) async fn deliver(
    stl: &Stl,
    link: &Rc<Link>,
    send: nile_bulk::Send,
    buffer: Buffer,
) -> CallResult<()> {
    const BETWEEN: core::time::Duration = core::time::Duration::from_millis(1);
    let mut buffer = buffer;
    loop {
        let begun = link.with_bulk(|bulk, now| bulk.send(now, send, buffer));
        let begun = begun.ok_or_else(|| CallError::new(Status::NotFound, "no transfers here"))?;
        let (error, left) = match begun {
            Err((error, left)) => (refused(error), Some(left)),
            Ok(id) => match (Sending { link: link.clone(), id: Some(id) }).await {
                (Ok(()), _) => return Ok(()),
                (Err(why), left) => (failed(why, send.to), left),
            },
        };
        match left.filter(|_| error.status == Status::Busy) {
            Some(left) => buffer = left,
            None => return Err(error),
        }
        let host = stl.host();
        Box::pin(host.sleep_until(host.now() + BETWEEN)).await;
    }
}
