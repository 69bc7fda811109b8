//! What is registered, service types; what is published, instances; and how both are named.
//!
//! Descriptions can be constants, as the `#[service]` macro writes them, or owned, as they come
//! from a package or another node.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use nile_abi::{CoreId, Generation, NodeId};
use nile_bosml::schema::Service;

use crate::attribute::{
    self, Attribute, AttributeError, AttributeKind, AttributeRule, AttributeValue, Others,
    check_name,
};
use crate::error::{PublishError, RegisterError};
use crate::keywords::KeywordId;
use crate::layer::Layer;
use crate::limits::{MAX_ANCESTORS, MAX_KEYWORDS, MAX_METHODS, MAX_TEXT};
use crate::priority::{PRIORITY, Priority};

/// A service type: what its instances have in common (the `ST_Desc` of Dhara, III.C).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceType {
    /// Its name, unique in the registry.
    pub name: Cow<'static, str>,
    /// The subsystem that it belongs to: memory management, process management.
    pub subsystem: Cow<'static, str>,
    /// What its instances can do: page replacement, scheduling. Unique in layer and subsystem.
    pub capability: Cow<'static, str>,
    /// In whose registry its instances are published.
    pub layer: Layer,
    /// The type that it extends: its instances are instances of that one, too (the
    /// *generalization* of Dhara, III.C). It is of the same layer and begins with its methods.
    pub extends: Option<Parent>,
    /// A description for people.
    pub description: Cow<'static, str>,
    /// The functions that every instance has.
    pub profile: Service<'static>,
    /// What its instances share, as it is at first.
    pub state: Cow<'static, [Attribute]>,
    /// What attributes of instances must be. An instance can have others, too.
    pub attributes: Cow<'static, [AttributeRule]>,
    /// What a subject gives when it binds. It can give nothing else.
    pub parameters: Cow<'static, [AttributeRule]>,
    /// The name of the instance that serves requests which match none.
    pub default_instance: Option<Cow<'static, str>>,
}

/// The type that another one extends: in a constant, or as it came from elsewhere.
#[derive(Clone, Debug)]
pub enum Parent {
    /// In a constant.
    Static(&'static ServiceType),
    /// From a package or another node.
    Owned(Box<ServiceType>),
}

impl Parent {
    /// The type itself.
    pub const fn get(&self) -> &ServiceType {
        match self {
            Parent::Static(ty) => ty,
            Parent::Owned(ty) => ty,
        }
    }
}

impl PartialEq for Parent {
    /// A type is known by its name; constants could extend each other in a circle.
    fn eq(&self, other: &Parent) -> bool {
        self.get().name == other.get().name
    }
}

impl Eq for Parent {}

/// A word that characterises an instance, with its importance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Keyword {
    /// The word; compared as it stands.
    pub word: Cow<'static, str>,
    /// How much a match counts; not 0.
    pub weight: u16,
}

/// An instance to publish (the `SI_Desc` of Dhara, III.C, but for its reference).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewInstance {
    /// Its name. Instances of a type can have one name if they are on different cores.
    pub name: Cow<'static, str>,
    /// How it works, for people.
    pub working: Cow<'static, str>,
    /// Its attributes. [`PRIORITY`] among them gives it a place in the
    /// order of its type.
    pub attributes: Cow<'static, [Attribute]>,
    /// Its keywords.
    pub keywords: Cow<'static, [Keyword]>,
}

/// A registered type. Not used again when the type is unregistered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TypeId {
    pub(crate) layer: Layer,
    pub(crate) index: u16,
}

impl TypeId {
    /// The layer in whose registry the type is.
    pub fn layer(self) -> Layer {
        self.layer
    }
}

/// A published instance; never given twice by one registry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InstanceId(pub u32);

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "i{}", self.0)
    }
}

/// An instance in a call to its node: assigned by the node's registry from 1 on, and never again
/// in its life (DESIGN §8).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServiceNumber(pub u16);

/// A core of some node, `n2.c3`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// The node.
    pub node: NodeId,
    /// The core of it.
    pub core: CoreId,
}

impl From<CoreId> for Place {
    /// A core of the node that names itself 0.
    fn from(core: CoreId) -> Place {
        Place { node: NodeId(0), core }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}.{}", self.node.0, self.core)
    }
}

/// Where calls to an instance go: its reference (the `SI_Reference` of Dhara, III.C).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Location {
    /// Its node.
    pub node: NodeId,
    /// Its core.
    pub core: CoreId,
    /// What the node calls it.
    pub service: ServiceNumber,
}

impl Location {
    /// The core, without the instance.
    pub fn place(self) -> Place {
        Place { node: self.node, core: self.core }
    }
}

/// A resolved instance. Calls through it need no lookup; it is stale when the instance moves and
/// dead when it is unpublished.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Handle {
    /// Which instance.
    pub instance: InstanceId,
    /// Counts the instance's moves.
    pub generation: Generation,
    /// Where it is.
    pub location: Location,
}

/// How an instance was found to serve, by those who called it from elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quality {
    /// How long it takes until a call has succeeded, smoothed.
    pub latency_ns: u64,
    /// How many of a million calls fail, smoothed.
    pub failures_ppm: u32,
}

