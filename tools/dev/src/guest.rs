//! `nile guest`: another kernel on the very machine that nodes in QEMU have, so that it can be
//! measured beside them. What it reports goes to standard output, all else that it says to
//! standard error.

use nile_abi::{MacAddress, NodeId};

use nile_cli::args::Guest;
use nile_cli::boot::{self, qemu};
use nile_cli::child;
use nile_cli::disk::{self, Bus, Connected};
use nile_cli::failure::Failure;
use nile_cli::serial::Said;

/// Runs the guest until it powers its machine off.
pub fn run(options: &Guest) -> Result<(), Failure> {
    qemu::check_cores(options.cores)?;
    boot::check_memory(options.memory)?;
    let mut command = child::command(qemu::program()?);
    qemu::machine(&mut command, options.cores, options.memory.0, false);
    qemu::load(&mut command, &options.kernel, &options.append, options.initrd.as_deref());
    if let Some(socket) = &options.socket {
        qemu::card(&mut command, 0, socket, MacAddress::local(NodeId(options.number), 0));
    }
    if let Some(disk) = &options.disk {
        disk::make(disk, None)?;
        let connected = Connected { bus: Bus::Virtio, has_iommu: false };
        disk::qemu(&mut command, 0, disk, connected, true);
    }
    let mut report = None;
    let status = child::listen(&mut command, options.limit, |said| match said {
        Said::Line(line) => nile_cli::say(format_args!("{line}")),
        Said::Report(document) => report = Some(document),
    })
    .map_err(|error| error.of("the guest"))?;
    match (status.success(), report) {
        (true, Some(document)) => nile_cli::print(&format!("{document}\n")),
        (true, None) => Err(Failure::failed("the guest ended without a report; its log is above")),
        (false, _) => Err(Failure::failed(format!("the guest's machine ended with {status}"))),
    }
}
