//! `nile put`: a file becomes a dataset. The same bytes go to as many stores as it is to have
//! copies, all of which make them durable; then the keepers of its name decide that the name means
//! them, if it still means what it did when this began, and the stores are told. In place of a
//! store that fails in the midst another one fetches the dataset from one that has it.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use nile_abi::NodeId;
use nile_interfaces::dataset::DatasetClient;
use nile_interfaces::dataset::records::{Decider, Draft, Listed, SpaceEntry};
use nile_interfaces::name::records::{Facts, Meaning, NameExpectation};
use serde_json::json;

use super::args::Put as Options;
use super::catalogue;
use super::names::{Changed, number};
use super::progress::Progress;
use super::remove;
use super::restore::{restore, unprepare};
use super::stores::{Stores, failed, nodes};
use super::write::{Drafts, Lost, beaten};
use crate::advice;
use crate::cluster::turns::BRIEF;
use crate::failure::Failure;
use crate::peer::known::Target;

/// Puts a file, and says so.
pub fn run(options: &Options) -> Result<(), Failure> {
    let file = open(options)?;
    let mut stores = Stores::open(&options.query)?;
    let put = put(&mut stores, options, file)?;
    let on = nodes(put.targets.iter().map(|target| target.node));
    let (name, Listed { bytes, blocks, copies, .. }) = (&options.name, put.listed);
    match options.query.json {
        true => {
            let document = json!({
                "name": name, "bytes": bytes, "blocks": blocks, "copies": copies, "nodes": on,
                "seconds": put.seconds,
            });
            crate::print(&format!("{document}\n"))
        }
        false => {
            let on = on.join(", ");
            let plural = if blocks == 1 { "" } else { "s" };
            crate::print(&format!("{name}: {bytes} bytes in {blocks} block{plural} on {on}\n"))
        }
    }
}

/// A file that was put.
pub struct Put {
    /// The dataset that it is now.
    pub listed: Listed,
    /// The stores that have it.
    pub targets: Vec<Target>,
    /// How long that took.
    pub seconds: f64,
}

/// Puts a file into a cluster's stores, and says nothing.
pub fn file(stores: &mut Stores, options: &Options) -> Result<Put, Failure> {
    put(stores, options, open(options)?)
}

/// The file, and its length unless it is one without.
fn open(options: &Options) -> Result<(File, Option<u64>), Failure> {
    let path = options.file.display();
    let unreadable = |error| Failure::request(format!("cannot read {path}: {error}"));
    let file = File::open(&options.file).map_err(unreadable)?;
    let about = file.metadata().map_err(unreadable)?;
    if about.is_dir() {
        return Err(Failure::request(format!("{path} is a folder; put its files one by one")));
    }
    let name = &options.name;
    if name.is_empty() || name.len() > 128 || name.chars().any(char::is_control) {
        let message = "a dataset's name has 1 to 128 bytes and no control characters";
        return Err(Failure::request(message));
    }
    // Jobs alone make parts.
    if let Some((whole, index, of)) = catalogue::part_of(name) {
        return Err(Failure::request(format!(
            "`{name}` is the name of part {index} of the {of} of a job's output `{whole}`; \
             name it otherwise"
        )));
    }
    let total = about.is_file().then_some(about.len());
    if let (Some(total), Some(record)) = (total, options.record)
        && !total.is_multiple_of(record.into())
    {
        return Err(ragged(&options.file, total, record));
    }
    Ok((file, total))
}

