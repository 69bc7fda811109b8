//! Services made of services (Dhara, III.A). What the calls of a composition are is *described* by
//! a [`Composition`]; *composing* it checks every part against its schema, end to end, and
//! computes the schema of the whole; a [`Plan`] says which call comes next. A composed service
//! has parameters and a reply like any other, so compositions nest and can be published.
//!
//! * A *component* is one method of one service.
//! * A composite is chained *lengthwise*, the reply of one part being the input of the next, or
//!   *widthwise*, all parts taking the same input and their replies being collected.
//! * An *orchestrated* service has a schema of its own and says which of its inputs each part
//!   gets and where each value of its reply comes from. Its parts do not feed each other.
//! * A *network* says so, too, and its parts may feed those that follow.

mod check;
mod error;
mod plan;

#[cfg(test)]
mod tests;

use alloc::borrow::Cow;
use alloc::vec::Vec;

use nile_bosml::schema::{Callers, Method, Mode, Parameter};

pub use error::{ComposeError, Problem};
pub use plan::{Call, CallId, OutcomeError, Plan, PlanError, Slot, Slots, Step};

/// A composition, not yet checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Composition {
    /// What it is called as a part: in errors, and where replies are collected.
    pub name: Cow<'static, str>,
    /// What it is made of.
    pub shape: Shape,
}

/// What a composition is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// One method.
    Component(Reference, Cow<'static, str>),
    /// One after the other.
    Lengthwise(Vec<Composition>),
    /// Side by side.
    Widthwise(Vec<Composition>),
    /// Each with inputs of its own.
    Orchestrated(Orchestration),
    /// Each with inputs of its own, which can come from parts that stand before it: lengthwise and
    /// widthwise chaining in general. A part begins as soon as all that feed it are over.
    Network(Orchestration),
}

/// The service of a component.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reference {
    /// An instance of the type of this name; which one is found when it is called.
    Type(Cow<'static, str>),
    /// The instance of this name.
    Instance(Cow<'static, str>),
}

/// A service that calls others, whose outputs are not each other's inputs, but in a network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Orchestration {
    /// What it takes.
    pub parameters: Vec<Parameter<'static>>,
    /// What it gives.
    pub reply: Vec<Parameter<'static>>,
    /// What it calls, and from where each gets its parameters.
    pub parts: Vec<(Composition, Vec<Wire>)>,
    /// From where its reply comes.
    pub results: Vec<Wire>,
}

/// Where one value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wire {
    /// The parameter of a part, or the value of the reply, that gets it.
    pub to: Cow<'static, str>,
    /// What it gets.
    pub from: Source,
}

/// A value within an orchestrated service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// The parameter of this name.
    Input(Cow<'static, str>),
    /// A part's name, and that of a value of its reply.
    Output(Cow<'static, str>, Cow<'static, str>),
}

/// A composition whose parts fit, with the schema of the whole. Made by
/// [`Registry::compose`](crate::Registry::compose).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Composed {
    name: Cow<'static, str>,
    parameters: Vec<Parameter<'static>>,
    reply: Vec<Parameter<'static>>,
    /// Those whom each of its parts allows: whoever calls it has them all called.
    callers: Callers,
    body: Body,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Body {
    Component(Reference, Cow<'static, str>),
    Lengthwise(Vec<Composed>),
    Widthwise(Vec<Composed>),
    Orchestrated(Vec<(Composed, Vec<Wire>)>, Vec<Wire>),
}

impl Composition {
    /// A method of an instance of a type.
    pub fn component(
        name: impl Into<Cow<'static, str>>,
        service: Reference,
        method: impl Into<Cow<'static, str>>,
    ) -> Composition {
        Composition { name: name.into(), shape: Shape::Component(service, method.into()) }
    }

    /// Parts of which each takes what the one before gives.
    pub fn lengthwise(name: impl Into<Cow<'static, str>>, parts: Vec<Composition>) -> Composition {
        Composition { name: name.into(), shape: Shape::Lengthwise(parts) }
    }

    /// Parts that all take the same.
    pub fn widthwise(name: impl Into<Cow<'static, str>>, parts: Vec<Composition>) -> Composition {
        Composition { name: name.into(), shape: Shape::Widthwise(parts) }
    }

    /// Parts that may feed those that follow.
    pub fn network(
        name: impl Into<Cow<'static, str>>,
        orchestration: Orchestration,
    ) -> Composition {
        Composition { name: name.into(), shape: Shape::Network(orchestration) }
    }

    /// A service that calls parts which do not feed each other.
    pub fn orchestrated(
        name: impl Into<Cow<'static, str>>,
        orchestration: Orchestration,
    ) -> Composition {
        Composition { name: name.into(), shape: Shape::Orchestrated(orchestration) }
    }
}

impl Composed {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it takes.
    pub fn parameters(&self) -> &[Parameter<'static>] {
        &self.parameters
    }

    /// What it gives.
    pub fn reply(&self) -> &[Parameter<'static>] {
        &self.reply
    }

    /// Itself as a method, for the profile of the type under which it is published.
    pub fn method(&self, doc: impl Into<Cow<'static, str>>, mode: Mode) -> Method<'static> {
        Method {
            name: self.name.clone(),
            doc: doc.into(),
            mode,
            callers: self.callers,
            pure: false,
            parameters: self.parameters.clone().into(),
            reply: self.reply.clone().into(),
        }
    }
}
