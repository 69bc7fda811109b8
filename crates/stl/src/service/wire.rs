//! What generated code does for every argument, field and reply. Each is a function of its own for
//! each type, not a part of every method that has one: services are many, and calls that get here
//! have been sent or looked up.

use alloc::vec::Vec;

pub use nile_bosml::records::put;

use nile_bosml::records::field;
use nile_bosml::{Decode, Encode, Reader, Writer};

use crate::CallResult;

/// Takes an argument of this name.
#[inline(never)]
pub fn argument<'a, T: Decode<'a>>(input: &mut Reader<'a>, name: &'static str) -> CallResult<T> {
    Ok(field(input, name)?)
}

/// Sees to it that nothing follows the arguments.
#[inline]
pub fn no_more(input: &Reader<'_>) -> CallResult<()> {
    Ok(input.finish()?)
}

/// A reply.
#[inline(never)]
pub fn reply<T: Encode>(value: &T) -> CallResult<Vec<u8>> {
    let mut out = Writer::new();
    value.encode(&mut out);
    Ok(out.into_bytes()?)
}
