//! Whose disk it is, and the table of its extents, so that stores share a disk and leave room for
//! others. It stands twice, in the disk's first two units; a change is written over the older of
//! the two, so that one always holds.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use nile_abi::NodeId;
use nile_ipioe::checksum::Checksum;

use crate::bytes::{Reader, Writer};
use crate::extent::{Extent, Step, UNIT};
use crate::log::Log;
use crate::record::Kind;

/// Bytes at the start of a disk that hold the label.
pub const LABEL_BYTES: u64 = 2 * UNIT;

/// The most extents of a disk.
pub const MOST_EXTENTS: usize = 32;

/// The longest name of an extent, in bytes.
pub const LONGEST_EXTENT_NAME: usize = 63;

const MAGIC: u64 = u64::from_le_bytes(*b"NILEDISK");
const VERSION: u32 = 4;

/// The first whose labels say whose the disk is. Those before are of who opens them first.
const HOME_VERSION: u32 = 4;

/// The oldest one whose stores are read: they have no notes, and one manifest a record.
const OLD_VERSION: u32 = 2;

/// That of a disk whose label says nobody's name.
const NO_NODE: NodeId = NodeId(0);

/// How what is behind the label is encrypted.
const PLAIN: u32 = 0;
const AES_XTS: u32 = 1;

/// Magic, checksum, version.
const HEAD_BYTES: usize = 16;

/// Whose disk it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Home {
    /// The cluster's identity, a number that was drawn when it was made; zero: none was given.
    pub cluster: u64,
    /// The node.
    pub node: NodeId,
}

impl fmt::Display for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cluster {
            0 => write!(f, "{} of no cluster", self.node),
            cluster => write!(f, "{} of cluster {cluster:016x}", self.node),
        }
    }
}

/// Why a label cannot be read or changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LabelError {
    /// The disk has something else, or both copies of its label are damaged. It is not
    /// overwritten.
    Foreign,
    /// The label, and with it all stores of the disk, is of another version of the format. It is
    /// not overwritten.
    Version(u32),
    /// The disk is another node's. It is not overwritten.
    Home {
        /// Whose it is.
        disk: Home,
        /// Who has looked.
        own: Home,
    },
    /// The disk is encrypted, and not by this key, or there is none. It is not overwritten.
    Key {
        /// Whether there is a key.
        has_key: bool,
    },
    /// The disk is shorter than its extents, which are as they were: grown back, it has all that
    /// was not cut off. It is not overwritten.
    Truncated {
        /// Bytes of the disk that the label speaks of.
        wanted: u64,
        /// Bytes that it has.
        disk: u64,
    },
    /// The disk, or what is left of it, is too small for an extent of so many bytes.
    TooSmall {
        /// Bytes that are wanted.
        wanted: u64,
        /// Bytes of the longest free part.
        free: u64,
    },
    /// An extent of this name is there.
    Exists,
    /// There are [`MOST_EXTENTS`], or the name is empty or too long.
    Refused,
}

impl fmt::Display for LabelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabelError::Foreign => write!(
                f,
                "the disk has something else than a label of NileOS, or its label is damaged"
            ),
            LabelError::Home { disk, own } => {
                write!(f, "the disk is that of {disk}, and this is {own}")
            }
            LabelError::Key { has_key: true } => {
                write!(f, "the disk is encrypted, and not with the key of this cluster")
            }
            LabelError::Key { has_key: false } => {
                write!(f, "the disk is encrypted, and this cluster has no key")
            }
            LabelError::Truncated { wanted, disk } => write!(
                f,
                "the disk was cut: it has {disk} bytes, and had {wanted}; give it as many again, \
                 and what was not cut off is there"
            ),
            LabelError::Version(version) => write!(
                f,
                "the disk has stores in version {version} of their format, this is NileOS with \
                 version {VERSION}: copy the datasets with the NileOS that has written them"
            ),
            LabelError::TooSmall { wanted, free } => {
                write!(f, "no room for an extent of {wanted} bytes: {free} are free in one piece")
            }
            LabelError::Exists => write!(f, "the disk has an extent of this name"),
            LabelError::Refused => write!(f, "a name of an extent has 1 to 63 bytes, a disk 32"),
        }
    }
}

impl core::error::Error for LabelError {}

/// Whose a disk is, and its extents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// Counts changes; the parity says which copy it was.
    sequence: u64,
    disk_bytes: u64,
    /// `None` if nobody has had it, or the label is of a version that does not say it.
    home: Option<Home>,
    /// If the disk is encrypted, a number that tells whether a key is the right one.
    sealed: Option<u64>,
    extents: Vec<(Box<str>, Extent)>,
    /// A copy of it is damaged, or of an older version.
    is_old: bool,
}

