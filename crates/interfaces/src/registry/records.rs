//! What goes into the registry and comes out of it.

use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::{CoreId, Generation, NodeId};
pub use nile_registry::Caller as Asker;
use nile_registry::Layer;
use nile_stl::{Caller, Place, Record, ServiceNumber};

use super::values::{NamedValue, Rule};

/// An instance that a core publishes.
#[derive(Record, Clone, Default, Debug)]
pub struct Publication {
    /// The service's name.
    pub name: String,
    /// Its schema as a discovery document; empty for a service of this node's image, of which the
    /// rest is known, too.
    pub document: String,
    /// Its type's subsystem.
    pub subsystem: String,
    /// Its type's capability.
    pub capability: String,
    /// Its type's layer.
    pub layer: Layer,
    /// How it works, for people; empty if its schema says so.
    pub working: String,
    /// What characterizes it.
    pub keywords: Vec<Weighted>,
    /// What its type and whoever chooses want to know of it.
    pub attributes: Vec<NamedValue>,
    /// The rest of its type.
    pub declaration: Declaration,
    /// What its type extends, the nearest first.
    pub ancestors: Vec<Ancestor>,
    /// The incarnation of the core.
    pub generation: u32,
    /// The instance's number there.
    pub number: u16,
}

/// A type, as far as it is not its instance's. All instances agree about it.
#[derive(Record, Clone, Default, Debug)]
pub struct Declaration {
    /// Its name; empty if it is the instance's, whose methods are all of the type then.
    pub name: String,
    /// So many first methods of the instance are those of the type.
    pub methods: u16,
    /// What attributes of instances must be, and what a subject gives when it binds.
    pub rules: Vec<Rule>,
    /// What the instances share, as it is at first.
    pub state: Vec<NamedValue>,
    /// The instance that serves what matches none, if there is one.
    pub default_instance: Option<String>,
}

/// A type that the instance's extends. All of them are of one layer, and have its first methods.
#[derive(Record, Clone, Default, Debug)]
pub struct Ancestor {
    /// Its subsystem.
    pub subsystem: String,
    /// Its capability.
    pub capability: String,
    /// The rest of it.
    pub declaration: Declaration,
}

/// An instance of this node, as other nodes are told of it.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Local {
    /// Its number in the registry: lists go on after it.
    pub id: u32,
    /// Where it is.
    pub found: Found,
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
    /// The types that its type extends, the nearest first.
    pub extends: Vec<String>,
    /// What characterizes it.
    pub keywords: Vec<Weighted>,
    /// Its attributes.
    pub attributes: Vec<NamedValue>,
}

/// A keyword.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Weighted {
    /// The word.
    pub word: String,
    /// How much a match counts; not 0.
    pub weight: u16,
}

/// Where an instance is.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The node that has it; 0 for the one that was asked.
    pub node: u32,
    /// The core that runs it.
    pub core: u16,
    /// That core's incarnation; on another node, the node's.
    pub generation: u32,
    /// The instance's number there.
    pub number: u16,
}

impl From<Place> for Found {
    fn from(place: Place) -> Found {
        Found {
            node: place.node.0,
            core: place.core.0,
            generation: place.generation.0,
            number: place.number.0,
        }
    }
}

impl From<Found> for Place {
    fn from(found: Found) -> Place {
        Place {
            node: NodeId(found.node),
            core: CoreId(found.core),
            generation: Generation(found.generation),
            number: ServiceNumber(found.number),
        }
    }
}

/// The standing that `caller` really has of one on whose behalf it asks: a kernel is believed, a
/// package is a user.
pub fn standing(asker: Asker, caller: &Caller) -> Asker {
    if caller.is_package() { Asker::User } else { asker }
}

/// What a subject is bound to.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Binding {
    /// The instance.
    pub found: Found,
    /// Its name.
    pub name: String,
    /// The name of the instance that the subject was unbound from before, if there was one.
    pub unbound: Option<String>,
}

/// One instance of the list.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its type's name.
    pub type_name: String,
    /// The types that this one extends, the nearest first: it is an instance of them, too.
    pub extends: Vec<String>,
    /// Its type's layer.
    pub layer: Layer,
    /// How it works.
    pub working: String,
    /// Where it is.
    pub found: Found,
    /// What characterizes it.
    pub keywords: Vec<String>,
}

/// Something that happened to an instance.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// It was published.
    Published(Concerned),
    /// It is no more.
    Unpublished(Concerned),
    /// It is at another place now.
    Moved(Concerned),
    /// It is a policy that was expelled: its attribute `expelled` says why.
    Expelled(Concerned),
    /// So many changes were not kept.
    Missed(u64),
}

impl Change {
    /// The instance; none if it is not known any more.
    pub fn concerned(&self) -> Option<&Concerned> {
        match self {
            Change::Published(it)
            | Change::Unpublished(it)
            | Change::Moved(it)
            | Change::Expelled(it) => Some(it),
            Change::Missed(_) => None,
        }
    }
}

/// The instance that a change is about.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Concerned {
    /// Its name.
    pub name: String,
    /// The node that it is or was on; 0 for the one that was asked.
    pub node: u32,
    /// The core that it is or was on.
    pub core: u16,
}
