//! Rust types as values of messages. The derive of `nile-stl-macros` does the same for structs,
//! field by field in the order of their declaration, and for enums, case by case.

use alloc::borrow::{Cow, ToOwned};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::marker::PhantomData;

use nile_abi::{CoreId, Generation, NodeId};

use crate::binary::{Reader, Writer};
use crate::error::{Error, ErrorKind};
use crate::handle::{Buffer, Bytes, Core};
use crate::records::case;
use crate::schema::{self, Element, Parameter, Type};

/// A Rust type that a schema can name.
pub trait Typed {
    /// Its name in schemas.
    const TYPE: Type<'static>;

    /// The fewest bytes that the binary form of a value takes; one, if nobody knows better. A
    /// list makes room for no more elements than the bytes left can be.
    const LEAST: usize = 1;
}

/// A value that can be put into a message.
pub trait Encode: Typed {
    /// Puts the binary form at the end of `out`.
    fn encode(&self, out: &mut Writer);
}

/// A value that can be taken from a message, from which it may borrow. Ranges belong to
/// parameters, not to types: [`check_binary`](crate::check_binary) looks at them.
pub trait Decode<'a>: Typed + Sized {
    /// Takes the binary form off the front of `input`. Fails with the byte at which it is not a
    /// value of this type.
    fn decode(input: &mut Reader<'a>) -> Result<Self, Error>;
}

/// What the bounds of a parameter or field bound.
#[diagnostic::on_unimplemented(
    message = "`#[range]` bounds integers, texts, bytes and lists, not `{Self}`"
)]
pub trait Measure {
    /// An integer itself; how long anything else is.
    fn measure(&self) -> i128;
}

macro_rules! integers {
    ($($integer:ty),*) => {
        $(impl Measure for $integer {
            #[inline]
            fn measure(&self) -> i128 {
                i128::from(*self)
            }
        })*
    };
}

integers!(u8, u16, u32, u64, i8, i16, i32, i64);

impl Measure for &str {
    fn measure(&self) -> i128 {
        self.len() as i128
    }
}

impl Measure for String {
    fn measure(&self) -> i128 {
        self.len() as i128
    }
}

impl<T> Measure for Vec<T> {
    fn measure(&self) -> i128 {
        self.len() as i128
    }
}

impl Measure for Bytes<'_> {
    fn measure(&self) -> i128 {
        self.0.len() as i128
    }
}

macro_rules! numbers {
    ($($number:ty => $ty:ident),* $(,)?) => { $(
        impl Typed for $number {
            const TYPE: Type<'static> = Type::$ty;
            const LEAST: usize = size_of::<$number>();
        }

        impl Encode for $number {
            #[inline]
            fn encode(&self, out: &mut Writer) {
                out.put(&self.to_le_bytes());
            }
        }

        impl<'a> Decode<'a> for $number {
            #[inline]
            fn decode(input: &mut Reader<'a>) -> Result<Self, Error> {
                Ok(<$number>::from_le_bytes(input.array()?))
            }
        }
    )* };
}

numbers! {
    u8 => Uint8, u16 => Uint16, u32 => Uint32, u64 => Uint64,
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64,
    f64 => Float64,
}

/// Numbers that are names.
macro_rules! ids {
    ($($id:ident($number:ty)),* $(,)?) => { $(
        impl Typed for $id {
            const TYPE: Type<'static> = <$number>::TYPE;
            const LEAST: usize = <$number>::LEAST;
        }

        impl Encode for $id {
            #[inline]
            fn encode(&self, out: &mut Writer) {
                self.0.encode(out);
            }
        }

        impl<'a> Decode<'a> for $id {
            #[inline]
            fn decode(input: &mut Reader<'a>) -> Result<Self, Error> {
                <$number>::decode(input).map($id)
            }
        }
    )* };
}

ids! { NodeId(u32), CoreId(u16), Generation(u32) }

impl Typed for bool {
    const TYPE: Type<'static> = Type::Bool;
}

impl Encode for bool {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        out.put(&[u8::from(*self)]);
    }
}

impl<'a> Decode<'a> for bool {
    #[inline]
    fn decode(input: &mut Reader<'a>) -> Result<Self, Error> {
        let at = input.offset();
        match input.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(not_a_bool(other, at)),
        }
    }
}

#[cold]
fn not_a_bool(found: u8, at: usize) -> Error {
    Error::new(ErrorKind::WrongType { expected: "bool", found: alloc::format!("{found}") }, at)
}

impl Typed for &str {
    const TYPE: Type<'static> = Type::String;
    const LEAST: usize = 2;
}

impl Encode for &str {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        out.slice(self.as_bytes());
    }
}

