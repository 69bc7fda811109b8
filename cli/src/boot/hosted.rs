//! A node as a Linux process. It keeps its standard output for the report and logs to standard
//! error; its exit status is the contract's.

use std::process::Command;

use super::{Node, NodeEnd, Ran};
use crate::args::Boot;
use crate::child;
use crate::config;
use crate::disk::Files;
use crate::failure::Failure;
use crate::needs::{self, HOSTED, HOSTED_SCENARIOS};
use crate::packages;
use crate::symbols::Symbols;

/// Runs a hosted node to its end.
pub fn boot(options: &Boot) -> Result<Ran, Failure> {
    let mut command = child::command(needs::provided(image_of(options))?);
    arguments(&mut command, options.cores, options.memory.0, options.program.as_str());
    let config = options.config.as_ref().map(config::File::handed_on).transpose()?;
    if let Some(config) = &config {
        command.arg("--config").arg(config.path());
    }
    if let Some(interface) = &options.interface {
        command.args(["--interface", &interface.to_string()]);
    }
    let disks = Files::prepare(&options.disks)?;
    disks.to_hosted(&mut command);
    if options.plain_disks {
        command.arg("--plain-disks");
    }
    // These live until the node has ended.
    let archive = packages::archive(options, None)?;
    if let Some(archive) = &archive {
        command.arg("--packages").arg(archive.path());
    }
    let symbols = Symbols::new(None, None);
    let node = Node { name: "hosted", symbols: &symbols };
    let ran = node.run(options, &mut command, |status| match status {
        Some(0) => Some(NodeEnd::Success),
        Some(1) => Some(NodeEnd::Failure),
        Some(2) => Some(NodeEnd::WrongRequest),
        _ => None,
    });
    drop((config, disks, archive));
    ran
}

/// Which program is the node: scenarios have one of their own.
fn image_of(options: &Boot) -> &'static str {
    if options.only_boots() { HOSTED } else { HOSTED_SCENARIOS }
}

/// Tells a node what it is, with so many bytes of memory, and what it does.
pub fn arguments(command: &mut Command, cores: u16, memory: u64, program: &str) {
    command.args(["--cores", &cores.to_string()]);
    command.args(["--memory", &memory.to_string()]);
    command.args(["--program", program]);
}
