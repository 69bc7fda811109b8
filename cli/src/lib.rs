//! The `nile` command. People start it through the launcher `./nile`, which first builds what
//! the command needs and says in the environment where it lies. What tests, measures and simulates
//! the project has the same command line and is carried out by a program of its own, `nile-dev`.
//!
//! * [`args`]: the command line; wrong arguments end here.
//! * [`needs`]: what the launcher has to provide for a command.
//! * [`boot`]: a node on QEMU or on Linux, and its report.
//! * `cluster`: clusters of nodes on this machine, and what can be asked of them; `peer`: this
//!   program on their network.
//! * `data`: datasets of a cluster; `run`: jobs on them; `jobs`: those that there are.
//! * `profile`: what cores did meanwhile.
//! * `domain`: nodes on parts of a machine.
//! * `door`: other systems' clients, let in to graphs.
//! * `policy`: who is bound to which policy.
//! * `switch`: the network of a cluster on one machine.
//! * `image`: the kernel as a bootable ISO image.
//! * [`child`], [`serial`], `interrupt`, `symbols`: running a machine and reading what it says.
//! * [`write`]: files that a command writes for whoever called it; `path`: paths beyond this
//!   program.
//! * `advice`: commands that messages name.
//! * [`failure`]: how a command ends when it does not do what was asked.
#![forbid(unsafe_code)]
// A stream that takes nothing is no reason to panic: see `print` and `say`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod advice;
pub mod args;
pub mod boot;
pub mod child;
mod cluster;
mod completions;
mod compose;
pub mod config;
mod data;
pub mod disk;
mod domain;
mod door;
pub mod failure;
mod graph;
mod image;
mod interrupt;
mod jobs;
mod markup;
pub mod nearest;
pub mod needs;
mod packages;
mod path;
mod peer;
mod policy;
mod profile;
mod record;
mod run;
pub mod serial;
pub mod size;
mod switch;
mod symbols;
pub mod table;
pub mod write;

pub use cluster::process;
pub use run::place::usual_folder;

use std::io::{ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use args::{Command, Nile};
use clap::Parser;
use failure::Failure;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Has `perform` do what the command line asks for, and says how that ended.
pub fn main(perform: fn(Command) -> Result<(), Failure>) -> ExitCode {
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

/// Carries out a command of users.
pub fn perform(command: Command) -> Result<(), Failure> {
    if command.is_for_developers() {
        return Err(hand_on());
    }
    match command {
        Command::Boot(options) => boot::run(&options),
        Command::Image(options) => image::run(&options),
        Command::Up(options) => cluster::up::run(&options),
        Command::Status(options) => cluster::status::run(&options),
        Command::Services(options) => cluster::services::run(&options),
        Command::Discover(options) => cluster::services::discover(&options),
        Command::Call(options) => cluster::call::run(&options),
        Command::Compose(options) => compose::run(&options),
        Command::Policies(options) => policy::list(&options),
        Command::Policy(options) => policy::run(&options),
        Command::Core(options) => cluster::cores::run(&options),
        Command::Deploy(options) => cluster::deploy::run(&options),
        Command::Roles(options) => cluster::roles::run(&options),
        Command::Region(options) => cluster::regions::run(&options),
        Command::Package(options) => cluster::packages::run(&options),
        Command::Net(options) => cluster::net::run(&options),
        Command::Servers(options) => cluster::servers::run(&options),
        Command::Graph(options) => graph::run(&options),
        Command::Record(options) => record::run(&options),
        Command::Door(options) => door::run(&options),
        Command::Domain(options) => domain::run(&options),
        Command::Fault(options) => cluster::fault::run(&options),
        Command::Logs(options) => cluster::logs::run(&options),
        Command::Top(options) => cluster::top::run(&options),
        Command::Down(options) => cluster::down::run(&options),
        Command::Put(options) => data::put::run(&options),
        Command::Get(options) => data::get::run(&options),
        Command::Ls(options) => data::list::run(&options),
        Command::Rm(options) => data::remove::run(&options),
        Command::Disk(options) => data::mend::run(&options),
        Command::Run(options) => run::run(&options),
        Command::Jobs(options) => jobs::run(&options),
        Command::Profile(options) => profile::run(&options),
        Command::Demo(options) => run::demo::run(&options),
        Command::Completions(options) => completions::run(&options),
        Command::Switch(options) => switch::run(&options),
        Command::Needs { arguments } => needs::show(&arguments, needs::of_users),
        Command::Test(_) | Command::Bench(_) | Command::Sim(_) | Command::Guest(_) => {
            Err(hand_on())
        }
    }
}

/// Becomes `nile-dev`, with the same arguments. Comes back only if it cannot.
fn hand_on() -> Failure {
    let program = match needs::provided(needs::DEVELOPERS) {
        Ok(program) => program,
        Err(failure) => return failure,
    };
    let error = std::process::Command::new(program).args(std::env::args_os().skip(1)).exec();
    Failure::failed(format!("nile-dev cannot be run: {error}; start it through ./nile"))
}

/// Writes `text` to standard output. A reader that has gone away is content with what it got.
pub fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    printed(out.write_all(bytes).and_then(|()| out.flush()))
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
pub fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
