//! Messages, and what keepers have on their disks, in the binary form of the message language: each
//! behind the fingerprint of its type, so that one of another version is an error that says so.

use alloc::vec::Vec;

use nile_bosml::Error;
use nile_bosml::records::{from_stamped, to_stamped};

use crate::message::{Answer, Ask, Durable};

macro_rules! messages {
    ($($message:ty),*) => { $(
        impl $message {
            /// The binary form. Fails if it is longer than a message can be.
            pub fn encode(&self) -> Result<Vec<u8>, Error> {
                to_stamped(self)
            }

            /// Reads one. Fails where it is none.
            pub fn decode(bytes: &[u8]) -> Result<$message, Error> {
                from_stamped(bytes)
            }
        }
    )* };
}

messages! { Ask, Answer, Durable }
