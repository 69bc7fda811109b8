//! The hosted image of the tests: the same kernel, with the scenarios.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    nile_hosted::main::<nile_scenarios::Scenarios>()
}
