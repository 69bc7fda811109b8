//! What a schema must hold to, so that its documents are well-formed.

use crate::MAX_DEPTH;
use crate::error::{Error, ErrorKind};

use super::{MAX_CASES, Parameter, Service, Type};

/// The most bytes of a name.
pub const MAX_NAME: usize = 64;

impl Service<'_> {
    /// Whether the documents of this service are well-formed and say what it means: a name begins
    /// with a letter or `_`, goes on with those, digits, `-` and `.`, is ASCII, at most
    /// [`MAX_NAME`] bytes long, and is used once among its neighbours; documentation is one line;
    /// a range belongs to an integer or a length and is not empty; a record has a field; there are
    /// 1 to [`MAX_CASES`] cases to choose from; types are nested at most [`MAX_DEPTH`] deep. Fails
    /// with [`ErrorKind::Schema`] or [`ErrorKind::TooDeep`] and the path to what is wrong.
    pub fn check(&self) -> Result<(), Error> {
        check_word(&self.name, &self.doc)
            .and_then(|()| {
                check_each(
                    &self.methods,
                    |method| &method.name,
                    |method| {
                        check_word(&method.name, &method.doc)?;
                        check_parameters(&method.parameters, 0)?;
                        check_parameters(&method.reply, 0)
                            .map_err(|error| error.within(crate::REPLY))
                    },
                )
            })
            .map_err(|error| error.within(&self.name))
    }
}

fn wrong(what: &'static str) -> Error {
    Error::new(ErrorKind::Schema { what }, 0)
}

fn check_word(name: &str, doc: &str) -> Result<(), Error> {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|it| it.is_ascii_alphabetic() || it == b'_');
    if !first || !bytes.all(is_name_byte) || name.len() > MAX_NAME {
        return Err(wrong(
            "a name has letters, digits, `_`, `-` and `.`, and begins with a letter",
        ));
    }
    if doc.chars().any(|c| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}')) {
        return Err(wrong("documentation is one line without control characters"));
    }
    Ok(())
}

/// Whether a name can go on with this byte.
#[inline]
pub(crate) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

fn check_each<T>(
    items: &[T],
    name: impl Fn(&T) -> &str,
    check: impl Fn(&T) -> Result<(), Error>,
) -> Result<(), Error> {
    for (at, item) in items.iter().enumerate() {
        let twice = items[..at].iter().any(|other| name(other) == name(item));
        let checked = if twice { Err(wrong("a name is used twice")) } else { check(item) };
        checked.map_err(|error| error.within(name(item)))?;
    }
    Ok(())
}

fn check_parameters(parameters: &[Parameter<'_>], depth: usize) -> Result<(), Error> {
    check_each(
        parameters,
        |parameter| &parameter.name,
        |parameter| {
            check_parameter(parameter)?;
            check_type(&parameter.ty, depth)
        },
    )
}

/// What is not its type's.
fn check_parameter(parameter: &Parameter<'_>) -> Result<(), Error> {
    check_word(&parameter.name, &parameter.doc)?;
    let Some(range) = parameter.range else { return Ok(()) };
    let least = match (parameter.ty.limits(), parameter.ty.has_length()) {
        (Some(limits), _) => limits.least,
        (None, true) => 0,
        (None, false) => return Err(wrong("a type without numbers and lengths has a range")),
    };
    if range.least > range.most || range.most < least {
        return Err(wrong("a range that nothing is within"));
    }
    Ok(())
}

fn check_type(ty: &Type<'_>, depth: usize) -> Result<(), Error> {
    match ty {
        Type::List(_) | Type::Record(_) | Type::OneOf(_) if depth == MAX_DEPTH => {
            Err(Error::new(ErrorKind::TooDeep, 0))
        }
        Type::List(element) => check_type(element.get(), depth + 1),
        // So every value takes a byte, and no short message has a long list.
        Type::Record(fields) if fields.is_empty() => Err(wrong("a record has no fields")),
        Type::Record(fields) => check_parameters(fields, depth + 1),
        Type::OneOf(cases) if !(1..=MAX_CASES).contains(&cases.len()) => {
            Err(wrong("there are 1 to 256 cases to choose from"))
        }
        Type::OneOf(cases) => check_each(
            cases,
            |case| &case.name,
            |case| {
                check_parameter(case)?;
                if case.ty.is_nothing() { Ok(()) } else { check_type(&case.ty, depth + 1) }
            },
        ),
        _ => Ok(()),
    }
}
