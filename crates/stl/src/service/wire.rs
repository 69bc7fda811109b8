//! What generated code does for every argument, field and reply. Each is a function of its own for
//! each type, not a part of every method that has one: services are many, and calls that get here
//! have been sent or looked up.

use alloc::vec::Vec;

use nile_bosml::{Decode, Encode, Error, Reader, Writer};

use crate::CallResult;

/// Takes an argument of this name.
#[inline(never)]
pub fn argument<'a, T: Decode<'a>>(input: &mut Reader<'a>, name: &'static str) -> CallResult<T> {
    Ok(field(input, name)?)
}

/// Takes a field of this name.
#[inline(never)]
pub fn field<'a, T: Decode<'a>>(input: &mut Reader<'a>, name: &'static str) -> Result<T, Error> {
    T::decode(input).map_err(|error| error.within(name))
}

/// Sees to it that nothing follows the arguments.
#[inline]
pub fn no_more(input: &Reader<'_>) -> CallResult<()> {
    Ok(input.finish()?)
}

/// Puts a value.
#[inline(never)]
pub fn put<T: Encode>(value: &T, out: &mut Writer) {
    value.encode(out);
}

/// A reply.
#[inline(never)]
pub fn reply<T: Encode>(value: &T) -> CallResult<Vec<u8>> {
    let mut out = Writer::new();
    value.encode(&mut out);
    Ok(out.into_bytes()?)
}
