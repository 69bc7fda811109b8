//! Attributes: named values of instances, of a type's common state, and of a bind; and the rules by
//! which a type says what they may be.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use nile_bosml::schema::Range;
use nile_stl_macros::Record;

use crate::limits::{MAX_ATTRIBUTES, MAX_NAME, MAX_TEXT};

/// A value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AttributeValue {
    /// A whole number.
    Int(i64),
    /// True or false.
    Bool(bool),
    /// At most [`MAX_TEXT`] bytes of text.
    Text(Cow<'static, str>),
}

/// The type of a value.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub enum AttributeKind {
    /// A whole number.
    Int,
    /// True or false.
    Bool,
    /// Text.
    Text,
}

impl AttributeValue {
    /// Its type.
    pub fn kind(&self) -> AttributeKind {
        match self {
            AttributeValue::Int(_) => AttributeKind::Int,
            AttributeValue::Bool(_) => AttributeKind::Bool,
            AttributeValue::Text(_) => AttributeKind::Text,
        }
    }

    /// What a range bounds: a number itself, a text's length in bytes.
    fn measure(&self) -> Option<i128> {
        match self {
            AttributeValue::Int(value) => Some(i128::from(*value)),
            AttributeValue::Bool(_) => None,
            AttributeValue::Text(text) => i128::try_from(text.len()).ok(),
        }
    }
}

impl fmt::Display for AttributeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttributeValue::Int(value) => value.fmt(f),
            AttributeValue::Bool(value) => value.fmt(f),
            AttributeValue::Text(text) => text.fmt(f),
        }
    }
}

impl fmt::Display for AttributeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AttributeKind::Int => "a whole number",
            AttributeKind::Bool => "true or false",
            AttributeKind::Text => "text",
        })
    }
}

/// A named value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attribute {
    /// Its name, unique in its list; at most [`MAX_NAME`] bytes.
    pub name: Cow<'static, str>,
    /// Its value.
    pub value: AttributeValue,
}

impl Attribute {
    /// `name` = `value`.
    pub fn new(name: impl Into<Cow<'static, str>>, value: AttributeValue) -> Attribute {
        Attribute { name: name.into(), value }
    }

    /// A whole number.
    pub fn int(name: impl Into<Cow<'static, str>>, value: i64) -> Attribute {
        Attribute::new(name, AttributeValue::Int(value))
    }

    /// A text.
    pub fn text(
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Cow<'static, str>>,
    ) -> Attribute {
        Attribute::new(name, AttributeValue::Text(value.into()))
    }
}

/// What an attribute of this name must be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AttributeRule {
    /// The attribute's name.
    pub name: Cow<'static, str>,
    /// Its type.
    pub kind: AttributeKind,
    /// The bounds of a number, or of a text's length in bytes.
    pub range: Option<Range>,
    /// Whether it must be given.
    pub required: bool,
}

/// What is done with attributes that no rule names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// They are the instance's own business.
    Allowed,
    /// They are mistakes.
    Refused,
}

/// What is wrong with an attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AttributeError {
    /// There are more than [`MAX_ATTRIBUTES`].
    TooMany,
    /// The name is empty or longer than [`MAX_NAME`] bytes.
    BadName(String),
    /// The name stands twice in the list.
    Twice(String),
    /// A text is longer than [`MAX_TEXT`] bytes.
    TooLong(String),
    /// The type requires this one and it is not given.
    Missing(String),
    /// The type knows no such attribute.
    Unknown {
        /// The attribute.
        name: String,
        /// Those that it knows.
        known: Vec<String>,
    },
    /// It is of another type than the one it must be of.
    WrongKind(String, AttributeKind),
    /// It is outside of this range.
    OutOfRange(String, Range),
}

impl fmt::Display for AttributeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttributeError::TooMany => write!(f, "more than {MAX_ATTRIBUTES} attributes"),
            AttributeError::BadName(name) => bad_name(f, "attribute", name),
            AttributeError::Twice(name) => write!(f, "attribute `{name}` is given twice"),
            AttributeError::TooLong(name) => {
                write!(f, "attribute `{name}` is longer than {MAX_TEXT} bytes")
            }
            AttributeError::Missing(name) => write!(f, "attribute `{name}` must be given"),
            AttributeError::Unknown { name, known } if known.is_empty() => {
                write!(f, "there is no attribute `{name}` to give, nor any other")
            }
            AttributeError::Unknown { name, known } => {
                let known = known.join(", ");
                write!(f, "there is no attribute `{name}` to give; there is {known}")
            }
            AttributeError::WrongKind(name, kind) => write!(f, "attribute `{name}` must be {kind}"),
            AttributeError::OutOfRange(name, Range { least, most }) => {
                write!(f, "attribute `{name}` must be from {least} to {most}")
            }
        }
    }
}

/// Says that a name cannot be one.
pub(crate) fn bad_name(f: &mut fmt::Formatter<'_>, what: &str, name: &str) -> fmt::Result {
    match name.len() {
        0 => write!(f, "{what} without a name"),
        _ => write!(f, "the name of {what} `{name}` is longer than {MAX_NAME} bytes"),
    }
}

/// Whether this can be a name. A longer one is given cut, for the error.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    match name.len() {
        1..=MAX_NAME => Ok(()),
        _ => Err(name.chars().take(MAX_NAME).collect()),
    }
}

/// A name for an error: one from outside may be long.
pub(crate) fn cut(name: &str) -> String {
    check_name(name).map_or_else(|cut| cut, |()| name.into())
}

