//! Blocks between nodes: a block goes to a mailbox of another node, and a whole dataset of another
//! node's store comes here, block by block, several at once.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use nile_abi::{NodeId, Status};
use nile_stl::{CallError, CallResult, LocalFuture, Stl};
use nile_store::{Block, Manifest, Name, Version};

use super::blocks;
use super::keeper::Keeper;
use super::streams::Stream;
use super::travel::{owner, refused};
use crate::bulk::port::{Mailbox, Port, Received};
use crate::cluster;
use nile_interfaces::dataset::DatasetClient;
use nile_interfaces::dataset::records::{Destination, Listed};

/// The mailboxes of datasets that come here: this, the core, and a number on that.
const MAILBOXES: u64 = 0xda7a << 48;

/// Numbers of fetches that each disk of a core has.
pub const NUMBERS: u32 = 1 << 28;

/// Blocks that are asked for and have not come.
const WINDOW: usize = 4;

/// How long one block may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long to wait after a node said that it has no free buffer.
const BUSY: Duration = Duration::from_millis(1);

/// Sends a block to a mailbox; gives its length.
pub async fn send(
    keeper: &Keeper,
    (name, version, number): (&Name, Version, u32),
    to: Destination,
    patience: Duration,
) -> CallResult<u32> {
    // First, so that nothing is read for nobody.
    let port = Port::find(&keeper.stl).await?.with_patience(patience);
    let (buffer, bytes) = blocks::read(keeper, name, version, number as usize).await?;
    port.send(NodeId(to.node), to.mailbox, to.label, buffer, bytes).await?;
    Ok(bytes as u32)
}

/// A dataset on its way here. When this is dropped, nothing is left of what has not become one.
struct Coming<'k> {
    keeper: &'k Rc<Keeper>,
    stream: Rc<Stream>,
    blocks: Vec<Block>,
    /// Those that have come.
    are_here: Vec<bool>,
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        self.stream.give_up(self.keeper);
    }
}

/// A mailbox that is closed when nobody needs it any more.
struct Inbox {
    stl: Stl,
    name: u64,
    mailbox: Option<Mailbox>,
}

impl Drop for Inbox {
    fn drop(&mut self) {
        if let Some(mailbox) = self.mailbox.take() {
            self.stl.host().spawn(Box::pin(async move {
                // It ends with this core at the latest.
                let _ = mailbox.close().await;
            }));
        }
    }
}

impl Inbox {
    async fn open(stl: &Stl, number: u32) -> CallResult<Inbox> {
        let name = MAILBOXES | u64::from(stl.host().core().0) << 32 | u64::from(number);
        let mailbox = Port::find(stl).await?.open(name).await?;
        Ok(Inbox { stl: stl.clone(), name, mailbox: Some(mailbox) })
    }

    async fn next(&self) -> CallResult<Received> {
        let closed = || CallError::new(Status::Dead, "the mailbox is closed");
        self.mailbox.as_ref().ok_or_else(closed)?.next().await
    }
}

/// Pulls a dataset from the node `from` and prepares it here, on `own`. `number` is one that no
/// fetch on this core has now. Well, and at once, if it is here already.
pub async fn fetch(
    keeper: &Rc<Keeper>,
    (name, version): (Name, Version),
    (from, own): (NodeId, NodeId),
    number: u32,
) -> CallResult<()> {
    let is_whole = keeper.with(|store| {
        let dataset = store.get(&name, version)?;
        Some(dataset.blocks_here() == dataset.manifest.blocks().len())
    });
    if let Some(is_whole) = is_whole {
        let part = || CallError::new(Status::Exists, format!("{name}: a part of it is here"));
        return is_whole.then_some(()).ok_or_else(part);
    }
    let stl = keeper.stl.with_patience(PATIENCE);
    let (source, about) = find(&stl, &name, version, from).await?;
    let manifest = manifest(&source, &about, (&name, version), own).await?;
    let key = (name.clone(), version);
    let stream = Stream::begin(keeper, key, manifest.owner, None, keeper.medium.buffer_bytes())?;
    let blocks = manifest.blocks().to_vec();
    let are_here = alloc::vec![false; blocks.len()];
    let mut coming = Coming { keeper, stream, blocks, are_here };
    if !coming.blocks.is_empty() {
        let inbox = Inbox::open(&stl, number).await?;
        coming.take_all(&source, (from, own), &inbox).await?;
    }
    // Once this has begun the draft is the store's, whoever still waits.
    let id = coming.stream.what().2;
    let prepared = keeper.change(|store| store.prepare(id, manifest)).await;
    prepared.map_err(|error| refused(error, name.as_str()))
}

/// The store of a node that has all of a dataset, and what it says of it.
async fn find(
    stl: &Stl,
    name: &Name,
    version: Version,
    from: NodeId,
) -> CallResult<(DatasetClient, Listed)> {
    let (epoch, attempt) = (version.epoch.0, version.attempt.0);
    let stores = cluster::stores(stl).await?.into_iter().filter(|store| store.node == from);
    let missing = format!("{from} has no store, or nothing is known of that node");
    let missing = CallError::new(Status::NotFound, missing);
    cluster::first(stores, missing, async |store| {
        let about = store.client.inspect(name.as_str(), epoch, attempt).await?;
        if about.here != about.blocks {
            let message = format!("{name}: {from} does not have all of it");
            return Err(CallError::new(Status::NotFound, message));
        }
        Ok((store.client, about))
    })
    .await
}

