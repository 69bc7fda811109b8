//! A disk as the one core that drives it sees it: requests go in, completions come out.
//!
//! The device reads and writes the memory of a request by itself, from the moment that it was
//! submitted until its completion was taken; whoever submits keeps that memory as long. Requests
//! end in the order that the device likes.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use nile_abi::{PhysAddr, Status};
use nile_ring::Region;
use nile_seal::disk::Cipher;

use crate::Line;

/// Pieces of memory that one request may have on every machine.
pub const MAX_PIECES: usize = 16;

/// Bytes that one request may have on every machine.
pub const MAX_BYTES: u64 = 8 << 20;

/// A disk. Nothing here waits.
pub trait Disk {
    /// What it is; it does not change.
    fn description(&self) -> &Description;

    /// What it interrupts by; `None` if nobody is to see and to steer that.
    fn line(&self) -> Option<Line> {
        None
    }

    /// Whether others than this core ask it, too: then the core looks at it although it has asked
    /// for nothing itself.
    fn serves_others(&self) -> bool {
        false
    }

    /// Requests of others that have ended so far.
    fn ended_for_others(&self) -> u64 {
        0
    }

    /// Takes a request, which fits the [description](Description::check), under a `tag` that no
    /// request in flight has. `false` if there is no room for it: some comes with the next
    /// completion. At least 32 requests of a few pieces have room at once.
    fn submit(&self, tag: u32, request: &Request) -> bool;

    /// The same, and does with the bytes of a transfer what is said, as they pass. Whether it takes
    /// a hash is seen in the completion; it is given no cipher unless it [ciphers](Self::ciphers).
    fn submit_inline(&self, tag: u32, request: &Request, inline: &Inline) -> bool {
        debug_assert!(inline.cipher.is_none());
        self.submit(tag, request)
    }

    /// Whether it encrypts and decrypts transfers of so many bytes on their way.
    fn ciphers(&self, bytes: u64) -> bool {
        let _ = bytes;
        false
    }

    /// Tells the device of what was submitted since it was told. The core does once a pass.
    fn tell(&self);

    /// Whether a request has ended. From the moment it says no, the next end rings the core's
    /// doorbell: the core asks after it said that it sleeps, and before it does.
    fn is_ready(&self) -> bool;

    /// Takes the next request that has ended.
    fn complete(&self) -> Option<Completion>;
}

/// What a disk is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    /// What the machine calls it.
    pub name: String,
    /// Its serial number, which stays with it; empty if it has none.
    pub serial: String,
    /// Its bytes, a multiple of a sector.
    pub bytes: u64,
    /// Bytes of a sector, which is written as a whole or not: a power of two, 512 at least. 1 says
    /// that this is a file of another program's: its transfers move as many bytes as their hash is
    /// wanted of, which need not fill the memory's last line, and take no hash.
    pub sector_bytes: u32,
}

/// Memory of a request: consecutive bytes of the node, as the core has them and as the device
/// does.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The first byte.
    pub at: PhysAddr,
    /// The same memory on this core, in its length.
    pub region: Region,
}

/// What whoever moves the bytes of a transfer does with them, if he sees them anyway: so they come
/// through the caches once.
#[derive(Clone, Default, Debug)]
pub struct Inline {
    /// Of how many of the first bytes the [hash](Completion::hash) is wanted, as they are in memory
    /// and not encrypted; of none, if this is zero.
    pub hashed: u64,
    /// What they are encrypted with on the disk. They begin and end with whole sectors of the
    /// cipher. The memory of a write holds anything when it has ended.
    pub cipher: Option<Arc<Cipher>>,
}

/// Something that a disk is to do.
#[derive(Clone, Debug)]
pub enum Request {
    /// Copies from the disk to memory.
    Read {
        /// The first byte on the disk.
        at: u64,
        /// Where to, in this order.
        into: Vec<Piece>,
    },
    /// Copies from memory to the disk.
    Write {
        /// The first byte on the disk.
        at: u64,
        /// Where from, in this order.
        from: Vec<Piece>,
    },
    /// Makes durable what was written by requests that had ended when this was submitted.
    Flush,
    /// Says that nobody wants these bytes any more: until they are written, they are anything. What
    /// lies beneath the disk may have the room back; a disk that cannot give it does nothing.
    Discard {
        /// The first byte on the disk.
        at: u64,
        /// How many there are.
        bytes: u64,
    },
}

impl Request {
    /// The first byte on the disk and the memory; none if nothing is moved.
    pub fn transfer(&self) -> Option<(u64, &[Piece])> {
        match self {
            Request::Read { at, into: pieces } | Request::Write { at, from: pieces } => {
                Some((*at, pieces))
            }
            Request::Flush | Request::Discard { .. } => None,
        }
    }

    /// The bytes of the disk that it is about: from which on, and up to which.
    pub fn range(&self) -> Option<(u64, u64)> {
        let (at, bytes) = match self {
            Request::Flush => return None,
            Request::Discard { at, bytes } => (*at, *bytes),
            Request::Read { at, .. } | Request::Write { at, .. } => (*at, self.bytes()),
        };
        Some((at, at.saturating_add(bytes)))
    }

    /// Bytes that it moves.
    pub fn bytes(&self) -> u64 {
        let pieces = self.transfer().map_or(&[][..], |(_, pieces)| pieces);
        pieces.iter().map(|piece| piece.region.len() as u64).sum()
    }
}

/// The end of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// Which one.
    pub tag: u32,
    /// How it ended. After an error in writing, each sector holds what it did or what was written,
    /// and the memory of a read that failed holds anything.
    pub result: Result<(), DiskError>,
    /// The rapidhash (V3) of the bytes that were moved, as many as it was to be taken of; `None`
    /// if nobody has taken it.
    pub hash: Option<u64>,
}

