//! Datasets that are being written: in memory alone, so that power loss takes them away.

use alloc::vec::Vec;

use nile_abi::NodeId;
use nile_order::SortedMap;

use crate::entry::NOWHERE;
use crate::error::Error;
use crate::extent::{UNIT, whole_units};
use crate::manifest::{Block, LONGEST_BLOCK, Manifest, Name, Owner, Version};
use crate::space::Free;
use crate::table::{Dataset, State};

/// Names a draft of a store; never given twice while the store is mounted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DraftId(pub u64);

/// The space of a block, and what was written there.
#[derive(Clone, Copy, Debug)]
struct Reserved {
    place: u32,
    bytes: u32,
    checksum: Option<u32>,
}

impl Reserved {
    fn units(&self) -> u32 {
        whole_units(self.bytes.into()) as u32
    }
}

/// What is known of a dataset before its manifest.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub name: Name,
    pub version: Version,
    pub owner: Owner,
    blocks: SortedMap<u32, Reserved>,
}

impl Draft {
    pub fn new(name: Name, version: Version, owner: Owner) -> Draft {
        Draft { name, version, owner, blocks: SortedMap::new() }
    }

    /// Reserves space for a block; gives its first unit. Again with the same length, it gives the
    /// same.
    pub fn reserve(&mut self, free: &mut Free, block: u32, bytes: u32) -> Result<u32, Error> {
        if !(1..=LONGEST_BLOCK).contains(&bytes) || block == NOWHERE {
            return Err(Error::BadBlock);
        }
        if let Some(there) = self.blocks.get(&block) {
            return if there.bytes == bytes { Ok(there.place) } else { Err(Error::BadBlock) };
        }
        let units = whole_units(bytes.into()) as u32;
        let usable = free.units_for(self.name.as_str());
        let full = Error::Full { wanted: u64::from(units) * UNIT, free: u64::from(usable) * UNIT };
        let place = if units > usable { None } else { free.take(units) };
        let place = place.ok_or(full)?;
        self.blocks.insert(block, Reserved { place, bytes, checksum: None });
        Ok(place)
    }

    /// Notes that a block was written.
    pub fn written(&mut self, block: u32, checksum: u32) -> Result<(), Error> {
        self.blocks.get_mut(&block).ok_or(Error::BadBlock)?.checksum = Some(checksum);
        Ok(())
    }

    /// A block that was written, and its first unit.
    pub fn written_block(&self, block: u32) -> Option<(Block, u32)> {
        let Reserved { place, bytes, checksum } = *self.blocks.get(&block)?;
        Some((Block { bytes, checksum: checksum? }, place))
    }

    /// The manifest of a dataset all of whose blocks all of these nodes have.
    pub fn manifest(&self, nodes: &[NodeId]) -> Result<Manifest, Error> {
        let copies = u8::try_from(nodes.len()).map_err(|_| Error::BadCopies)?;
        let new = Manifest::new(self.name.clone(), self.version, self.owner, copies);
        let mut manifest = new.ok_or(Error::BadCopies)?;
        for (at, (number, reserved)) in (0..).zip(&self.blocks) {
            let mismatch = Error::Mismatch { block: at };
            let checksum = reserved.checksum.filter(|_| *number == at).ok_or(mismatch)?;
            let block = Block { bytes: reserved.bytes, checksum };
            manifest.push(block, nodes).then_some(()).ok_or(Error::BadCopies)?;
        }
        Ok(manifest)
    }

    /// The dataset with this manifest; blocks that it does not have here are left in the draft.
    pub fn take(
        &mut self,
        node: NodeId,
        manifest: Manifest,
        state: State,
    ) -> Result<Dataset, Error> {
        let here = |at: usize| manifest.holders(at).contains(&node);
        let mut places = Vec::with_capacity(manifest.blocks().len());
        for (at, block) in manifest.blocks().iter().enumerate() {
            let number = u32::try_from(at).map_err(|_| Error::BadBlock)?;
            let mismatch = Error::Mismatch { block: number };
            places.push(if here(at) {
                let there = self.blocks.get(&number).ok_or(mismatch)?;
                let is_same = there.bytes == block.bytes && there.checksum == Some(block.checksum);
                is_same.then_some(there.place).ok_or(mismatch)?
            } else {
                NOWHERE
            });
        }
        self.blocks.retain(|at, _| !here(*at as usize));
        Ok(Dataset { manifest, state, places })
    }

    /// Gives back all space that it still has.
    pub fn give(&self, free: &mut Free) {
        self.blocks.values().for_each(|block| free.give(block.place, block.units()));
    }
}
