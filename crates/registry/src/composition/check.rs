//! Composing: do the parts fit, and what is the schema of the whole?

use alloc::borrow::Cow;
use alloc::vec::Vec;

use nile_bosml::schema::{Callers, Method, Parameter, Type};

use super::{
    Body, ComposeError, Composed, Composition, Orchestration, Problem, Reference, Shape, Source,
    Wire,
};
use crate::attribute::{check_name, cut};
use crate::find::TypeQuery;
use crate::limits::{MAX_DEPTH, MAX_PARTS};
use crate::registry::Registry;
use crate::service::TypeId;

impl Registry {
    /// Checks a composition against the profiles of the services that it names, and computes its
    /// schema. Their types and instances must be registered and published.
    pub fn compose(&self, composition: &Composition) -> Result<Composed, ComposeError> {
        Composer { registry: self, parts: 0 }.compose(composition, 0)
    }

    fn type_by(&self, service: &Reference) -> Option<TypeId> {
        match service {
            Reference::Type(name) => self.find_type(TypeQuery::Name(name)),
            Reference::Instance(name) => Some(self.find_named(name, None).ok()?.ty),
        }
    }
}

struct Composer<'r> {
    registry: &'r Registry,
    /// How many have been seen.
    parts: usize,
}

impl Composer<'_> {
    fn compose(&mut self, it: &Composition, depth: usize) -> Result<Composed, ComposeError> {
        if depth > MAX_DEPTH {
            return Err(ComposeError::TooDeep);
        }
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(ComposeError::TooManyParts);
        }
        check_name(&it.name).map_err(ComposeError::BadName)?;
        let mut callers = Callers::ALL;
        let (parameters, reply, body) = match &it.shape {
            Shape::Component(service, method) => {
                let found = self.method(&it.name, service, method)?;
                callers = found.callers;
                let body = Body::Component(service.clone(), method.clone());
                (found.parameters.to_vec(), found.reply.to_vec(), body)
            }
            Shape::Lengthwise(parts) => {
                let parts = self.parts(&it.name, parts.iter(), depth)?;
                for pair in parts.windows(2) {
                    check_chain(&pair[0], &pair[1])?;
                }
                let ends = (parts.first(), parts.last());
                let parameters = ends.0.map_or_else(Vec::new, |first| first.parameters.clone());
                let reply = ends.1.map_or_else(Vec::new, |last| last.reply.clone());
                (parameters, reply, Body::Lengthwise(parts))
            }
            Shape::Widthwise(parts) => {
                let parts = self.parts(&it.name, parts.iter(), depth)?;
                let parameters = same_parameters(&parts)?;
                let reply = parts.iter().map(collected).collect();
                (parameters, reply, Body::Widthwise(parts))
            }
            Shape::Orchestrated(orchestration) => {
                self.orchestrate(&it.name, orchestration, depth, false)?
            }
            Shape::Network(orchestration) => {
                self.orchestrate(&it.name, orchestration, depth, true)?
            }
        };
        let parts: Vec<&Composed> = match &body {
            Body::Component(..) => Vec::new(),
            Body::Lengthwise(parts) | Body::Widthwise(parts) => parts.iter().collect(),
            Body::Orchestrated(parts, _) => parts.iter().map(|(part, _)| part).collect(),
        };
        let callers = parts.iter().fold(callers, |all, part| all.and(part.callers));
        Ok(Composed { name: it.name.clone(), parameters, reply, callers, body })
    }

    fn method(
        &self,
        part: &str,
        service: &Reference,
        method: &str,
    ) -> Result<&Method<'static>, ComposeError> {
        let ty = self.registry.type_by(service).and_then(|id| self.registry.service_type(id));
        let ty = ty.ok_or_else(|| {
            let (Reference::Type(name) | Reference::Instance(name)) = service;
            ComposeError::UnknownService { part: part.into(), service: cut(name) }
        })?;
        let found = ty.profile.methods.iter().find(|it| it.name == method);
        found.ok_or_else(|| ComposeError::UnknownMethod { part: part.into(), method: cut(method) })
    }

    fn parts<'p>(
        &mut self,
        whole: &str,
        parts: impl Iterator<Item = &'p Composition>,
        depth: usize,
    ) -> Result<Vec<Composed>, ComposeError> {
        let mut composed: Vec<Composed> = Vec::new();
        for part in parts {
            let part = self.compose(part, depth + 1)?;
            if composed.iter().any(|other| other.name == part.name) {
                let part = part.name.into();
                return Err(ComposeError::PartTwice { whole: whole.into(), part });
            }
            composed.push(part);
        }
        if composed.is_empty() { Err(ComposeError::NoParts(whole.into())) } else { Ok(composed) }
    }

    fn orchestrate(
        &mut self,
        whole: &str,
        it: &Orchestration,
        depth: usize,
        feeds: bool,
    ) -> Result<(Vec<Parameter<'static>>, Vec<Parameter<'static>>, Body), ComposeError> {
        let parts = self.parts(whole, it.parts.iter().map(|(part, _)| part), depth)?;
        for (at, (part, (_, wires))) in parts.iter().zip(&it.parts).enumerate() {
            check_wires(&part.name, &part.parameters, wires, |wire| match &wire.from {
                Source::Input(name) => Ok((whole, parameter(&it.parameters, name))),
                // Only from those before it, so none waits for itself.
                Source::Output(from, name) if feeds => {
                    let part = parts[..at].iter().find(|part| part.name == *from);
                    Ok((from, part.and_then(|part| parameter(&part.reply, name))))
                }
                Source::Output(from, _) => Err(ComposeError::Feeds {
                    from: cut(from),
                    to: part.name.as_ref().into(),
                    parameter: cut(&wire.to),
                }),
            })?;
        }
        check_wires(whole, &it.reply, &it.results, |wire| match &wire.from {
            Source::Input(name) => Ok((whole, parameter(&it.parameters, name))),
            Source::Output(from, name) => {
                let part = parts.iter().find(|part| part.name == *from);
                Ok((from, part.and_then(|part| parameter(&part.reply, name))))
            }
        })?;
        let wires = it.parts.iter().map(|(_, wires)| wires.clone());
        let parts = parts.into_iter().zip(wires).collect();
        Ok((it.parameters.clone(), it.reply.clone(), Body::Orchestrated(parts, it.results.clone())))
    }
}

