//! `nile`: the commands of users.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    nile_cli::main(nile_cli::perform)
}
