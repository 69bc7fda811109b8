//! The smallest package: it says in the node's log what it was asked to say.
#![no_std]
#![forbid(unsafe_code)]

use nile_abi::call::System;

/// Logs `argument`, which is UTF-8 text. Gives 0, or 1 if there is no saying it.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    let said = core::str::from_utf8(argument).ok();
    let logged = said.map(|text| nile_user::log!(system, "hello, {text}"));
    if matches!(logged, Some(Ok(()))) { 0 } else { 1 }
}
