//! Values whose schema is known only at run time: a tool's, a relay's, a log's.

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::MAX_MESSAGE;
use crate::binary::{Reader, Writer};
use crate::error::{Error, ErrorKind};
use crate::handle::{Buffer, Bytes, Core};
use crate::schema::{Parameter, Range, Type};
use crate::text::text_to_binary;
use crate::typed::{Decode, Encode};

/// A value of any type.
#[derive(Clone, PartialEq, Debug)]
pub enum Value<'a> {
    /// An integer without sign, of any width.
    Uint(u64),
    /// An integer with sign, of any width.
    Int(i64),
    /// True or false.
    Bool(bool),
    /// A number of type `float_64`.
    Float(f64),
    /// Text.
    String(Cow<'a, str>),
    /// Any bytes.
    Bytes(Cow<'a, [u8]>),
    /// A core.
    Core(Core),
    /// A handle to a buffer.
    Buffer(Buffer),
    /// The elements.
    List(Vec<Value<'a>>),
    /// The fields in the order of the schema, which knows their names.
    Record(Vec<Value<'a>>),
    /// The number of a case, and its value: a record without fields, if it has none.
    Case(u8, Box<Value<'a>>),
}

impl<'a> Value<'a> {
    /// Takes a value of this type off the front of a message. It borrows strings and bytes; lists,
    /// records and cases take at most twice `size_of::<Value>()` for each byte of the message and
    /// each list, record and case of the type that the byte is within. Fails with the place of what
    /// is not of this type or not in `range`.
    pub fn decode(
        input: &mut Reader<'a>,
        ty: &Type<'_>,
        range: Option<Range>,
    ) -> Result<Value<'a>, Error> {
        Ok(match ty {
            Type::List(element) => {
                // No room is made for elements before they are there.
                let mut items = Vec::new();
                for index in 0..count(input, range)? {
                    let item = Value::decode(input, element.get(), None);
                    items.push(item.map_err(|error| error.within_item(index))?);
                }
                Value::List(items)
            }
            Type::Record(fields) => Value::Record(Value::decode_all(input, fields)?),
            Type::OneOf(cases) => {
                let number = input.case(cases)?;
                let case = &cases[usize::from(number)];
                let value = Value::decode(input, &case.ty, case.range);
                Value::Case(number, Box::new(value.map_err(|error| error.within(&case.name))?))
            }
            _ => match Scalar::decode(input, ty, range)? {
                Scalar::Uint(number) => Value::Uint(number),
                Scalar::Int(number) => Value::Int(number),
                Scalar::Bool(truth) => Value::Bool(truth),
                Scalar::Float(number) => Value::Float(number),
                Scalar::String(text) => Value::String(Cow::Borrowed(text)),
                Scalar::Bytes(bytes) => Value::Bytes(Cow::Borrowed(bytes)),
                Scalar::Core(core) => Value::Core(core),
                Scalar::Buffer(buffer) => Value::Buffer(buffer),
            },
        })
    }

    /// Takes a value for each of `parameters`. Fails as [`Value::decode`] does.
    pub fn decode_all(
        input: &mut Reader<'a>,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Value<'a>>, Error> {
        let mut values = Vec::with_capacity(parameters.len());
        for it in parameters {
            let value = Value::decode(input, &it.ty, it.range);
            values.push(value.map_err(|error| error.within(&it.name))?);
        }
        Ok(values)
    }

    /// Puts the value as one of this type. Fails with [`ErrorKind::WrongType`] if it is of
    /// another, and with [`ErrorKind::OutOfRange`] if it is an integer that the type cannot hold.
    pub fn encode(&self, out: &mut Writer, ty: &Type<'_>) -> Result<(), Error> {
        match (self, ty) {
            (Value::Uint(number), _) if ty.limits().is_some() => {
                put_integer(out, ty, i128::from(*number))?;
            }
            (Value::Int(number), _) if ty.limits().is_some() => {
                put_integer(out, ty, i128::from(*number))?;
            }
            (Value::Bool(truth), Type::Bool) => truth.encode(out),
            (Value::Float(number), Type::Float64) => number.encode(out),
            (Value::String(text), Type::String) => out.slice(text.as_bytes()),
            (Value::Bytes(bytes), Type::Bytes) => out.slice(bytes),
            (Value::Core(core), Type::Core) => core.encode(out),
            (Value::Buffer(buffer), Type::Buffer) => buffer.encode(out),
            (Value::List(items), Type::List(element)) => {
                let start = out.open();
                for (index, item) in items.iter().enumerate() {
                    let put = item.encode(out, element.get());
                    put.map_err(|error| error.within_item(index))?;
                }
                out.close_list(start, items.len());
            }
            (Value::Record(values), Type::Record(fields)) => put_all(fields, values, out)?,
            (Value::Case(number, value), Type::OneOf(cases)) => {
                let found = || alloc::format!("{number}");
                let case = cases.get(usize::from(*number));
                let case = case.ok_or_else(|| Error::unknown_case(&found(), cases, out.len()))?;
                out.put(&[*number]);
                value.encode(out, &case.ty).map_err(|error| error.within(&case.name))?;
            }
            _ => return Err(wrong_type(ty, self.kind(), out.len())),
        }
        Ok(())
    }

    fn kind(&self) -> &'static str {
        match self {
            Value::Uint(_) => "an unsigned integer",
            Value::Int(_) => "a signed integer",
            Value::Bool(_) => "a bool",
            Value::Float(_) => "a float",
            Value::String(_) => "a string",
            Value::Bytes(_) => "bytes",
            Value::Core(_) => "a core",
            Value::Buffer(_) => "a buffer",
            Value::List(_) => "a list",
            Value::Record(_) => "a record",
            Value::Case(..) => "a case",
        }
    }

    /// The same value, borrowing nothing.
    pub fn into_owned(self) -> Value<'static> {
        let all = |values: Vec<Value<'a>>| values.into_iter().map(Value::into_owned).collect();
        match self {
            Value::Uint(number) => Value::Uint(number),
            Value::Int(number) => Value::Int(number),
            Value::Bool(truth) => Value::Bool(truth),
            Value::Float(number) => Value::Float(number),
            Value::String(text) => Value::String(Cow::Owned(text.into_owned())),
            Value::Bytes(bytes) => Value::Bytes(Cow::Owned(bytes.into_owned())),
            Value::Core(core) => Value::Core(core),
            Value::Buffer(buffer) => Value::Buffer(buffer),
            Value::List(items) => Value::List(all(items)),
            Value::Record(fields) => Value::Record(all(fields)),
            Value::Case(number, value) => Value::Case(number, Box::new(value.into_owned())),
        }
    }
}

#[cold]
pub(crate) fn wrong_type(ty: &Type<'_>, found: &str, at: usize) -> Error {
    let found = crate::error::excerpt(found);
    Error::new(ErrorKind::WrongType { expected: ty.name(), found }, at)
}

#[cold]
pub(crate) fn out_of_range(range: Range, found: &str, at: usize) -> Error {
    let found = crate::error::excerpt(found);
    Error::new(ErrorKind::OutOfRange { range, found }, at)
}

/// Whether a number, or the length of a value, is in its range, if it has one.
#[inline]
pub(crate) fn check_range(range: Option<Range>, number: i128, at: usize) -> Result<(), Error> {
    match range {
        Some(range) if !range.contains(number) => {
            Err(out_of_range(range, &alloc::format!("{number}"), at))
        }
        _ => Ok(()),
    }
}

/// Puts an integer in the width of its type, unless the type is none or cannot hold it.
#[inline]
pub(crate) fn put_integer(out: &mut Writer, ty: &Type<'_>, number: i128) -> Result<(), Error> {
    check_range(ty.limits(), number, out.len())?;
    let bytes = (number as u64).to_le_bytes();
    match ty {
        Type::Uint8 | Type::Int8 => out.put(&bytes[..1]),
        Type::Uint16 | Type::Int16 => out.put(&bytes[..2]),
        Type::Uint32 | Type::Int32 => out.put(&bytes[..4]),
        _ => out.put(&bytes),
    }
    Ok(())
}

fn put_all(fields: &[Parameter<'_>], values: &[Value<'_>], out: &mut Writer) -> Result<(), Error> {
    if fields.len() != values.len() {
        let found = alloc::format!("{} values for {} fields", values.len(), fields.len());
        return Err(Error::new(ErrorKind::WrongType { expected: "record", found }, out.len()));
    }
    for (field, value) in fields.iter().zip(values) {
        value.encode(out, &field.ty).map_err(|error| error.within(&field.name))?;
    }
    Ok(())
}

/// A value that has no values within.
pub(crate) enum Scalar<'a> {
    Uint(u64),
    Int(i64),
    Bool(bool),
    Float(f64),
    String(&'a str),
    Bytes(&'a [u8]),
    Core(Core),
    Buffer(Buffer),
}

impl<'a> Scalar<'a> {
    /// Takes one of this type, which has no types within.
    #[inline]
    pub fn decode(
        input: &mut Reader<'a>,
        ty: &Type<'_>,
        range: Option<Range>,
    ) -> Result<Scalar<'a>, Error> {
        let at = input.offset();
        let scalar = match ty {
            Type::Uint8 => Scalar::Uint(u8::decode(input)?.into()),
            Type::Uint16 => Scalar::Uint(u16::decode(input)?.into()),
            Type::Uint32 => Scalar::Uint(u32::decode(input)?.into()),
            Type::Uint64 => Scalar::Uint(u64::decode(input)?),
            Type::Int8 => Scalar::Int(i8::decode(input)?.into()),
            Type::Int16 => Scalar::Int(i16::decode(input)?.into()),
            Type::Int32 => Scalar::Int(i32::decode(input)?.into()),
            Type::Int64 => Scalar::Int(i64::decode(input)?),
            Type::Bool => Scalar::Bool(bool::decode(input)?),
            Type::Float64 => Scalar::Float(f64::decode(input)?),
            Type::String => Scalar::String(Decode::decode(input)?),
            Type::Bytes => {
                let length = input.length()?;
                Scalar::Bytes(input.slice(length)?)
            }
            Type::Core => Scalar::Core(Core::decode(input)?),
            Type::Buffer => Scalar::Buffer(Buffer::decode(input)?),
            Type::List(_) | Type::Record(_) | Type::OneOf(_) => {
                return Err(wrong_type(ty, "one value", at));
            }
        };
        if range.is_some() {
            let number = match &scalar {
                Scalar::Uint(number) => i128::from(*number),
                Scalar::Int(number) => i128::from(*number),
                Scalar::String(text) => text.len() as i128,
                Scalar::Bytes(bytes) => bytes.len() as i128,
                _ => return Ok(scalar),
            };
            check_range(range, number, at)?;
        }
        Ok(scalar)
    }
}

/// The number of a list's elements, if that is in its range.
#[inline]
pub(crate) fn count(input: &mut Reader<'_>, range: Option<Range>) -> Result<usize, Error> {
    let at = input.offset();
    let count = input.count(1)?;
    check_range(range, count as i128, at)?;
    Ok(count)
}

/// A message as a reader, unless it is too long to be one.
pub(crate) fn message(bytes: &[u8]) -> Result<Reader<'_>, Error> {
    match bytes.len() > MAX_MESSAGE {
        true => Err(Error::new(ErrorKind::TooLarge, MAX_MESSAGE)),
        false => Ok(Reader::new(bytes)),
    }
}

/// Whether `bytes` are a value for each of `parameters`, each in its range, and nothing else.
/// Builds nothing. Fails with the first byte that is wrong and the path to its parameter.
pub fn check_binary(parameters: &[Parameter<'_>], bytes: &[u8]) -> Result<(), Error> {
    let mut input = message(bytes)?;
    check_all(&mut input, parameters)?;
    input.finish()
}

fn check_all(input: &mut Reader<'_>, parameters: &[Parameter<'_>]) -> Result<(), Error> {
    for it in parameters {
        check(input, &it.ty, it.range).map_err(|error| error.within(&it.name))?;
    }
    Ok(())
}

fn check(input: &mut Reader<'_>, ty: &Type<'_>, range: Option<Range>) -> Result<(), Error> {
    match ty {
        Type::List(element) => {
            let (count, element) = (count(input, range)?, element.get());
            (0..count).try_for_each(|index| {
                check(input, element, None).map_err(|error| error.within_item(index))
            })
        }
        Type::Record(fields) => check_all(input, fields),
        Type::OneOf(cases) => {
            let number = usize::from(input.case(cases)?);
            check_all(input, &cases[number..=number])
        }
        _ => Scalar::decode(input, ty, range).map(|_| ()),
    }
}

/// The values of a message, one for each of `parameters`. Fails as [`check_binary`] does.
pub fn values<'a>(parameters: &[Parameter<'_>], bytes: &'a [u8]) -> Result<Vec<Value<'a>>, Error> {
    let mut input = message(bytes)?;
    let values = Value::decode_all(&mut input, parameters)?;
    input.finish()?;
    Ok(values)
}

