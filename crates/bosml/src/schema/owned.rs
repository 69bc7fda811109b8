//! Schemas that outlive the document they were parsed from.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;

use super::{Element, Method, Parameter, Service, Type};

fn text(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(String::from(text))
}

fn all<T: Clone, U: Clone>(items: Cow<'_, [T]>, own: impl Fn(T) -> U) -> Cow<'static, [U]> {
    Cow::Owned(items.into_owned().into_iter().map(own).collect())
}

impl Type<'_> {
    /// The same type, borrowing nothing.
    pub fn into_owned(self) -> Type<'static> {
        match self {
            Type::Uint8 => Type::Uint8,
            Type::Uint16 => Type::Uint16,
            Type::Uint32 => Type::Uint32,
            Type::Uint64 => Type::Uint64,
            Type::Int8 => Type::Int8,
            Type::Int16 => Type::Int16,
            Type::Int32 => Type::Int32,
            Type::Int64 => Type::Int64,
            Type::Bool => Type::Bool,
            Type::Float64 => Type::Float64,
            Type::String => Type::String,
            Type::Bytes => Type::Bytes,
            Type::Core => Type::Core,
            Type::Buffer => Type::Buffer,
            Type::List(element) => {
                let element = element.get().clone().into_owned();
                Type::List(Element::Owned(Box::new(element)))
            }
            Type::Record(fields) => Type::Record(all(fields, Parameter::into_owned)),
            Type::OneOf(cases) => Type::OneOf(all(cases, Parameter::into_owned)),
        }
    }
}

impl Parameter<'_> {
    /// The same parameter, borrowing nothing.
    pub fn into_owned(self) -> Parameter<'static> {
        Parameter {
            name: text(self.name),
            doc: text(self.doc),
            ty: self.ty.into_owned(),
            range: self.range,
            encoded: self.encoded,
            encrypted: self.encrypted,
        }
    }
}

impl Method<'_> {
    /// The same method, borrowing nothing.
    pub fn into_owned(self) -> Method<'static> {
        Method {
            name: text(self.name),
            doc: text(self.doc),
            mode: self.mode,
            callers: self.callers,
            pure: self.pure,
            parameters: all(self.parameters, Parameter::into_owned),
            reply: all(self.reply, Parameter::into_owned),
        }
    }
}

impl Service<'_> {
    /// The same service, borrowing nothing.
    pub fn into_owned(self) -> Service<'static> {
        Service {
            name: text(self.name),
            doc: text(self.doc),
            methods: all(self.methods, Method::into_owned),
        }
    }
}
