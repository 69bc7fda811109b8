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
//! * [`advice`]: commands that messages name.
//! * [`failure`]: how a command ends when it does not do what was asked.
#![forbid(unsafe_code)]
// A stream that takes nothing is no reason to panic: see `print` and `say`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod advice;
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
use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn main() -> ExitCode {
    match command().and_then(|command| command.map_or(Ok(()), perform)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(format_args!("nile: {failure}"));
            failure.exit_code()
        }
    }
}

/// The command that is asked for; none if that was for help, which is printed. Does not come back
/// from wrong arguments.
fn command() -> Result<Option<Command>, Failure> {
    match Nile::try_parse() {
        Ok(nile) => Ok(Some(nile.command)),
        Err(error) if error.use_stderr() => error.exit(),
        Err(help) => printed(help.print().and_then(|()| std::io::stdout().flush())).map(|()| None),
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
    printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

fn printed(done: std::io::Result<()>) -> Result<(), Failure> {
    match done {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot write the result: {error}")))
        }
        _ => Ok(()),
    }
}

/// Whether nobody reads standard output any more.
fn is_unread() -> bool {
    let out = std::io::stdout();
    let mut out = [PollFd::new(&out, PollFlags::empty())];
    // It has failed, or is closed at the other end.
    poll(&mut out, Some(&Timespec::default())).is_ok_and(|count| count > 0)
}

/// Writes a line to standard error; one that takes nothing changes nothing.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