fn put(
    stores: &mut Stores,
    options: &Options,
    (mut file, total): (File, Option<u64>),
) -> Result<Put, Failure> {
    let name = &options.name;
    let Chosen { targets, spares, longest } = choose(stores, options.copies, total.unwrap_or(0))?;
    let before = stores.look(name)?;
    match before.meaning {
        Meaning::Making { job } => return Err(catalogue::making(name, job)),
        Meaning::Dataset { .. } | Meaning::Output { .. } if !options.replace => {
            return Err(exists(options));
        }
        _ => {}
    }
    let block_bytes = match options.record {
        Some(record) => block_of_records(longest, record).ok_or_else(|| {
            let message = format!(
                "a record of {record} bytes does not fit the nodes' buffers of {longest} bytes; \
                 say a larger `buffer` in [pool]"
            );
            Failure::request(message)
        })?,
        None => longest,
    };
    let mut progress = Progress::new(name, total);
    let mut drafts = Vec::new();
    let blocks = (&targets[..], block_bytes);
    let stamp = before.stamp;
    let version = (stamp + 1, number()? as u32);
    let (file, lost) = ((&mut file, total), Lost::of(name, targets.len()));
    let streamed =
        stream(stores, options, (version, blocks), file, (&mut drafts, &lost), &mut progress);
    let mut listed = match streamed {
        Ok(listed) => listed,
        Err(failure) => {
            stores.abort(&drafts);
            return Err(failure);
        }
    };
    stores.abandon(drafts.iter().filter(|(target, _)| lost.has(target)));
    let targets = restore(stores, targets, spares, lost, &listed)?;
    listed.copies = options.copies;
    decide(stores, stamp, &targets, &listed)?;
    if before.meaning.facts().is_some() {
        remove::rest(stores, name, &before)?;
    }
    Ok(Put { listed, targets, seconds: progress.seconds() })
}

/// That a name is taken.
fn exists(options: &Options) -> Failure {
    let name = &options.name;
    let remove = advice::named(&options.query.which, "rm", &[name]);
    Failure::request(format!(
        "there is a dataset `{name}`; remove it with `{remove}`, or put with --replace"
    ))
}

/// Has the keepers of the name decide that it means what `targets` have prepared, if it has not
/// changed since it had the stamp; then the stores are told. From the first step on this ends
/// neither by Ctrl-C nor with something left that nobody wants.
fn decide(
    stores: &mut Stores,
    stamp: u64,
    targets: &[Target],
    listed: &Listed,
) -> Result<(), Failure> {
    let Listed { name, epoch, attempt, bytes, blocks, copies, .. } = listed;
    let nodes = targets.iter().map(|target| target.node).collect();
    let facts = Facts { bytes: *bytes, blocks: *blocks, copies: *copies, nodes };
    let to = Meaning::Dataset { epoch: *epoch, attempt: *attempt, facts };
    let confirm =
        async |store: &DatasetClient, _: &Target| store.confirm(name, *epoch, *attempt).await;
    let remove =
        async |store: &DatasetClient, _: &Target| store.remove(name, *epoch, *attempt).await;
    match stores.change(name, NameExpectation::Stamp(stamp), &to) {
        Ok(Changed::Done) => {
            // Who does not hear it finds out by itself.
            let _ = stores.insisting(|stores| stores.ask_all(targets, confirm));
            Ok(())
        }
        Ok(Changed::Refused(now)) => {
            let _ = stores.insisting(|stores| stores.ask_all(targets, remove));
            Err(match now.meaning {
                Meaning::Making { job } => catalogue::making(name, job),
                Meaning::Absent => Failure::failed(format!(
                    "`{name}` was put and removed by others meanwhile; try again"
                )),
                _ => beaten(name),
            })
        }
        Ok(Changed::Unknown) => Err(Failure::failed(format!(
            "the nodes that keep the names of datasets went away in the midst: whether `{name}` is \
             there now, `nile ls` will tell when they are back"
        ))),
        Err(failure) => {
            let _ = stores.insisting(|stores| stores.ask_all(targets, remove));
            Err(failure)
        }
    }
}

/// A file that is not what its records say.
fn ragged(file: &Path, bytes: u64, record: u32) -> Failure {
    let path = file.display();
    let message =
        format!("{path} has {bytes} bytes, which are not whole records of {record} bytes");
    Failure::request(message)
}

/// Bytes of the longest block of whole records that fits a buffer.
fn block_of_records(buffer: u32, record: u32) -> Option<u32> {
    let records = buffer.checked_div(record).filter(|records| *records > 0)?;
    Some(records * record)
}

/// Where a dataset is put.
struct Chosen {
    /// The stores with the most space, each on a node of its own.
    targets: Vec<Target>,
    /// Others that could have it, those with the most space first.
    spares: Vec<Target>,
    /// Bytes of the longest block that all of them can have.
    longest: u32,
}

