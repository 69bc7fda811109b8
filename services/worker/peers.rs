//! Other workers, and masters: calls to them, and this core's mailbox for what comes from other
//! nodes.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::{CoreId, Generation, NodeId, Status};
use nile_bosml::{Blob, Bytes, Decode, Encode, Reader, Writer};
use nile_job::{JobId, Peer, Standing, ToMaster, WorkerId};
use nile_order::SortedMap;
use nile_stl::{At, CallResult, Place, Stl};

use super::engine::Engine;
use crate::bulk::port::Port;
use crate::cluster;
use nile_interfaces::worker::WorkerClient;
use nile_interfaces::worker::records::{Answer, Delivery};

/// The mailbox of core 0; those of the others follow.
const MAILBOX: u64 = 0x4A0B_0000;

/// The service of masters and records, on the managing core of every node.
const MASTERS: &str = "job";

/// How long until a mailbox that was lost is opened again.
const REOPEN: Duration = Duration::from_millis(50);

/// How soon it is looked again whether a mailbox is open.
const OPENS: Duration = Duration::from_millis(1);

/// How long a message to another worker or to a master may take: they are said again anyway.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long a delivery may take, or a block that another worker reads.
const LONG: Duration = Duration::from_secs(40);

/// The way to others.
pub struct Peers {
    stl: Stl,
    known: RefCell<SortedMap<WorkerId, Rc<WorkerClient>>>,
    /// Where the services of masters are, by node.
    masters: RefCell<SortedMap<NodeId, Place>>,
    is_listening: Cell<bool>,
    /// Whether the mailbox is open, and how many wait for something without a job.
    is_open: Cell<bool>,
    expected: Cell<u32>,
}

/// Something that is expected from another node. Until this is dropped the mailbox stays open.
pub struct Expected(Rc<Engine>);

impl Drop for Expected {
    fn drop(&mut self) {
        let expected = &self.0.peers.expected;
        expected.set(expected.get() - 1);
    }
}

impl Peers {
    /// The way from the core of `stl`.
    pub fn new(stl: &Stl) -> Peers {
        Peers {
            stl: stl.clone(),
            known: RefCell::default(),
            masters: RefCell::default(),
            is_listening: Cell::new(false),
            is_open: Cell::new(false),
            expected: Cell::new(0),
        }
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        cluster::node(&self.stl)
    }

    /// This node, and its incarnation, as its network core has it now.
    pub async fn own(&self) -> CallResult<(NodeId, Generation)> {
        cluster::identity(&self.stl).await
    }

    /// Whether a worker is this core in its present incarnation.
    pub fn is_here(&self, worker: WorkerId) -> bool {
        let host = self.stl.host();
        let is_core = worker.core == host.core() && worker.generation == host.generation();
        is_core && worker.node == self.node()
    }

    /// The mailbox of a core.
    pub fn mailbox(&self, core: CoreId) -> u64 {
        MAILBOX + u64::from(core.0)
    }

    /// The way to a worker; calls are `Dead` when its incarnation is over.
    pub async fn worker(&self, to: WorkerId) -> CallResult<Rc<WorkerClient>> {
        if let Some(known) = self.known.borrow().get(&to) {
            return Ok(known.clone());
        }
        let stl = self.stl.with_patience(LONG);
        let client = WorkerClient::find_at(&stl, self.at(to.node, to.core)).await?;
        let client = Rc::new(client);
        self.known.borrow_mut().insert(to, client.clone());
        Ok(client)
    }

    fn at(&self, node: NodeId, core: CoreId) -> At {
        cluster::at(&self.stl, node, core)
    }

    /// Forgets the way to a worker if a call says that it leads nowhere.
    fn heed<T>(&self, to: WorkerId, result: CallResult<T>) -> CallResult<T> {
        result.inspect_err(|error| {
            if matches!(error.status, Status::Dead | Status::NotFound) {
                self.known.borrow_mut().remove(&to);
            }
        })
    }

    /// Says something to another worker; its answer.
    pub async fn ask(&self, to: WorkerId, number: u64, message: Peer) -> CallResult<Answer> {
        let bytes = message.encode()?;
        let worker = self.worker(to).await?;
        self.heed(to, worker.peer(number, Bytes::from(&bytes[..])).await)
    }

    /// Tells another worker of a piece.
    pub async fn deliver(&self, to: WorkerId, number: u64, delivery: Delivery) -> CallResult<()> {
        let worker = self.worker(to).await?;
        self.heed(to, worker.piece(number, delivery).await)
    }