/// Why a disk did not do what it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskError {
    /// It ends at byte `end`, but the disk has `disk` bytes.
    OutOfRange {
        /// The end that was asked for.
        end: u64,
        /// Bytes of the disk.
        disk: u64,
    },
    /// It does not begin and end with whole sectors of so many bytes.
    Misaligned(u32),
    /// It has no memory, more than [`MAX_PIECES`] pieces or more than [`MAX_BYTES`] bytes.
    Unfit,
    /// A sector between these bytes of the disk cannot be read or written.
    Media {
        /// The first byte that was asked for.
        at: u64,
        /// The byte after the last.
        end: u64,
    },
    /// What lies beneath the disk has no room for what was written.
    NoSpace,
    /// The disk may only be read.
    ReadOnly,
    /// The device does not work any more.
    Failed,
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskError::OutOfRange { end, disk } => {
                write!(f, "the request ends at byte {end}, the disk at byte {disk}")
            }
            DiskError::Misaligned(sector) => {
                write!(f, "the request is not whole sectors of {sector} bytes")
            }
            DiskError::Unfit => {
                let most = MAX_BYTES >> 20;
                write!(f, "a request has 1 to {MAX_PIECES} pieces of memory, at most {most} MiB")
            }
            DiskError::Media { at, end } => {
                write!(f, "a sector between bytes {at} and {end} cannot be read or written")
            }
            DiskError::NoSpace => f.write_str("what the disk lies on is full"),
            DiskError::ReadOnly => f.write_str("the disk may only be read"),
            DiskError::Failed => f.write_str("the disk has failed"),
        }
    }
}

impl core::error::Error for DiskError {}

impl From<DiskError> for Status {
    fn from(error: DiskError) -> Status {
        match error {
            DiskError::OutOfRange { .. } | DiskError::Misaligned(_) | DiskError::Unfit => {
                Status::Invalid
            }
            DiskError::ReadOnly => Status::Denied,
            DiskError::Media { .. } | DiskError::NoSpace | DiskError::Failed => Status::Failed,
        }
    }
}

impl Description {
    /// Whether the disk can do this at all.
    pub fn check(&self, request: &Request) -> Result<(), DiskError> {
        let Some((at, end)) = request.range() else { return Ok(()) };
        if let Some((_, pieces)) = request.transfer() {
            let is_empty = pieces.iter().any(|piece| piece.region.is_empty());
            if is_empty || request.bytes() > MAX_BYTES || pieces.len() > MAX_PIECES {
                return Err(DiskError::Unfit);
            }
        }
        if at == end {
            return Err(DiskError::Unfit);
        }
        let sector = u64::from(self.sector_bytes);
        let is_whole = |place: u64| place == u64::MAX || place.is_multiple_of(sector);
        if !is_whole(at) || !is_whole(end) {
            return Err(DiskError::Misaligned(self.sector_bytes));
        }
        match end <= self.bytes {
            true => Ok(()),
            false => Err(DiskError::OutOfRange { end, disk: self.bytes }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(at: u64, pieces: &[usize]) -> Request {
        let piece = |bytes: &usize| Piece { at: PhysAddr(0), region: Region::owned(*bytes) };
        Request::Read { at, into: pieces.iter().map(piece).collect() }
    }

    #[test]
    fn requests_that_no_disk_can_meet_are_told_from_others() {
        let disk = Description {
            name: "disk".into(),
            serial: String::new(),
            bytes: 10 << 20,
            sector_bytes: 4096,
        };
        let check = |at, pieces: &[usize]| disk.check(&read(at, pieces));
        assert_eq!(check(0, &[4096]), Ok(()));
        assert_eq!(check((10 << 20) - 4096, &[64, 4032]), Ok(()));
        assert_eq!(check(4096, &[64; 16]), Err(DiskError::Misaligned(4096)));
        assert_eq!(check(512, &[4096]), Err(DiskError::Misaligned(4096)));
        assert_eq!(check(0, &[]), Err(DiskError::Unfit));
        assert_eq!(check(0, &[4096, 0]), Err(DiskError::Unfit));
        assert_eq!(check(0, &[4096; MAX_PIECES + 1]), Err(DiskError::Unfit));
        assert_eq!(check(0, &[MAX_BYTES as usize]), Ok(()));
        assert_eq!(check(0, &[MAX_BYTES as usize, 4096]), Err(DiskError::Unfit));
        let disk_bytes = disk.bytes;
        for at in [disk_bytes, u64::MAX - 4095] {
            let error = check(at, &[4096]).unwrap_err();
            let end = at.saturating_add(4096);
            assert_eq!(error, DiskError::OutOfRange { end, disk: disk_bytes });
            assert_eq!(Status::from(error), Status::Invalid);
        }
        assert_eq!(disk.check(&Request::Flush), Ok(()));
        let discard = |at, bytes| disk.check(&Request::Discard { at, bytes });
        assert_eq!(discard(0, disk_bytes), Ok(()), "it needs no memory");
        assert_eq!(discard(4096, 0), Err(DiskError::Unfit));
        assert_eq!(discard(4096, 512), Err(DiskError::Misaligned(4096)));
        let error = DiskError::OutOfRange { end: disk_bytes + 4096, disk: disk_bytes };
        assert_eq!(discard(4096, disk_bytes), Err(error));
        let error = DiskError::OutOfRange { end: u64::MAX, disk: disk_bytes };
        assert_eq!(discard(4096, u64::MAX - 4095), Err(error));
    }
}