/// The values of a document, one for each of `parameters`, borrowing nothing; who wants to borrow
/// keeps what [`text_to_binary`] gives and takes its [`values`]. Fails as [`text_to_binary`] does.
pub fn values_from_text(
    parameters: &[Parameter<'_>],
    element: &str,
    text: &str,
) -> Result<Vec<Value<'static>>, Error> {
    let bytes = text_to_binary(parameters, element, text)?;
    Ok(values(parameters, &bytes)?.into_iter().map(Value::into_owned).collect())
}

/// The binary form of one value for each of `parameters`. Fails with the path to a value of a
/// wrong type or out of range, and with [`ErrorKind::TooLarge`].
pub fn values_to_binary(
    parameters: &[Parameter<'_>],
    values: &[Value<'_>],
) -> Result<Vec<u8>, Error> {
    let mut out = Writer::new();
    put_all(parameters, values, &mut out)?;
    let bytes = out.into_bytes()?;
    check_binary(parameters, &bytes)?;
    Ok(bytes)
}

impl<'a> From<Bytes<'a>> for Value<'a> {
    fn from(bytes: Bytes<'a>) -> Value<'a> {
        Value::Bytes(bytes.0)
    }
}

impl From<&str> for Value<'static> {
    fn from(text: &str) -> Value<'static> {
        Value::String(Cow::Owned(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn parameter(ty: Type<'static>, range: Option<Range>) -> [Parameter<'static>; 1] {
        let (name, doc) = ("v".into(), "".into());
        [Parameter { name, doc, ty, range, encoded: true, encrypted: false }]
    }

    #[track_caller]
    fn refused(ty: Type<'static>, range: Option<Range>, value: Value<'_>) -> ErrorKind {
        let error = values_to_binary(&parameter(ty, range), &[value]).expect_err("it is refused");
        assert_eq!(error.path(), "v");
        error.kind().clone()
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        let wrong = |ty, value| matches!(refused(ty, None, value), ErrorKind::WrongType { .. });
        assert!(wrong(Type::Uint8, Value::Bool(true)));
        assert!(wrong(Type::String, Value::Bytes(Cow::Borrowed(b"text"))));
        assert!(wrong(Type::Record(vec![].into()), Value::Record(vec![Value::Bool(true)])));
        assert!(values_to_binary(&parameter(Type::Bool, None), &[]).is_err());
    }

    #[test]
    fn an_integer_is_within_its_type_and_its_range() {
        let range = Some(Range { least: -3, most: 3 });
        let beyond =
            |ty, range, value| matches!(refused(ty, range, value), ErrorKind::OutOfRange { .. });
        assert!(beyond(Type::Uint8, None, Value::Uint(256)));
        assert!(beyond(Type::Uint64, None, Value::Int(-1)));
        assert!(beyond(Type::Int64, None, Value::Uint(u64::MAX)));
        assert!(beyond(Type::Int8, range, Value::Int(-4)));
        // Whether an integer has a sign is its type's business, not the value's.
        let bytes = values_to_binary(&parameter(Type::Int8, range), &[Value::Uint(3)]);
        assert_eq!(bytes.as_deref(), Ok(&[3][..]));
    }

    #[test]
    fn a_message_has_nothing_after_its_values() {
        let parameters = parameter(Type::Bool, None);
        assert_eq!(check_binary(&parameters, &[1]), Ok(()));
        for (bytes, kind) in [(&[][..], ErrorKind::Truncated), (&[1, 0], ErrorKind::Trailing)] {
            assert_eq!(check_binary(&parameters, bytes).unwrap_err().kind(), &kind);
        }
        let long = vec![0; MAX_MESSAGE + 1];
        assert_eq!(check_binary(&parameters, &long).unwrap_err().kind(), &ErrorKind::TooLarge);
    }
}
