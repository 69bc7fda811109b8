//! Scenarios: the same steps on every machine. A node is started for one of them; the management
//! core conducts it, the other cores play their parts, and the boot report says whether everything
//! that was checked held. A node that is started for `boot` only boots.
//!
//! | program           | what must hold                                                         |
//! | ----------------- | ---------------------------------------------------------------------- |
//! | `boot`            | every loop runs                                                        |
//! | `ping`            | every core reaches every core, in order, also itself                   |
//! | `restart`         | a worker that panics comes back; what was sent to it before is `Dead`  |
//! | `manager-restart` | so does the management core; no frame is given twice                   |
//! | `isolation`       | a stray write into another core's memory faults on the writer alone    |
//! | `tickless`        | a worker that computes is not interrupted                              |
//! | `ticked`          | its control: with ticks on, the same worker is, and it is counted      |
//! | `memory`          | frames of each size: zeroed, own, given back                           |
//! | `moving`          | a receiver changes cores while messages come; none is lost             |
//! | `churn`           | memory and channels come and go; in the end nothing is missing         |
//! | `timers`          | deadlines come in order and never early                                |
//! | `idle`            | a node with nothing to do sleeps                                       |
//! | `counts`          | what the kernel's operations cost                                      |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod arguments;
mod churn;
mod conduct;
mod counts;
mod idle;
mod isolation;
mod manager_restart;
mod memory;
mod moving;
mod ping;
mod restart;
mod talk;
mod tickless;
mod timers;

use core::fmt;

use nile_kernel::Core;
use nile_platform::Machine;

use arguments::Arguments;

/// The name of every program, `boot` first.
pub const PROGRAMS: [&str; 13] = [
    "boot",
    "ping",
    "restart",
    "manager-restart",
    "isolation",
    "tickless",
    "ticked",
    "memory",
    "moving",
    "churn",
    "timers",
    "idle",
    "counts",
];

/// There is no such program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownProgram;

impl fmt::Display for UnknownProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown program; the programs are {}", PROGRAMS.join(", "))
    }
}

impl core::error::Error for UnknownProgram {}

/// Whether `command` names a program.
pub fn check(command: &str) -> Result<(), UnknownProgram> {
    let name = Arguments::new(command).name();
    if PROGRAMS.contains(&name) { Ok(()) } else { Err(UnknownProgram) }
}

/// Starts this core's part of `command`: a program's name, then `key=value` words. A name that is
/// not known starts nothing, and the node never ends: [`check`] it before.
pub fn start<M: Machine>(core: &Core<M>, command: &str) {
    let arguments = Arguments::new(command);
    match arguments.name() {
        "boot" => core.boot_and_report(),
        "ping" => ping::start(core, &arguments),
        "restart" => restart::start(core),
        "manager-restart" => manager_restart::start(core),
        "isolation" => isolation::start(core),
        "tickless" => tickless::start(core, &arguments, tickless::Expect::Silence),
        "ticked" => tickless::start(core, &arguments, tickless::Expect::Ticks),
        "memory" => memory::start(core, &arguments),
        "moving" => moving::start(core, &arguments),
        "churn" => churn::start(core, &arguments),
        "timers" => timers::start(core, &arguments),
        "idle" => idle::start(core, &arguments),
        "counts" => counts::start(core, &arguments),
        _ => {}
    }
}
