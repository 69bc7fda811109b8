//! What the physical memory service refuses, and with which status a call for it ends.

use nile_abi::{PageSize, PhysAddr, Status};

/// Why no piece was handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocError {
    /// No piece of the size is free. Smaller ones may be; later one may be.
    OutOfFrames,
    /// The owner is no core that a node can have.
    UnknownOwner,
}

/// Why a piece was not taken back; nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeError {
    /// The address is in no region.
    NotOurs,
    /// The address is not a multiple of the size.
    Misaligned,
    /// Nothing that is handed out lies here: it was freed before, or never given.
    NotAllocated,
    /// The piece that holds the address was handed out in this size.
    WrongSize(PageSize),
}

/// Why a region was not added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddError {
    /// The region is empty, not made of whole frames, or ends beyond what can be addressed.
    NotFrames,
    /// Part of it is in another region.
    Overlaps,
    /// Its record needs this many words.
    TooFewWords(usize),
}

/// Why a range was not set aside; nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReserveError {
    /// Part of the range is in no region, or it spans two.
    NotOurs,
    /// Part of it is handed out.
    NotFree,
    /// The owner is no core that a node can have.
    UnknownOwner,
}

/// Why a region was not removed, or not drained; nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DrainError {
    /// No region starts there.
    NotFound,
    /// The region is still being handed out.
    NotDraining,
    /// This many bytes of it are handed out.
    InUse(u64),
}

/// Why the state was not recovered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecoverError {
    /// Words that hold no record.
    NoRecord,
    /// The record of the region that starts here contradicts itself.
    Corrupt(PhysAddr),
    /// The region that starts here overlaps another.
    Overlaps(PhysAddr),
}

impl From<AllocError> for Status {
    fn from(error: AllocError) -> Status {
        match error {
            AllocError::OutOfFrames => Status::NoMemory,
            AllocError::UnknownOwner => Status::Invalid,
        }
    }
}

impl From<FreeError> for Status {
    fn from(error: FreeError) -> Status {
        match error {
            FreeError::NotOurs | FreeError::NotAllocated => Status::NotFound,
            FreeError::Misaligned | FreeError::WrongSize(_) => Status::Invalid,
        }
    }
}

impl From<AddError> for Status {
    fn from(error: AddError) -> Status {
        match error {
            AddError::NotFrames | AddError::TooFewWords(_) => Status::Invalid,
            AddError::Overlaps => Status::Exists,
        }
    }
}

impl From<DrainError> for Status {
    fn from(error: DrainError) -> Status {
        match error {
            DrainError::NotFound => Status::NotFound,
            DrainError::NotDraining => Status::Invalid,
            DrainError::InUse(_) => Status::Busy,
        }
    }
}
