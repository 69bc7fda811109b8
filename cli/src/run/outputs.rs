//! The datasets that jobs read and make, as the command handles them: a job's output is in parts,
//! `NAME/0-of-R` and so on.

use nile_abi::NodeId;
use nile_interfaces::name::records::{Meaning, NameEntry, NameExpectation};

use crate::advice;
use crate::data::catalogue;
use crate::data::get;
use crate::data::names::Changed;
use crate::data::remove::rest;
use crate::data::stores::Stores;
use crate::failure::Failure;
use crate::size::Bytes;

/// Whether a name means a dataset or an output.
pub fn is_there(stores: &mut Stores, name: &str) -> Result<bool, Failure> {
    Ok(stores.look(name)?.meaning.facts().is_some())
}

/// Refuses a name that means something.
pub fn check_free(stores: &mut Stores, names: &[&str]) -> Result<(), Failure> {
    for name in names {
        match stores.look(name)?.meaning {
            Meaning::Absent => {}
            Meaning::Making { job } => return Err(catalogue::making(name, job)),
            _ => {
                return Err(Failure::request(format!(
                    "there is a dataset `{name}`; remove it with `{}`, or name another",
                    advice::on(&stores.session.folder, "rm", &[name])
                )));
            }
        }
    }
    Ok(())
}

/// Refuses data of so many bytes, which all disks of the nodes that are meant have no room for
/// together, before they are full.
pub fn check_room(
    stores: &mut Stores,
    bytes: u64,
    is_meant: impl Fn(NodeId) -> bool,
) -> Result<(), Failure> {
    let mut all = stores.all();
    all.retain(|target| is_meant(target.node));
    let spaces = stores.ask_all(&all, async |store, _| store.space().await)?;
    // Nodes that do not answer, or have no disk, say why when something is put there.
    let known: Vec<u64> = spaces.into_iter().flatten().map(|space| space.free).collect();
    let free = known.iter().fold(0, |sum: u64, free| sum.saturating_add(*free));
    match !known.is_empty() && free < bytes {
        true => Err(Failure::request(format!(
            "the data take {} on disk, and all its nodes together have {} free; remove datasets",
            Bytes(bytes),
            Bytes(free)
        ))),
        false => Ok(()),
    }
}

/// The bytes of a job's output, its parts in their order.
pub fn read(stores: &mut Stores, name: &str) -> Result<Vec<u8>, Failure> {
    let known = get::whole(stores, name)?;
    get::all(stores, &known)
}

/// Removes what these names mean, whether that is anything or not, and whether Ctrl-C was pressed
/// or not. What a node that does not answer has of it goes when it is back.
pub fn remove(stores: &mut Stores, names: &[&str]) -> Result<(), Failure> {
    stores.session.peer.insist();
    names.iter().try_for_each(|name| {
        let entry = stores.look(name)?;
        drop_entry(stores, name, &entry)
    })
}

/// The same of what jobs have made, by the outputs' names and the jobs' numbers: what others have
/// put in its place stays.
pub fn remove_made(stores: &mut Stores, made: &[(String, u64)]) -> Result<(), Failure> {
    stores.session.peer.insist();
    made.iter().try_for_each(|(name, job)| {
        let entry = stores.look(name)?;
        match entry.meaning {
            Meaning::Output { job: by, .. } if by == *job => drop_entry(stores, name, &entry),
            _ => Ok(()),
        }
    })
}

fn drop_entry(stores: &mut Stores, name: &str, entry: &NameEntry) -> Result<(), Failure> {
    if entry.meaning.facts().is_none() {
        return Ok(());
    }
    match stores.change(name, NameExpectation::Stamp(entry.stamp), &Meaning::Absent)? {
        Changed::Done => rest(stores, name, entry).map(drop),
        // Others have changed it meanwhile.
        Changed::Refused(_) | Changed::Unknown => Ok(()),
    }
}