/// Chooses stores. None is waited for long if there are enough without it.
fn choose(stores: &mut Stores, copies: u8, bytes: u64) -> Result<Chosen, Failure> {
    let mut left: Vec<(Target, ())> = stores.all().into_iter().map(|it| (it, ())).collect();
    let mut errors = Vec::new();
    let mut found: Vec<(SpaceEntry, Target)> = Vec::new();
    let patience = stores.session.patience;
    for patience in [patience.min(BRIEF), patience] {
        let there: BTreeSet<NodeId> = found.iter().map(|(_, target)| target.node).collect();
        if there.len() >= copies.into() {
            break;
        }
        errors.clear();
        let ask = async |store: &DatasetClient, (): &()| store.space().await;
        let spaces = stores.ask_within(patience, &left, ask)?;
        for ((target, ()), space) in std::mem::take(&mut left).into_iter().zip(spaces) {
            match space {
                Ok(space) => found.push((space, target)),
                Err(error) => {
                    errors.push(failed(&target, &error).to_string());
                    left.push((target, ()));
                }
            }
        }
    }
    found.sort_by_key(|(it, target)| (std::cmp::Reverse(it.free), target.node, target.core));
    let (mut chosen, mut spares): (Vec<Target>, Vec<Target>) = Default::default();
    let (mut least, mut longest) = (u64::MAX, u32::MAX);
    for (space, target) in found {
        if chosen.len() < copies.into() && chosen.iter().all(|it| it.node != target.node) {
            least = least.min(space.free);
            longest = longest.min(space.block_bytes);
            chosen.push(target);
        } else {
            spares.push(target);
        }
    }
    if chosen.len() < copies.into() {
        let why = errors.first().map_or_else(String::new, |error| format!(" ({error})"));
        let (copies, there) = (usize::from(copies), chosen.len());
        let message =
            format!("{copies} copies want as many nodes with disks; there are {there}{why}");
        return Err(Failure::request(message));
    }
    if bytes > least {
        let message = format!("disk full: {bytes} bytes wanted, {least} free; remove datasets");
        return Err(Failure::failed(message));
    }
    Ok(Chosen { targets: chosen, spares, longest })
}

/// Writes and prepares; `drafts` are those that were begun, as long as they are.
fn stream(
    stores: &mut Stores,
    options: &Options,
    ((epoch, attempt), (targets, block_bytes)): ((u64, u32), (&[Target], u32)),
    (file, total): (&mut File, Option<u64>),
    (drafts, lost): (&mut Vec<(Target, Draft)>, &Lost),
    progress: &mut Progress,
) -> Result<Listed, Failure> {
    let name = options.name.as_str();
    let begun = stores.ask_all(targets, async |store, _| {
        store.create(name, epoch, attempt, Decider::Name, block_bytes).await
    })?;
    for (target, draft) in targets.iter().zip(begun) {
        match draft {
            Ok(draft) => drafts.push((*target, draft)),
            Err(error) => lost.add(*target, error)?,
        }
    }
    let mut whole = Drafts { stores, all: drafts, lost, block_bytes, progress };
    let at = whole.write(&options.file, file, total)?;
    // What comes from a pipe has its length only now.
    if let Some(record) = options.record.filter(|record| !at.is_multiple_of((*record).into())) {
        return Err(ragged(&options.file, at, record));
    }
    let left = drafts.iter().filter(|(target, _)| !lost.has(target));
    let left: Vec<(Target, u64)> = left.map(|(target, draft)| (*target, draft.draft)).collect();
    let on: Vec<u32> = left.iter().map(|(target, _)| target.node.0).collect();
    let prepared =
        stores.ask_each(&left, async |store, draft| store.prepare(*draft, on.clone()).await)?;
    let (mut listed, mut done, mut failure) = (None, Vec::new(), None);
    for ((target, _), end) in left.into_iter().zip(prepared) {
        match end {
            Ok(it) => {
                done.push(target);
                listed = Some(it);
            }
            Err(error) => failure = lost.add(target, error).err().or(failure),
        }
    }
    match (listed, failure) {
        (Some(listed), None) => Ok(listed),
        (listed, failure) => {
            if let Some(listed) = listed {
                unprepare(stores, &done, &listed);
            }
            Err(failure.unwrap_or_else(|| Failure::failed("no store has prepared it")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_whole_records() {
        assert_eq!(block_of_records(2 << 20, 100), Some(20_971 * 100));
        assert_eq!(block_of_records(100, 100), Some(100));
        for (buffer, record) in [(99, 100), (1 << 20, u32::MAX), (100, 0)] {
            assert_eq!(block_of_records(buffer, record), None);
        }
        assert_eq!(block_of_records(u32::MAX, 1), Some(u32::MAX));
    }
}
