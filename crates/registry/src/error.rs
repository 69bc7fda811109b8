//! What the registry refuses: one enum an operation, and with which status a call for it ends. What
//! was refused has changed nothing.

use alloc::string::String;
use core::fmt;

use nile_abi::Status;

use crate::attribute::{AttributeError, bad_name};
use crate::layer::LayerError;
use crate::limits::*;
use crate::service::Place;

/// Why a type was not registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegisterError {
    /// The name of the type, subsystem, capability or default instance is empty or too long.
    BadName(String),
    /// A description is longer than [`MAX_TEXT`] bytes.
    TooLong,
    /// The profile has more than [`MAX_METHODS`] methods.
    TooManyMethods,
    /// A type of this name is registered.
    NameTaken(String),
    /// A type for this subsystem and capability is registered in the layer.
    CapabilityTaken(String, String),
    /// The initial state, or the name of a rule, is no proper attribute.
    Attribute(AttributeError),
    /// The layer has registered [`MAX_TYPES`] in its life.
    TooManyTypes,
    /// It extends a type of this name, which is not registered: that one comes first. So no type
    /// extends itself, however far around.
    UnknownParent(String),
    /// It extends the type of this name, and is of another layer.
    OtherLayer(String),
    /// It does not begin with the methods of the type of this name, which it extends.
    OtherMethods(String),
    /// It extends more than [`MAX_ANCESTORS`] types.
    TooDeep,
}

/// Why a type was not unregistered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnregisterError {
    /// There is no such type.
    UnknownType,
    /// It has so many instances; unpublish them first.
    HasInstances(usize),
    /// So many types extend it; unregister them first.
    IsExtended(usize),
}

/// Why a type's common state was not set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StateError {
    /// There is no such type.
    UnknownType,
    /// The state has no such attribute, or one of another type, or the value is too long.
    Attribute(AttributeError),
}

/// Why an instance was not published.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PublishError {
    /// There is no such type: a type is registered before its instances.
    UnknownType,
    /// The instance's name, or a keyword, is empty or too long.
    BadName(String),
    /// The description is longer than [`MAX_TEXT`] bytes.
    TooLong,
    /// An attribute is missing, or not what the type says it must be.
    Attribute(AttributeError),
    /// There are more than [`MAX_KEYWORDS`] keywords.
    TooManyKeywords,
    /// This keyword stands twice in the list.
    KeywordTwice(String),
    /// This keyword has the weight 0, so that no match of it would count.
    NoWeight(String),
    /// The type has an instance of this name on this core.
    Exists(String, Place),
    /// [`MAX_INSTANCES`] are published.
    TooManyInstances,
    /// All service numbers have been given; none is given twice in the registry's life.
    NumbersExhausted,
}

/// There is no such instance: it was unpublished, or never published here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownInstance;

/// Why an instance was not moved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MoveError {
    /// There is no such instance.
    UnknownInstance,
    /// It is on this core already.
    AlreadyThere(Place),
    /// Its type has another instance of this name on that core.
    Exists(String, Place),
}

/// Why nothing was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FindError {
    /// There is no such type.
    UnknownType,
    /// There is no instance of this name.
    UnknownName(String),
    /// The query has more than [`MAX_QUERY_KEYWORDS`] keywords.
    TooManyKeywords,
    /// The query has more than [`MAX_ATTRIBUTES`] constraints.
    TooManyConstraints,
    /// The query compares this attribute by size, and its value has none: only numbers do.
    NoOrder(String),
    /// No instance matches, and there is no default that satisfies the constraints.
    NoMatch,
}

/// Why nothing was bound. What the subject had bound before, it still has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BindError {
    /// The query found nothing.
    Find(FindError),
    /// There is no such instance.
    UnknownInstance,
    /// The caller may not bind services of that layer.
    Layer(LayerError),
    /// A parameter is missing, or not what the type says it must be.
    Parameter(AttributeError),
    /// There are [`MAX_BINDINGS`].
    TooManyBindings,
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegisterError::BadName(name) => bad_name(f, "type", name),
            RegisterError::TooLong => write!(f, "the description exceeds {MAX_TEXT} bytes"),
            RegisterError::TooManyMethods => {
                write!(f, "the profile has more than {MAX_METHODS} methods")
            }
            RegisterError::NameTaken(name) => write!(f, "there is a type `{name}` already"),
            RegisterError::CapabilityTaken(subsystem, capability) => {
                write!(f, "its layer has a type for `{capability}` of `{subsystem}` already")
            }
            RegisterError::Attribute(error) => error.fmt(f),
            RegisterError::TooManyTypes => {
                write!(f, "the layer has registered {MAX_TYPES} types, the most in its life")
            }
            RegisterError::UnknownParent(name) => {
                write!(f, "it extends `{name}`, which is no type; register that before")
            }
            RegisterError::OtherLayer(name) => {
                write!(f, "it extends `{name}`, which is of another layer")
            }
            RegisterError::OtherMethods(name) => {
                write!(f, "it extends `{name}`, and does not begin with its methods")
            }
            RegisterError::TooDeep => {
                write!(f, "it extends more than {MAX_ANCESTORS} types, or itself")
            }
        }
    }
}

