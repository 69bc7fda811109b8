//! The state of a cluster as a person reads it.

use std::collections::BTreeMap;

use super::{CoreStatus, NodeStatus, PackageStatus};
use crate::table;

/// The nodes, the cores of each, and the packages that stay on those, in tables.
pub fn describe(nodes: &[NodeStatus]) -> String {
    let mut rows = vec![["node", "state", "machine", "generation"].map(String::from).to_vec()];
    for node in nodes {
        let NodeStatus { name, state, machine, generation, namesake, error, .. } = node;
        // One that was dead when the session began told nothing.
        let generation = match generation {
            0 => "unknown".into(),
            generation => format!("g{generation}"),
        };
        let mut row = vec![name.clone(), state.clone(), machine.clone(), generation];
        let other = |address: &String| format!("another node is {name}, too: {address}");
        row.extend(error.clone().or(namesake.as_ref().map(other)));
        rows.push(row);
    }
    let mut text = table::columns("", &rows);
    let title = [
        "core",
        "roles",
        "state",
        "generation",
        "hardware",
        "load",
        "queues",
        "interrupts",
        "services",
    ];
    let mut rows = vec![title.map(String::from).to_vec()];
    for node in nodes {
        rows.extend(node.cores.iter().map(|core| row(&node.name, core)));
    }
    if rows.len() > 1 {
        text.push('\n');
        text.push_str(&table::columns("", &rows));
    }
    let title = ["core", "package", "state", "begun", "memory", "busy", "system calls"];
    let mut rows = vec![title.map(String::from).to_vec()];
    for node in nodes {
        for core in &node.cores {
            let place = format!("{}.c{}", node.name, core.id);
            match &core.packages {
                Some(packages) => rows.extend(packages.iter().map(|it| package(&place, it))),
                None => rows.push(vec![place, "unknown".into()]),
            }
        }
    }
    if rows.len() > 1 {
        text.push('\n');
        text.push_str(&table::columns("", &rows));
    }
    text
}

fn package(core: &str, package: &PackageStatus) -> Vec<String> {
    vec![
        core.into(),
        package.name.clone(),
        package.state.clone(),
        package.begun.to_string(),
        memory(package.memory_bytes),
        format!("{:.1} s", package.busy_us as f64 / 1e6),
        package.system_calls.to_string(),
    ]
}

/// A package's memory, as people read it.
pub fn memory(bytes: u64) -> String {
    format!("{} KiB", bytes >> 10)
}

fn row(node: &str, core: &CoreStatus) -> Vec<String> {
    vec![
        format!("{node}.c{}", core.id),
        core.roles.join(", "),
        core.state.clone(),
        format!("g{}", core.generation),
        core.hardware_id.map_or_else(|| "unknown".into(), |id| id.to_string()),
        core.load.to_string(),
        counts(&core.queues),
        counts(&core.interrupts),
        core.services.len().to_string(),
    ]
}

/// Those that are not zero.
pub fn counts(all: &BTreeMap<String, u64>) -> String {
    let counted = all.iter().filter(|(_, count)| **count > 0);
    let counted: Vec<_> = counted.map(|(name, count)| format!("{name} {count}")).collect();
    match counted.is_empty() {
        true => "none".into(),
        false => counted.join(", "),
    }
}
