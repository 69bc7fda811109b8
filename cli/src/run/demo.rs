//! `nile demo`: a cluster of the real kernel in QEMU generates, sorts and validates, and then one
//! hosted node does the same with more.

use super::args::{Demo, Format, Share, TASK_TIMEOUT, Terasort, Usual};
use super::terasort;
use crate::cluster::args::{Kind, Machines, Which};
use crate::failure::Failure;
use crate::size::Bytes;

/// Nodes of the cluster in QEMU.
const NODES: u16 = 3;

/// Shows both.
pub fn run(options: &Demo) -> Result<(), Failure> {
    let parts = [
        (Kind::Qemu, NODES, options.size, "nodes of the real kernel, each a machine in QEMU"),
        (Kind::Hosted, 1, options.hosted_size, "hosted node, whose cores are Linux processes"),
    ];
    let sorts = parts.map(|(kind, nodes, size, what)| (sort(kind, nodes, size), nodes, what));
    for (sort, ..) in &sorts {
        terasort::check(sort)?;
    }
    for (sort, nodes, what) in &sorts {
        crate::print(&format!("{nodes} {what}: {} to sort\n", sort.size))?;
        let sorted = terasort::sort(sort)?;
        crate::print(&format!("{}\n", sorted.text()))?;
        sorted.check()?;
    }
    Ok(())
}

fn sort(kind: Kind, nodes: u16, size: Bytes) -> Terasort {
    let usual = Usual {
        which: Which::default(),
        machine: Some(Machines::from(kind)),
        nodes: Some(nodes),
        memory: None,
        reducers: None,
        copies: 1,
        task_timeout: TASK_TIMEOUT,
        on: Vec::new(),
        share: Share::default(),
        disk_folder: None,
        keep: false,
        json: false,
        sample_rate: None,
        hooks: Vec::new(),
    };
    Terasort { size, format: Format::Binary, name: "demo".into(), usual }
}
