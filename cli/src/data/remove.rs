//! `nile rm`: a dataset is removed from every store that has it.

use nile_abi::Status;
use serde_json::json;

use super::args::Remove as Options;
use super::catalogue;
use super::stores::{Arguments, Stores, failed, nodes};
use crate::failure::Failure;

/// Removes every version of a name.
pub fn run(options: &Options) -> Result<(), Failure> {
    let mut stores = Stores::open(&options.query)?;
    let all = catalogue::everything(&mut stores)?;
    let name = &options.name;
    catalogue::find(&all, name)?;
    let named = || all.iter().filter(|(_, listed)| listed.name == *name);
    // What is only prepared could be committed afterwards.
    for (target, listed) in named() {
        let removed = stores.tell(*target, "remove", || Arguments::version(listed))?;
        match removed {
            Err(error) if error.status != Status::NotFound => return Err(failed(target, &error)),
            _ => {}
        }
    }
    let mut on = nodes(named().map(|(target, _)| target.node));
    on.dedup();
    match options.query.json {
        true => crate::print(&format!("{}\n", json!({ "name": name, "nodes": on }))),
        false => crate::print(&format!("{name} is removed from {}\n", on.join(", "))),
    }
}
