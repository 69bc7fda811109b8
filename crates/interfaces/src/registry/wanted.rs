//! What somebody wants of whatever instance of a type: the query of Dhara's find (III.C).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::Status;
use nile_registry::least::MEASURED;
use nile_registry::{Attribute, Relation, ServiceType};
use nile_stl::published::begins_with;
use nile_stl::{CallError, CallResult, Client, Record, Stl};

use super::values::{Condition, NamedValue};
use super::{Asker, RegistryClient};

/// An instance of a type whose attributes are as wanted, and of those the one whose keywords match
/// best; without a match the type's default.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The type's name.
    pub type_name: String,
    /// Words that describe the instance.
    pub keywords: Vec<String>,
    /// What its attributes must be.
    pub conditions: Vec<Condition>,
    /// The attribute of which it has the least, or at most a tenth more, if that matters.
    pub least: Option<String>,
}

impl Wanted {
    /// Any instance of a type.
    pub fn of(ty: &ServiceType) -> Wanted {
        let type_name = String::from(&*ty.name);
        Wanted { type_name, keywords: Vec::new(), conditions: Vec::new(), least: None }
    }

    /// One that this word describes, if there is any.
    #[must_use]
    pub fn keyword(mut self, word: &str) -> Wanted {
        self.keywords.push(word.into());
        self
    }

    /// One that has this attribute.
    #[must_use]
    pub fn with(self, attribute: &Attribute) -> Wanted {
        self.condition(Relation::Equal, attribute)
    }

    /// One that has at most so much of an attribute.
    #[must_use]
    pub fn at_most(self, name: &'static str, most: i64) -> Wanted {
        self.condition(Relation::AtMost, &Attribute::int(name, most))
    }

    /// One that has at least so much of an attribute.
    #[must_use]
    pub fn at_least(self, name: &'static str, least: i64) -> Wanted {
        self.condition(Relation::AtLeast, &Attribute::int(name, least))
    }

    /// Of those that are as good otherwise one with the least of an attribute, or at most a tenth
    /// more: which of these, chance and the number of their subjects decide.
    #[must_use]
    pub fn least(mut self, name: &'static str) -> Wanted {
        self.least = Some(name.into());
        self
    }

    fn condition(mut self, relation: Relation, attribute: &Attribute) -> Wanted {
        self.conditions.push(Condition { relation, value: NamedValue::from(attribute) });
        self
    }

    /// Finds it by the registry, for the typed client of a service of that type, which must have
    /// the methods of the type's profile and no others: the compiler sees to that. Fails with
    /// `NotFound`, `Invalid` (the client is of another type, a condition cannot be one), `Denied`
    /// by the rule of the layers, or as a call of the registry. A package is `Denied`: the registry
    /// is two layers beneath it.
    pub async fn find<C: Client>(&self, stl: &Stl) -> CallResult<C> {
        const {
            let it = C::INTERFACE;
            let profile = match it.ty {
                Some(ty) => &ty.profile,
                None => it.schema,
            };
            assert!(
                begins_with(profile, it.schema),
                "this client has methods that other instances of its type need not have: take \
                 that of a service whose methods are the type's profile"
            );
        }
        let interface = C::INTERFACE;
        let of = interface.ty.map_or(interface.name, |ty| &ty.name);
        if of != self.type_name {
            let message = format!("a client of type {of}, not of {}", self.type_name);
            return Err(CallError::new(Status::Invalid, message));
        }
        stl.may_call(interface)?;
        // The transport finds services for whoever calls it, as it does by their names.
        let operator = stl.acting_as(Asker::Operator);
        if self.least.as_ref().is_some_and(|least| least.starts_with(MEASURED)) {
            // What was just found counts. That it is not heard changes little.
            let _ = operator.report_quality().await;
        }
        let registry = RegistryClient::find(&operator).await?;
        let found = registry.search(Asker::Operator, self.clone()).await?;
        Ok(C::at(stl, found.into()))
    }
}
