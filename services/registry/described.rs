//! What was published, as the registry has it: a type and its instance.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::Status;
use nile_bosml::{discovery, schema};
use nile_registry::{Attribute, Keyword, Layer, NewInstance, Parent, ServiceType};
use nile_stl::published::begins_with;
use nile_stl::{CallError, CallResult, Place, Published, Registration};

use crate::ALL;
use nile_interfaces::registry::{self as values, NamedValue, Rule};
use nile_interfaces::registry::{Ancestor, Declaration, Publication, Weighted};

/// What the registry is told of an instance: of a service of this image, only which it is.
pub fn publication(published: &Published, place: Place) -> Publication {
    let mut told = Publication {
        name: published.name().into(),
        generation: place.generation.0,
        number: place.number.0,
        ..Publication::default()
    };
    if let Published::Linked(registration) = published {
        if ALL.into_iter().any(|known| core::ptr::eq(known, *registration)) {
            return told;
        }
        told.working = registration.working.into();
        told.attributes = named(registration.attributes);
        if let Some(ty) = registration.interface.ty {
            told.declaration = declaration(ty);
            let ancestor = |it: &ServiceType| Ancestor {
                subsystem: String::from(&*it.subsystem),
                capability: String::from(&*it.capability),
                declaration: declaration(it),
            };
            told.ancestors = ty.ancestors().map(ancestor).collect();
        }
    }
    if let Published::Described(described) = published {
        told.attributes = written(&described.attributes);
        if !described.type_name.is_empty() {
            told.declaration = said_by_name(&described.type_name);
        }
    }
    let weighted = |(word, weight)| Weighted { word: String::from(word), weight };
    told.document = discovery::to_text(published.schema());
    told.subsystem = published.subsystem().into();
    told.capability = published.capability().into();
    told.layer = published.layer();
    told.keywords = published.keywords().into_iter().map(weighted).collect();
    told
}

fn named(attributes: &[Attribute]) -> Vec<NamedValue> {
    attributes.iter().map(NamedValue::from).collect()
}

fn written(attributes: &[(String, String)]) -> Vec<NamedValue> {
    attributes.iter().map(|(name, value)| NamedValue::written(name, value)).collect()
}

/// What a type of this node's is declared as; one that there is not has more methods than any
/// instance.
fn said_by_name(name: &str) -> Declaration {
    let known = ALL.into_iter().filter_map(|it| it.interface.ty).find(|ty| ty.name == name);
    known.map_or_else(
        || Declaration { name: name.into(), methods: u16::MAX, ..Declaration::default() },
        declaration,
    )
}

fn declaration(ty: &ServiceType) -> Declaration {
    let mut rules = Vec::new();
    for (binds, list) in [(false, &ty.attributes), (true, &ty.parameters)] {
        rules.extend(list.iter().map(|rule| Rule::of(rule, binds)));
    }
    Declaration {
        name: String::from(&*ty.name),
        methods: ty.profile.methods.len() as u16,
        rules,
        state: named(&ty.state),
        default_instance: ty.default_instance.as_deref().map(String::from),
    }
}

/// A service of this image.
pub(super) fn known(known: &'static Registration) -> (ServiceType, NewInstance) {
    let keywords = known.keywords.iter().map(|(word, weight)| Keyword {
        word: Cow::Borrowed(word),
        weight: u16::try_from(*weight).unwrap_or(u16::MAX),
    });
    let interface = known.interface;
    let new = NewInstance {
        name: Cow::Borrowed(interface.name),
        working: Cow::Borrowed(known.working),
        attributes: Cow::Borrowed(known.attributes),
        keywords: keywords.collect(),
    };
    let ty = match interface.ty {
        Some(ty) => ty.clone(),
        None => ServiceType {
            name: Cow::Borrowed(interface.name),
            subsystem: Cow::Borrowed(interface.subsystem),
            capability: Cow::Borrowed(interface.capability),
            layer: interface.layer,
            extends: None,
            description: interface.schema.doc.clone(),
            profile: interface.schema.clone(),
            state: Cow::Borrowed(&[]),
            attributes: Cow::Borrowed(&[]),
            parameters: Cow::Borrowed(&[]),
            default_instance: Some(Cow::Borrowed(interface.name)),
        },
    };
    (ty, new)
}

