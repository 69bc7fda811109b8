//! [`Store`]: drafts, datasets, and what is asked of them. What it does to its disk is in `work`.

use alloc::collections::VecDeque;

use nile_abi::NodeId;
use nile_ipioe::checksum::Checksum;
use nile_order::SortedMap;

use crate::checkpoint::Checkpoint;
use crate::draft::{Draft, DraftId};
use crate::error::{DiskFailed, Error};
use crate::extent::{Extent, Range};
use crate::log::Log;
use crate::manifest::{Block, Manifest, Name, Owner, Version};
use crate::note::{LONGEST_NOTE, Notes};
use crate::space::{Free, Space};
use crate::table::{Dataset, State, Table};
use crate::work::{Operation, Work};

/// Stands for something that is done to the disk; its end is
/// [`Action::Done`](crate::Action::Done).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticket(pub u64);

/// The datasets of one extent of a disk. Nothing here blocks: [`poll`](Self::poll) says what is to
/// be done to the disk, one thing at a time, and [`completed`](Self::completed) hears how it ended.
#[derive(Debug)]
pub struct Store {
    pub(crate) node: NodeId,
    pub(crate) extent: Extent,
    pub(crate) checksum: Checksum,
    pub(crate) log: Log,
    pub(crate) table: Table,
    pub(crate) free: Free,
    drafts: SortedMap<DraftId, Draft>,
    pub(crate) queue: VecDeque<(Ticket, Operation)>,
    pub(crate) work: Option<Work>,
    /// Something was asked of the disk that has not ended.
    pub(crate) is_waiting: bool,
    pub(crate) ended: VecDeque<(Ticket, Result<(), Error>)>,
    pub(crate) has_failed: bool,
    /// The next draft or ticket.
    next: u64,
}

impl Store {
    /// A store as recovery found it. It begins with a checkpoint into the other half.
    pub(crate) fn recovered(
        node: NodeId,
        extent: Extent,
        checksum: Checksum,
        generation: u64,
        table: Table,
        free: Free,
    ) -> Store {
        let log = Log::begin(&extent, generation, checksum);
        let work = Some(Work::checkpoint(Checkpoint::begin(&extent, generation, checksum, &table)));
        Store {
            node,
            extent,
            checksum,
            log,
            table,
            free,
            drafts: SortedMap::new(),
            queue: VecDeque::new(),
            work,
            is_waiting: false,
            ended: VecDeque::new(),
            has_failed: false,
            next: 1,
        }
    }

    /// Where the store is.
    pub fn extent(&self) -> &Extent {
        &self.extent
    }

    /// How much space there is for blocks, and in the log.
    pub fn space(&self) -> Space {
        let (free, longest) = self.free.bytes();
        let (log, log_free) = (self.extent.log_bytes, self.log_free(self.kept_from(false)));
        Space { total: self.free.total(), free, longest, log, log_free }
    }

    /// Every dataset, prepared and committed, in the order of names and epochs.
    pub fn datasets(&self) -> impl Iterator<Item = &Dataset> {
        self.table.datasets()
    }

    /// The committed dataset of a name.
    pub fn committed(&self, name: &Name) -> Option<&Dataset> {
        self.table.committed(name)
    }

    /// The dataset of a name and version, prepared or committed.
    pub fn get(&self, name: &Name, version: Version) -> Option<&Dataset> {
        self.table.get(&(name.clone(), version))
    }

    /// Begins a draft. `Fenced` if a dataset of this name is committed in this epoch or a later
    /// one; `Exists` if there is a draft or a dataset of this version.
    pub fn create(&mut self, name: Name, version: Version, owner: Owner) -> Result<DraftId, Error> {
        self.usable()?;
        self.table.fence(&name, version)?;
        let is_there = |draft: &Draft| draft.name == name && draft.version == version;
        if self.get(&name, version).is_some() || self.drafts.values().any(is_there) {
            return Err(Error::Exists);
        }
        let id = DraftId(self.number());
        self.drafts.insert(id, Draft::new(name, version, owner));
        Ok(id)
    }

    /// Reserves space for a block of a draft, by its number in the dataset; the caller writes it
    /// there. Again with the same length it gives the same range. `Full` if no free range is long
    /// enough, or what is free is left to [`RECORDS`](crate::RECORDS); `BadBlock` if the length is
    /// not 1 to 64 MiB or another one than before.
    pub fn reserve(&mut self, draft: DraftId, block: u32, bytes: u32) -> Result<Range, Error> {
        self.usable()?;
        let draft = self.drafts.get_mut(&draft).ok_or(Error::NoDraft)?;
        let place = draft.reserve(&mut self.free, block, bytes)?;
        Ok(self.range(place, bytes))
    }

    /// Notes that the write of a block has ended, and the CRC-32C of its bytes.
    pub fn written(&mut self, draft: DraftId, block: u32, checksum: u32) -> Result<(), Error> {
        self.drafts.get_mut(&draft).ok_or(Error::NoDraft)?.written(block, checksum)
    }

