//! The mailboxes of this node, and the way to those of others.

use alloc::rc::Rc;
use core::cell::RefCell;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use nile_abi::{CoreId, Generation, NodeId, Status};
use nile_bulk::{OutgoingId, Refused, Why};
use nile_stl::node::{Buffer, DrivenInterface, Pool};
use nile_stl::{CallError, CallResult, Caller, Stl};

use super::link::Link;
use super::mailboxes::{Arrived, Given, Mailboxes, NotOpened, Owner};
use super::source::Source;
use super::transfers::Transfers;

/// How soon a transfer that could not begin is tried again.
const RETRY: Duration = Duration::from_millis(1);

/// The mailboxes of this node. They outlive links: a node that begins anew keeps what has come.
pub struct Post {
    stl: Stl,
    pool: Option<Pool>,
    mailboxes: Rc<RefCell<Mailboxes>>,
    /// This node in its cluster; `None` if it is in none.
    own: Option<NodeId>,
    /// The way to other nodes, or why there is none now.
    link: RefCell<CallResult<Rc<Link>>>,
}

impl Post {
    /// The mailboxes of the node of `stl`, none of them open. A mailbox is closed when its owner's
    /// incarnation ends.
    pub fn start(stl: &Stl) -> Rc<Post> {
        let node = stl.node().ok();
        let own = node.as_ref().and_then(|node| node.member()).map(|member| member.node);
        let none = match own {
            Some(_) => CallError::new(Status::Busy, "this node is not in its cluster yet"),
            None => CallError::new(Status::NotFound, "this node is in no cluster"),
        };
        let post = Rc::new(Post {
            stl: stl.clone(),
            pool: node.and_then(|node| node.pool()),
            mailboxes: Rc::default(),
            own,
            link: RefCell::new(Err(none)),
        });
        let told = Rc::downgrade(&post);
        stl.on_death(move |_, _| {
            if let Some(post) = told.upgrade() {
                post.close_orphans();
            }
        });
        post
    }

    /// The transfers of a link that begins, whose endpoint has these settings. `NotFound` if the
    /// node has no pool.
    pub fn transfers(
        &self,
        settings: nile_bulk::Settings,
        interface: Rc<DrivenInterface>,
    ) -> CallResult<Transfers> {
        Ok(Transfers::new(settings, self.mailboxes.clone(), self.pool()?.clone(), interface))
    }

    /// The way to other nodes is this one from now on, or there is none; it ends the one before.
    pub fn connect(&self, link: CallResult<Rc<Link>>) -> CallResult<Rc<Link>> {
        if let Ok(before) = self.link.replace(link.clone()) {
            before.close();
        }
        if let Ok(link) = &link {
            link.open();
        }
        link
    }

    /// The way to other nodes.
    pub fn link(&self) -> CallResult<Rc<Link>> {
        self.link.borrow().clone()
    }

    /// Whether this node is in no cluster.
    pub fn is_alone(&self) -> bool {
        self.own.is_none()
    }

    /// Whether a node is this one.
    pub fn is_here(&self, node: NodeId) -> bool {
        self.own == Some(node)
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
        if let Ok(link) = &*self.link.borrow() {
            // There is room for another transfer.
            link.line.look();
        }
        Ok(given)
    }

    /// Puts a buffer into a mailbox of this node; waits until there is room.
    pub async fn pass(&self, mailbox: u64, label: u64, buffer: Buffer) -> CallResult<()> {
        let (buffers, bytes) = (self.pool()?.capacity(), buffer.len());
        let (from, generation) = self.link().map_or((NodeId(0), Generation(0)), |link| link.own());
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
        match (self.link(), &self.pool) {
            (Ok(link), _) => drop(link.with(|transfers, _| transfers.close(name, why))),
            (Err(_), Some(pool)) => drop(self.mailboxes.borrow_mut().close(name, pool)),
            (Err(_), None) => {}
        }
    }

    /// Has something sent to another node; waits while that cannot begin, because as many are under
    /// way as may be, or because the node begins anew.
    pub async fn deliver(&self, send: nile_bulk::Send, source: Source) -> CallResult<()> {
        let mut source = source;
        loop {
            let error = match self.link() {
                Err(none) => none,
                Ok(link) => match transfer(link, send, source).await {
                    Ok(()) => return Ok(()),
                    Err((error, Some(left))) => {
                        source = left;
                        error
                    }
                    Err((error, None)) => return Err(error),
                },
            };
            if error.status != Status::Busy {
                return Err(error);
            }
            let host = self.stl.host();
            host.sleep_until(host.now() + RETRY).await;
        }
    }
}

/// Sends something over a link. What could not go comes back.
async fn transfer(
    link: Rc<Link>,
    send: nile_bulk::Send,
    source: Source,
) -> Result<(), (CallError, Option<Source>)> {
    link.talk(send.to);
    let begun = link.with(|transfers, now| transfers.send(now, send, source));
    let id = begun.map_err(|(error, left)| (refused(error), Some(left)))?;
    let (end, left) = Sending { link, id: Some(id) }.await;
    end.map_err(|why| (failed(why, send.to), left))
}

fn not_open() -> CallError {
    CallError::new(Status::NotFound, "the mailbox is not open")
}

/// A transfer to another node. As a future it gives the transfer's end and what was sent; dropped
/// before that, it cancels it.
struct Sending {
    link: Rc<Link>,
    id: Option<OutgoingId>,
}

impl Future for Sending {
    type Output = (Result<(), Why>, Option<Source>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let gone = Poll::Ready((Err(Why::Dead), None));
        let Some(id) = self.id else { return gone };
        let ended = self.link.transfers.borrow_mut().ended(id, context.waker());
        match ended {
            None => gone,
            Some(Poll::Pending) => Poll::Pending,
            Some(Poll::Ready((end, source))) => {
                self.id = None;
                Poll::Ready((end, Some(source)))
            }
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.link.with(|transfers, _| transfers.forget(id));
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
