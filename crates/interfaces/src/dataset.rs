//! Named, immutable datasets on a disk. A core has an instance for each of its disks: [`NAMES`].
//!
//! A dataset is written as a stream of bytes, or block by block in buffers of the node's pool. On
//! one node `commit` makes it durable; with copies on several, whoever writes has all of them
//! `prepare` it and then commit, the owner first (two-phase commit, decided by the owner).
//!
//! [`records`]: what calls carry.

pub mod records;

use alloc::vec::Vec;

use nile_bosml::{Buffer, Bytes};
use nile_stl::{CallResult, Caller, service};

use records::{
    BlockEntry, BlockRange, Condition, Copied, Decider, Destination, Draft, InFile, Listed,
    NoteEntry, Piece, SpaceEntry, Verified,
};

/// What the instances of a core are called: one for each of its disks, in their order.
pub const NAMES: [&str; 8] = [
    "dataset",
    "dataset_2",
    "dataset_3",
    "dataset_4",
    "dataset_5",
    "dataset_6",
    "dataset_7",
    "dataset_8",
];

/// The most bytes that one call writes or reads.
pub const MOST_BYTES: usize = 48 << 10;

/// Named, immutable datasets. `place` is that of the disk among those of its core, from zero.
#[service(
    subsystem = "storage",
    capability = "datasets",
    layer = high,
    type(attributes(place: int)),
)]
pub trait Dataset {
    /// Begins to write a dataset. `exists` if one of this name and epoch or a later one is
    /// committed, or this version is being written. `owner` decides whether it is committed. What
    /// `write` writes becomes blocks of `block_bytes`; zero for as long ones as there can be,
    /// which are those of a buffer: `invalid` if that is less. A draft that a core of this node
    /// has begun ends with the core's incarnation; one of another node, if it is left alone.
    #[stl_k(reply = "draft", allow(operator, peer))]
    async fn create(
        &self,
        caller: &Caller,
        #[range(1..=128)] name: &str,
        epoch: u64,
        attempt: u32,
        owner: Decider,
        block_bytes: u32,
    ) -> CallResult<Draft>;

    /// Adds bytes to a draft, which begin `at` bytes from its start; gives how many it has now.
    /// What it has already is not added again: a call may be repeated. Waits for a block that is
    /// full. `busy` while bytes before these have yet to come, `no_memory` if the disk is full; the
    /// draft is then to be aborted.
    #[stl_k(reply = "bytes", allow(operator, peer))]
    async fn write(
        &self,
        draft: u64,
        at: u64,
        #[range(0..=49152)] bytes: Bytes<'_>,
    ) -> CallResult<u64>;

    /// Adds a block to a draft: a buffer of the node's pool, as many bytes as its handle says. It
    /// is over when the block is on the disk, though not durable before `commit` or `prepare`.
    /// Several may be on their way: the blocks have the order of the calls.
    #[stl_k(allow(operator, peer))]
    async fn append(&self, caller: &Caller, draft: u64, buffer: Buffer) -> CallResult<()>;

    /// A block of a draft that is on the disk, in a buffer of the node's pool, which is then the
    /// caller's. `not_found` if there is no such draft, or not this block yet.
    #[stl_k(reply = "buffer", allow(operator, peer))]
    async fn load_draft(&self, caller: &Caller, draft: u64, block: u32) -> CallResult<Buffer>;

    /// Commits a draft that has its only copy here.
    #[stl_k(reply = "dataset", allow(operator, peer))]
    async fn commit(&self, draft: u64) -> CallResult<Listed>;