    /// Calls the service of masters and records of a node, on its managing core.
    async fn at_masters(
        &self,
        node: NodeId,
        method: &str,
        arguments: CallResult<Vec<u8>>,
    ) -> CallResult<Vec<u8>> {
        let stl = self.stl.with_patience(PATIENCE);
        let known = self.masters.borrow().get(&node).copied();
        let place = match known {
            Some(known) => known,
            None => stl.find_at(self.at(node, CoreId::BOOT), MASTERS).await?,
        };
        self.masters.borrow_mut().insert(node, place);
        stl.invoke_in(place, MASTERS, method, &arguments?).await.inspect_err(|error| {
            if matches!(error.status, Status::Dead | Status::Gone | Status::NotFound) {
                self.masters.borrow_mut().remove(&node);
            }
        })
    }

    /// Says something to a master. If it does not get there, the machine says it again.
    pub fn tell_master(&self, engine: &Rc<Engine>, node: NodeId, message: ToMaster) {
        let engine = engine.clone();
        self.stl.host().spawn(Box::pin(async move {
            let Ok(bytes) = message.encode() else { return };
            let arguments = arguments(|out| Bytes::from(&bytes[..]).encode(out));
            let _ = engine.peers.at_masters(node, "notes", arguments).await;
        }));
    }

    /// Asks how a job stands. If no answer comes, the machine asks again.
    pub fn ask_record(&self, engine: &Rc<Engine>, job: JobId) {
        let engine = engine.clone();
        let keepers = engine.with_job(job, |it| it.job().map(|job| job.keepers_in_manifest()));
        let keepers = keepers.flatten().unwrap_or(0);
        self.stl.host().spawn(Box::pin(async move {
            let arguments = arguments(|out| {
                job.0.encode(out);
                keepers.encode(out);
            });
            let reply = engine.peers.at_masters(engine.peers.node(), "standing", arguments).await;
            let standing = reply.ok().and_then(|reply| {
                let Blob(standing) = Blob::decode(&mut Reader::new(&reply)).ok()?;
                Standing::decode(&standing).ok()
            });
            if let Some(standing) = standing {
                engine.with(job, |worker, now| worker.resolve(now, standing));
                engine.pump(job);
            }
        }));
    }

    /// Has other nodes send something here though there may be no job: waits until the mailbox is
    /// open, but not for ever.
    pub async fn expect(&self, engine: &Rc<Engine>) -> Expected {
        self.expected.set(self.expected.get() + 1);
        let expected = Expected(engine.clone());
        self.listen(engine);
        let host = self.stl.host();
        let deadline = host.now() + PATIENCE;
        while self.is_listening.get() && !self.is_open.get() && host.now() < deadline {
            host.pause(OPENS).await;
        }
        expected
    }

    /// Takes what comes to this core's mailbox, as long as there are jobs or somebody expects it.
    /// Nothing comes to a node that is alone.
    pub fn listen(&self, engine: &Rc<Engine>) {
        let is_alone = cluster::member(&self.stl).is_none();
        if is_alone || self.is_listening.replace(true) {
            return;
        }
        let engine = engine.clone();
        self.stl.host().spawn(Box::pin(async move {
            while engine.peers.is_needed(&engine) {
                // What failed is tried again: the network core may have restarted.
                let _ = receive(&engine).await;
                engine.peers.is_open.set(false);
                let parcels = core::mem::take(&mut engine.state.borrow_mut().parcels);
                drop(parcels);
                engine.changes.notify();
                engine.stl.host().pause(REOPEN).await;
            }
            engine.peers.is_listening.set(false);
        }));
    }

    fn is_needed(&self, engine: &Engine) -> bool {
        engine.has_jobs() || self.expected.get() > 0
    }
}

/// Encoded arguments.
fn arguments(encode: impl FnOnce(&mut Writer)) -> CallResult<Vec<u8>> {
    let mut arguments = Writer::new();
    encode(&mut arguments);
    Ok(arguments.into_bytes()?)
}

async fn receive(engine: &Rc<Engine>) -> CallResult<()> {
    let port = Port::find(&engine.stl.with_patience(PATIENCE)).await?;
    let mailbox = port.open(engine.peers.mailbox(engine.core())).await?;
    engine.peers.is_open.set(true);
    while engine.peers.is_needed(engine) {
        match mailbox.next().await {
            Ok(received) => engine.received(received.label, received.buffer),
            Err(error) if error.status == Status::Timeout => {}
            Err(error) => return Err(error),
        }
    }
    mailbox.close().await
}
