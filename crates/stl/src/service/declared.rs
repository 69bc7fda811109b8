//! What `#[service]` writes down of a service, and whether that fits the service's type: told when
//! the service is compiled.

use alloc::borrow::Cow;

use nile_bosml::schema::{Method, Range, Service};
use nile_registry::limits::{MAX_ANCESTORS, MAX_ATTRIBUTES, MAX_KEYWORDS, MAX_NAME, MAX_TEXT};
use nile_registry::priority::PRIORITY;

use crate::published::{begins_with, list};
use crate::{Interface, Registration};

pub use crate::published::text;
pub use nile_registry::{
    Attribute, AttributeKind, AttributeRule, AttributeValue, Parent, ServiceType,
};

/// The first so many methods of a service.
pub const fn first(schema: &'static Service<'static>, count: usize) -> &'static [Method<'static>] {
    match &schema.methods {
        Cow::Borrowed(methods) => methods.split_at(count).0,
        // Whoever owns its schema is not known to the compiler.
        Cow::Owned(_) => &[],
    }
}

/// A named value of a constant.
pub const fn attribute(name: &'static str, value: AttributeValue) -> Attribute {
    Attribute { name: Cow::Borrowed(name), value }
}

/// A rule of a constant.
pub const fn rule(
    name: &'static str,
    kind: AttributeKind,
    range: Option<Range>,
    required: bool,
) -> AttributeRule {
    AttributeRule { name: Cow::Borrowed(name), kind, range, required }
}

/// Why a service cannot be an instance of its type, in a line that says what to do.
///
/// A service that leaves out what its type requires is not compiled:
///
/// ```compile_fail,E0080
/// use nile_stl::{Start, Stl, service};
///
/// struct Fair;
///
/// impl Start for Fair {
///     fn start(_: &Stl) -> Fair {
///         Fair
///     }
/// }
///
/// #[service(
///     subsystem = "processes",
///     capability = "scheduling",
///     type(attributes(global_priority: int)),
/// )]
/// impl Fair {
///     #[stl_k]
///     fn next(&self) {}
/// }
/// ```
pub struct Misfit {
    text: [u8; Misfit::MOST],
    length: usize,
}

impl Misfit {
    const MOST: usize = 256;

    /// What is wrong with an interface; nothing if it fits its type.
    pub const fn of_interface(interface: &Interface, ty: &'static ServiceType) -> Option<Misfit> {
        if !begins_with(interface.schema, &ty.profile) {
            return told(&[
                "a service begins with the methods of its type `",
                text(&ty.name),
                "`, in their order and with their parameters and replies: add what is \
                 missing here, and let others follow",
            ]);
        }
        if let Some(parent) = &ty.extends {
            let parent = parent.get();
            if !begins_with(&ty.profile, &parent.profile) {
                return told(&[
                    "a type begins with the methods of the type that it extends, `",
                    text(&parent.name),
                    "`: put those first",
                ]);
            }
            if ty.layer as u8 != parent.layer as u8 {
                return told(&["a type is of the layer of what it extends, `", text(&parent.name)]);
            }
        }
        if let Some(name) = bad_list(list(&ty.state)) {
            return told(&["state `", name, "` is too long, or one too many"]);
        }
        None
    }

    /// What is wrong with what an implementation says of itself; nothing if it fits its type.
    pub const fn of(service: &Registration) -> Option<Misfit> {
        let Registration { attributes, keywords, .. } = service;
        if let Some(name) = bad_list(attributes) {
            return told(&["attribute `", name, "` is too long, or one too many"]);
        }
        if keywords.len() > MAX_KEYWORDS {
            return told(&["there are more keywords than a service may have"]);
        }
        let (mut ty, mut depth) = (service.interface.ty, 0);
        while let Some(one) = ty {
            if depth > MAX_ANCESTORS {
                return told(&["a type extends too many others, or itself"]);
            }
            if let Some(misfit) = Misfit::of_rules(attributes, list(&one.attributes)) {
                return Some(misfit);
            }
            ty = match &one.extends {
                Some(Parent::Static(parent)) => Some(parent),
                _ => None,
            };
            depth += 1;
        }
        match find(attributes, PRIORITY) {
            None | Some(AttributeValue::Int(_)) => None,
            Some(_) => told(&["attribute `", PRIORITY, "` must be a whole number"]),
        }
    }

    /// What is wrong with attributes; nothing if they are as one type wants them.
    const fn of_rules(
        attributes: &'static [Attribute],
        rules: &'static [AttributeRule],
    ) -> Option<Misfit> {
        let mut at = 0;
        while at < rules.len() {
            let rule = &rules[at];
            match find(attributes, text(&rule.name)) {
                Some(value) => {
                    if let Some(why) = value_misfits(value, rule) {
                        return told(&["attribute `", text(&rule.name), "` ", why]);
                    }
                }
                None if rule.required => {
                    let name = text(&rule.name);
                    let to_do = "` must be given: its type requires it, in attributes(…)";
                    return told(&["attribute `", name, to_do]);
                }
                None => {}
            }
            at += 1;
        }
        None
    }

    /// What to tell.
    pub const fn as_str(&self) -> &str {
        match core::str::from_utf8(self.text.split_at(self.length).0) {
            Ok(text) => text,
            // A text is cut only between its parts.
            Err(_) => "it does not fit its type",
        }
    }
}

/// Puts the parts together, as far as there is room.
const fn told(parts: &[&str]) -> Option<Misfit> {
    let mut misfit = Misfit { text: [0; Misfit::MOST], length: 0 };
    let mut part = 0;
    while part < parts.len() {
        let bytes = parts[part].as_bytes();
        if misfit.length + bytes.len() > Misfit::MOST {
            break;
        }
        let mut at = 0;
        while at < bytes.len() {
            misfit.text[misfit.length] = bytes[at];
            misfit.length += 1;
            at += 1;
        }
        part += 1;
    }
    Some(misfit)
}

const fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len()
}

const fn find(attributes: &'static [Attribute], name: &str) -> Option<&'static AttributeValue> {
    let mut at = 0;
    while at < attributes.len() {
        if same(text(&attributes[at].name), name) {
            return Some(&attributes[at].value);
        }
        at += 1;
    }
    None
}

/// The first that cannot be in a list.
const fn bad_list(all: &'static [Attribute]) -> Option<&'static str> {
    let mut at = 0;
    while at < all.len() {
        let name = text(&all[at].name);
        let long_text = match &all[at].value {
            AttributeValue::Text(value) => text(value).len() > MAX_TEXT,
            _ => false,
        };
        if at >= MAX_ATTRIBUTES || name.len() > MAX_NAME || long_text {
            return Some(name);
        }
        at += 1;
    }
    None
}

const fn value_misfits(
    value: &'static AttributeValue,
    rule: &AttributeRule,
) -> Option<&'static str> {
    let measure = match (value, rule.kind) {
        (AttributeValue::Int(value), AttributeKind::Int) => *value as i128,
        (AttributeValue::Text(value), AttributeKind::Text) => text(value).len() as i128,
        (AttributeValue::Bool(_), AttributeKind::Bool) => return None,
        (_, AttributeKind::Int) => return Some("must be a whole number, its type says"),
        (_, AttributeKind::Text) => return Some("must be a text, its type says"),
        (_, AttributeKind::Bool) => return Some("must be true or false, its type says"),
    };
    match &rule.range {
        Some(range) if measure < range.least || measure > range.most => {
            Some("is not within what its type permits")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
