//! Gives the node's ABI a number: see [`images`](src/images.rs).

#[path = "../platform/abi.rs"]
mod abi;

fn main() {
    let own = ["boot.rs", "large.rs", "layout.rs", "samples.rs", "tables.rs"];
    let own = own.map(|name| format!("crates/platform-hosted/src/{name}"));
    abi::tell(&own.each_ref().map(String::as_str), "");
}
