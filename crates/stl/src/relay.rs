//! Calls as they cross between a package and its kernel, inside of system calls.
//!
//! | system call | input                          | output                                    |
//! | ----------- | ------------------------------ | ----------------------------------------- |
//! | `invoke`    | [`Relayed`]                    | the [end](encode_end) of the call         |
//! | `wait`      | -                              | [`Incoming`], as an [`Event::Call`]       |
//! | `reply`     | the [end](encode_end)          | -                                         |
//! | `publish`   | [`Announcement`]               | -                                         |
//!
//! Records are in the binary form of the message language; decoding is total.
//!
//! [`Event::Call`]: nile_abi::call::Event::Call

use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::Status;
use nile_bosml::{Blob, Decode, Encode, Error, Reader, Writer};

use crate::{CallError, CallResult, Record};

/// A call by name that a package asks its kernel to make.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Relayed {
    /// The service's name.
    pub service: String,
    /// The method's name.
    pub method: String,
    /// Its encoded arguments.
    pub arguments: Blob,
}

/// A call to a service of a package.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Incoming {
    /// Names the call until it is answered.
    pub ticket: u64,
    /// What the kernel called the service when it was published.
    pub service: u16,
    /// The method's place in the schema.
    pub method: u16,
    /// The core that calls.
    pub core: u16,
    /// Who calls: 0 a kernel, 1 a package, 2 another node.
    pub origin: u8,
    /// When the caller stops waiting, nanoseconds since the node's start.
    pub deadline: u64,
    /// The encoded arguments.
    pub arguments: Blob,
}

/// A keyword with its weight.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Keyword {
    /// The word.
    pub word: String,
    /// How much a match counts.
    pub weight: u16,
}

/// What a package says of a service for those who choose by it: an attribute, as a person would
/// write it.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Said {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A service that a package publishes. It is of the high layer, as all that packages offer.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Announcement {
    /// Its schema, a discovery document.
    pub document: String,
    /// The subsystem that its type belongs to.
    pub subsystem: String,
    /// The task that its type performs.
    pub capability: String,
    /// What characterizes it.
    pub keywords: Vec<Keyword>,
    /// The type that it is an instance of, which another service declares; empty if it is of its
    /// own.
    pub type_name: String,
    /// What it is chosen by besides.
    pub attributes: Vec<Said>,
}

/// A record's bytes. Fails if they are more than a message may have.
pub fn encode(record: &impl Encode) -> Result<Vec<u8>, Error> {
    let mut out = Writer::new();
    record.encode(&mut out);
    out.into_bytes()
}

/// The record that `bytes` are, all of them.
pub fn decode<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, Error> {
    let mut input = Reader::new(bytes);
    let record = T::decode(&mut input)?;
    input.finish()?;
    Ok(record)
}

/// The end of a call: its status in two bytes, then the reply, or a text about the failure.
pub fn encode_end(result: &CallResult<Vec<u8>>) -> Vec<u8> {
    let (status, data) = match result {
        Ok(data) => (Status::Ok, data.as_slice()),
        Err(CallError { status, message }) => (*status, message.as_bytes()),
    };
    [&status.code().to_le_bytes()[..], data].concat()
}

/// The end that `bytes` tell; `Invalid` if they tell none.
pub fn decode_end(bytes: &[u8]) -> CallResult<Vec<u8>> {
    let told = bytes
        .split_first_chunk()
        .and_then(|(status, data)| Some((Status::from_code(u16::from_le_bytes(*status))?, data)));
    match told {
        Some((Status::Ok, data)) => Ok(data.to_vec()),
        Some((status, message)) => Err(CallError::from_wire(status, message)),
        None => Err(CallError::new(Status::Invalid, "the end of a call that makes no sense")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_survive() {
        for end in [
            Ok(Vec::new()),
            Ok(alloc::vec![1, 2, 3]),
            Err(CallError::from(Status::Dead)),
            Err(CallError::new(Status::Invalid, "why")),
        ] {
            assert_eq!(decode_end(&encode_end(&end)), end);
        }
        for nonsense in [&[][..], &[0], &[0xff, 0xff, 1]] {
            assert_eq!(decode_end(nonsense).unwrap_err().status, Status::Invalid);
        }
    }

    #[test]
    fn records_survive_and_nothing_may_follow() {
        let call =
            Relayed { service: "a".into(), method: "b".into(), arguments: Blob(alloc::vec![1, 2]) };
        let mut bytes = encode(&call).unwrap();
        assert_eq!(decode(&bytes), Ok(call));
        bytes.push(0);
        assert!(decode::<Relayed>(&bytes).is_err());
    }
}
