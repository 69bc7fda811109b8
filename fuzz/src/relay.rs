//! What crosses between a package and its kernel: calls, publications, ends of calls.

use core::fmt::Debug;

use nile_abi::Status;
use nile_bosml::{Decode, Encode, MAX_MESSAGE, discovery};
use nile_stl::relay::{Announcement, Incoming, Relayed, decode, decode_end, encode, encode_end};

/// The first byte says what the others are to be. Accepted: they are.
pub fn relay(bytes: &[u8]) -> bool {
    let Some((what, bytes)) = bytes.split_first() else { return false };
    match what % 4 {
        0 => record::<Relayed>(bytes).is_some(),
        1 => record::<Incoming>(bytes).is_some(),
        2 => record::<Announcement>(bytes).is_some_and(|it| {
            // The kernel reads the schema next.
            discovery::parse(&it.document).is_ok()
        }),
        _ => end(bytes),
    }
}

/// The record that the bytes are; there is one way to write it.
fn record<T: Encode + for<'a> Decode<'a> + PartialEq + Debug>(bytes: &[u8]) -> Option<T> {
    let record: T = decode(bytes).ok()?;
    match encode(&record) {
        Ok(again) => assert_eq!(again, bytes),
        Err(_) => assert!(bytes.len() > MAX_MESSAGE),
    }
    Some(record)
}

fn end(bytes: &[u8]) -> bool {
    let status = bytes.first_chunk().and_then(|code| Status::from_code(u16::from_le_bytes(*code)));
    let end = decode_end(bytes);
    let again = encode_end(&end);
    match status {
        None => assert_eq!(end.map_err(|error| error.status), Err(Status::Invalid)),
        Some(Status::Ok) => assert_eq!(again, bytes),
        // A text about a failure ends where it is none.
        Some(status) => {
            assert!(bytes.starts_with(&again));
            assert_eq!(end.map_err(|error| error.status), Err(status));
        }
    }
    status.is_some()
}
