//! Kernel images, and what they have to agree on so that cores of one node can run them.

/// A number for what images have to agree on: see `build.rs`.
pub const ABI: u64 = number(env!("NILE_ABI"));

const fn number(text: &str) -> u64 {
    match u64::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("the build script gives a number"),
    }
}
