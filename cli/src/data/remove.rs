//! `nile rm`: a dataset is removed from every store that has it.

use std::collections::BTreeSet;

use nile_abi::{NodeId, Status};
use serde_json::json;

use super::args::Remove as Options;
use super::catalogue;
use super::stores::{Arguments, Stores, failed, nodes};
use crate::failure::Failure;

/// Removes every version of a name, and of its parts.
pub fn run(options: &Options) -> Result<(), Failure> {
    let mut stores = Stores::open(&options.query)?;
    let all = catalogue::everything(&mut stores)?;
    let name = &options.name;
    catalogue::find(&all, name)?;
    let is_meant =
        |it: &str| it == name || catalogue::part_of(it).is_some_and(|(whole, ..)| whole == name);
    let named = || all.iter().filter(|(_, listed)| is_meant(&listed.name));
    // What is only prepared could be committed afterwards.
    for (target, listed) in named() {
        let removed = stores.tell(*target, "remove", || Arguments::version(listed))?;
        match removed {
            Err(error) if error.status != Status::NotFound => return Err(failed(target, &error)),
            _ => {}
        }
    }
    let on: BTreeSet<NodeId> = named().map(|(target, _)| target.node).collect();
    let on = nodes(on);
    match options.query.json {
        true => crate::print(&format!("{}\n", json!({ "name": name, "nodes": on }))),
        false => crate::print(&format!("{name} is removed from {}\n", on.join(", "))),
    }
}
