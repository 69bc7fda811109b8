//! Datasets: what is written comes back whole, also in another life of the node; what is refused,
//! given up or removed leaves nothing and takes no space.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;

use nile_abi::{CoreId, NodeId, Status};
use nile_bosml::{Blob, Bytes};
use nile_interfaces::dataset::records::{Decider, Draft, Listed, NoteEntry, SpaceEntry};
use nile_interfaces::dataset::{DatasetClient, MOST_BYTES};
use nile_kernel::{Core, Pool};
use nile_platform::Machine;
use nile_stl::node::{Handle, from_call, in_call};
use nile_stl::{CallError, CallResult, LocalFuture, Stl, all};

use crate::arguments::Arguments;
use crate::calls::serve;
use crate::conduct::{Findings, conduct, conducts};

/// The dataset that another life of the node finds, and its length.
const KEPT: &str = "kept";
const KEPT_BYTES: usize = 700_001;

/// What that life also finds: prepared, and not this node's to decide.
const OF_A_JOB: &str = "of a job";

/// A note that another life finds: what the store is called.
const NOTE: &str = "identity";

/// Starts this core's part. With `look=1` the node's disk was written by an earlier life; with
/// `look=2` that life ended when the power failed.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    serve(core);
    let look = arguments.number("look", 0);
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "datasets", move |findings| async move {
            let used = use_datasets(&core, &findings, look).await;
            findings.expect(used, "the dataset service");
        });
    }
}

/// The byte at a place of a dataset.
fn byte(at: usize, salt: usize) -> u8 {
    ((at + 1).wrapping_mul(0x9e37_79b1) >> 11) as u8 ^ salt as u8
}

fn content(bytes: usize, salt: usize) -> Vec<u8> {
    (0..bytes).map(|at| byte(at, salt)).collect()
}

/// A buffer with content, on its way.
fn filled(pool: &Pool, length: usize, salt: usize) -> CallResult<Handle> {
    let busy = || CallError::new(Status::Busy, "no buffer of the pool is free");
    let mut buffer = pool.alloc().ok_or_else(busy)?;
    buffer[..length].copy_from_slice(&content(length, salt));
    Ok(buffer.into_handle(length))
}

async fn use_datasets<M: Machine>(
    core: &Core<M>,
    findings: &Findings,
    look: u64,
) -> CallResult<()> {
    let user = User { findings, datasets: find(core).await? };
    if look == 2 {
        return user.everything_is_whole().await;
    }
    if look == 1 {
        let kept = user.datasets.look_up(KEPT).await?;
        user.expect_content(&kept, &content(KEPT_BYTES, 3)).await?;
        let names: Vec<String> =
            user.datasets.list(0).await?.into_iter().map(|it| it.name).collect();
        let known = [KEPT, OF_A_JOB];
        findings.check(names == known, format_args!("{names:?} are there, and not {known:?}"));
        let identity = user.datasets.store_identity().await?;
        let value = Blob(identity.to_le_bytes().to_vec());
        let noted = Vec::from([NoteEntry { key: NOTE.to_string(), value }]);
        let notes = user.datasets.notes("").await?;
        findings.check(notes == noted, format_args!("{notes:?} and not {noted:?}"));
        let job = user.datasets.inspect(OF_A_JOB, 1, 0).await?;
        findings.check(!job.committed, format_args!("{job:?} is decided"));
        user.datasets.confirm(OF_A_JOB, 1, 0).await?;
        let job = user.datasets.look_up(OF_A_JOB).await?;
        return user.expect_content(&job, &content(KEPT_BYTES, 4)).await;
    }
    let free = user.datasets.space().await?;
    user.write_and_read().await?;
    user.pieces_at_once().await?;
    user.refusals().await?;
    user.two_phases().await?;
    match core.pool() {
        Some(pool) => user.buffers(pool).await?,
        None => findings.check(false, format_args!("the configuration gives no pool")),
    }
    match core.pool() {
        Some(pool) => user.drafts(pool).await?,
        None => findings.check(false, format_args!("the configuration gives no pool")),
    }
    user.notes().await?;
    user.full_disk(&free).await?;
    let after = user.datasets.space().await?;
    findings.check(after == free, format_args!("{free:?} was free, and now {after:?}"));
    let identity = user.datasets.store_identity().await?;
    user.datasets.note(NOTE, Bytes::from(&identity.to_le_bytes()[..])).await?;
    user.put(KEPT, 1, &content(KEPT_BYTES, 3)).await?;
    // Never committed: a later life does not know of it.
    let draft = user.datasets.create("draft", 1, 0, Decider::Here, 0).await?.draft;
    user.write(draft, &content(300_000, 5)).await?;
    // Prepared by a life of this node that did not commit it.
    let draft = user.datasets.create("undecided", 1, 0, Decider::Here, 0).await?.draft;
    let committed = user.datasets.commit(draft).await?;
    let Decider::Node { node: NodeId(node), .. } = committed.owner else {
        let what = format!("no node decides on {committed:?}");
        return Err(CallError::new(Status::Failed, what));
    };
    user.datasets.remove("undecided", 1, 0).await?;
    let draft = user.datasets.create("undecided", 2, 0, Decider::Here, 0).await?.draft;
    user.datasets.prepare(draft, Vec::from([node])).await?;
    // The same, but a job's record decides, and no life of any node.
    let draft = user.datasets.create(OF_A_JOB, 1, 0, Decider::Job { keepers: 0 }, 0).await?.draft;
    user.write(draft, &content(KEPT_BYTES, 4)).await?;
    user.datasets.prepare(draft, Vec::from([node])).await?;
    Ok(())
}

