//! What can be said about policies on the command line.

use std::fmt;
use std::str::FromStr;

use clap::{Args, Subcommand};
use nile_abi::{CoreId, NodeId};
use nile_interfaces::registry::{Condition, NamedValue, Wanted};
use nile_registry::Relation;

use crate::cluster::args::{Place, Query};

#[derive(Args)]
pub struct Policies {
    /// A type of policies, as scheduling, or the name of one, as fair; without it, all.
    #[arg(value_name = "TYPE|NAME")]
    pub what: Option<String>,
    #[command(flatten)]
    pub query: Query,
}

#[derive(Args)]
pub struct Policy {
    #[command(subcommand)]
    pub action: Action,
}

#[derive(Subcommand)]
pub enum Action {
    /// Bind a service of a core, or its package, to a policy.
    Bind(Bind),
    /// Bind it to nothing, so that the default schedules it again.
    Unbind(Unbind),
}

#[derive(Args)]
pub struct Bind {
    /// Who is bound, as n1.c2/package, or n1.c0/job for a service.
    pub subject: Subject,
    /// The type of the policy, as scheduling.
    #[arg(value_name = "TYPE")]
    pub kind: String,
    /// What the policy is to be good for; the best match is taken. Without it, the type's default.
    #[arg(long = "keyword", value_name = "WORD")]
    pub keywords: Vec<String>,
    /// What an attribute of the policy must be, as 'global_priority>=20'.
    #[arg(long = "with", value_name = "CONDITION")]
    pub conditions: Vec<With>,
    /// Of those that fit equally well one with the least of this attribute, or a tenth more.
    #[arg(long, value_name = "NAME")]
    pub least: Option<String>,
    /// Parameters of the policy, as weight=300.
    #[arg(value_name = "NAME=VALUE")]
    pub parameters: Vec<Value>,
    #[command(flatten)]
    pub query: Query,
}

#[derive(Args)]
pub struct Unbind {
    /// Who is bound, as n1.c2/package.
    pub subject: Subject,
    /// The type of the policy, as scheduling.
    #[arg(value_name = "TYPE", value_parser = ["scheduling"])]
    pub kind: String,
    #[command(flatten)]
    pub query: Query,
}

impl Bind {
    /// Which policy that is.
    pub fn wanted(&self) -> Wanted {
        Wanted {
            type_name: self.kind.clone(),
            keywords: self.keywords.clone(),
            conditions: self.conditions.iter().map(|it| it.0.clone()).collect(),
            least: self.least.clone(),
        }
    }
}

/// Whom policies serve: a service on a core, or its package.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subject {
    pub node: NodeId,
    pub core: CoreId,
    pub name: String,
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Subject, String> {
        let wrong = || format!("`{text}` names nobody on a core; write n1.c2/package");
        let (place, name) = text.split_once('/').ok_or_else(wrong)?;
        let Place { node, core } = place.parse()?;
        let core = core.ok_or_else(wrong)?;
        match name.is_empty() {
            true => Err(wrong()),
            false => Ok(Subject { node, core, name: name.into() }),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}/{}", self.node, self.core, self.name)
    }
}

/// A parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Value {
    pub name: String,
    pub value: String,
}

impl FromStr for Value {
    type Err = String;

    fn from_str(text: &str) -> Result<Value, String> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                Ok(Value { name: name.into(), value: value.into() })
            }
            _ => Err(format!("`{text}` gives no parameter a value; write weight=300")),
        }
    }
}

/// A condition.
#[derive(Clone, Debug)]
pub struct With(Condition);

impl FromStr for With {
    type Err = String;

    fn from_str(text: &str) -> Result<With, String> {
        for (sign, relation) in
            [("<=", Relation::AtMost), (">=", Relation::AtLeast), ("=", Relation::Equal)]
        {
            if let Some((name, value)) = text.split_once(sign).filter(|it| !it.0.is_empty()) {
                return Ok(With(Condition { relation, value: NamedValue::written(name, value) }));
            }
        }
        Err(format!("`{text}` is no condition; write 'name=value', 'name<=value' or 'name>=value'"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_places_with_a_name() {
        let subject: Subject = "n3.c12/package".parse().unwrap();
        assert_eq!(subject.to_string(), "n3.c12/package");
        assert_eq!((subject.node, subject.core), (NodeId(3), CoreId(12)));
        for wrong in ["", "package", "n1/package", "n1.c2", "n1.c2/", "c2/x", "n1.cx/y"] {
            assert!(wrong.parse::<Subject>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn conditions_compare_an_attribute_with_a_value() {
        for (text, name, relation) in [
            ("a=1", "a", Relation::Equal),
            ("a<=1", "a", Relation::AtMost),
            ("bc>=1", "bc", Relation::AtLeast),
        ] {
            let With(it) = text.parse().unwrap();
            assert_eq!(it.value, NamedValue::written(name, "1"));
            assert_eq!(it.relation, relation);
        }
        assert!("global_priority".parse::<With>().is_err());
        assert!("=1".parse::<With>().is_err());
    }
}
