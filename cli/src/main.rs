//! The `nile` command. People start it through the launcher `./nile`, which first builds what
//! the command needs and says in the environment where it lies.
//!
//! * [`args`]: the command line; wrong arguments end here.
//! * [`needs`]: what the launcher has to provide for a command.
//! * [`boot`]: a node on QEMU, on Linux or in the simulator, and its report.
//! * [`cluster`]: clusters of nodes on this machine, and what can be asked of them; [`peer`]: this
//!   program on their network.
//! * [`data`]: datasets of a cluster; [`run`]: jobs on them;
//!   [`profile`]: what cores did meanwhile.
//! * [`sim`]: the cluster's protocols, simulated.
//! * [`switch`]: the network of a cluster on one machine.
//! * [`image`]: the kernel as a bootable ISO image.
//! * [`test`], [`bench`]: the project's proof.
//! * [`child`], [`serial`], [`interrupt`], [`symbols`]: running a machine and reading what it
//!   says.
//! * [`write`]: files that a command writes for whoever called it; [`path`]: paths beyond this
//!   program.
//! * [`failure`]: how a command ends when it does not do what was asked.
#![forbid(unsafe_code)]

mod args;
mod bench;
mod boot;
mod child;
mod cluster;
mod completions;
mod config;
mod data;
mod disk;
mod failure;
mod image;
mod interrupt;
mod nearest;
mod needs;
mod packages;
mod path;
mod peer;
mod profile;
mod run;
mod serial;
mod sim;
mod size;
mod switch;
mod symbols;
mod table;
mod test;
mod write;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use args::{Command, Nile};
use clap::Parser;
use failure::Failure;

fn main() -> ExitCode {
    match perform(Nile::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("nile: {failure}");
            failure.exit_code()
        }
    }
}

fn perform(command: Command) -> Result<(), Failure> {
    match command {
        Command::Boot(options) => boot::run(&options),
        Command::Test(options) => test::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Image(options) => image::run(&options),
        Command::Up(options) => cluster::up::run(&options),
        Command::Status(options) => cluster::status::run(&options),
        Command::Services(options) => cluster::services::run(&options),
        Command::Discover(options) => cluster::services::discover(&options),
        Command::Call(options) => cluster::call::run(&options),
        Command::Fault(options) => cluster::fault::run(&options),
        Command::Logs(options) => cluster::logs::run(&options),
        Command::Top(options) => cluster::top::run(&options),
        Command::Down(options) => cluster::down::run(&options),
        Command::Put(options) => data::put::run(&options),
        Command::Get(options) => data::get::run(&options),
        Command::Ls(options) => data::list::run(&options),
        Command::Rm(options) => data::remove::run(&options),
        Command::Run(options) => run::run(&options),
        Command::Profile(options) => profile::run(&options),
        Command::Demo(options) => run::demo::run(&options),
        Command::Completions(options) => completions::run(&options),
        Command::Sim(options) => sim::run(&options),
        Command::Guest(options) => boot::guest::run(&options),
        Command::Switch(options) => switch::run(&options),
        Command::Needs { arguments } => needs::show(&arguments),
    }
}

/// Writes `text` to standard output. A reader that has gone away is content with what it got.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot write the result: {error}")))
        }
        _ => Ok(()),
    }
}