/// The service, on whichever core it is: they are published one after the other.
async fn find<M: Machine>(core: &Core<M>) -> CallResult<DatasetClient> {
    let cores = core.machine().board().cores() as u16;
    let stl: Stl = core.stl();
    loop {
        for at in (0..cores).map(CoreId) {
            if let Ok(found) = DatasetClient::find_at(&stl, at).await {
                return Ok(found);
            }
        }
        core.sleep(core::time::Duration::from_millis(1)).await;
    }
}

struct User<'a> {
    findings: &'a Findings,
    datasets: DatasetClient,
}

impl User<'_> {
    fn refused<T: core::fmt::Debug>(&self, result: CallResult<T>, status: Status, what: &str) {
        let is_it = matches!(&result, Err(CallError { status: other, .. }) if *other == status);
        self.findings.check(is_it, format_args!("{what}: {result:?}, and not {status}"));
    }

    /// Writes a draft's content in pieces, each of them twice.
    async fn write(&self, draft: u64, content: &[u8]) -> CallResult<()> {
        let mut at = 0;
        for piece in content.chunks(MOST_BYTES) {
            for _ in 0..2 {
                let there = self.datasets.write(draft, at as u64, Bytes::from(piece)).await?;
                let expected = (at + piece.len()) as u64;
                self.findings.check(there == expected, format_args!("{there}, not {expected}"));
            }
            at += piece.len();
        }
        Ok(())
    }

    async fn put(&self, name: &str, epoch: u64, content: &[u8]) -> CallResult<Listed> {
        let draft = self.datasets.create(name, epoch, 0, Decider::Here, 0).await?.draft;
        self.write(draft, content).await?;
        self.datasets.commit(draft).await
    }

    async fn expect_content(&self, listed: &Listed, content: &[u8]) -> CallResult<()> {
        let Listed { name, epoch, attempt, .. } = listed;
        let mut read = Vec::new();
        loop {
            let length = 1 + (read.len() * 7) % MOST_BYTES;
            let at = read.len() as u64;
            let piece = self.datasets.read(name, *epoch, *attempt, at, length as u32).await?;
            if piece.bytes.0.is_empty() {
                break;
            }
            read.extend_from_slice(&piece.bytes.0);
        }
        let is_same = listed.bytes == content.len() as u64 && read == content;
        self.findings.check(is_same, format_args!("{name} is not what was written"));
        Ok(())
    }

    /// Reads all that there is, of which every block has its checksum, and writes something.
    async fn everything_is_whole(&self) -> CallResult<()> {
        for listed in self.datasets.list(0).await? {
            let Listed { name, epoch, attempt, .. } = &listed;
            let mut at = 0;
            while at < listed.bytes {
                let length = MOST_BYTES as u32;
                let piece = self.datasets.read(name, *epoch, *attempt, at, length).await?;
                at += piece.bytes.0.len() as u64;
            }
            self.datasets.remove(name, *epoch, *attempt).await?;
        }
        let space = self.datasets.space().await?;
        let all = space.free == space.total;
        self.findings.check(all, format_args!("nothing is there, and {space:?} is not free"));
        let content = content(100_000, 1);
        let listed = self.put("new", 1, &content).await?;
        self.expect_content(&listed, &content).await
    }

    async fn write_and_read(&self) -> CallResult<()> {
        for (bytes, salt) in [(0, 1), (1, 2), (4096, 3), (MOST_BYTES * 9 + 5, 4)] {
            let content = content(bytes, salt);
            let name = format!("of {bytes}");
            let listed = self.put(&name, 1, &content).await?;
            self.findings.check(listed.committed, format_args!("{listed:?} is not committed"));
            let found = self.datasets.look_up(&name).await?;
            self.findings.check(found == listed, format_args!("{found:?} and {listed:?}"));
            self.expect_content(&found, &content).await?;
            let blocks = self.datasets.blocks(&name, 1, 0, 0).await?;
            let sum: u64 = blocks.iter().map(|block| u64::from(block.bytes)).sum();
            self.findings.check(sum == listed.bytes, format_args!("blocks of {sum} bytes"));
        }
        // A later epoch takes the place of an earlier one.
        let later = content(5000, 9);
        let listed = self.put("of 1", 7, &later).await?;
        self.expect_content(&listed, &later).await?;
        let names = self.datasets.list(0).await?;
        self.findings.check(names.len() == 4, format_args!("{names:?} are not four"));
        for listed in names {
            self.datasets.remove(&listed.name, listed.epoch, listed.attempt).await?;
        }
        let left = self.datasets.list(0).await?;
        self.findings.check(left.is_empty(), format_args!("{left:?} are left"));
        Ok(())
    }

    /// Pieces that are written at once, the last ones first, and read at once.
    async fn pieces_at_once(&self) -> CallResult<()> {
        let datasets = &self.datasets;
        let content = content(2500, 6);
        let begun = datasets.create("at once", 1, 0, Decider::Here, 1000).await?;
        let mut there = 0;
        while there < content.len() as u64 {
            let pieces = content.chunks(300).enumerate().rev();
            let write = |(number, piece)| {
                let at = 300 * number as u64;
                datasets.write(begun.draft, at, Bytes::from(piece))
            };
            let before = there;
            for end in all(pieces.map(write)).await {
                match end {
                    Ok(bytes) => there = bytes.max(there),
                    busy => self.refused(busy, Status::Busy, "bytes that come too early"),
                }
            }
            if there <= before {
                self.findings.check(false, format_args!("no more than {there} bytes are taken"));
                break;
            }
        }
        // What comes while the last block is written is not taken: it would not be in the dataset.
        let commit: LocalFuture<'_, _> =
            Box::pin(async { datasets.commit(begun.draft).await.map(Some) });
        let late: LocalFuture<'_, CallResult<Option<Listed>>> = Box::pin(async {
            datasets.write(begun.draft, there, Bytes::from(&b"late"[..])).await.map(|_| None)
        });
        let mut ends = all([commit, late]).await;
        self.refused(ends.remove(1), Status::NotFound, "bytes that come too late");
        let listed = ends.remove(0)?.expect("a commit gives the dataset");
        let places = (0..listed.bytes).step_by(700);
        let read = |at| datasets.read("at once", 1, 0, at, 700);
        let mut read_back = Vec::new();
        for piece in all(places.map(read)).await {
            // Whole, wherever blocks end.
            read_back.extend(piece?.bytes.0);
        }
        self.findings.check(read_back == content, format_args!("what was read at once differs"));
        datasets.remove("at once", 1, 0).await
    }

    async fn refusals(&self) -> CallResult<()> {
        let datasets = &self.datasets;
        self.put("x", 5, b"x").await?;
        let late = datasets.create("x", 4, 0, Decider::Here, 0).await;
        self.refused(late, Status::Exists, "an earlier epoch");
        self.refused(
            datasets.create("x", 5, 1, Decider::Here, 0).await,
            Status::Exists,
            "the same epoch",
        );
        self.refused(datasets.create("", 5, 1, Decider::Here, 0).await, Status::Invalid, "no name");
        self.refused(
            datasets.create("a\nb", 5, 1, Decider::Here, 0).await,
            Status::Invalid,
            "two lines",
        );
        self.refused(datasets.look_up("y").await, Status::NotFound, "no such name");
        self.refused(datasets.remove("y", 1, 0).await, Status::NotFound, "no such dataset");
        self.refused(datasets.commit(99_999).await, Status::NotFound, "no such draft");
        let draft = datasets.create("y", 1, 0, Decider::Here, 0).await?.draft;
        let gap = datasets.write(draft, 1, Bytes::from(&b"b"[..])).await;
        self.refused(gap, Status::Busy, "bytes before which others have yet to come");
        // Two attempts: the first to commit wins.
        let other = datasets.create("y", 1, 1, Decider::Here, 0).await?.draft;
        datasets.commit(other).await?;
        self.refused(datasets.commit(draft).await, Status::Exists, "the second attempt");
        datasets.abort(draft).await?;
        datasets.abort(draft).await?;
        datasets.remove("x", 5, 0).await?;
        datasets.remove("y", 1, 1).await
    }

    /// More notes than fit a reply.
    async fn notes(&self) -> CallResult<()> {
        let datasets = &self.datasets;
        let long = content(1024, 8);
        let keys: Vec<String> = (10..60).map(|at| format!("note {at}")).collect();
        for value in [&b"first"[..], &long[..]] {
            for noted in all(keys.iter().map(|key| datasets.note(key, Bytes::from(value)))).await {
                noted?;
            }
        }
        let mut found: Vec<NoteEntry> = Vec::new();
        loop {
            let last = found.last().map_or(String::new(), |note| note.key.clone());
            let page = datasets.notes(&last).await?;
            if page.is_empty() {
                break;
            }
            self.findings.check(page.len() < keys.len(), format_args!("all are in one reply"));
            found.extend(page);
        }
        let are_all = found.iter().map(|note| &note.key).eq(&keys)
            && found.iter().all(|note| note.value.0 == long);
        self.findings.check(are_all, format_args!("{} notes, and others", found.len()));
        for key in &keys {
            datasets.note(key, Bytes::from(&[][..])).await?;
        }
        let left = datasets.notes("").await?;
        self.findings.check(left.is_empty(), format_args!("{left:?} are left"));
        self.refused(datasets.note("", Bytes::from(&b"x"[..])).await, Status::Invalid, "no key");
        let longer = datasets.note("x", Bytes::from(&content(1025, 1)[..])).await;
        self.refused(longer, Status::Invalid, "too long a note");
        Ok(())
    }

    async fn two_phases(&self) -> CallResult<()> {
        let datasets = &self.datasets;
        let begun = datasets.create("two", 1, 0, Decider::Here, 0).await?;
        self.write(begun.draft, &content(100_000, 6)).await?;
        let away = begun.node + 1;
        let prepared = datasets.prepare(begun.draft, Vec::from([begun.node, away])).await?;
        let is_prepared = !prepared.committed && prepared.copies == 2;
        self.findings.check(is_prepared, format_args!("{prepared:?} is not prepared"));
        self.refused(datasets.look_up("two").await, Status::NotFound, "not committed");
        for _ in 0..2 {
            datasets.confirm("two", 1, 0).await?;
        }
        let listed = datasets.look_up("two").await?;
        self.expect_content(&listed, &content(100_000, 6)).await?;
        let blocks = datasets.blocks("two", 1, 0, 0).await?;
        let are_both = blocks.iter().all(|block| block.nodes == [begun.node, away]);
        self.findings.check(are_both, format_args!("{blocks:?} are not on both"));
        datasets.remove("two", 1, 0).await
    }

    /// Whole blocks in buffers that change owner.
    async fn buffers(&self, pool: &Pool) -> CallResult<()> {
        let draft = self.datasets.create("blocks", 1, 0, Decider::Here, 0).await?.draft;
        let lengths = [1, 4095, 4096, pool.buffer_size()];
        for (salt, length) in lengths.into_iter().enumerate() {
            let Some(mut buffer) = pool.alloc() else {
                let busy = "no buffer of the pool is free";
                return Err(CallError::new(Status::Busy, busy));
            };
            buffer[..length].copy_from_slice(&content(length, salt));
            self.datasets.append(draft, in_call(buffer.into_handle(length))).await?;
        }
        self.datasets.commit(draft).await?;
        for (salt, length) in lengths.into_iter().enumerate() {
            let loaded = self.datasets.load("blocks", 1, 0, salt as u32).await?;
            let block = pool.claim(from_call(loaded));
            let is_same = block.is_ok_and(|it| *it == content(length, salt));
            self.findings.check(is_same, format_args!("block {salt} is not what was written"));
        }
        self.datasets.remove("blocks", 1, 0).await
    }

    /// Blocks of a length, several on their way at once, read back before they are a dataset, and
    /// given up while they are under way.
    async fn drafts(&self, pool: &Pool) -> CallResult<()> {
        let datasets = &self.datasets;
        let size = pool.buffer_size();
        let long = datasets.create("cut", 1, 0, Decider::Here, size as u32 + 1).await;
        self.refused(long, Status::Invalid, "blocks that no buffer holds");
        let begun = datasets.create("cut", 1, 0, Decider::Here, 1000).await?;
        self.write(begun.draft, &content(5500, 3)).await?;
        let listed = datasets.commit(begun.draft).await?;
        self.expect_content(&listed, &content(5500, 3)).await?;
        let blocks = datasets.blocks("cut", 1, 0, 0).await?;
        let lengths: Vec<u32> = blocks.iter().map(|block| block.bytes).collect();
        let as_asked = lengths == [1000, 1000, 1000, 1000, 1000, 500] && begun.block_bytes == 1000;
        self.findings.check(as_asked, format_args!("{lengths:?} are the blocks of {begun:?}"));
        datasets.remove("cut", 1, 0).await?;

        let Draft { draft, node, .. } =
            datasets.create("many", 1, 0, Decider::Job { keepers: 0 }, 0).await?;
        datasets.write(draft, 0, Bytes::from(&content(10, 100)[..])).await?;
        let lengths = [size, 1, 4096, size - 1, 4097, 100];
        let mut ends = Vec::new();
        for (salt, length) in lengths.into_iter().enumerate() {
            let handle = filled(pool, length, salt)?;
            ends.push(datasets.append(draft, in_call(handle)));
        }
        let ended: Vec<CallResult<()>> = all(ends).await;
        self.findings.check(ended.iter().all(Result::is_ok), format_args!("{ended:?}"));
        let beyond = datasets.load_draft(draft, 7).await;
        self.refused(beyond, Status::NotFound, "a block that was not written");
        // What was gathered is the first.
        let expected = [(10, 100)].into_iter().chain(lengths.into_iter().zip(0..));
        for (block, (length, salt)) in expected.enumerate().collect::<Vec<_>>().into_iter().rev() {
            let loaded = datasets.load_draft(draft, block as u32).await?;
            let is_same =
                pool.claim(from_call(loaded)).is_ok_and(|it| *it == content(length, salt));
            self.findings.check(is_same, format_args!("block {block} of a draft is another"));
        }
        let prepared = datasets.prepare(draft, Vec::from([node])).await?;
        self.refused(datasets.load_draft(draft, 0).await, Status::NotFound, "no draft any more");
        let found = datasets.inspect("many", 1, 0).await?;
        self.findings.check(found == prepared && !found.committed, format_args!("{found:?}"));
        datasets.remove("many", 1, 0).await?;

        let draft = datasets.create("given up", 1, 0, Decider::Here, 0).await?.draft;
        let mut handles = Vec::new();
        for salt in 0..3 {
            let handle = filled(pool, size, salt)?;
            handles.push(handle);
            let mut end = pin!(datasets.append(draft, in_call(handle)));
            // Nobody waits for it from here on.
            poll_fn(|context| Poll::Ready(end.as_mut().poll(context).is_ready())).await;
        }
        datasets.abort(draft).await?;
        self.refused(datasets.load_draft(draft, 0).await, Status::NotFound, "what was given up");
        // What never got there is taken back.
        handles.into_iter().for_each(|handle| drop(pool.claim(handle)));
        let free = pool.free_buffers();
        // The service keeps one for itself, and the block that was read last.
        self.findings.check(free + 2 >= pool.capacity(), format_args!("{free} buffers are free"));
        Ok(())
    }

    /// A draft that the disk has no room for; it can then be given up.
    async fn full_disk(&self, space: &SpaceEntry) -> CallResult<()> {
        let draft = self.datasets.create("too long", 1, 0, Decider::Here, 0).await?.draft;
        let piece = content(MOST_BYTES, 8);
        let mut at = 0;
        let full = loop {
            match self.datasets.write(draft, at, Bytes::from(&piece[..])).await {
                Ok(there) if there <= space.total + (1 << 20) => at = there,
                other => break other,
            }
        };
        self.refused(full, Status::NoMemory, "more than the disk has");
        self.refused(self.datasets.commit(draft).await, Status::NoMemory, "to commit that");
        self.datasets.abort(draft).await
    }
}
