//! The board: the explicit regions that all cores of a node share.
//!
//! | region    | size                | written by              | says                            |
//! | --------- | ------------------- | ----------------------- | ------------------------------- |
//! | bells     | a cache line a core | every core              | who sleeps and must be woken    |
//! | receivers | `RECEIVER_BYTES`    | the management core     | how each receiver is woken      |
//! | records   | a page a core       | the record's core alone | phase, generation, interrupts   |
//! | node      | one page            | the management core     | the node's phase                |
//!
//! Where a machine has page permissions, they enforce the third column.

use core::sync::atomic::{AtomicU64, Ordering};

use nile_abi::{CoreId, MAX_RECEIVERS};
use nile_ring::{Doorbells, Notifier, ReceiverMap, Region};

use crate::record::{RECORD_BYTES, Record};

/// Bytes of the node's own page.
pub const NODE_BYTES: usize = 4096;

/// Bytes of the receiver map.
pub const RECEIVER_BYTES: usize = ReceiverMap::region_len(MAX_RECEIVERS);

const NODE_PHASE: usize = 0;
const ENDPOINTS: usize = 1;
const CHANNELS: usize = 2;

/// What the node as a whole is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum NodePhase {
    /// The management core is not ready for requests.
    Starting = 0,
    /// Running.
    Up = 1,
    /// Every loop ends after its present turn.
    Stopping = 2,
}

/// The shared regions of a node, as one core has them mapped.
#[derive(Clone)]
pub struct Board {
    notifier: Notifier,
    records: Region,
    node: Region,
    cores: usize,
}

impl Board {
    /// The board over its four regions; `None` if one is too small for `cores` cores.
    pub fn attach(
        bells: Region,
        receivers: Region,
        records: Region,
        node: Region,
        cores: usize,
    ) -> Option<Board> {
        if records.len() < cores * RECORD_BYTES || node.len() < NODE_BYTES {
            return None;
        }
        if bells.len() < Doorbells::region_len(cores) {
            return None;
        }
        let map = ReceiverMap::attach(receivers).ok()?;
        let notifier = Notifier::new(Doorbells::attach(bells), map);
        Some(Board { notifier, records, node, cores })
    }

    /// A fresh board in ordinary memory but for its doorbells, for a machine whose cores share an
    /// address space.
    ///
    /// # Panics
    ///
    /// If `bells` is too small for `cores` cores.
    pub fn in_memory(cores: usize, bells: Region) -> Board {
        let receivers = Region::owned(RECEIVER_BYTES);
        let records = Region::owned(cores * RECORD_BYTES);
        Board::attach(bells, receivers, records, Region::owned(NODE_BYTES), cores)
            .expect("the other regions were just made at the sizes that attach asks for")
    }

    /// How many cores the node has.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Every core's id.
    pub fn core_ids(&self) -> impl Iterator<Item = CoreId> + use<> {
        (0..self.cores as u16).map(CoreId)
    }

    /// The doorbells and the receiver map.
    pub fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    /// The record of `core`, which must be one of the node's.
    pub fn record(&self, core: CoreId) -> Record<'_> {
        let words = RECORD_BYTES / 8;
        let first = core.index() * words;
        Record::new(&self.records.words()[first..first + words])
    }

    fn node_word(&self, word: usize) -> &AtomicU64 {
        &self.node.words()[word]
    }

    /// Endpoints that the management core has ever taken. It is here, not with that core, because
    /// it outlives that core's incarnations.
    pub fn endpoints_taken(&self) -> usize {
        self.node_word(ENDPOINTS).load(Ordering::Relaxed) as usize
    }

    /// Takes one more. Management core only.
    pub fn count_endpoint(&self) {
        self.node_word(ENDPOINTS).fetch_add(1, Ordering::Relaxed);
    }

    /// The number of the next channel, from one on. Management core only.
    pub fn count_channel(&self) -> u32 {
        self.node_word(CHANNELS).fetch_add(1, Ordering::Relaxed) as u32 + 1
    }

    /// What the node is doing.
    pub fn phase(&self) -> NodePhase {
        match self.node_word(NODE_PHASE).load(Ordering::Acquire) {
            0 => NodePhase::Starting,
            1 => NodePhase::Up,
            _ => NodePhase::Stopping,
        }
    }

    /// Says what the node is doing. Management core only.
    pub fn set_phase(&self, phase: NodePhase) {
        self.node_word(NODE_PHASE).store(phase as u64, Ordering::Release);
    }
}
