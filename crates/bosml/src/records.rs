//! Records of messages, as structs, and whole messages that consist of one.

use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::schema::{Fingerprint, Range, Type};
use crate::typed::Measure;
use crate::value::check_range;
use crate::{Decode, Encode, Error, ErrorKind, Reader, Typed, Writer};

#[cfg(test)]
mod tests;

// What the macro's structs name, so that the crates that use it need not.
#[doc(hidden)]
pub use alloc::borrow::Cow;

/// Takes a field of this name. A function of its own for each type, as [`put`] is: records are
/// many, and calls that get here have been sent or looked up.
#[doc(hidden)]
#[inline(never)]
pub fn field<'a, T: Decode<'a>>(input: &mut Reader<'a>, name: &'static str) -> Result<T, Error> {
    T::decode(input).map_err(|error| error.within(name))
}

/// The same for one that is to be within bounds.
#[doc(hidden)]
pub fn ranged<'a, T: Decode<'a> + Measure>(
    input: &mut Reader<'a>,
    name: &'static str,
    least: i128,
    most: i128,
) -> Result<T, Error> {
    in_range(input, least, most).map_err(|error| error.within(name))
}

/// Takes a value that is to be within bounds.
#[doc(hidden)]
pub fn in_range<'a, T: Decode<'a> + Measure>(
    input: &mut Reader<'a>,
    least: i128,
    most: i128,
) -> Result<T, Error> {
    let at = input.offset();
    let value = T::decode(input)?;
    check_range(Some(Range { least, most }), value.measure(), at)?;
    Ok(value)
}

/// Takes one of the cases, whose value `decode` takes.
#[doc(hidden)]
#[inline]
pub fn case<'a, T>(
    input: &mut Reader<'a>,
    cases: &[&'static str],
    decode: impl FnOnce(u8, &mut Reader<'a>) -> Result<T, Error>,
) -> Result<T, Error> {
    let number = input.case(cases)?;
    decode(number, input).map_err(|error| error.within(cases[usize::from(number)]))
}

/// Puts a value.
#[doc(hidden)]
#[inline(never)]
pub fn put<T: Encode>(value: &T, out: &mut Writer) {
    value.encode(out);
}

/// Declares structs that are records of the message language, field by field, with their fields for
/// the text form as `FIELDS`. For crates beneath `nile-stl`, whose derive does the same.
#[macro_export]
macro_rules! records {
    ($(
        $(#[$about:meta])*
        pub struct $name:ident { $($(#[$doc:meta])* pub $field:ident: $ty:ty,)* }
    )*) => { $(
        $(#[$about])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $name { $($(#[$doc])* pub $field: $ty,)* }

        impl $name {
            /// Its fields, for the text form.
            pub const FIELDS: &'static [$crate::schema::Parameter<'static>] =
                &[$($crate::schema::Parameter {
                name: $crate::records::Cow::Borrowed(stringify!($field)),
                doc: $crate::records::Cow::Borrowed(""),
                ty: <$ty as $crate::Typed>::TYPE,
                range: None,
                encoded: true,
                encrypted: false,
            }),*];
        }

        impl $crate::Typed for $name {
            const TYPE: $crate::schema::Type<'static> =
                $crate::schema::Type::Record($crate::records::Cow::Borrowed($name::FIELDS));
            const LEAST: usize = 0 $(+ <$ty as $crate::Typed>::LEAST)*;
        }

        impl $crate::Encode for $name {
            fn encode(&self, out: &mut $crate::Writer) {
                $($crate::Encode::encode(&self.$field, out);)*
            }
        }

        impl<'a> $crate::Decode<'a> for $name {
            fn decode(
                input: &mut $crate::Reader<'a>,
            ) -> Result<$name, $crate::Error> {
                Ok($name { $($field: $crate::Decode::decode(input)
                    .map_err(|error| error.within(stringify!($field)))?,)* })
            }
        }
    )* };
}

/// What tells messages of one type from those of others.
struct Stamp<R>(PhantomData<R>);

impl<R: Typed> Stamp<R> {
    const TYPE: &'static Type<'static> = &R::TYPE;
    const OF: Fingerprint = Fingerprint::of_type(Self::TYPE);
}

/// The binary form of a message that is one record, behind the fingerprint of its type: who has
/// another version of it is told so by [`from_stamped`]. Fails if it is longer than a message can
/// be.
pub fn to_stamped<R: Encode>(record: &R) -> Result<Vec<u8>, Error> {
    let mut out = Writer::new();
    out.put(&Stamp::<R>::OF.0.to_le_bytes());
    record.encode(&mut out);
    out.into_bytes()
}

/// Reads such a message. Fails with [`ErrorKind::OtherVersion`] if it is of another type.
pub fn from_stamped<'a, R: Decode<'a>>(bytes: &'a [u8]) -> Result<R, Error> {
    let mut input = Reader::new(bytes);
    let expected = Stamp::<R>::OF;
    let found = Fingerprint(u32::decode(&mut input)?);
    if found != expected {
        return Err(Error::new(ErrorKind::OtherVersion { expected, found }, 0));
    }
    let record = R::decode(&mut input)?;
    input.finish().map(|()| record)
}
