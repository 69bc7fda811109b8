//! What is known of a service that is callable: all that its source declares, or what a package
//! said when it published it.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use nile_bosml::schema::Service;
use nile_registry::Layer;

use crate::Registration;

pub use nile_bosml::schema::{Fingerprint, begins_with, list, text};

/// A service that was described at run time.
#[derive(Clone, Debug)]
pub struct Described {
    /// What it says about itself, its name included.
    pub schema: Service<'static>,
    /// The subsystem that its type belongs to.
    pub subsystem: String,
    /// The task that its type performs.
    pub capability: String,
    /// How far above the hardware it is.
    pub layer: Layer,
    /// What characterizes it, each with its weight.
    pub keywords: Vec<(String, u16)>,
    /// The type of another service that it is an instance of; empty if it is of its own.
    pub type_name: String,
    /// What it is chosen by, as a person would write it: names and values.
    pub attributes: Vec<(String, String)>,
}

/// A service that is callable.
#[derive(Clone)]
pub enum Published {
    /// Linked with whoever runs it.
    Linked(&'static Registration),
    /// Described at run time.
    Described(Rc<Described>),
}

impl Published {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Published::Linked(registration) => registration.name(),
            Published::Described(described) => &described.schema.name,
        }
    }

    /// What it says about itself.
    pub fn schema(&self) -> &Service<'static> {
        match self {
            Published::Linked(registration) => registration.interface.schema,
            Published::Described(described) => &described.schema,
        }
    }

    /// What tells whether another schema of this name numbers the same methods in the same way.
    pub fn fingerprint(&self) -> Fingerprint {
        match self {
            Published::Linked(registration) => registration.interface.fingerprint,
            Published::Described(described) => Fingerprint::of(&described.schema),
        }
    }

    /// How far above the hardware it is.
    pub fn layer(&self) -> Layer {
        match self {
            Published::Linked(registration) => registration.interface.layer,
            Published::Described(described) => described.layer,
        }
    }

    /// The subsystem that its type belongs to.
    pub fn subsystem(&self) -> &str {
        match self {
            Published::Linked(registration) => registration.interface.subsystem,
            Published::Described(described) => &described.subsystem,
        }
    }

    /// The task that its type performs.
    pub fn capability(&self) -> &str {
        match self {
            Published::Linked(registration) => registration.interface.capability,
            Published::Described(described) => &described.capability,
        }
    }

    /// What characterizes it, each with its weight.
    pub fn keywords(&self) -> Vec<(&str, u16)> {
        let narrow = |weight: u32| u16::try_from(weight).unwrap_or(u16::MAX);
        match self {
            Published::Linked(registration) => {
                let keywords = registration.keywords.iter();
                keywords.map(|(word, weight)| (*word, narrow(*weight))).collect()
            }
            Published::Described(described) => {
                let keywords = described.keywords.iter();
                keywords.map(|(word, weight)| (word.as_str(), *weight)).collect()
            }
        }
    }
}