/// A published instance.
#[derive(Debug)]
pub struct Instance {
    pub(crate) handle: Handle,
    pub(crate) priority: Option<Priority>,
    pub(crate) name: Arc<str>,
    pub(crate) working: Cow<'static, str>,
    pub(crate) attributes: Cow<'static, [Attribute]>,
    pub(crate) keywords: Box<[(KeywordId, u16)]>,
    pub(crate) quality: Option<Box<Quality>>,
}

/// The attribute with the time that a call of an instance takes, declared or measured.
pub const LATENCY: &str = "qos_latency_ns";

/// The attribute with how many of a million calls of an instance fail, declared or measured.
pub const FAILURES: &str = "qos_failures_ppm";

/// The attribute with how many calls in a second an instance says that it can take.
pub const PER_SECOND: &str = "qos_calls_per_second";

/// The attribute that the registry gives a policy that was expelled: where, why and when.
pub const EXPELLED: &str = "expelled";

impl Instance {
    /// Which it is and where.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it works.
    pub fn working(&self) -> &str {
        &self.working
    }

    /// How it was found to serve, if it was called lately.
    pub fn quality(&self) -> Option<Quality> {
        self.quality.as_deref().copied()
    }

    /// An attribute as queries see it: what was measured counts, not what was declared.
    pub(crate) fn attribute(&self, name: &str) -> Option<Cow<'_, AttributeValue>> {
        let measured = self.quality.as_ref().and_then(|it| match name {
            LATENCY => Some(i64::try_from(it.latency_ns).unwrap_or(i64::MAX)),
            FAILURES => Some(i64::from(it.failures_ppm)),
            _ => None,
        });
        match measured {
            Some(value) => Some(Cow::Owned(AttributeValue::Int(value))),
            None => attribute::get(&self.attributes, name).map(Cow::Borrowed),
        }
    }

    /// The number that an attribute is, declared or measured.
    pub fn number(&self, name: &str) -> Option<i64> {
        match *self.attribute(name)? {
            AttributeValue::Int(value) => Some(value),
            _ => None,
        }
    }

    /// The text that an attribute is.
    pub fn text(&self, name: &str) -> Option<&str> {
        match attribute::get(&self.attributes, name)? {
            AttributeValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Its attributes, as it has declared them, and [`EXPELLED`].
    pub fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// Its place in the order of its type, if it asked for one.
    pub fn priority(&self) -> Option<Priority> {
        self.priority
    }
}

impl ServiceType {
    /// The types that it extends, the nearest first, as it names them; one more than
    /// [`MAX_ANCESTORS`] at most.
    pub fn ancestors(&self) -> impl Iterator<Item = &ServiceType> {
        let types = core::iter::successors(Some(self), |ty| Some(ty.extends.as_ref()?.get()));
        types.skip(1).take(MAX_ANCESTORS + 1)
    }

    /// Whether it can be registered, as far as it alone says.
    pub(crate) fn check(&self) -> Result<(), RegisterError> {
        let names = [&self.name, &self.subsystem, &self.capability];
        for name in names.into_iter().chain(&self.default_instance) {
            check_name(name).map_err(RegisterError::BadName)?;
        }
        if self.description.len() > MAX_TEXT {
            return Err(RegisterError::TooLong);
        }
        if self.profile.methods.len() > MAX_METHODS {
            return Err(RegisterError::TooManyMethods);
        }
        attribute::check_list(&self.state).map_err(RegisterError::Attribute)?;
        for rules in [&self.attributes, &self.parameters] {
            attribute::check_rules(rules).map_err(RegisterError::Attribute)?;
        }
        Ok(())
    }
}

impl NewInstance {
    /// Whether it can be published by a type with these rules, as far as it alone says.
    pub(crate) fn check<'r>(
        &self,
        rules: impl Iterator<Item = &'r AttributeRule> + Clone,
    ) -> Result<(), PublishError> {
        check_name(&self.name).map_err(PublishError::BadName)?;
        if self.working.len() > MAX_TEXT {
            return Err(PublishError::TooLong);
        }
        attribute::check(&self.attributes, rules, Others::Allowed)
            .map_err(PublishError::Attribute)?;
        if let Some(value) = attribute::get(&self.attributes, PRIORITY)
            && value.kind() != AttributeKind::Int
        {
            let error = AttributeError::WrongKind(PRIORITY.into(), AttributeKind::Int);
            return Err(PublishError::Attribute(error));
        }
        if self.keywords.len() > MAX_KEYWORDS {
            return Err(PublishError::TooManyKeywords);
        }
        for (at, Keyword { word, weight }) in self.keywords.iter().enumerate() {
            check_name(word).map_err(PublishError::BadName)?;
            if self.keywords[..at].iter().any(|earlier| earlier.word == *word) {
                return Err(PublishError::KeywordTwice(word.as_ref().into()));
            }
            if *weight == 0 {
                return Err(PublishError::NoWeight(word.as_ref().into()));
            }
        }
        Ok(())
    }
}
