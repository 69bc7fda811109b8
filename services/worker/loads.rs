//! Blocks that are read before they are asked for. No IO: it says which to read.

use alloc::vec::Vec;
use core::ops::Range;

use nile_order::SortedMap;
use nile_stl::CallError;
use nile_stl::node::Buffer;

/// The blocks of a split or a run, by their places.
#[derive(Debug)]
pub struct Loads {
    blocks: u32,
    /// How many are read ahead.
    depth: u32,
    slots: SortedMap<u32, Slot>,
    /// Where reading ahead would be by now if there were more blocks.
    reach: u32,
    /// Nobody wants any more.
    is_closed: bool,
}

#[derive(Debug)]
enum Slot {
    Loading,
    /// A buffer, and how many of its bytes are the block.
    Ready(Buffer, usize),
    Failed(CallError),
}

impl Loads {
    /// So many blocks, of which at most `depth` are read ahead.
    pub fn new(blocks: u32, depth: u32) -> Loads {
        Loads { blocks, depth, slots: SortedMap::new(), reach: 0, is_closed: false }
    }

    /// From now on at most `depth` blocks are read ahead.
    pub fn read_ahead(&mut self, depth: u32) {
        self.depth = depth;
    }

    /// The block of this place is wanted now: which are to be read, which they are not yet.
    pub fn want(&mut self, index: u32) -> Vec<u32> {
        self.reach = index.saturating_add(self.depth).saturating_add(1);
        self.load(index..self.reach)
    }

    /// The first so many blocks will be wanted: which are to be read, which they are not yet.
    pub fn expect(&mut self, blocks: u32) -> Vec<u32> {
        self.load(0..blocks)
    }

    /// How many blocks of what comes next may be read by now, in place of those that there are not
    /// any more here: one at the end, where nothing is read ahead.
    pub fn spare(&self) -> u32 {
        match self.depth {
            0 => u32::from(self.reach > 0),
            _ => self.reach.saturating_sub(self.blocks),
        }
    }

    fn load(&mut self, range: Range<u32>) -> Vec<u32> {
        if self.is_closed {
            return Vec::new();
        }
        let missing = |index: &u32| !self.slots.contains_key(index);
        let missing: Vec<u32> = (range.start..range.end.min(self.blocks)).filter(missing).collect();
        for index in &missing {
            self.slots.insert(*index, Slot::Loading);
        }
        missing
    }

    /// A block was read, or not.
    pub fn put(&mut self, index: u32, read: Result<(Buffer, usize), CallError>) {
        if self.is_closed {
            return;
        }
        let slot = match read {
            Ok((buffer, bytes)) => Slot::Ready(buffer, bytes),
            Err(error) => Slot::Failed(error),
        };
        self.slots.insert(index, slot);
    }

    /// The block of this place, once it was read; asked for again, it is read again.
    pub fn take(&mut self, index: u32) -> Option<Result<(Buffer, usize), CallError>> {
        match self.slots.remove(&index)? {
            Slot::Ready(buffer, bytes) => Some(Ok((buffer, bytes))),
            Slot::Failed(error) => Some(Err(error)),
            Slot::Loading => {
                self.slots.insert(index, Slot::Loading);
                None
            }
        }
    }

    /// Nobody wants any more: what was read is free, and so is what still comes.
    pub fn close(&mut self) {
        self.is_closed = true;
        self.slots.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_abi::{CoreId, Status};
    use nile_stl::node::{Pool, PoolId};

    #[test]
    fn blocks_are_read_ahead_once() {
        let pool = Pool::owned(PoolId(0), CoreId(1), 4, 4096).unwrap();
        let mut loads = Loads::new(4, 2);
        assert_eq!(loads.want(0), [0, 1, 2]);
        assert_eq!(loads.want(0), []);
        assert!(loads.take(0).is_none());
        loads.put(0, Ok((pool.alloc().unwrap(), 9)));
        assert_eq!(loads.take(0).unwrap().unwrap().1, 9);
        assert_eq!(loads.want(1), [3], "there are four");
        loads.put(1, Err(CallError::from(Status::Failed)));
        assert_eq!(loads.take(1).unwrap().unwrap_err().status, Status::Failed);
        assert_eq!(loads.want(1), [1], "it is tried again");
        assert_eq!(loads.want(9), []);
        loads.put(2, Ok((pool.alloc().unwrap(), 1)));
        loads.close();
        loads.put(3, Ok((pool.alloc().unwrap(), 1)));
        assert_eq!(pool.free_buffers(), 4);
        assert_eq!(loads.want(2), []);
    }
}