/// A service that this image does not know. `Invalid` if what is said of it cannot be.
pub(super) fn unknown(
    profile: schema::Service<'static>,
    publication: &Publication,
) -> CallResult<(ServiceType, NewInstance)> {
    let Publication { name, subsystem, capability, layer, keywords, declaration, .. } = publication;
    let working = match publication.working.as_str() {
        "" => profile.doc.clone(),
        working => Cow::Owned(working.into()),
    };
    let keyword = |it: &Weighted| Keyword { word: Cow::Owned(it.word.clone()), weight: it.weight };
    let new = NewInstance {
        name: Cow::Owned(name.clone()),
        working,
        attributes: Cow::Owned(values::attributes(&publication.attributes, &[])),
        keywords: keywords.iter().map(keyword).collect(),
    };
    // From the farthest that it extends to its own.
    let mut extends = None;
    for Ancestor { subsystem, capability, declaration } in publication.ancestors.iter().rev() {
        let profile = first_methods(&profile, declaration)?;
        let ty = declared((subsystem, capability, *layer), declaration, profile, extends)?;
        extends = Some(Parent::Owned(Box::new(ty)));
    }
    let profile = match declaration.name.as_str() {
        "" => profile,
        _ => first_methods(&profile, declaration)?,
    };
    let ty = declared((subsystem, capability, *layer), declaration, profile, extends)?;
    Ok((ty, new))
}

/// What a type has of its instance's methods.
fn first_methods(
    schema: &schema::Service<'static>,
    declaration: &Declaration,
) -> CallResult<schema::Service<'static>> {
    let (methods, has) = (usize::from(declaration.methods), schema.methods.len());
    if methods == usize::from(u16::MAX) {
        let message =
            format!("the node has no type {} to publish an instance of", declaration.name);
        return Err(CallError::new(Status::NotFound, message));
    }
    let Some(first) = schema.methods.get(..methods) else {
        let message = format!("the type has {methods} methods, its instance {has}");
        return Err(CallError::new(Status::Invalid, message));
    };
    let (name, doc) = (Cow::Owned(declaration.name.clone()), schema.doc.clone());
    Ok(schema::Service { name, doc, methods: Cow::Owned(first.to_vec()) })
}

/// A type that was described at run time.
fn declared(
    (subsystem, capability, layer): (&str, &str, Layer),
    declaration: &Declaration,
    profile: schema::Service<'static>,
    extends: Option<Parent>,
) -> CallResult<ServiceType> {
    let (mut attributes, mut parameters) = (Vec::new(), Vec::new());
    for rule in &declaration.rules {
        let rules = if rule.binds { &mut parameters } else { &mut attributes };
        rules.push(rule.rule());
    }
    Ok(ServiceType {
        name: profile.name.clone(),
        subsystem: Cow::Owned(subsystem.into()),
        capability: Cow::Owned(capability.into()),
        layer,
        extends,
        description: profile.doc.clone(),
        state: Cow::Owned(values::attributes(&declaration.state, &[])),
        attributes: Cow::Owned(attributes),
        parameters: Cow::Owned(parameters),
        default_instance: declaration.default_instance.clone().map(Cow::Owned),
        profile,
    })
}

/// What of a type another instance says otherwise; its documentation does not count.
pub(super) fn differ(known: &ServiceType, new: &ServiceType) -> Option<&'static str> {
    let (methods, others) = (&known.profile, &new.profile);
    if !(begins_with(methods, others) && begins_with(others, methods)) {
        Some("methods")
    } else if (known.layer, &known.subsystem, &known.capability)
        != (new.layer, &new.subsystem, &new.capability)
    {
        Some("layer, subsystem or capability")
    } else if (&known.attributes, &known.parameters) != (&new.attributes, &new.parameters) {
        Some("attributes or parameters")
    } else if (&known.state, &known.default_instance) != (&new.state, &new.default_instance) {
        Some("state or default")
    } else if known.extends != new.extends {
        Some("parent")
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
