//! `nile-dev`: what develops the project, by the same command line as `nile`, which the launcher
//! builds only when one of these commands is called.
//!
//! * [`test`], [`bench`]: the project's proof.
//! * [`boot`]: a node in the simulator.
//! * [`sim`]: the cluster's protocols and whole jobs, simulated.
//! * [`guest`]: another kernel on the machine that nodes in QEMU have.
//! * [`needs`]: what the launcher has to provide for these.
#![forbid(unsafe_code)]
// A stream that takes nothing is no reason to panic: see `nile_cli::print` and `nile_cli::say`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod boot;
mod guest;
mod needs;
mod sim;
mod test;

use std::process::ExitCode;

use nile_cli::args::{Command, Machine};
use nile_cli::failure::Failure;

fn main() -> ExitCode {
    nile_cli::main(perform)
}

fn perform(command: Command) -> Result<(), Failure> {
    match command {
        Command::Test(options) => test::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Boot(options) if options.machine == Machine::Sim => boot::run(&options),
        Command::Sim(options) => sim::run(&options),
        Command::Guest(options) => guest::run(&options),
        Command::Needs { arguments } => nile_cli::needs::show(&arguments, needs::of),
        of_users => nile_cli::perform(of_users),
    }
}
