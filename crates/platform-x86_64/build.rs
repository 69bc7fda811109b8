//! Gives the node's ABI a number: see [`images`](src/images/mod.rs). Cores share values as this
//! compiler lays them out, so all sources of the machine count, the crates that they use, and the
//! compiler.

#[path = "../platform/abi.rs"]
mod abi;

use std::env;
use std::process::Command;

fn main() {
    let compiler = env::var_os("RUSTC").expect("cargo sets it");
    let version = Command::new(compiler).arg("-vV").output().expect("the compiler runs");
    let version = String::from_utf8_lossy(&version.stdout);
    let own = [
        "Cargo.lock",
        "crates/domain/src",
        "crates/guard/src",
        "crates/platform-x86_64/src",
        "images/bare/kernel.ld",
    ];
    abi::tell(&own, &version);
}
