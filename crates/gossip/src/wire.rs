//! Messages: one record of the message language for all, whose parts may each be empty, so that
//! whatever is to be said to a node at a time goes in one frame.

use alloc::vec::Vec;

use nile_bosml::schema::Parameter;
use nile_bosml::{Blob, Decode, Error, Reader, records};

use crate::records::{Core, Gone, Instance};

records! {
    /// A message.
    pub struct Message {
        /// The sender.
        pub sender: Row,
        /// What sort of message it is: the sum of [`START`], [`OBSERVER`], [`URGENT`].
        pub flags: u8,
        /// A packet of the membership protocol, or nothing.
        pub swim: Blob,
        /// Rumours: what has happened to nodes.
        pub news: Vec<Row>,
        /// Answers: rows of which the receiver should know.
        pub rows: Vec<Row>,
        /// Digests to be compared.
        pub ranges: Vec<Range>,
        /// Directories of which the sender wants the changes.
        pub polls: Vec<Poll>,
        /// Changes of directories, as rumours if `news` has the node, else as answers.
        pub changes: Vec<Changes>,
    }

    /// What the sender knows of a node.
    pub struct Row {
        /// The node.
        pub node: u32,
        /// Its generation.
        pub generation: u32,
        /// Tells lives of one generation apart.
        pub nonce: u32,
        /// How often it had to deny its death in this generation.
        pub renewal: u16,
        /// Whether it lives.
        pub live: bool,
        /// The version of its directory that the sender holds.
        pub version: u32,
    }

    /// A digest: of the living nodes whose place begins with some bits.
    pub struct Range {
        /// The bits, in the place of a number's highest; the others are zero.
        pub prefix: u32,
        /// How many bits.
        pub bits: u8,
        /// Whether `rows` of this message has all the sender's rows of the range.
        pub listed: bool,
        /// The sum of the rows' hashes.
        pub hash: u64,
    }

    /// A request for the changes of a node's directory.
    pub struct Poll {
        /// The node.
        pub node: u32,
        /// The generation of it.
        pub generation: u32,
        /// The version that the sender holds.
        pub have: u32,
    }

    /// Changes of a node's directory: what changed last after `base`, up to `version`, is as said
    /// here.
    pub struct Changes {
        /// The node.
        pub node: u32,
        /// The generation of it.
        pub generation: u32,
        /// The version before.
        pub base: u32,
        /// The version after.
        pub version: u32,
        /// The version that the sender holds; if it is later, a poll gets the rest.
        pub latest: u32,
        /// Cores.
        pub cores: Vec<Core>,
        /// Instances.
        pub instances: Vec<Instance>,
        /// Instances that ended.
        pub gone: Vec<Gone>,
    }
}

/// The sender has started and asks for answers.
pub const START: u8 = 1;

/// The sender only looks on: it wants to be answered, and not to be known.
pub const OBSERVER: u8 = 2;

/// The digests are to be compared even while there is news, which makes them differ.
pub const URGENT: u8 = 4;

/// The bits above: with [`START`], the sender's age, as the number of binary digits of the rounds
/// since it began.
pub const AGE: u32 = 3;

/// The greatest age that can be said.
pub const OLDEST: u32 = u8::MAX as u32 >> AGE;

/// The name of the element of a message's text form.
pub const NAME: &str = "gossip";

/// The fields of a message, for its text form: [`nile_bosml::binary_to_text`] with [`NAME`].
pub const FIELDS: &[Parameter<'static>] = Message::FIELDS;

/// Bytes of a message without anything: sender, flags, six lengths.
pub(crate) const EMPTY: usize = ROW + 1 + 6 * 2;

/// Bytes of a [`Row`].
pub(crate) const ROW: usize = 19;

/// Bytes of a [`Range`].
pub(crate) const RANGE: usize = 14;

/// Bytes of a [`Poll`].
pub(crate) const POLL: usize = 12;

/// Bytes of [`Changes`] without any.
pub(crate) const CHANGES: usize = 5 * 4 + 3 * 2;

impl Message {
    /// A message that says who sends it.
    pub fn new(sender: Row, flags: u8) -> Message {
        Message {
            sender,
            flags,
            swim: Blob::default(),
            news: Vec::new(),
            rows: Vec::new(),
            ranges: Vec::new(),
            polls: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Reads one. Makes room for at most a few times the bytes of `payload`. Fails where it is not
    /// a message.
    pub fn parse(payload: &[u8]) -> Result<Message, Error> {
        let mut input = Reader::new(payload);
        let message = Message::decode(&mut input)?;
        input.finish().map(|()| message)
    }
}
