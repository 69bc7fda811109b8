//! What a service says about itself: its methods, their parameters and replies, and of each value
//! its type, its size, and how it is carried (NileOS paper, III.E and Figure 11).
//!
//! A schema is a constant where the `#[service]` macro writes it, and owned where it was parsed
//! from a discovery document: every list is a [`Cow`].

mod callers;
mod check;
mod fingerprint;
mod owned;

use alloc::borrow::Cow;
use alloc::boxed::Box;

use crate::error::Error;
use crate::text::text_to_binary;

pub use callers::{CallerKind, Callers};
pub use check::MAX_NAME;
pub(crate) use check::is_name_byte;
pub use fingerprint::{Fingerprint, begins_with, list, text};

/// The type of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Type<'a> {
    /// One byte without sign.
    Uint8,
    /// Two bytes without sign.
    Uint16,
    /// Four bytes without sign.
    Uint32,
    /// Eight bytes without sign.
    Uint64,
    /// One byte with sign.
    Int8,
    /// Two bytes with sign.
    Int16,
    /// Four bytes with sign.
    Int32,
    /// Eight bytes with sign.
    Int64,
    /// True or false.
    Bool,
    /// An IEEE 754 number of eight bytes.
    Float64,
    /// UTF-8 text.
    String,
    /// Any bytes; base64 in the text form.
    Bytes,
    /// A core of a node, `n2.c3` in the text form.
    Core,
    /// A handle to a buffer in a pool that both sides share.
    Buffer,
    /// Any number of values of one type.
    List(Element<'a>),
    /// Named values, each present, in this order in the binary form.
    Record(Cow<'a, [Parameter<'a>]>),
    /// One of these cases, which go by their numbers in the binary form, from 0. The type of a
    /// case is that of its value; of a case without one it is [`Type::NOTHING`].
    OneOf(Cow<'a, [Parameter<'a>]>),
}

/// The most cases that a type can have: their number takes one byte.
pub const MAX_CASES: usize = 256;

impl<'a> Type<'a> {
    /// The type of no value: a record without fields, which only a case can have.
    pub const NOTHING: Type<'a> = Type::Record(Cow::Borrowed(&[]));

    /// The types with nothing inside.
    pub const SIMPLE: [Type<'a>; 14] = [
        Type::Uint8,
        Type::Uint16,
        Type::Uint32,
        Type::Uint64,
        Type::Int8,
        Type::Int16,
        Type::Int32,
        Type::Int64,
        Type::Bool,
        Type::Float64,
        Type::String,
        Type::Bytes,
        Type::Core,
        Type::Buffer,
    ];

    /// Its name in the text form.
    pub fn name(&self) -> &'static str {
        match self {
            Type::Uint8 => "uint_8",
            Type::Uint16 => "uint_16",
            Type::Uint32 => "uint_32",
            Type::Uint64 => "uint_64",
            Type::Int8 => "int_8",
            Type::Int16 => "int_16",
            Type::Int32 => "int_32",
            Type::Int64 => "int_64",
            Type::Bool => "bool",
            Type::Float64 => "float_64",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Core => "core",
            Type::Buffer => "buffer",
            Type::List(_) => "list",
            Type::Record(_) => "record",
            Type::OneOf(_) => "one_of",
        }
    }

    /// Whether it is [`Type::NOTHING`].
    pub fn is_nothing(&self) -> bool {
        matches!(self, Type::Record(fields) if fields.is_empty())
    }

    /// The type of the value that may be there or not, if this is the type of an
    /// [`Option`](core::option::Option): one of the cases `none` and `some`.
    pub fn optional(&self) -> Option<&Self> {
        match self {
            Type::OneOf(cases) => match &cases[..] {
                [none, some] if none.name == NONE && none.ty.is_nothing() && some.name == SOME => {
                    Some(&some.ty)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// What an integer of this type may be; `None` if it is no integer.
    pub fn limits(&self) -> Option<Range> {
        let (least, most) = match self {
            Type::Uint8 => (0, u8::MAX.into()),
            Type::Uint16 => (0, u16::MAX.into()),
            Type::Uint32 => (0, u32::MAX.into()),
            Type::Uint64 => (0, u64::MAX.into()),
            Type::Int8 => (i8::MIN.into(), i8::MAX.into()),
            Type::Int16 => (i16::MIN.into(), i16::MAX.into()),
            Type::Int32 => (i32::MIN.into(), i32::MAX.into()),
            Type::Int64 => (i64::MIN.into(), i64::MAX.into()),
            _ => return None,
        };
        Some(Range { least, most })
    }

    /// Whether a range says how long a value may be: of strings and bytes their bytes, of lists
    /// their elements.
    pub fn has_length(&self) -> bool {
        matches!(self, Type::String | Type::Bytes | Type::List(_))
    }

    /// The bytes of a value, without the lengths that the binary form puts before it: all values
    /// have this size, or it is the largest that `range` allows. `None` if there is no largest.
    pub fn size(&self, range: Option<Range>) -> Option<u64> {
        let most = || u64::try_from(range?.most).ok();
        match self {
            Type::Uint8 | Type::Int8 | Type::Bool => Some(1),
            Type::Uint16 | Type::Int16 => Some(2),
            Type::Uint32 | Type::Int32 => Some(4),
            Type::Uint64 | Type::Int64 | Type::Float64 => Some(8),
            Type::Core => Some(6),
            Type::Buffer => Some(16),
            Type::String | Type::Bytes => most(),
            Type::List(element) => most()?.checked_mul(element.get().size(None)?),
            Type::Record(fields) => {
                fields.iter().try_fold(0u64, |sum, field| sum.checked_add(field.size()?))
            }
            Type::OneOf(cases) => {
                let most = cases.iter().try_fold(0, |most, case| Some(case.size()?.max(most)));
                most?.checked_add(1)
            }
        }
    }
}

/// The case of an [`Option`] without a value.
pub(crate) const NONE: &str = "none";

/// The case of an [`Option`] with one.
pub(crate) const SOME: &str = "some";

/// The type of a list's elements.
#[derive(Clone, Debug)]
pub enum Element<'a> {
    /// In a constant.
    Static(&'a Type<'a>),
    /// Parsed.
    Owned(Box<Type<'a>>),
}

impl<'a> Element<'a> {
    /// The type itself.
    pub fn get(&self) -> &Type<'a> {
        match self {
            Element::Static(element) => element,
            Element::Owned(element) => element,
        }
    }
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Element<'_> {}

/// Bounds of an integer or of the length of a list, string or bytes, both included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The least that is accepted.
    pub least: i128,
    /// The most.
    pub most: i128,
}

impl Range {
    /// Whether this number, or a value of this length, is within.
    #[inline]
    pub fn contains(&self, number: i128) -> bool {
        (self.least..=self.most).contains(&number)
    }
}

/// One named value: a parameter of a method, a part of its reply, a field of a record, a case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameter<'a> {
    /// Its element's name in the text form.
    pub name: Cow<'a, str>,
    /// One line of documentation; may be empty.
    pub doc: Cow<'a, str>,
    /// Its type.
    pub ty: Type<'a>,
    /// What it may be, if that is less than its type allows.
    pub range: Option<Range>,
    /// Whether it may travel in the binary form.
    pub encoded: bool,
    /// Refused over an unsealed link and masked in logs.
    pub encrypted: bool,
}

impl AsRef<str> for Parameter<'_> {
    /// Its name.
    fn as_ref(&self) -> &str {
        &self.name
    }
}

