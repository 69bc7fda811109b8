//! Named values and the rules for them, as they travel to the registry and back.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use nile_abi::Status;
use nile_bosml::schema::Range;
use nile_registry::{Attribute, AttributeKind, AttributeRule, AttributeValue, Relation};
use nile_stl::{CallError, CallResult, Record};

/// A kind of value by its number in [`NamedValue`] and [`Rule`]; what nobody said is what the
/// value's rule wants, or what the value looks like.
const KINDS: [AttributeKind; 3] = [AttributeKind::Int, AttributeKind::Bool, AttributeKind::Text];
const UNSAID: u8 = 3;

/// A value by its name.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct NamedValue {
    /// The name.
    pub name: String,
    /// What the value is: 0 a whole number, 1 true or false, 2 a text; 3 as its rule wants it.
    pub kind: u8,
    /// The value: digits, `true` or `false`, or any text.
    pub value: String,
}

impl NamedValue {
    /// A value of which only the text is known: from a person.
    pub fn unsaid(name: &str, value: &str) -> NamedValue {
        NamedValue { name: name.into(), kind: UNSAID, value: value.into() }
    }

    /// The value, with `rules` for what its kind was not said of. `Invalid` if it is not of the
    /// kind that was said; one that is not what its rule wants is text, which the rule refuses.
    pub fn attribute<'r>(
        &self,
        rules: impl IntoIterator<Item = &'r AttributeRule>,
    ) -> CallResult<Attribute> {
        let NamedValue { name, kind, value } = self;
        let said = KINDS.get(usize::from(*kind)).copied();
        let is_it = |rule: &&AttributeRule| rule.name == *name;
        let rule = rules.into_iter().find(is_it).map(|rule| rule.kind);
        let wanted = said.or(rule);
        let may_be = |kind| wanted.is_none_or(|wanted| wanted == kind);
        let value = match (value.parse(), value.as_str()) {
            (Ok(number), _) if may_be(AttributeKind::Int) => AttributeValue::Int(number),
            (_, "true" | "false") if may_be(AttributeKind::Bool) => {
                AttributeValue::Bool(value == "true")
            }
            _ => match said {
                None | Some(AttributeKind::Text) => AttributeValue::Text(Cow::Owned(value.clone())),
                Some(kind) => {
                    let message = format!("{name} is {value}, and not {kind}");
                    return Err(CallError::new(Status::Invalid, message));
                }
            },
        };
        Ok(Attribute::new(name.clone(), value))
    }
}

/// All values of a list. Fails as the first that does.
pub fn attributes<'r>(
    values: &[NamedValue],
    rules: impl IntoIterator<Item = &'r AttributeRule> + Clone,
) -> CallResult<Vec<Attribute>> {
    let mut all = Vec::new();
    for value in values {
        all.push(value.attribute(rules.clone())?);
    }
    Ok(all)
}

fn number_of(kind: AttributeKind) -> u8 {
    KINDS.iter().position(|known| *known == kind).map_or(UNSAID, |number| number as u8)
}

impl From<&Attribute> for NamedValue {
    fn from(attribute: &Attribute) -> NamedValue {
        let Attribute { name, value } = attribute;
        let kind = number_of(value.kind());
        NamedValue { name: String::from(&**name), kind, value: value.to_string() }
    }
}

/// What the values of a name must be, of attributes or of what a subject gives when it binds.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Whether it is for those who bind.
    pub binds: bool,
    /// The name.
    pub name: String,
    /// What the value is: 0 a whole number, 1 true or false, 2 a text.
    pub kind: u8,
    /// Whether it must be given.
    pub required: bool,
    /// The least number, or length of a text in bytes.
    pub least: i64,
    /// The most; all numbers there are is no bound.
    pub most: i64,
}

impl Rule {
    /// A rule as it travels.
    pub fn of(rule: &AttributeRule, binds: bool) -> Rule {
        let AttributeRule { name, kind, range, required } = rule;
        let range = range.unwrap_or(Range { least: i64::MIN.into(), most: i64::MAX.into() });
        Rule {
            binds,
            name: String::from(&**name),
            kind: number_of(*kind),
            required: *required,
            // No value is beyond these.
            least: i64::try_from(range.least).unwrap_or(i64::MIN),
            most: i64::try_from(range.most).unwrap_or(i64::MAX),
        }
    }

    /// The rule itself. `Invalid` if there is no such kind.
    pub fn rule(&self) -> CallResult<AttributeRule> {
        let Rule { name, kind, required, least, most, .. } = self;
        let unknown = || {
            let message = format!("{name} is of kind {kind}, which is not within 0 to 2");
            CallError::new(Status::Invalid, message)
        };
        let kind = *KINDS.get(usize::from(*kind)).ok_or_else(unknown)?;
        let bounded = (*least, *most) != (i64::MIN, i64::MAX);
        let range = Range { least: i128::from(*least), most: i128::from(*most) };
        let (name, range) = (Cow::Owned(name.clone()), bounded.then_some(range));
        Ok(AttributeRule { name, kind, range, required: *required })
    }
}

/// What an attribute of an instance must be.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    /// How the attribute compares with the value: 0 it is the same, 1 it is at most that, 2 it is
    /// at least that.
    pub relation: u8,
    /// The attribute's name, and the value.
    pub value: NamedValue,
}

impl Condition {
    /// The relation. `Invalid` if there is no such.
    pub fn relation(&self) -> CallResult<Relation> {
        match self.relation {
            0 => Ok(Relation::Equal),
            1 => Ok(Relation::AtMost),
            2 => Ok(Relation::AtLeast),
            other => {
                let message = format!("a relation is {other}, which is not within 0 to 2");
                Err(CallError::new(Status::Invalid, message))
            }
        }
    }
}