impl Label {
    /// The label of a disk of `disk_bytes`, from its first [`LABEL_BYTES`]. A disk that has only
    /// zeros there has no extents.
    pub fn read(bytes: &[u8], disk_bytes: u64, checksum: Checksum) -> Result<Label, LabelError> {
        if bytes.len() as u64 >= LABEL_BYTES && bytes.iter().all(|byte| *byte == 0) {
            return Ok(Label::empty(0, disk_bytes, false));
        }
        let copies = bytes.chunks_exact(UNIT as usize).take(2);
        let labels = copies.filter_map(|copy| Label::parse(copy, disk_bytes, checksum));
        let labels: Vec<Label> = labels.collect();
        let is_damaged = |copy: &[u8]| {
            Label::version(copy, checksum).is_none() && copy.iter().any(|byte| *byte != 0)
        };
        let is_old = labels.iter().any(|label| label.is_old)
            || bytes.chunks_exact(UNIT as usize).take(2).any(is_damaged);
        let newest = labels.into_iter().max_by_key(|label| label.sequence);
        newest
            .map(|label| Label { is_old, ..label })
            .ok_or_else(|| Label::unreadable(bytes, disk_bytes, checksum))
    }

    fn empty(sequence: u64, disk_bytes: u64, is_old: bool) -> Label {
        Label { sequence, disk_bytes, home: None, sealed: None, extents: Vec::new(), is_old }
    }

    /// Takes the disk for `own`: a blank one, one of a version that does not say whose it is, and
    /// one of this node when it was of no cluster become its. A blank one is to be encrypted by the
    /// key that `key` stands for, if there is one, unless it is to be plain. To be called before
    /// anything else is done.
    pub fn take(&mut self, own: Home, key: Option<u64>, is_plain: bool) -> Result<(), LabelError> {
        match self.home {
            Some(disk) if disk == own => {}
            Some(disk) if disk.cluster != 0 || disk.node != own.node => {
                return Err(LabelError::Home { disk, own });
            }
            // What has nothing yet is written when it gets something.
            _ => {
                self.home = Some(own);
                self.is_old |= !self.extents.is_empty();
            }
        }
        if self.extents.is_empty() {
            self.sealed = key.filter(|_| !is_plain);
        }
        match self.sealed {
            Some(_) if self.sealed != key => Err(LabelError::Key { has_key: key.is_some() }),
            _ => Ok(()),
        }
    }

    /// Whether the disk is encrypted, behind its label.
    pub fn is_sealed(&self) -> bool {
        self.sealed.is_some()
    }

    /// What a disk has whose label cannot be read.
    fn unreadable(bytes: &[u8], disk_bytes: u64, checksum: Checksum) -> LabelError {
        let copies = || bytes.chunks_exact(UNIT as usize).take(2);
        let longer = copies().filter_map(|copy| Label::parse(copy, 1 << 63, checksum));
        let end = |label: &Label| label.extents().map(|(_, it)| it.start + it.bytes).max();
        if let Some(wanted) = longer.filter_map(|label| end(&label)).max() {
            return LabelError::Truncated { wanted, disk: disk_bytes };
        }
        let version = copies().find_map(|copy| Label::version(copy, checksum));
        let version = version.filter(|version| !(OLD_VERSION..=VERSION).contains(version));
        version.map_or(LabelError::Foreign, LabelError::Version)
    }

    /// The label of a disk that is to be empty, whatever it has: to be [renewed](Self::renew) once
    /// it has its extents.
    pub fn anew(bytes: &[u8], disk_bytes: u64, checksum: Checksum) -> Label {
        let copies = bytes.chunks_exact(UNIT as usize).take(2);
        let labels = copies.filter_map(|copy| Label::parse(copy, 1 << 63, checksum));
        let sequence = labels.map(|label| label.sequence).max().unwrap_or(0);
        Label::empty(sequence, disk_bytes, true)
    }

    /// The version of the format that a copy is of. `None` if it is none, or damaged.
    fn version(copy: &[u8], checksum: Checksum) -> Option<u32> {
        let mut reader = Reader(copy);
        let (magic, sum, version) = (reader.u64()?, reader.u32()?, reader.u32()?);
        (magic == MAGIC && checksum(0, &copy[12..]) == sum).then_some(version)
    }

    fn parse(bytes: &[u8], disk_bytes: u64, checksum: Checksum) -> Option<Label> {
        let version = Label::version(bytes, checksum)?;
        (OLD_VERSION..=VERSION).contains(&version).then_some(())?;
        let mut reader = Reader(&bytes[HEAD_BYTES..]);
        let mut label = Label::empty(reader.u64()?, disk_bytes, version != VERSION);
        if version >= HOME_VERSION {
            let (cluster, node) = (reader.u64()?, NodeId(reader.u32()?));
            label.home = (node != NO_NODE).then_some(Home { cluster, node });
            let (cipher, check) = (reader.u32()?, reader.u64()?);
            label.sealed = match cipher {
                PLAIN => None,
                AES_XTS => Some(check),
                _ => return None,
            };
        }
        for _ in 0..reader.u32()? {
            let (start, bytes) = (reader.u64()?, reader.u64()?);
            let (log_bytes, identity) = (reader.u64()?, reader.u64()?);
            let name = reader.text()?;
            let extent = Extent { start, bytes, log_bytes, identity }.checked()?;
            let is_free = label.gaps().any(|(at, length)| {
                at <= start && start - at <= length && bytes <= length - (start - at)
            });
            (is_free && label.may_add(name).is_ok()).then_some(())?;
            label.extents.push((name.into(), extent));
            nile_order::sort_by_key(&mut label.extents, |(_, extent)| extent.start);
        }
        Some(label)
    }