/// The dataset as its source has it. Where that does not count on this node, it is one more holder.
async fn manifest(
    source: &DatasetClient,
    about: &Listed,
    (name, version): (&Name, Version),
    own: NodeId,
) -> CallResult<Manifest> {
    let bad = || CallError::new(Status::Invalid, format!("{name}: its source says what cannot be"));
    let owner = owner(about.owner).ok_or_else(bad)?;
    let mut manifest: Option<Manifest> = None;
    let mut taken = 0;
    while taken < about.blocks {
        let (epoch, attempt) = (version.epoch.0, version.attempt.0);
        let page = source.blocks(name.as_str(), epoch, attempt, taken).await?;
        for entry in &page {
            let mut holders: Vec<NodeId> = entry.nodes.iter().map(|node| NodeId(*node)).collect();
            if !holders.contains(&own) {
                holders.push(own);
            }
            let copies = holders.len() as u8;
            let new = || Manifest::new(name.clone(), version, owner, copies);
            let manifest = match &mut manifest {
                Some(manifest) => manifest,
                none => none.insert(new().ok_or_else(bad)?),
            };
            let block = Block { bytes: entry.bytes, checksum: entry.checksum };
            manifest.push(block, &holders).then_some(()).ok_or_else(bad)?;
        }
        if page.is_empty() || page.len() > (about.blocks - taken) as usize {
            return Err(bad());
        }
        taken += page.len() as u32;
    }
    let empty = || Manifest::new(name.clone(), version, owner, about.copies);
    manifest.or_else(empty).ok_or_else(bad)
}

/// Waits for what comes first: something for the mailbox, or, if `more` is to be asked for, that
/// one of those who were asked has sent its block, which may long be here.
async fn come(
    asked: &mut Vec<LocalFuture<'_, CallResult<u32>>>,
    inbox: &Inbox,
    more: bool,
) -> CallResult<Option<Received>> {
    let mut received = pin!(inbox.next());
    poll_fn(|context| {
        let before = asked.len();
        // A block whose sending failed never comes.
        let mut error = None;
        asked.retain_mut(|asked| match asked.as_mut().poll(context) {
            Poll::Pending => true,
            Poll::Ready(end) => {
                error = end.err().or(error.take());
                false
            }
        });
        match error {
            Some(error) => Poll::Ready(Err(error)),
            None if more && asked.len() < before => Poll::Ready(Ok(None)),
            None => received.as_mut().poll(context).map_ok(Some),
        }
    })
    .await
}

impl Coming<'_> {
    /// Has every block sent here, some at once, and writes what comes.
    async fn take_all(
        &mut self,
        source: &DatasetClient,
        (from, own): (NodeId, NodeId),
        inbox: &Inbox,
    ) -> CallResult<()> {
        let mut asked: Vec<LocalFuture<'_, CallResult<u32>>> = Vec::new();
        let (mut next, mut left) = (0, self.blocks.len());
        while left > 0 {
            while asked.len() < WINDOW && (next as usize) < self.blocks.len() {
                asked.push(Box::pin(self.ask(source, next, (own, inbox.name))));
                next += 1;
            }
            let more = (next as usize) < self.blocks.len();
            if let Some(received) = come(&mut asked, inbox, more).await? {
                left -= usize::from(received.from == from && self.write(received).await?);
            }
        }
        Ok(())
    }

    /// Asks for one block until its source has a buffer for it.
    fn ask(
        &self,
        source: &DatasetClient,
        block: u32,
        (own, mailbox): (NodeId, u64),
    ) -> impl Future<Output = CallResult<u32>> + use<> {
        let (stl, name, version) = {
            let (name, version, _) = self.stream.what();
            (self.keeper.stl.with_patience(PATIENCE), name.clone(), version)
        };
        let source = source.place().map(|place| DatasetClient::at(&stl, place));
        async move {
            let gone = || CallError::from(Status::Dead);
            let (source, host) = (source.ok_or_else(gone)?, stl.host());
            let deadline = stl.deadline();
            loop {
                let (name, epoch, attempt) = (name.as_str(), version.epoch.0, version.attempt.0);
                let to = Destination { node: own.0, mailbox, label: block.into() };
                match source.send(name, epoch, attempt, block, to).await {
                    Err(error) if error.status == Status::Busy && host.now() < deadline => {
                        host.sleep_until(host.now() + BUSY).await;
                    }
                    end => return end,
                }
            }
        }
    }

    /// Writes what has come; `false` if it is no block that is missing.
    async fn write(&mut self, received: Received) -> CallResult<bool> {
        let Received { label, buffer, .. } = received;
        let Some(at) = usize::try_from(label).ok().filter(|at| *at < self.blocks.len()) else {
            return Ok(false);
        };
        if core::mem::replace(&mut self.are_here[at], true) {
            return Ok(false);
        }
        let (block, name) = (self.blocks[at], self.stream.what().0);
        if !block.holds(&buffer) {
            let message = format!("{name}: block {at} came damaged");
            return Err(CallError::new(Status::Failed, message));
        }
        // In the buffer's whole length: the end of its last unit is filled.
        let (buffer, bytes) = self.keeper.medium.whole(buffer)?;
        self.stream.put(self.keeper, at as u32, buffer, bytes).await?;
        Ok(true)
    }
}