impl<'a> Decode<'a> for &'a str {
    #[inline]
    fn decode(input: &mut Reader<'a>) -> Result<Self, Error> {
        let length = input.length()?;
        let at = input.offset();
        str::from_utf8(input.slice(length)?).map_err(|error| not_utf8(at + error.valid_up_to()))
    }
}

#[cold]
fn not_utf8(at: usize) -> Error {
    let found = "bytes that are not UTF-8".to_owned();
    Error::new(ErrorKind::WrongType { expected: "string", found }, at)
}

impl Typed for String {
    const TYPE: Type<'static> = Type::String;
    const LEAST: usize = 2;
}

impl Encode for String {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        out.slice(self.as_bytes());
    }
}

impl<'a> Decode<'a> for String {
    #[inline]
    fn decode(input: &mut Reader<'a>) -> Result<Self, Error> {
        <&str>::decode(input).map(str::to_owned)
    }
}

impl Typed for Cow<'_, str> {
    const TYPE: Type<'static> = Type::String;
    const LEAST: usize = 2;
}

impl Encode for Cow<'_, str> {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        out.slice(self.as_bytes());
    }
}

impl<'a> Decode<'a> for Cow<'a, str> {
    #[inline]
    fn decode(input: &mut Reader<'a>) -> Result<Self, Error> {
        <&str>::decode(input).map(Cow::Borrowed)
    }
}

impl Typed for Bytes<'_> {
    const TYPE: Type<'static> = Type::Bytes;
    const LEAST: usize = 2;
}

impl Encode for Bytes<'_> {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        out.slice(&self.0);
    }
}

impl<'a> Decode<'a> for Bytes<'a> {
    #[inline]
    fn decode(input: &mut Reader<'a>) -> Result<Self, Error> {
        let length = input.length()?;
        Ok(Bytes(Cow::Borrowed(input.slice(length)?)))
    }
}

impl Typed for Core {
    const TYPE: Type<'static> = Type::Core;
    const LEAST: usize = 6;
}

impl Encode for Core {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        self.node.encode(out);
        self.core.encode(out);
    }
}

impl<'a> Decode<'a> for Core {
    #[inline]
    fn decode(input: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Core { node: NodeId::decode(input)?, core: CoreId::decode(input)? })
    }
}

impl Typed for Buffer {
    const TYPE: Type<'static> = Type::Buffer;
    const LEAST: usize = 16;
}

impl Encode for Buffer {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        self.pool.encode(out);
        self.index.encode(out);
        self.generation.encode(out);
        self.length.encode(out);
    }
}

impl<'a> Decode<'a> for Buffer {
    #[inline]
    fn decode(input: &mut Reader<'a>) -> Result<Self, Error> {
        let (pool, index) = (u32::decode(input)?, u32::decode(input)?);
        let (generation, length) = (u32::decode(input)?, u32::decode(input)?);
        Ok(Buffer { pool, index, generation, length })
    }
}

impl<T: Typed> Typed for Vec<T> {
    const TYPE: Type<'static> = Type::List(Element::Static(&T::TYPE));
    const LEAST: usize = 2;
}

impl<T: Encode> Encode for Vec<T> {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        out.list(self.len(), |out| self.iter().for_each(|item| item.encode(out)));
    }
}

impl<T: Typed> Typed for Box<T> {
    const TYPE: Type<'static> = T::TYPE;
    const LEAST: usize = T::LEAST;
}

impl<T: Encode> Encode for Box<T> {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        (**self).encode(out);
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Box<T> {
    #[inline]
    fn decode(input: &mut Reader<'a>) -> Result<Self, Error> {
        T::decode(input).map(Box::new)
    }
}

/// The cases of an option.
struct Optional<T>(PhantomData<T>);

impl<T: Typed> Optional<T> {
    const CASES: &'static [Parameter<'static>] =
        &[Parameter::plain(schema::NONE, Type::NOTHING), Parameter::plain(schema::SOME, T::TYPE)];
}

impl<T: Typed> Typed for Option<T> {
    const TYPE: Type<'static> = Type::OneOf(Cow::Borrowed(Optional::<T>::CASES));
}

impl<T: Encode> Encode for Option<T> {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        match self {
            None => out.put(&[0]),
            Some(value) => {
                out.put(&[1]);
                value.encode(out);
            }
        }
    }
}

impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    #[inline]
    fn decode(input: &mut Reader<'a>) -> Result<Self, Error> {
        case(input, &[schema::NONE, schema::SOME], |number, input| match number {
            0 => Ok(None),
            _ => T::decode(input).map(Some),
        })
    }
}

