//! The state of a cluster as a person reads it.

use std::collections::BTreeMap;

use super::{CoreStatus, NodeStatus};
use crate::table;

/// The nodes, and the cores of each, in tables.
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
    text
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