/// Whether each parameter has one wire, and what comes through it fits.
fn check_wires<'p>(
    to: &str,
    parameters: &[Parameter<'static>],
    wires: &'p [Wire],
    source: impl Fn(&'p Wire) -> Result<(&'p str, Option<&'p Parameter<'static>>), ComposeError>,
) -> Result<(), ComposeError> {
    for (at, wire) in wires.iter().enumerate() {
        let twice = wires[..at].iter().any(|earlier| earlier.to == wire.to);
        let Some(taken) = parameter(parameters, &wire.to).filter(|_| !twice) else {
            return Err(ComposeError::BadWire { to: to.into(), parameter: cut(&wire.to) });
        };
        let (from, given) = source(wire)?;
        fits(given, taken).map_err(|problem| ComposeError::Chain {
            from: cut(from),
            to: to.into(),
            parameter: cut(&wire.to),
            problem,
        })?;
    }
    let unwired = parameters.iter().find(|it| wires.iter().all(|wire| wire.to != it.name));
    match unwired {
        Some(it) => Err(ComposeError::Unwired { to: to.into(), parameter: cut(&it.name) }),
        None => Ok(()),
    }
}

/// Whether `from` gives all that `to` takes. What it gives besides is dropped.
fn check_chain(from: &Composed, to: &Composed) -> Result<(), ComposeError> {
    for taken in &to.parameters {
        fits(parameter(&from.reply, &taken.name), taken).map_err(|problem| {
            ComposeError::Chain {
                from: from.name.as_ref().into(),
                to: to.name.as_ref().into(),
                parameter: cut(&taken.name),
                problem,
            }
        })?;
    }
    Ok(())
}

/// What all parts take: the same, in whatever order.
fn same_parameters(parts: &[Composed]) -> Result<Vec<Parameter<'static>>, ComposeError> {
    let Some((first, others)) = parts.split_first() else { return Ok(Vec::new()) };
    for part in others {
        let differs = |name: &str, problem| ComposeError::Sides {
            first: first.name.as_ref().into(),
            part: part.name.as_ref().into(),
            parameter: cut(name),
            problem,
        };
        for taken in &first.parameters {
            fits(parameter(&part.parameters, &taken.name), taken)
                .map_err(|problem| differs(&taken.name, problem))?;
        }
        let mut more = part.parameters.iter();
        if let Some(it) = more.find(|it| parameter(&first.parameters, &it.name).is_none()) {
            return Err(differs(&it.name, Problem::Missing));
        }
    }
    Ok(first.parameters.clone())
}

/// What a widthwise composition gives for one of its parts: its reply as a record.
fn collected(part: &Composed) -> Parameter<'static> {
    Parameter {
        name: part.name.clone(),
        doc: Cow::Borrowed(""),
        ty: Type::Record(part.reply.clone().into()),
        range: None,
        encoded: part.reply.iter().all(|it| it.encoded),
        encrypted: part.reply.iter().any(|it| it.encrypted),
    }
}

fn parameter<'p>(list: &'p [Parameter<'static>], name: &str) -> Option<&'p Parameter<'static>> {
    list.iter().find(|it| it.name == name)
}

/// Whether what is given can be what is taken. Ranges that overlap fit: each value is checked when
/// it is passed.
fn fits<'a>(given: Option<&Parameter<'a>>, taken: &Parameter<'a>) -> Result<(), Problem> {
    let given = given.ok_or(Problem::Missing)?;
    if !same_type(&given.ty, &taken.ty) {
        return Err(Problem::OtherType);
    }
    match (given.range, taken.range) {
        (Some(a), Some(b)) if a.most < b.least || b.most < a.least => Err(Problem::OtherRange),
        _ => Ok(()),
    }
}

/// Whether values of both are the same on the wire. What they are documented as does not matter.
fn same_type<'a>(a: &Type<'a>, b: &Type<'a>) -> bool {
    match (a, b) {
        (Type::List(a), Type::List(b)) => same_type(a.get(), b.get()),
        (Type::Record(a), Type::Record(b)) | (Type::OneOf(a), Type::OneOf(b)) => {
            let same = |(a, b): (&Parameter<'a>, &Parameter<'a>)| {
                a.name == b.name && same_type(&a.ty, &b.ty)
            };
            a.len() == b.len() && a.iter().zip(b.iter()).all(same)
        }
        // All others have nothing inside.
        (a, b) => core::mem::discriminant(a) == core::mem::discriminant(b),
    }
}