/// Makes room for at most `size_of::<T>() / T::LEAST` bytes for each byte that is left, for each
/// list that a list of this type is within.
impl<'a, T: Decode<'a>> Decode<'a> for Vec<T> {
    #[inline]
    fn decode(input: &mut Reader<'a>) -> Result<Self, Error> {
        let count = input.count(T::LEAST)?;
        let mut items = Vec::with_capacity(count);
        for index in 0..count {
            items.push(T::decode(input).map_err(|error| error.within_item(index))?);
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::MAX_MESSAGE;

    fn bytes<T: Encode>(value: &T) -> Vec<u8> {
        let mut out = Writer::new();
        value.encode(&mut out);
        out.into_bytes().unwrap()
    }

    #[track_caller]
    fn refused<'a, T: Decode<'a> + core::fmt::Debug>(bytes: &'a [u8]) -> Error {
        T::decode(&mut Reader::new(bytes)).expect_err("it is refused")
    }

    #[test]
    fn every_type_has_its_bytes() {
        assert_eq!(bytes(&0x1234_u16), [0x34, 0x12]);
        assert_eq!(bytes(&-2_i32), [0xfe, 0xff, 0xff, 0xff]);
        assert_eq!(bytes(&true), [1]);
        assert_eq!(bytes(&1.0_f64), 1.0_f64.to_le_bytes());
        assert_eq!(bytes(&"ab"), [2, 0, b'a', b'b']);
        assert_eq!(bytes(&Cow::Borrowed("ab")), bytes(&String::from("ab")));
        assert_eq!(bytes(&Bytes(vec![7].into())), [1, 0, 7]);
        assert_eq!(bytes(&"n2.c3".parse::<Core>().unwrap()), [2, 0, 0, 0, 3, 0]);
        let buffer = Buffer { pool: 1, index: 2, generation: 4, length: 3 };
        assert_eq!(bytes(&buffer), [1, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(bytes(&vec![vec![1_u8], vec![]]), [2, 0, 1, 0, 1, 0, 0]);
    }

    #[test]
    fn strings_and_bytes_are_borrowed() {
        let message = [2, 0, b'a', b'b', 1, 0, 9];
        let mut input = Reader::new(&message);
        let text = <Cow<'_, str>>::decode(&mut input).unwrap();
        let Bytes(rest) = Bytes::decode(&mut input).unwrap();
        assert!(matches!((&text, &rest), (Cow::Borrowed("ab"), Cow::Borrowed([9]))));
        assert_eq!(input.finish(), Ok(()));
    }

    #[test]
    fn what_is_no_value_is_refused_with_its_byte() {
        assert_eq!(refused::<u64>(&[0; 7]).kind(), &ErrorKind::Truncated);
        assert_eq!(refused::<&str>(&[3, 0, b'a', b'b']).kind(), &ErrorKind::Truncated);
        let error = refused::<&str>(&[3, 0, b'a', 0xff, b'b']);
        assert!(matches!(error.kind(), ErrorKind::WrongType { expected: "string", .. }));
        assert_eq!(error.offset(), 3);
        let error = refused::<Vec<bool>>(&[2, 0, 1, 2]);
        assert!(matches!(error.kind(), ErrorKind::WrongType { expected: "bool", .. }));
        assert_eq!((error.offset(), error.path().as_str()), (3, "1"));
        let mut input = Reader::new(&[1, 2]);
        u8::decode(&mut input).unwrap();
        let error = input.finish().unwrap_err();
        assert_eq!((error.kind(), error.offset()), (&ErrorKind::Trailing, 1));
    }

    #[test]
    fn a_count_is_believed_only_if_the_bytes_are_there() {
        // Nine bytes are not two numbers of eight, whatever they are.
        assert_eq!(refused::<Vec<u64>>(&[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).offset(), 2);
        assert_eq!(refused::<Vec<Vec<u8>>>(&[0xff, 0xff, 0, 0]).offset(), 2);
    }

    #[test]
    fn a_message_too_long_for_its_lengths_is_told_at_the_end() {
        let fail = |put: &dyn Fn(&mut Writer)| {
            let mut out = Writer::new();
            put(&mut out);
            out.into_bytes().expect_err("it is too long").kind().clone()
        };
        let long = "a".repeat(MAX_MESSAGE);
        assert_eq!(fail(&|out| long.encode(out)), ErrorKind::TooLarge);
        assert_eq!(fail(&|out| vec![true; MAX_MESSAGE].encode(out)), ErrorKind::TooLarge);
        let fits = long[..MAX_MESSAGE - 2].to_owned();
        assert_eq!(bytes(&fits).len(), MAX_MESSAGE);
        assert_eq!(fail(&|out| (fits.encode(out), 1_u8.encode(out)).1), ErrorKind::TooLarge);
        let nothing = |out: &mut Writer| out.list(3, |_| ());
        assert!(matches!(fail(&nothing), ErrorKind::Schema { .. }));
    }
}