impl fmt::Display for UnregisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnregisterError::UnknownType => f.write_str("there is no such type"),
            UnregisterError::HasInstances(count) => {
                write!(f, "the type has {count} instances; unpublish them first")
            }
            UnregisterError::IsExtended(count) => {
                write!(f, "{count} types extend the type; unregister them first")
            }
        }
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StateError::UnknownType => f.write_str("there is no such type"),
            StateError::Attribute(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PublishError::UnknownType => {
                f.write_str("there is no such type; register it before its instances")
            }
            PublishError::BadName(name) => bad_name(f, "instance or keyword", name),
            PublishError::TooLong => write!(f, "the description exceeds {MAX_TEXT} bytes"),
            PublishError::Attribute(error) => error.fmt(f),
            PublishError::TooManyKeywords => write!(f, "more than {MAX_KEYWORDS} keywords"),
            PublishError::KeywordTwice(word) => write!(f, "keyword `{word}` is given twice"),
            PublishError::NoWeight(word) => write!(f, "keyword `{word}` has no weight"),
            PublishError::Exists(name, place) => {
                write!(f, "the type has an instance `{name}` on {place} already")
            }
            PublishError::TooManyInstances => {
                write!(f, "{MAX_INSTANCES} instances are published, the most there can be")
            }
            PublishError::NumbersExhausted => f.write_str(
                "all service numbers of this generation are given; restart the node for new ones",
            ),
        }
    }
}

impl fmt::Display for UnknownInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no such instance")
    }
}

impl fmt::Display for MoveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MoveError::UnknownInstance => UnknownInstance.fmt(f),
            MoveError::AlreadyThere(place) => write!(f, "the instance is on {place} already"),
            MoveError::Exists(name, place) => {
                write!(f, "the type has another instance `{name}` on {place}")
            }
        }
    }
}

impl fmt::Display for FindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FindError::UnknownType => f.write_str("there is no such type"),
            FindError::UnknownName(name) => write!(f, "there is no instance `{name}`"),
            FindError::TooManyKeywords => {
                write!(f, "more than {MAX_QUERY_KEYWORDS} keywords in a query")
            }
            FindError::TooManyConstraints => {
                write!(f, "more than {MAX_ATTRIBUTES} constraints in a query")
            }
            FindError::NoOrder(name) => {
                write!(f, "`{name}` is compared by size with what is no number")
            }
            FindError::NoMatch => {
                f.write_str("no instance matches, and no default satisfies the constraints")
            }
        }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindError::Find(error) => error.fmt(f),
            BindError::UnknownInstance => UnknownInstance.fmt(f),
            BindError::Layer(error) => error.fmt(f),
            BindError::Parameter(error) => error.fmt(f),
            BindError::TooManyBindings => {
                write!(f, "{MAX_BINDINGS} are bound, the most there can be; unbind some")
            }
        }
    }
}

impl From<RegisterError> for Status {
    fn from(error: RegisterError) -> Status {
        match error {
            RegisterError::NameTaken(_) | RegisterError::CapabilityTaken(..) => Status::Exists,
            RegisterError::UnknownParent(_) => Status::NotFound,
            _ => Status::Invalid,
        }
    }
}

impl From<UnregisterError> for Status {
    fn from(error: UnregisterError) -> Status {
        match error {
            UnregisterError::UnknownType => Status::NotFound,
            UnregisterError::HasInstances(_) | UnregisterError::IsExtended(_) => Status::Busy,
        }
    }
}

impl From<StateError> for Status {
    fn from(error: StateError) -> Status {
        match error {
            StateError::UnknownType => Status::NotFound,
            StateError::Attribute(_) => Status::Invalid,
        }
    }
}

impl From<PublishError> for Status {
    fn from(error: PublishError) -> Status {
        match error {
            PublishError::UnknownType => Status::NotFound,
            PublishError::Exists(..) => Status::Exists,
            PublishError::TooManyInstances => Status::Busy,
            _ => Status::Invalid,
        }
    }
}

impl From<UnknownInstance> for Status {
    fn from(_: UnknownInstance) -> Status {
        Status::NotFound
    }
}

impl From<MoveError> for Status {
    fn from(error: MoveError) -> Status {
        match error {
            MoveError::UnknownInstance => Status::NotFound,
            MoveError::AlreadyThere(_) | MoveError::Exists(..) => Status::Exists,
        }
    }
}

impl From<FindError> for Status {
    fn from(error: FindError) -> Status {
        match error {
            FindError::UnknownType | FindError::UnknownName(_) | FindError::NoMatch => {
                Status::NotFound
            }
            FindError::TooManyKeywords | FindError::TooManyConstraints | FindError::NoOrder(_) => {
                Status::Invalid
            }
        }
    }
}

impl From<BindError> for Status {
    fn from(error: BindError) -> Status {
        match error {
            BindError::Find(error) => error.into(),
            BindError::UnknownInstance => Status::NotFound,
            BindError::Layer(_) => Status::Denied,
            BindError::Parameter(_) => Status::Invalid,
            BindError::TooManyBindings => Status::Busy,
        }
    }
}