impl<'a> Parameter<'a> {
    /// A value of this name and type about which nothing else is said.
    pub const fn plain(name: &'a str, ty: Type<'a>) -> Parameter<'a> {
        let (name, doc) = (Cow::Borrowed(name), Cow::Borrowed(""));
        Parameter { name, doc, ty, range: None, encoded: true, encrypted: false }
    }

    /// What the value means: its name, unless its documentation is `means MEANING`, as
    /// `#[means("MEANING")]` has it. Services are composed by it.
    pub fn meaning(&self) -> &str {
        self.doc.strip_prefix(MEANS).unwrap_or(&self.name)
    }

    /// The same value with these bounds, both included.
    #[must_use]
    pub const fn within(mut self, least: i128, most: i128) -> Parameter<'a> {
        self.range = Some(Range { least, most });
        self
    }

    /// Its size in bytes, as [`Type::size`] has it.
    pub fn size(&self) -> Option<u64> {
        self.ty.size(self.range)
    }
}

/// What the documentation of a value begins with that means something else than its name says. A
/// field of its own would be 24 bytes more of each value in the constants of every image.
pub const MEANS: &str = "means ";

/// In which mode of the processor a method runs (NileOS paper, III.C).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// In the kernel: tagged `stl_k`.
    Kernel,
    /// In a package: tagged `stl_u`.
    User,
}

/// One method. Its number is its place in the schema.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Method<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// One line of documentation; may be empty.
    pub doc: Cow<'a, str>,
    /// Where it runs.
    pub mode: Mode,
    /// Who may call it, besides the kernels of its own node.
    pub callers: Callers,
    /// Whether it has no effects, so that it may be called twice, in any order, or for nothing:
    /// tagged `pure`.
    pub pure: bool,
    /// What it takes, in order.
    pub parameters: Cow<'a, [Parameter<'a>]>,
    /// What it gives, in order.
    pub reply: Cow<'a, [Parameter<'a>]>,
}

/// What a service says about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Service<'a> {
    /// The name of the service type.
    pub name: Cow<'a, str>,
    /// One line of documentation; may be empty.
    pub doc: Cow<'a, str>,
    /// Its methods, in the order of their numbers.
    pub methods: Cow<'a, [Method<'a>]>,
}

impl Mode {
    /// Its name in discovery documents.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Kernel => "kernel",
            Mode::User => "user",
        }
    }
}

impl Method<'_> {
    /// Whether `text` is a request for this method: an element of its name with its parameters.
    /// Fails with the first thing that is wrong in it.
    pub fn check_text(&self, text: &str) -> Result<(), Error> {
        text_to_binary(&self.parameters, &self.name, text).map(|_| ())
    }
}

impl<'a> Service<'a> {
    /// The method of this name, with its number.
    pub fn method(&self, name: &str) -> Option<(usize, &Method<'a>)> {
        self.methods.iter().enumerate().find(|(_, method)| method.name == name)
    }
}

#[cfg(test)]
mod tests;