/// Whether the list can be one: its length, names and texts.
pub(crate) fn check_list(attributes: &[Attribute]) -> Result<(), AttributeError> {
    if attributes.len() > MAX_ATTRIBUTES {
        return Err(AttributeError::TooMany);
    }
    for (at, Attribute { name, value }) in attributes.iter().enumerate() {
        check_name(name).map_err(AttributeError::BadName)?;
        if get(&attributes[..at], name).is_some() {
            return Err(AttributeError::Twice(name.as_ref().into()));
        }
        if let AttributeValue::Text(text) = value
            && text.len() > MAX_TEXT
        {
            return Err(AttributeError::TooLong(name.as_ref().into()));
        }
    }
    Ok(())
}

/// Whether these can be a type's rules.
pub(crate) fn check_rules(rules: &[AttributeRule]) -> Result<(), AttributeError> {
    if rules.len() > MAX_ATTRIBUTES {
        return Err(AttributeError::TooMany);
    }
    for (at, AttributeRule { name, .. }) in rules.iter().enumerate() {
        check_name(name).map_err(AttributeError::BadName)?;
        if rules[..at].iter().any(|earlier| earlier.name == *name) {
            return Err(AttributeError::Twice(name.as_ref().into()));
        }
    }
    Ok(())
}

/// Whether the list can be one and follows the rules.
pub(crate) fn check<'r>(
    attributes: &[Attribute],
    rules: impl IntoIterator<Item = &'r AttributeRule> + Clone,
    others: Others,
) -> Result<(), AttributeError> {
    check_list(attributes)?;
    for rule in rules.clone() {
        match get(attributes, &rule.name) {
            Some(value) => check_value(value, rule)?,
            None if rule.required => {
                return Err(AttributeError::Missing(rule.name.as_ref().into()));
            }
            None => {}
        }
    }
    if others == Others::Refused {
        let unknown =
            attributes.iter().find(|it| rules.clone().into_iter().all(|rule| rule.name != it.name));
        if let Some(unknown) = unknown {
            let known = rules.into_iter().map(|rule| rule.name.as_ref().into()).collect();
            return Err(AttributeError::Unknown { name: unknown.name.as_ref().into(), known });
        }
    }
    Ok(())
}

fn check_value(value: &AttributeValue, rule: &AttributeRule) -> Result<(), AttributeError> {
    let name = || rule.name.as_ref().into();
    if value.kind() != rule.kind {
        return Err(AttributeError::WrongKind(name(), rule.kind));
    }
    match (rule.range, value.measure()) {
        (Some(range), Some(value)) if value < range.least || value > range.most => {
            Err(AttributeError::OutOfRange(name(), range))
        }
        _ => Ok(()),
    }
}

/// The value of this name.
pub(crate) fn get<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a AttributeValue> {
    attributes.iter().find(|attribute| attribute.name == name).map(|attribute| &attribute.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    fn rules() -> [AttributeRule; 2] {
        let range = Some(Range { least: 1, most: 100 });
        [
            AttributeRule { name: "size".into(), kind: AttributeKind::Int, range, required: true },
            AttributeRule {
                name: "label".into(),
                kind: AttributeKind::Text,
                range: Some(Range { least: 0, most: 3 }),
                required: false,
            },
        ]
    }

    #[test]
    fn every_mistake_has_its_own_error() {
        let refused = |list: &[Attribute]| check(list, &rules(), Others::Refused).unwrap_err();
        let size = Attribute::int("size", 100);
        assert_eq!(check(core::slice::from_ref(&size), &rules(), Others::Refused), Ok(()));
        assert_eq!(refused(&[]), AttributeError::Missing("size".into()));
        assert_eq!(
            refused(&[Attribute::text("size", "big")]),
            AttributeError::WrongKind("size".into(), AttributeKind::Int)
        );
        let range = |least, most| Range { least, most };
        assert_eq!(
            refused(&[Attribute::int("size", 101)]),
            AttributeError::OutOfRange("size".into(), range(1, 100))
        );
        assert_eq!(
            refused(&[size.clone(), Attribute::text("label", "long")]),
            AttributeError::OutOfRange("label".into(), range(0, 3))
        );
        assert_eq!(refused(&[size.clone(), size.clone()]), AttributeError::Twice("size".into()));
        let other = Attribute::new("other", AttributeValue::Bool(true));
        let list = [size, other];
        let unknown = refused(&list);
        let known = ["size", "label"].map(String::from).to_vec();
        assert_eq!(unknown, AttributeError::Unknown { name: "other".into(), known });
        let said = "there is no attribute `other` to give; there is size, label";
        assert_eq!(unknown.to_string(), said);
        assert_eq!(check(&list, &rules(), Others::Allowed), Ok(()));
    }

    #[test]
    fn sizes_are_bounded() {
        let long = "é".repeat(MAX_NAME);
        let Err(AttributeError::BadName(cut)) = check_list(&[Attribute::int(long, 0)]) else {
            panic!("the name is too long")
        };
        assert_eq!(cut.chars().count(), MAX_NAME);
        assert_eq!(check_list(&[Attribute::int("", 0)]), Err(AttributeError::BadName("".into())));
        let text = Attribute::text("t", "x".repeat(MAX_TEXT + 1));
        assert_eq!(check_list(&[text]), Err(AttributeError::TooLong("t".into())));
        let many: Vec<_> =
            (0..=MAX_ATTRIBUTES).map(|at| Attribute::int(format!("a{at}"), 0)).collect();
        assert_eq!(check_list(&many), Err(AttributeError::TooMany));
        assert!(AttributeError::TooMany.to_string().contains("32"));
    }
}
