//! `nile rm`: the keepers of a name decide that it means nothing any more; then the stores that
//! answer free its space. Those that are away do when they are back.

use std::collections::BTreeSet;

use nile_abi::{NodeId, Status};
use nile_interfaces::dataset::records::Listed;
use nile_interfaces::name::records::{Meaning, NameEntry, NameExpectation};
use serde_json::json;

use super::args::Remove as Options;
use super::catalogue::{self, Catalogue};
use super::names::Changed;
use super::stores::{Stores, failed, is_unusable, nodes};
use crate::failure::Failure;

/// Removes what a name means.
pub fn run(options: &Options) -> Result<(), Failure> {
    let mut stores = Stores::open(&options.query)?;
    let name = &options.name;
    if let Some((whole, ..)) = catalogue::part_of(name) {
        let message = format!("{name} is a part of an output: remove all of it, `{whole}`");
        return Err(Failure::request(message));
    }
    let entry = stores.look(name)?;
    if entry.meaning.facts().is_none() {
        // It says what there is.
        drop(Catalogue::survey(&mut stores)?.find(name)?);
    }
    match stores.change(name, NameExpectation::Stamp(entry.stamp), &Meaning::Absent)? {
        Changed::Done => {}
        Changed::Refused(now) if now.meaning == Meaning::Absent => {
            return Err(Failure::failed(format!(
                "`{name}` was removed by somebody else meanwhile"
            )));
        }
        Changed::Refused(_) => {
            let message = format!("`{name}` was replaced by somebody else meanwhile; try again");
            return Err(Failure::failed(message));
        }
        Changed::Unknown => {
            return Err(Failure::failed(format!(
                "the nodes that keep the names of datasets went away in the midst: whether \
                 `{name}` is still there, `nile ls` will tell when they are back"
            )));
        }
    }
    let on = nodes(rest(&mut stores, name, &entry)?);
    // Of an output it is not known here which nodes have parts.
    let is_left = |node: &NodeId| match &entry.meaning {
        Meaning::Dataset { facts, .. } => facts.nodes.contains(node),
        meaning => matches!(meaning, Meaning::Output { .. }),
    };
    let left: BTreeSet<NodeId> = stores.absent().iter().copied().filter(is_left).collect();
    match options.query.json {
        true => {
            let later = nodes(left.iter().copied());
            let document = json!({ "name": name, "nodes": on, "later": later });
            crate::print(&format!("{document}\n"))?;
        }
        false if on.is_empty() => crate::print(&format!("{name} is removed\n"))?,
        false => crate::print(&format!("{name} is removed from {}\n", on.join(", ")))?,
    }
    match left.is_empty() {
        true => Ok(()),
        false => Err(stores.blaming(Failure::Partial(format!(
            "what these nodes have of {name} goes when they are back: {}",
            nodes(left).join(", ")
        )))),
    }
}

/// Has the stores that answer by now free what they have of what a name meant `before`; those that
/// had something. What cannot be asked now frees it by itself, when it is back. What others prepare
/// for the name meanwhile has later versions, and stays.
pub fn rest(
    stores: &mut Stores,
    name: &str,
    before: &NameEntry,
) -> Result<BTreeSet<NodeId>, Failure> {
    let is_meant = |it: &Listed| match catalogue::part_of(&it.name) {
        Some((whole, ..)) if whole == name => {
            matches!(before.meaning, Meaning::Output { job, .. } if it.epoch == job)
        }
        _ => it.name == name && it.epoch <= before.stamp,
    };
    // A node that came back before the name was changed has seen no reason to free anything.
    stores.meet_again()?;
    let mut on = BTreeSet::new();
    for (target, listed) in catalogue::held_soon(stores)?.into_iter().filter(|it| is_meant(&it.1)) {
        match stores.remove(target, &listed)? {
            Ok(()) => drop(on.insert(target.node)),
            Err(error) if error.status == Status::NotFound => {}
            Err(error) if is_unusable(&error) => stores.leave_out_for(target, &error),
            Err(error) => return Err(failed(&target, &error)),
        }
    }
    Ok(on)
}
