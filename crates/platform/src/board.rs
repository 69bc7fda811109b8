//! The board: the explicit regions that all cores of a node share.
//!
//! | region    | size                | written by              | says                            |
//! | --------- | ------------------- | ----------------------- | ------------------------------- |
//! | bells     | a cache line a core | every core              | who sleeps and must be woken    |
//! | receivers | `RECEIVER_BYTES`    | the management core     | how each receiver is woken      |
//! | records   | a page a core       | the record's core alone | phase, generation, interrupts   |
//! | node      | `NODE_BYTES`        | the management core     | the node's phase, what cores    |
//! |           |                     |                         | are to be and drive, keeps      |
//!
//! Where a machine has page permissions, they enforce the third column.

mod keeps;

use core::sync::atomic::{AtomicU64, Ordering};

use nile_abi::{CoreId, MAX_CORES, MAX_RECEIVERS, Role, RoleSet};
use nile_device::{LINES, Line};
use nile_ring::{Doorbells, Notifier, ReceiverMap, Region};

use crate::record::{RECORD_BYTES, Record};

pub use keeps::{Keep, MOST_KEEPS};

/// Bytes of the node's own pages.
pub const NODE_BYTES: usize = 6 * 4096;

/// Bytes of the receiver map.
pub const RECEIVER_BYTES: usize = ReceiverMap::region_len(MAX_RECEIVERS);

const NODE_PHASE: usize = 0;
const ENDPOINTS: usize = 1;
const CHANNELS: usize = 2;
/// A word for each line: one more than the core that drives its device; zero for none.
const DRIVERS: usize = 8;
/// A word for each core: what it is for.
const ASSIGNED: usize = 64;
/// What is kept: see `keeps`.
const KEEPS: usize = 512;
const _: () = assert!(DRIVERS + LINES <= ASSIGNED && ASSIGNED + MAX_CORES <= KEEPS);
const _: () = assert!((KEEPS + MOST_KEEPS * keeps::WORDS) * 8 <= NODE_BYTES);

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

    /// What a core is for from its next incarnation on; its record says what it is for now.
    pub fn assigned(&self, core: CoreId) -> RoleSet {
        RoleSet::from_bits(self.node_word(ASSIGNED + core.index()).load(Ordering::Acquire) as u8)
    }

    /// Says it. Management core only.
    pub fn assign(&self, core: CoreId, roles: RoleSet) {
        let word = self.node_word(ASSIGNED + core.index());
        word.store(u64::from(roles.bits()), Ordering::Release);
    }

    /// An incarnation of a core begins: from now on it is for what it was assigned.
    pub fn begin(&self, core: CoreId) {
        self.record(core).set_roles(self.assigned(core));
    }

    /// The core that drives the device of a line, as it did when its incarnation began.
    pub fn driver(&self, line: Line) -> Option<CoreId> {
        let word = self.node_word(DRIVERS + line.index()).load(Ordering::Acquire);
        word.checked_sub(1).map(|core| CoreId(core as u16))
    }

    /// Says which core that is from its next incarnation on. Management core only.
    pub fn set_driver(&self, line: Line, driver: Option<CoreId>) {
        let word = driver.map_or(0, |core| u64::from(core.0) + 1);
        self.node_word(DRIVERS + line.index()).store(word, Ordering::Release);
    }

    /// Before any core begins: what each is for, and which drives which of the node's devices.
    pub fn deal(&self, roles: &[RoleSet], interfaces: usize, disks: usize) {
        for (core, roles) in self.core_ids().zip(roles) {
            self.assign(core, *roles);
            self.begin(core);
        }
        let interfaces = (0..interfaces).map(|it| (it, Role::Network, Line::interface(it)));
        let disks = (0..disks).map(|it| (it, Role::Disk, Line::disk(it)));
        for (index, role, line) in interfaces.chain(disks) {
            if let Some(line) = line {
                self.set_driver(line, driver(index, role, roles.iter().copied()));
            }
        }
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

/// Which core drives the device with this number of its kind at first: the first the first core
/// that has the kind's role, and so on in turns.
pub fn driver(
    index: usize,
    role: Role,
    roles: impl Iterator<Item = RoleSet> + Clone,
) -> Option<CoreId> {
    let ids = (0u16..).map(CoreId);
    let drivers = || ids.clone().zip(roles.clone()).filter(|(_, set)| set.contains(role));
    let turn = index.checked_rem(drivers().count())?;
    drivers().nth(turn).map(|(core, _)| core)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn devices_go_to_the_cores_of_their_role_in_turns() {
        let network = RoleSet::EMPTY.with(Role::Network);
        let disk = RoleSet::EMPTY.with(Role::Disk);
        let drivers = |role, roles: &[RoleSet]| {
            let roles = roles.iter().copied();
            let driver = |index| driver(index, role, roles.clone()).map(|core| core.0);
            (0..4).map(driver).collect::<Vec<_>>()
        };
        let roles = [disk, network, disk, network];
        assert_eq!(drivers(Role::Network, &roles), [Some(1), Some(3), Some(1), Some(3)]);
        assert_eq!(drivers(Role::Disk, &roles), [Some(0), Some(2), Some(0), Some(2)]);
        assert_eq!(drivers(Role::Disk, &[RoleSet::ALL]), [Some(0); 4]);
        assert_eq!(drivers(Role::Disk, &[network]), [None; 4]);
    }

    #[test]
    fn what_is_assigned_counts_from_the_next_incarnation_on() {
        let board = Board::in_memory(3, Region::owned(Doorbells::region_len(3)));
        let of = |roles: &[Role]| RoleSet::from_iter(roles.iter().copied());
        let (io, worker) = (of(&[Role::Network, Role::Disk]), of(&[Role::Worker]));
        board.deal(&[of(&[Role::Management]), io, worker], 1, 2);
        let lines = [Line::interface(0), Line::disk(0), Line::disk(1), Line::disk(2)];
        let drivers = lines.map(|line| line.and_then(|line| board.driver(line)).map(|it| it.0));
        assert_eq!(drivers, [Some(1), Some(1), Some(1), None]);
        board.assign(CoreId(2), of(&[Role::Disk]));
        assert_eq!(board.record(CoreId(2)).roles(), worker);
        board.begin(CoreId(2));
        assert_eq!(board.record(CoreId(2)).roles(), of(&[Role::Disk]));
        let line = lines[2].expect("a line");
        board.set_driver(line, Some(CoreId(2)));
        assert_eq!(board.driver(line), Some(CoreId(2)));
        board.set_driver(line, None);
        assert_eq!(board.driver(line), None);
    }
}
