//! Bytes that own themselves: what a method replies, which outlives the message that it came in.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use crate::binary::{Reader, Writer};
use crate::error::Error;
use crate::handle::Bytes;
use crate::schema::Type;
use crate::typed::{Decode, Encode, Typed};

/// Any bytes, as one value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Blob(pub Vec<u8>);

impl Typed for Blob {
    const TYPE: Type<'static> = Type::Bytes;
    const LEAST: usize = Bytes::LEAST;
}

impl Encode for Blob {
    #[inline]
    fn encode(&self, out: &mut Writer) {
        out.slice(&self.0);
    }
}

impl<'a> Decode<'a> for Blob {
    #[inline]
    fn decode(input: &mut Reader<'a>) -> Result<Blob, Error> {
        Ok(Blob(Bytes::decode(input)?.0.into_owned()))
    }
}

impl From<Bytes<'_>> for Blob {
    fn from(bytes: Bytes<'_>) -> Blob {
        Blob(bytes.0.into_owned())
    }
}

impl<'a> From<&'a [u8]> for Bytes<'a> {
    fn from(bytes: &'a [u8]) -> Bytes<'a> {
        Bytes(Cow::Borrowed(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_bytes_are() {
        let sent = [1, 2, 3];
        let mut out = Writer::new();
        Bytes::from(&sent[..]).encode(&mut out);
        let message = out.into_bytes().unwrap();
        let blob = Blob::decode(&mut Reader::new(&message)).unwrap();
        assert_eq!(blob, Blob::from(Bytes::from(&sent[..])));
        let mut out = Writer::new();
        blob.encode(&mut out);
        assert_eq!(out.into_bytes().unwrap(), message);
        assert!(Blob::decode(&mut Reader::new(&message[..4])).is_err());
    }
}
