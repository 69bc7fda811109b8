//! `nile boot`: one node from its first instruction to its power-off, and the report that it
//! sends in between.

pub mod hosted;
pub mod qemu;
mod report;

use std::fs;

use nile_kernel::report::Report;

use crate::args::{Boot, Machine};
use crate::child;
use crate::config;
use crate::failure::Failure;
use crate::packages;
use crate::serial::Said;
use crate::size::Bytes;
use crate::symbols::Symbols;

/// The least memory in which a kernel gets far enough to say itself that it has too little.
const LEAST_MEMORY: Bytes = Bytes::mebi(16);

/// Boots the node that `options` describe and prints its report. Blocks until the node has ended.
pub fn run(options: &Boot) -> Result<(), Failure> {
    check(options)?;
    Failure::at_signals()?;
    let ran = match options.machine {
        Machine::Qemu => qemu::boot(options),
        Machine::Hosted => hosted::boot(options),
        Machine::Sim => Err(crate::hand_on()),
    }?;
    show(options, ran)
}

/// Prints the report of a node, and says whether it ended well.
pub fn show(options: &Boot, (document, outcome): Ran) -> Result<(), Failure> {
    // A node that failed may still have said what it found.
    if let Some(document) = document {
        let report: Report = serde_json::from_str(&document)
            .map_err(|error| Failure::failed(format!("the node's report is damaged: {error}")))?;
        match options.json {
            true => crate::print(&format!("{document}\n"))?,
            false => crate::print(&report::describe(&report))?,
        }
    }
    outcome
}

/// Refuses what no machine could do, before one is started.
pub fn check(options: &Boot) -> Result<(), Failure> {
    if options.seed.is_some() && options.machine != Machine::Sim {
        return Err(Failure::request(
            "--seed chooses a run of the simulator; add --machine sim, or leave it out",
        ));
    }
    if options.interface.is_some() && options.machine != Machine::Hosted {
        return Err(Failure::request("--interface needs --machine hosted"));
    }
    if options.iso.is_some() && options.machine != Machine::Qemu {
        return Err(Failure::request("--iso needs --machine qemu"));
    }
    let is_emulated =
        [(options.count_instructions, "--count-instructions"), (options.cpu.is_some(), "--cpu")];
    if let Some((_, option)) = is_emulated.iter().find(|(asked, _)| *asked)
        && options.machine != Machine::Qemu
    {
        return Err(Failure::request(format!("{option} needs --machine qemu")));
    }
    if !options.packages.is_empty() && options.machine == Machine::Sim {
        return Err(Failure::request(
            "--package needs a machine that runs files, not the simulator",
        ));
    }
    packages::check(&options.packages)?;
    check_memory(options.memory)?;
    let config = config::read(options.config.as_ref())?;
    let file = options.config.as_ref().map(config::File::path);
    if options.machine == Machine::Hosted {
        config::no_supervisor(file, &config)?;
    }
    let whole = (options.cores, options.memory.0);
    let (cores, memory) = config.supervisor.map_or(whole, |kept| (kept.cores as u16, kept.memory));
    config::roles(file, &config, cores)?;
    config::pool(file, &config, memory)?;
    match options.machine {
        Machine::Hosted => Ok(()),
        Machine::Qemu | Machine::Sim => config::no_interface(file, &config),
    }
}

/// Refuses amounts of memory that no node could have.
pub fn check_memory(memory: Bytes) -> Result<(), Failure> {
    if memory < LEAST_MEMORY {
        return Err(Failure::request(format!(
            "--memory {memory} is too little: a node needs at least {LEAST_MEMORY}"
        )));
    }
    match host_memory() {
        Some(host) if memory > host => Err(Failure::request(format!(
            "--memory {memory} is more than the {host} that this machine has"
        ))),
        _ => Ok(()),
    }
}

/// The memory of the machine that this command runs on, where Linux tells.
pub fn host_memory() -> Option<Bytes> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(Bytes(total.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10))
}

/// What a node's machine gives back: its report, if it sent one, and whether it ended well.
pub type Ran = (Option<String>, Result<(), Failure>);

/// The end of a node that ran as a child process. Its log goes to standard error as it comes.
struct Node<'a> {
    /// What to call the machine in a message.
    name: &'static str,
    /// What turns the addresses in its log into places in the source.
    symbols: &'a Symbols,
}

impl Node<'_> {
    /// Runs `command`; `read_status` says what its exit status means, where it means something.
    fn run(
        &self,
        options: &Boot,
        command: &mut std::process::Command,
        read_status: impl FnOnce(Option<i32>) -> Option<NodeEnd>,
    ) -> Result<Ran, Failure> {
        let (mut last, mut report) = (String::new(), None);
        let status = child::listen(command, options.limit, |said| match said {
            Said::Line(line) => {
                let line = self.symbols.annotate(&line);
                crate::say(format_args!("{line}"));
                if !line.is_empty() {
                    last = line;
                }
            }
            Said::Report(document) => report = Some(document),
        })
        .map_err(|error| error.of(&format!("the {} node", self.name)))?;
        let outcome = match read_status(status.code()) {
            Some(NodeEnd::Success) if report.is_some() => Ok(()),
            Some(NodeEnd::Success) => Err(Failure::failed(format!(
                "the {} node ended without sending its report; its log is above",
                self.name
            ))),
            Some(NodeEnd::Failure) => {
                Err(Failure::failed(format!("the {} node failed; its log is above", self.name)))
            }
            Some(NodeEnd::WrongRequest) => Err(Failure::request(last)),
            None => Err(Failure::failed(format!(
                "the {} node ended unexpectedly ({status}); its log is above",
                self.name
            ))),
        };
        Ok((report, outcome))
    }
}

/// What a node says about its own end.
enum NodeEnd {
    Success,
    Failure,
    /// It was asked for something that it cannot do; the last line of its log says why.
    WrongRequest,
}
