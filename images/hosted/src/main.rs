//! The hosted image: a node with its services, and nothing else.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    nile_hosted::main::<nile_node::Node>()
}
