//! What a node's directory has, as it travels, and how the node itself changes it.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use nile_bosml::{Encode, Writer, records};
pub use nile_registry::Layer;

records! {
    /// A core of the node.
    pub struct Core {
        /// Its number.
        pub core: u16,
        /// Its incarnation.
        pub generation: u32,
        /// Its roles, as `RoleSet::bits` gives them; none: the node has this core no more.
        pub roles: u8,
        /// The directory's version that this is of. Whoever publishes need not fill it in.
        pub changed: u32,
    }

    /// A published instance of a service type.
    pub struct Instance {
        /// The number that the node exports it by, which it never uses again in its generation.
        pub number: u16,
        /// The core that runs it.
        pub core: u16,
        /// That core's incarnation.
        pub generation: u32,
        /// Its name.
        pub name: String,
        /// Its type's name.
        pub type_name: String,
        /// Its type's subsystem.
        pub subsystem: String,
        /// Its type's capability.
        pub capability: String,
        /// Its type's layer.
        pub layer: Layer,
        /// The names of the types that its type extends, the nearest first.
        pub extends: Vec<String>,
        /// What characterizes it.
        pub keywords: Vec<Keyword>,
        /// Its attributes.
        pub attributes: Vec<Attribute>,
        /// The directory's version that this is of. Whoever publishes need not fill it in.
        pub changed: u32,
    }

    /// A word that characterizes an instance.
    pub struct Keyword {
        /// The word.
        pub word: String,
        /// How much a match counts; not 0.
        pub weight: u16,
    }

    /// An attribute of an instance.
    pub struct Attribute {
        /// Its name.
        pub name: String,
        /// Its value: digits, `true` or `false`, or any text.
        pub value: String,
    }

    /// Numbers of instances that are published no more.
    pub struct Gone {
        /// The first number.
        pub first: u16,
        /// The last number.
        pub last: u16,
        /// The directory's version in which the last of them went.
        pub changed: u32,
    }
}

/// A change of a node's own directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Update {
    /// A core is new, or has other roles, or has restarted.
    Core(Core),
    /// An instance is new, or is described otherwise.
    Publish(Instance),
    /// The instance of this number ends.
    Unpublish(u16),
    /// The instance of this number runs on another core, or on the core's next incarnation.
    Move {
        /// Its number.
        number: u16,
        /// The core that runs it now.
        core: u16,
        /// That core's incarnation.
        generation: u32,
    },
}

/// Why a directory was not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The directory has as many cores and instances as a directory can have.
    Full {
        /// How many.
        entries: usize,
    },
    /// The instance's description does not fit one message.
    TooLarge {
        /// Bytes of it.
        bytes: usize,
        /// Bytes that fit.
        most: usize,
    },
    /// No instance has this number.
    Unknown {
        /// The number.
        number: u16,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Full { entries } => {
                write!(f, "the directory is full with {entries} entries: unpublish something")
            }
            Refused::TooLarge { bytes, most } => {
                write!(f, "an instance is described in {bytes} bytes, but {most} fit a message")
            }
            Refused::Unknown { number } => write!(f, "no instance has the number {number}"),
        }
    }
}

impl core::error::Error for Refused {}

/// Bytes of the binary form.
pub(crate) fn size(value: &impl Encode) -> usize {
    let mut out = Writer::new();
    value.encode(&mut out);
    out.len()
}
