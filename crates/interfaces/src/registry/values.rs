//! Named values and the rules for them, as they travel to the registry and back.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use nile_bosml::schema::Range;
use nile_registry::{Attribute, AttributeKind, AttributeRule, AttributeValue, Relation};
use nile_stl::Record;

/// A value by its name.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct NamedValue {
    /// The name.
    pub name: String,
    /// The value.
    pub value: GivenValue,
}

/// A value as it was given.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub enum GivenValue {
    /// A whole number.
    Int(i64),
    /// True or false.
    Bool(bool),
    /// A text.
    Text(String),
    /// What a person wrote: it is of the kind that its rule wants, or else of the one that it looks
    /// like.
    Written(String),
}

impl NamedValue {
    /// A value of which only the text is known: from a person.
    pub fn written(name: &str, value: &str) -> NamedValue {
        NamedValue { name: name.into(), value: GivenValue::Written(value.into()) }
    }

    /// The value, with `rules` for one that was written. One that is not what its rule wants is
    /// text, which the rule refuses.
    pub fn attribute<'r>(&self, rules: impl IntoIterator<Item = &'r AttributeRule>) -> Attribute {
        let value = match &self.value {
            GivenValue::Int(number) => AttributeValue::Int(*number),
            GivenValue::Bool(truth) => AttributeValue::Bool(*truth),
            GivenValue::Text(text) => AttributeValue::Text(Cow::Owned(text.clone())),
            GivenValue::Written(text) => {
                let rule = rules.into_iter().find(|rule| rule.name == self.name);
                understood(text, rule.map(|rule| rule.kind))
            }
        };
        Attribute::new(self.name.clone(), value)
    }
}

/// What somebody wrote, if possible as what is wanted.
fn understood(text: &str, wanted: Option<AttributeKind>) -> AttributeValue {
    let may_be = |kind| wanted.is_none_or(|wanted| wanted == kind);
    match (text.parse(), text.parse()) {
        (Ok(number), _) if may_be(AttributeKind::Int) => AttributeValue::Int(number),
        (_, Ok(truth)) if may_be(AttributeKind::Bool) => AttributeValue::Bool(truth),
        _ => AttributeValue::Text(Cow::Owned(text.into())),
    }
}

/// All values of a list.
pub fn attributes<'r>(
    values: &[NamedValue],
    rules: impl IntoIterator<Item = &'r AttributeRule> + Clone,
) -> Vec<Attribute> {
    values.iter().map(|value| value.attribute(rules.clone())).collect()
}

impl From<&Attribute> for NamedValue {
    fn from(Attribute { name, value }: &Attribute) -> NamedValue {
        let value = match value {
            AttributeValue::Int(number) => GivenValue::Int(*number),
            AttributeValue::Bool(truth) => GivenValue::Bool(*truth),
            AttributeValue::Text(text) => GivenValue::Text(String::from(&**text)),
        };
        NamedValue { name: String::from(&**name), value }
    }
}

/// As a person would write it.
impl fmt::Display for GivenValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GivenValue::Int(number) => number.fmt(f),
            GivenValue::Bool(truth) => truth.fmt(f),
            GivenValue::Text(text) | GivenValue::Written(text) => text.fmt(f),
        }
    }
}

/// What the values of a name must be, of attributes or of what a subject gives when it binds.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Whether it is for those who bind.
    pub binds: bool,
    /// The name.
    pub name: String,
    /// What the value is.
    pub kind: AttributeKind,
    /// Whether it must be given.
    pub required: bool,
    /// What a number may be, or the length of a text in bytes; any if there is none.
    pub bounds: Option<Bounds>,
}

/// Bounds, both included.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The least.
    pub least: i64,
    /// The most.
    pub most: i64,
}

impl Rule {
    /// A rule as it travels.
    pub fn of(rule: &AttributeRule, binds: bool) -> Rule {
        let AttributeRule { name, kind, range, required } = rule;
        // No value is beyond these.
        let bounds = range.map(|Range { least, most }| Bounds {
            least: i64::try_from(least).unwrap_or(i64::MIN),
            most: i64::try_from(most).unwrap_or(i64::MAX),
        });
        let name = String::from(&**name);
        Rule { binds, name, kind: *kind, required: *required, bounds }
    }

    /// The rule itself.
    pub fn rule(&self) -> AttributeRule {
        let Rule { name, kind, required, bounds, .. } = self;
        let range = bounds.map(|Bounds { least, most }| Range {
            least: i128::from(least),
            most: i128::from(most),
        });
        let name = Cow::Owned(name.clone());
        AttributeRule { name, kind: *kind, range, required: *required }
    }
}

/// What an attribute of an instance must be.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    /// How the attribute compares with the value.
    pub relation: Relation,
    /// The attribute's name, and the value.
    pub value: NamedValue,
}