    fn may_add(&self, name: &str) -> Result<(), LabelError> {
        let is_good = (1..=LONGEST_EXTENT_NAME).contains(&name.len());
        match is_good && self.extents.len() < MOST_EXTENTS {
            false => Err(LabelError::Refused),
            true if self.find(name).is_some() => Err(LabelError::Exists),
            true => Ok(()),
        }
    }

    /// The extent of a name.
    pub fn find(&self, name: &str) -> Option<&Extent> {
        self.extents().find(|(other, _)| *other == name).map(|(_, extent)| extent)
    }

    /// Every extent with its name, in their order on the disk.
    pub fn extents(&self) -> impl Iterator<Item = (&str, &Extent)> {
        self.extents.iter().map(|(name, extent)| (&**name, extent))
    }

    /// What is free: the first byte, and how many.
    fn gaps(&self) -> impl Iterator<Item = (u64, u64)> {
        let ends = self.extents.iter().map(|(_, it)| it.start + it.bytes);
        let starts = self.extents.iter().map(|(_, it)| it.start);
        let begins = core::iter::once(LABEL_BYTES).chain(ends);
        let whole = self.disk_bytes / UNIT * UNIT;
        begins.zip(starts.chain([whole])).map(|(at, end)| (at, end.saturating_sub(at)))
    }

    /// Adds an extent with an empty store: of `bytes`, or as long as possible. `identity` is a
    /// number that no extent of this disk ever had: from a source of entropy, or a clock. Gives
    /// what is to be done to the disk, in this order; if power fails before the last step, the
    /// extent is not there.
    pub fn add(
        &mut self,
        name: &str,
        bytes: Option<u64>,
        identity: u64,
        checksum: Checksum,
    ) -> Result<(Extent, Vec<Step>), LabelError> {
        self.may_add(name)?;
        let wanted = bytes.unwrap_or(0).next_multiple_of(UNIT);
        let longest = self.gaps().max_by_key(|(_, length)| *length);
        let fitting = self.gaps().find(|(_, length)| *length >= wanted);
        let gap = if bytes.is_some() { fitting } else { longest };
        let free = longest.map_or(0, |(_, length)| length);
        let extent = gap.and_then(|(at, length)| {
            Extent::new(at, if bytes.is_some() { wanted } else { length }, identity)
        });
        let extent = extent.ok_or(LabelError::TooSmall { wanted, free })?;
        self.extents.push((name.into(), extent));
        nile_order::sort_by_key(&mut self.extents, |(_, extent)| extent.start);
        let empty = Log::begin(&extent, 1, checksum).append(Kind::Sealed, &[]);
        Ok((extent, vec![empty, Step::Flush, self.write(checksum), Step::Flush]))
    }

    /// Removes an extent and all it has; gives what is to be done to the disk. `None` if there is
    /// no such extent.
    pub fn remove(&mut self, name: &str, checksum: Checksum) -> Option<Vec<Step>> {
        let at = self.extents().position(|(other, _)| other == name)?;
        self.extents.remove(at);
        Some(vec![self.write(checksum), Step::Flush])
    }

    /// What is to be done to the disk, in this order, before anything is written to a store of it:
    /// nothing, unless a copy of the label is damaged, or of an older version, which those who
    /// write that would take for their own.
    pub fn renew(&mut self, checksum: Checksum) -> Vec<Step> {
        if !core::mem::take(&mut self.is_old) {
            return Vec::new();
        }
        vec![self.write(checksum), Step::Flush, self.write(checksum), Step::Flush]
    }

    fn write(&mut self, checksum: Checksum) -> Step {
        self.sequence += 1;
        let mut writer = Writer::default();
        writer.u32(VERSION);
        writer.u64(self.sequence);
        let home = self.home.unwrap_or(Home { cluster: 0, node: NO_NODE });
        writer.u64(home.cluster);
        writer.u32(home.node.0);
        writer.u32(if self.is_sealed() { AES_XTS } else { PLAIN });
        writer.u64(self.sealed.unwrap_or(0));
        writer.u32(self.extents.len() as u32);
        for (name, extent) in &self.extents {
            writer.u64(extent.start);
            writer.u64(extent.bytes);
            writer.u64(extent.log_bytes);
            writer.u64(extent.identity);
            writer.text(name);
        }
        let mut rest = writer.0;
        // 32 extents take less than a unit.
        rest.resize(UNIT as usize - 12, 0);
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend_from_slice(&checksum(0, &rest).to_le_bytes());
        bytes.extend_from_slice(&rest);
        Step::Write { at: self.sequence % 2 * UNIT, bytes }
    }
}

const _: () = assert!(52 + MOST_EXTENTS * (33 + LONGEST_EXTENT_NAME) <= UNIT as usize);