    /// A block of a draft that was written, and where it is. `NotFound` if it was not, or there is
    /// no such draft: then its space may be somebody else's.
    pub fn drafted(&self, draft: DraftId, block: u32) -> Result<(Block, Range), Error> {
        let drafted = self.drafts.get(&draft).and_then(|draft| draft.written_block(block));
        let (block, place) = drafted.ok_or(Error::NotFound)?;
        Ok((block, self.range(place, block.bytes)))
    }

    fn range(&self, place: u32, bytes: u32) -> Range {
        let at = self.extent.data() + u64::from(place) * crate::UNIT;
        Range { at, bytes: u64::from(bytes).next_multiple_of(crate::UNIT) }
    }

    /// The manifest of a draft all of whose blocks are on all of `nodes`, this one among them.
    /// `Mismatch` names the first block that is missing here or was not written; `BadCopies` if
    /// there are no nodes, more than 16, or one twice.
    pub fn manifest(&self, draft: DraftId, nodes: &[NodeId]) -> Result<Manifest, Error> {
        self.drafts.get(&draft).ok_or(Error::NoDraft)?.manifest(nodes)
    }

    /// Makes a draft durable as `Prepared`: its owner decides whether it becomes a dataset. The
    /// ticket ends with `Fenced` or `CatalogueFull` if that cannot be, and nothing of the draft is
    /// left then. `Mismatch` names the first block that the manifest wants here and the draft does
    /// not have so; then the draft is as it was.
    pub fn prepare(&mut self, draft: DraftId, manifest: Manifest) -> Result<Ticket, Error> {
        self.put(draft, manifest, State::Prepared)
    }

    /// Makes a draft durable and commits it in one step, for a dataset whose owner has its only
    /// copy. It fails as [`prepare`](Self::prepare) does.
    pub fn commit_alone(&mut self, draft: DraftId, manifest: Manifest) -> Result<Ticket, Error> {
        self.put(draft, manifest, State::Committed)
    }

    fn put(&mut self, id: DraftId, manifest: Manifest, state: State) -> Result<Ticket, Error> {
        self.usable()?;
        let draft = self.drafts.get_mut(&id).ok_or(Error::NoDraft)?;
        if (&draft.name, draft.version) != (&manifest.name, manifest.version) {
            return Err(Error::NoDraft);
        }
        let dataset = draft.take(self.node, manifest, state)?;
        self.abort(id);
        Ok(self.enqueue(Operation::Put(dataset)))
    }

    /// Commits a prepared dataset, and removes what it takes the place of. The ticket ends with
    /// `NotFound` if it is not there, or `Fenced`; well, and at once, if it is committed already.
    pub fn commit(&mut self, name: &Name, version: Version) -> Result<Ticket, Error> {
        self.usable()?;
        Ok(self.enqueue(Operation::Commit((name.clone(), version))))
    }

    /// Removes a dataset, prepared or committed. Its space is free when the ticket ends: whoever
    /// reads a block then finds that its checksum does not hold. It ends with `NotFound` if the
    /// dataset is not there.
    pub fn remove(&mut self, name: &Name, version: Version) -> Result<Ticket, Error> {
        self.usable()?;
        Ok(self.enqueue(Operation::Remove((name.clone(), version))))
    }

    /// Ends a draft and frees its space. The caller has no write of its blocks under way.
    pub fn abort(&mut self, draft: DraftId) {
        if let Some(draft) = self.drafts.remove(&draft) {
            draft.give(&mut self.free);
        }
    }

    /// Gives a note another value, of at most [`LONGEST_NOTE`] bytes; an empty one removes it. It
    /// is there when the ticket ends; several that wait become durable together. `LongNote` if the
    /// value is too long; the ticket ends with `CatalogueFull` if the log has no room.
    pub fn note(&mut self, key: Name, value: &[u8]) -> Result<Ticket, Error> {
        self.usable()?;
        if value.len() > LONGEST_NOTE {
            return Err(Error::LongNote { bytes: value.len() });
        }
        Ok(self.enqueue(Operation::Notes(Notes::from([(key, value.into())]))))
    }

    /// The value of a note, as it is durable.
    pub fn note_of(&self, key: &Name) -> Option<&[u8]> {
        Some(self.table.note(key)).filter(|value| !value.is_empty())
    }

    /// Every durable note in the order of keys.
    pub fn notes(&self) -> impl Iterator<Item = (&Name, &[u8])> {
        self.notes_after(None)
    }

    /// The notes behind a key, which itself need not be there.
    pub fn notes_after(&self, key: Option<&Name>) -> impl Iterator<Item = (&Name, &[u8])> {
        self.table.notes_after(key).map(|(key, value)| (key, &**value))
    }

    fn enqueue(&mut self, operation: Operation) -> Ticket {
        let ticket = Ticket(self.number());
        self.queue.push_back((ticket, operation));
        ticket
    }

    /// Takes the place of a store that the same callers knew: numbers of its drafts mean nothing
    /// here.
    pub fn follow(&mut self, before: &Store) {
        self.next = self.next.max(before.next);
    }

    /// Whether its disk has failed, or it was retired: it is to be mounted again.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn usable(&self) -> Result<(), Error> {
        if self.has_failed { Err(Error::Disk(DiskFailed)) } else { Ok(()) }
    }
}