    /// Makes a draft durable that all of `nodes` have whole, or will have, this one among them. It
    /// is a dataset when its owner has confirmed it.
    #[stl_k(reply = "dataset", allow(operator, peer))]
    async fn prepare(&self, draft: u64, #[range(1..=16)] nodes: Vec<u32>) -> CallResult<Listed>;

    /// Commits what was prepared: the owner first, then the others. It may be repeated.
    #[stl_k(allow(operator, peer))]
    async fn confirm(
        &self,
        #[range(1..=128)] name: &str,
        epoch: u64,
        attempt: u32,
    ) -> CallResult<()>;

    /// Ends a draft and leaves nothing of it. It may be repeated.
    #[stl_k(allow(operator, peer))]
    async fn abort(&self, draft: u64) -> CallResult<()>;

    /// Removes a dataset, prepared or committed, and frees its space.
    #[stl_k(allow(operator, peer))]
    async fn remove(
        &self,
        #[range(1..=128)] name: &str,
        epoch: u64,
        attempt: u32,
    ) -> CallResult<()>;

    /// The datasets here in the order of names, prepared ones among them: the first hundred and
    /// some, or those after the `skip` first.
    #[stl_k(reply = "datasets", allow(package, operator, peer))]
    async fn list(&self, skip: u32) -> CallResult<Vec<Listed>>;

    /// The committed dataset of a name.
    #[stl_k(reply = "dataset", allow(package, operator, peer))]
    async fn look_up(&self, #[range(1..=128)] name: &str) -> CallResult<Listed>;

    /// What is here of one version of a dataset, prepared or committed.
    #[stl_k(reply = "dataset", allow(package, operator, peer))]
    async fn inspect(
        &self,
        #[range(1..=128)] name: &str,
        epoch: u64,
        attempt: u32,
    ) -> CallResult<Listed>;

    /// The blocks of a dataset: the first hundred and some, or those after the `skip` first.
    #[stl_k(reply = "blocks", allow(package, operator, peer))]
    async fn blocks(
        &self,
        #[range(1..=128)] name: &str,
        epoch: u64,
        attempt: u32,
        skip: u32,
    ) -> CallResult<Vec<BlockEntry>>;

    /// `length` bytes of a dataset from byte `at` on; fewer at its end. `failed` names the
    /// block and the disk if they are not what was written.
    #[stl_k(reply = "piece", allow(package, operator, peer))]
    async fn read(
        &self,
        #[range(1..=128)] name: &str,
        epoch: u64,
        attempt: u32,
        at: u64,
        #[range(1..=49152)] length: u32,
    ) -> CallResult<Piece>;

    /// The same, of any node that has them, of this one first.
    #[stl_k(reply = "piece", allow(package, operator, peer))]
    async fn read_anywhere(
        &self,
        #[range(1..=128)] name: &str,
        epoch: u64,
        attempt: u32,
        at: u64,
        #[range(1..=49152)] length: u32,
    ) -> CallResult<Piece>;

    /// A block of a dataset in a buffer of the node's pool, which is then the caller's.
    #[stl_k(reply = "buffer", allow(operator, peer))]
    async fn load(
        &self,
        caller: &Caller,
        #[range(1..=128)] name: &str,
        epoch: u64,
        attempt: u32,
        block: u32,
    ) -> CallResult<Buffer>;

    /// Sends a block of a dataset to a mailbox of a node, as `network.send` does; over when it is
    /// there. Gives its length. `busy` if no buffer is free now.
    #[stl_k(reply = "bytes", allow(operator, peer))]
    async fn send(
        &self,
        caller: &Caller,
        #[range(1..=128)] name: &str,
        epoch: u64,
        attempt: u32,
        block: u32,
        to: Destination,
    ) -> CallResult<u32>;

    /// Pulls a dataset from another node's store, prepared or committed there, and prepares it
    /// here; its owner stays the same. If it fails, or the caller stops waiting, nothing of it is
    /// left. Succeeds immediately if the dataset is already here.
    #[stl_k(reply = "dataset", allow(operator, peer))]
    async fn fetch_from(
        &self,
        #[range(1..=128)] name: &str,
        epoch: u64,
        attempt: u32,
        node: u32,
    ) -> CallResult<Listed>;

    /// Whether there are datasets on this disk, or were. Nothing is written, as other calls do to
    /// a disk that is blank. Fails as all other calls do if the store cannot be opened.
    #[stl_k(reply = "is_formatted", allow(operator, peer))]
    async fn is_formatted(&self) -> CallResult<bool>;

    /// How the disk and its store are, looked at anew. A disk that is blank stays so.
    #[stl_k(reply = "condition", allow(operator, peer))]
    async fn examine(&self) -> CallResult<Condition>;

    /// Reads the blocks of a dataset that are here, from block `skip` on and for about a second,
    /// and tells which of them are damaged.
    #[stl_k(reply = "verified", allow(operator, peer))]
    async fn verify(
        &self,
        #[range(1..=128)] name: &str,
        epoch: u64,
        attempt: u32,
        skip: u32,
    ) -> CallResult<Verified>;

    /// Gives the disk an empty store, whatever it has. This node then is as one whose disk was
    /// lost.
    #[stl_k(allow(operator, peer))]
    async fn format(&self) -> CallResult<()>;

    /// Gives a note of this store another value, durable when this is over; an empty one removes
    /// it. `no_memory` if the store's log is full.
    #[stl_k(allow(operator, peer))]
    async fn note(
        &self,
        #[range(1..=128)] key: &str,
        #[range(0..=1024)] value: Bytes<'_>,
    ) -> CallResult<()>;

    /// The durable notes of this store in the order of their keys, those behind `after` (which may
    /// be empty) as far as they fit a reply; none behind the last.
    #[stl_k(reply = "notes", allow(operator, peer))]
    async fn notes(&self, #[range(0..=128)] after: &str) -> CallResult<Vec<NoteEntry>>;

    /// A number that this store has for as long as it is there, and that no other ever had.
    #[stl_k(reply = "identity", allow(operator, peer))]
    async fn store_identity(&self) -> CallResult<u64>;

    /// How much space there is.
    #[stl_k(reply = "space", allow(operator, peer))]
    async fn space(&self) -> CallResult<SpaceEntry>;

    /// Adds blocks to a draft out of a file that a program of this machine has handed to this node
    /// (docs/files.md): `bytes` bytes that begin `at` bytes from the dataset's start, where a block
    /// begins. All but the dataset's last block are full. Gives how many bytes were taken, perhaps
    /// fewer; they are not durable yet. `not_found`: no such file, `busy`: no buffer is free.
    #[stl_k(reply = "bytes", allow(operator, peer))]
    async fn write_from(
        &self,
        draft: u64,
        at: u64,
        #[range(1..=8388608)] bytes: u32,
        from: InFile,
    ) -> CallResult<u64>;

    /// Copies blocks of a dataset to such a file, in which the dataset's first byte is to be at
    /// `base.at` (modulo 2^64). Gives how much was copied, perhaps less. Fails as `read` does.
    #[stl_k(reply = "copied", allow(operator, peer))]
    async fn read_into(
        &self,
        #[range(1..=128)] name: &str,
        epoch: u64,
        attempt: u32,
        blocks: BlockRange,
        base: InFile,
    ) -> CallResult<Copied>;
}
