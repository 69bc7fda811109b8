//! The disks of a core, for all cores of the node. Data go between a disk and buffers of the node's
//! pool. Calls are given handles of buffers, and give new ones back: the caller owns the buffers
//! again. When a call fails, its buffers are free.

use alloc::string::String;
use alloc::vec::Vec;

use nile_bosml::Buffer;
use nile_stl::{CallResult, Caller, Record, service};

/// A disk.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct DiskEntry {
    /// Its number, which calls name it by.
    pub number: u32,
    /// What the machine calls it.
    pub name: String,
    /// Its serial number, which stays with it; empty if it has none.
    pub serial: String,
    /// Its bytes.
    pub bytes: u64,
    /// Bytes of a sector: places and lengths are whole sectors.
    pub sector: u32,
}

/// What was read.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Content {
    /// The buffers, filled.
    pub buffers: Vec<Buffer>,
    /// The CRC-32C of all that was read, if that was asked for; else zero.
    pub checksum: u32,
}

/// The disks of a core: what there are, and to read, write and flush them.
#[service(subsystem = "storage", capability = "disks", layer = low)]
pub trait Disk {
    /// The disks that this core drives.
    #[stl_k(reply = "disks", allow(package, operator, peer))]
    fn list(&self) -> CallResult<Vec<DiskEntry>>;

    /// Fills buffers, one after the other, with what is on a disk from byte `at` on.
    #[stl_k(reply = "content", allow(operator, peer))]
    async fn read(
        &self,
        caller: &Caller,
        disk: u32,
        at: u64,
        buffers: Vec<Buffer>,
        checksum: bool,
    ) -> CallResult<Content>;

    /// Writes buffers, one after the other, to a disk from byte `at` on. It is durable after a
    /// flush that is called when this has ended.
    #[stl_k(reply = "buffers", allow(operator, peer))]
    async fn write(
        &self,
        caller: &Caller,
        disk: u32,
        at: u64,
        buffers: Vec<Buffer>,
    ) -> CallResult<Vec<Buffer>>;

    /// Makes durable what was written by calls that have ended.
    #[stl_k(allow(operator, peer))]
    async fn flush(&self, caller: &Caller, disk: u32) -> CallResult<()>;
}
