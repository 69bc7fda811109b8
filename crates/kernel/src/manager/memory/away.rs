//! Memory that a node gives up and gets while it runs (RainForest 5.3). What goes is free: it is in
//! nobody's tables, and no core has a translation of it.

use nile_abi::{PageSize, Status};
use nile_memory::paging::TableMemory;
use nile_platform::Grant;

use super::Memory;
use crate::control::Reply;

impl<T: TableMemory> Memory<T> {
    /// Gives up free 2 MiB collections that follow each other, `most` of them at most. `NoMemory`
    /// if none is free.
    pub fn give_up(&mut self, most: u64) -> Result<Reply, Status> {
        let (start, count) = self.physical.send_away(most).ok_or(Status::NoMemory)?;
        Ok(Reply::Region { start, bytes: count * PageSize::Large.bytes(), usable: false })
    }

    /// Collections that were given up and follow each other are the node's again, `most` of them at
    /// most. `NotFound` if none was.
    pub fn call_back(&mut self, most: u64) -> Result<Reply, Status> {
        let (start, count) = self.physical.call_back_some(most).ok_or(Status::NotFound)?;
        Ok(Reply::Region { start, bytes: count * PageSize::Large.bytes(), usable: true })
    }

    /// What was given up, or was never the node's, is its own from now on; what is its own stays.
    /// `Invalid` unless it is in whole 2 MiB collections; `NotFound` if the node cannot have it.
    pub fn get(&mut self, grant: Grant) -> Result<Reply, Status> {
        self.physical.call_back(grant.start, grant.bytes)?;
        Ok(Reply::Done)
    }
}
