//! What a dataset is: its name and version, its blocks, and which nodes hold them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use nile_abi::{Generation, NodeId};
use nile_bosml::schema::Type;
use nile_bosml::{Decode, Encode, Error, ErrorKind, Reader, Typed, Writer};
use nile_stl_macros::Record;
use rapidhash::v3::rapidhash_v3;

/// The longest name, in bytes.
pub const LONGEST_NAME: usize = 128;

/// The longest block, in bytes.
pub const LONGEST_BLOCK: u32 = 64 << 20;

/// The most copies of a dataset.
pub const MOST_COPIES: u8 = 16;

/// A dataset's name: UTF-8 of 1 to [`LONGEST_NAME`] bytes without control characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name(Box<str>);

impl Name {
    /// The name, unless it is empty, too long, or has control characters.
    pub fn new(name: &str) -> Option<Name> {
        let good = (1..=LONGEST_NAME).contains(&name.len()) && !name.chars().any(char::is_control);
        good.then(|| Name(name.into()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Typed for Name {
    const TYPE: Type<'static> = Type::String;
    const LEAST: usize = <&str>::LEAST;
}

impl Encode for Name {
    fn encode(&self, out: &mut Writer) {
        self.as_str().encode(out);
    }
}

impl<'a> Decode<'a> for Name {
    fn decode(input: &mut Reader<'a>) -> Result<Name, Error> {
        let wrong = |found: &str| ErrorKind::WrongType { expected: "name", found: found.into() };
        let text = <&str>::decode(input)?;
        Name::new(text).ok_or_else(|| input.error(wrong("text that is none")))
    }
}

/// Counts the masters of a job: what a later one commits wins over what an earlier one does.
#[derive(Record, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[record(crate = nile_bosml)]
pub struct Epoch(pub u64);

/// Tells apart who tries to make a dataset in one epoch; the first to commit wins.
#[derive(Record, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[record(crate = nile_bosml)]
pub struct Attempt(pub u32);

/// Which of the datasets of a name.
#[derive(Record, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[record(crate = nile_bosml)]
pub struct Version {
    /// The epoch of its job.
    pub epoch: Epoch,
    /// The attempt within that.
    pub attempt: Attempt,
}

impl Version {
    /// A version.
    pub fn new(epoch: u64, attempt: u32) -> Version {
        Version { epoch: Epoch(epoch), attempt: Attempt(attempt) }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}, attempt {}", self.epoch.0, self.attempt.0)
    }
}

/// Who decides whether a dataset is committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// A node in one incarnation.
    Node {
        /// The node.
        node: NodeId,
        /// Its incarnation.
        generation: Generation,
    },
    /// The record of a job, which is elsewhere.
    Job {
        /// Where it is kept, as the job has it.
        keepers: u32,
    },
    /// The keepers of its name.
    Name,
}

/// A block's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its length, 1 to [`LONGEST_BLOCK`].
    pub bytes: u32,
    /// The lower half of the rapidhash (V3) of its bytes.
    pub checksum: u32,
}

impl Block {
    /// A block of these bytes.
    pub fn of(bytes: &[u8]) -> Block {
        Block::hashed(bytes.len() as u32, rapidhash_v3(bytes))
    }

    /// A block of so many bytes, whose rapidhash (V3) somebody has taken.
    pub fn hashed(bytes: u32, hash: u64) -> Block {
        Block { bytes, checksum: hash as u32 }
    }

    /// Whether these are its bytes.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        *self == Block::of(bytes)
    }
}

/// The list of a dataset's blocks. Every holder of a block has all of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    /// The dataset's name.
    pub name: Name,
    /// Which of that name.
    pub version: Version,
    /// Who commits it.
    pub owner: Owner,
    copies: u8,
    blocks: Vec<Block>,
    /// `copies` for each block.
    holders: Vec<NodeId>,
}

impl Manifest {
    /// One without blocks, each of which will have `copies` holders; `None` if those are none or
    /// more than [`MOST_COPIES`].
    pub fn new(name: Name, version: Version, owner: Owner, copies: u8) -> Option<Manifest> {
        let (blocks, holders) = (Vec::new(), Vec::new());
        let good = (1..=MOST_COPIES).contains(&copies);
        good.then_some(Manifest { name, version, owner, copies, blocks, holders })
    }

    /// Adds a block. `false`, and nothing is added, if its length is out of bounds, if its holders
    /// are not as many as the copies, or if one stands there twice.
    #[must_use]
    pub fn push(&mut self, block: Block, holders: &[NodeId]) -> bool {
        let is_twice = |at: usize| holders[..at].contains(&holders[at]);
        let good = (1..=LONGEST_BLOCK).contains(&block.bytes)
            && holders.len() == usize::from(self.copies)
            && !(0..holders.len()).any(is_twice);
        if good {
            self.blocks.push(block);
            self.holders.extend_from_slice(holders);
        }
        good
    }

    /// How many nodes hold each block.
    pub fn copies(&self) -> u8 {
        self.copies
    }

    /// The blocks in their order.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Who holds a block; nobody, if there is no such block.
    pub fn holders(&self, block: usize) -> &[NodeId] {
        let copies = usize::from(self.copies);
        self.holders.get(block * copies..(block + 1) * copies).unwrap_or(&[])
    }

    /// Whether a node holds any block.
    pub fn involves(&self, node: NodeId) -> bool {
        self.holders.contains(&node)
    }

    /// The dataset's length in bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.bytes)).sum()
    }
}
