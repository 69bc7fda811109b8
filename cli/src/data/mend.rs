//! `nile disk`: how a node's disk is, what of it is damaged, and what other nodes have of that. A
//! repair gets from them what is damaged or missing; neither it nor a check gives up anything that
//! is nowhere else. Only `format` does.

use std::time::{Duration, Instant};

use nile_abi::NodeId;
use nile_interfaces::dataset::records::{Condition, DiskFault, Listed};
use serde_json::json;

use super::args::{DiskAction, Mend as Options};
use super::catalogue::Catalogue;
use super::stores::{Stores, failed, nodes};
use crate::advice;
use crate::cluster::args::Place;
use crate::failure::Failure;
use crate::peer::known::Target;

/// How long a dataset may take from one node to another.
const FETCHED: Duration = Duration::from_secs(3600);

/// How long a node whose disk is new may take to keep names again.
const TAKEN_IN: Duration = Duration::from_secs(20);

/// How long it is left alone meanwhile.
const PAUSE: Duration = Duration::from_millis(50);

/// What is wrong with what a node has of a dataset, or should have.
struct Finding {
    listed: Listed,
    /// Its damaged blocks; none if it is not there at all.
    damaged: Vec<u32>,
    /// Others that have all of it.
    copies: Vec<Target>,
}

/// Everything that is wrong with a disk's datasets.
#[derive(Default)]
struct Findings {
    /// Datasets that were looked at and are whole.
    whole: usize,
    found: Vec<Finding>,
    /// What no node that answers has, and this one may have had.
    lost: Vec<String>,
}

/// Looks, repairs or formats.
pub fn run(options: &Options) -> Result<(), Failure> {
    let mut stores = Stores::of_all(&options.query)?;
    let node = node(options)?;
    let disks = disks(options, &mut stores, node)?;
    if options.action == DiskAction::Format {
        let [disk] = &disks[..] else {
            let what = format!("{node} has {}; say --disk", names(&disks));
            return Err(Failure::request(what));
        };
        return format(options, &mut stores, disk);
    }
    let mut end = Ok(());
    for disk in &disks {
        let done = match options.action {
            DiskAction::Check => check(options, &mut stores, disk),
            _ => repair(options, &mut stores, disk),
        };
        end = end.and(done);
    }
    end
}

/// The node that is meant.
fn node(options: &Options) -> Result<NodeId, Failure> {
    match options.node.on(&options.query.which)? {
        Place { node, core: None } => Ok(node),
        place => Err(Failure::request(format!("{place} is a core; name its node, {}", place.node))),
    }
}

/// A disk that is looked at.
struct Looked {
    target: Target,
    condition: Condition,
    /// Whether what the node lacks is to come here.
    is_first: bool,
    /// What tells it from the node's other disks, if there are any.
    name: Option<String>,
}

impl Looked {
    /// The command that does this to it.
    fn command(&self, options: &Options, action: &str) -> String {
        let node = self.target.node.to_string();
        let command = advice::named(&options.query.which, "disk", &[action, &node]);
        match &self.name {
            Some(name) => format!("{command} --disk {}", advice::quoted(name)),
            None => command,
        }
    }
}

/// The disks of the node that are meant.
fn disks(options: &Options, stores: &mut Stores, node: NodeId) -> Result<Vec<Looked>, Failure> {
    let targets = stores.all().into_iter().filter(|it| it.node == node).collect::<Vec<_>>();
    if targets.is_empty() {
        let what = format!("{node} has no disk for datasets, or does not answer");
        return Err(Failure::request(what));
    }
    let (mut all, has_several) = (Vec::new(), targets.len() > 1);
    for target in targets {
        let condition = examine(stores, target)?;
        let name = has_several.then(|| file(&condition.disk).to_string());
        all.push(Looked { target, condition, is_first: false, name });
    }
    if let Some(wanted) = &options.disk {
        let known = names(&all);
        all.retain(|Looked { condition: Condition { disk, .. }, .. }| {
            disk == wanted || file(disk) == wanted
        });
        if all.is_empty() {
            let what = format!("{node} has no disk `{wanted}` for datasets, but {known}");
            return Err(Failure::request(what));
        }
    }
    all[0].is_first = true;
    Ok(all)
}

/// The last part of the name of a disk that is a file.
fn file(disk: &str) -> &str {
    disk.rsplit('/').next().unwrap_or(disk)
}

fn names(disks: &[Looked]) -> String {
    let names: Vec<&str> = disks.iter().map(|it| it.condition.disk.as_str()).collect();
    names.join(", ")
}

fn examine(stores: &mut Stores, target: Target) -> Result<Condition, Failure> {
    let condition = stores.ask(target, async |store| store.examine().await)?;
    condition.map_err(|error| failed(&target, &error))
}

fn check(options: &Options, stores: &mut Stores, disk: &Looked) -> Result<(), Failure> {
    let Looked { target, condition, .. } = disk;
    let is_hopeless =
        !matches!(condition.fault, DiskFault::None | DiskFault::Blank | DiskFault::Log);
    let findings = match look(stores, disk) {
        // If all disks are so, nobody knows a name.
        Err(_) if is_hopeless => Findings::default(),
        findings => findings?,
    };
    show(options, disk, &findings, &[])?;
    let node = target.node;
    let repair = disk.command(options, "repair");
    match condition.fault {
        DiskFault::None | DiskFault::Blank if findings.found.is_empty() => Ok(()),
        DiskFault::None | DiskFault::Blank | DiskFault::Log => {
            Err(Failure::failed(format!("{node}: mend it with `{repair}`")))
        }
        _ => Err(Failure::failed(hopeless(options, disk))),
    }
}

/// Why a disk is not mended here, and what can be done.
fn hopeless(options: &Options, disk: &Looked) -> String {
    let (node, condition) = (disk.target.node, &disk.condition);
    let format = disk.command(options, "format");
    let then = format!("or give up what it has: `{format} --yes`");
    let why = &condition.why;
    match condition.fault {
        DiskFault::Cut => format!("{why}; then start {node} again"),
        DiskFault::Version => format!("{why}, {then}"),
        DiskFault::Device => format!("{why}; replace the disk"),
        DiskFault::Key => format!(
            "{why}; start {node} with the key that it has had; without that key what the disk has \
             is lost: `{format} --yes` makes it empty"
        ),
        DiskFault::Foreign => format!(
            "{why}; put {node}'s own disk in its place and start {node} again; if nobody wants \
             what is on this one, `{format} --yes` makes it {node}'s, and empty"
        ),
        _ => format!("{why}; put the right disk in its place and start {node} again, {then}"),
    }
}

fn repair(options: &Options, stores: &mut Stores, disk: &Looked) -> Result<(), Failure> {
    let Looked { target, condition, .. } = disk;
    let (target, node) = (*target, target.node);
    let rebuilds = match condition.fault {
        DiskFault::None | DiskFault::Blank => false,
        DiskFault::Log => true,
        _ => return Err(Failure::failed(hopeless(options, disk))),
    };
    let mut findings = look(stores, disk)?;
    // A copy counts when all of it has been read.
    let mut beyond: Vec<String> = Vec::new();
    for finding in &mut findings.found {
        let mut good = None;
        for copy in &finding.copies {
            if damaged(stores, *copy, &finding.listed)?.is_empty() {
                good = Some(*copy);
                break;
            }
        }
        finding.copies = good.into_iter().collect();
        if finding.copies.is_empty() {
            beyond.push(finding.listed.name.clone());
        }
    }
    if rebuilds {
        let lost: Vec<String> = findings.lost.iter().chain(&beyond).cloned().collect();
        if !lost.is_empty() {
            let format = disk.command(options, "format");
            return Err(Failure::failed(format!(
                "{}; no other node that answers has all of {}: start those that have it, or give \
                 it up: `{format} --yes`",
                condition.why,
                lost.join(", ")
            )));
        }
        empty(stores, target)?;
    }
    let mut mended = Vec::new();
    for Finding { listed, damaged, copies } in &findings.found {
        let Some(from) = copies.first() else { continue };
        if !damaged.is_empty() {
            let removed = stores.remove(target, listed)?;
            removed.map_err(|error| failed(&target, &error))?;
        }
        fetch(stores, target, *from, listed)?;
        mended.push(listed.name.clone());
    }
    show(options, disk, &findings, &mended)?;
    match beyond.is_empty() {
        true => Ok(()),
        false => Err(Failure::failed(format!(
            "{node}: no other node that answers has all of {}",
            beyond.join(", ")
        ))),
    }
}

fn format(options: &Options, stores: &mut Stores, disk: &Looked) -> Result<(), Failure> {
    let repair = disk.command(options, "repair");
    let (target, node, disk) = (disk.target, disk.target.node, &disk.condition.disk);
    if !options.yes {
        return Err(Failure::request(format!(
            "all that {disk} of {node} has would be gone, also what no other node has; say --yes \
             if that is meant"
        )));
    }
    empty(stores, target)?;
    let number = node.to_string();
    match options.query.json {
        true => crate::print(&format!("{}\n", json!({ "node": number, "disk": disk }))),
        false => crate::print(&format!(
            "{node}: {disk} is empty; what other nodes have copies of comes back with `{repair}`\n"
        )),
    }
}

/// Gives a node an empty store, and waits until it keeps names again, if it does.
fn empty(stores: &mut Stores, target: Target) -> Result<(), Failure> {
    let done = stores.insisting(|it| it.ask(target, async |store| store.format().await))?;
    done.map_err(|error| failed(&target, &error))?;
    if !stores.session.record.keepers.contains(&target.node.0) {
        return Ok(());
    }
    let until = Instant::now() + TAKEN_IN;
    while let Some(what) = stores.waits_for_names(target.node)? {
        if Instant::now() > until {
            return Err(Failure::failed(format!(
                "{}: it has an empty store, and does not keep names yet: {what}",
                target.node
            )));
        }
        stores.session.peer.until(PAUSE, |_| false)?;
    }
    Ok(())
}

/// Has a node get a dataset from another.
fn fetch(
    stores: &mut Stores,
    target: Target,
    from: Target,
    listed: &Listed,
) -> Result<(), Failure> {
    let Listed { name, epoch, attempt, .. } = listed;
    let (before, from) = (stores.session.patience, from.node.0);
    stores.session.patience = FETCHED;
    let fetched = stores.ask(target, async |store| {
        store.fetch_from(name, *epoch, *attempt, from).await?;
        store.confirm(name, *epoch, *attempt).await
    });
    stores.session.patience = before;
    fetched?.map_err(|error| failed(&target, &error))
}

/// What is wrong with what a disk has of all names, and should have.
fn look(stores: &mut Stores, disk: &Looked) -> Result<Findings, Failure> {
    let all = Catalogue::gather(stores)?;
    let mut findings = Findings { whole: 0, found: Vec::new(), lost: Vec::new() };
    let (target, node) = (disk.target, disk.target.node);
    for (name, known) in all.all() {
        let is_output = known.of.is_some();
        let is_meant = known.facts.nodes.contains(&node);
        if known.missing().is_some() && (is_output || is_meant) {
            findings.lost.push(name.into());
        }
        for part in known.parts.values() {
            let listed = &part.listed;
            let others = part.stores.iter().filter(|(it, _)| it.node != node);
            let whole = others.filter(|(_, it)| it.here == it.blocks);
            let copies: Vec<Target> = whole.map(|(it, _)| *it).collect();
            let is_here = part.stores.iter().any(|(it, _)| *it == target);
            // What another disk of the node has, or is to get, is not this one's matter. One whose
            // log is not whole may have had anything.
            let is_beside = part.stores.iter().any(|(it, _)| it.node == node);
            let may_lack = disk.is_first || disk.condition.fault == DiskFault::Log;
            if !is_here && (is_beside || !may_lack) {
                continue;
            }
            let damaged = match is_here {
                true => damaged(stores, target, listed)?,
                false => Vec::new(),
            };
            let wants = is_meant || is_output && copies.len() < usize::from(listed.copies);
            match is_here {
                true if damaged.is_empty() => findings.whole += 1,
                false if !wants => {}
                _ => findings.found.push(Finding { listed: listed.clone(), damaged, copies }),
            }
        }
    }
    Ok(findings)
}

/// The damaged blocks of what a store has of a dataset.
fn damaged(stores: &mut Stores, target: Target, listed: &Listed) -> Result<Vec<u32>, Failure> {
    let Listed { name, epoch, attempt, blocks, .. } = listed;
    let (mut all, mut skip) = (Vec::new(), 0);
    while skip < *blocks {
        let ask = stores.ask(target, async |it| it.verify(name, *epoch, *attempt, skip).await)?;
        let verified = ask.map_err(|error| failed(&target, &error))?;
        all.extend(verified.damaged);
        skip += verified.looked.max(1);
    }
    Ok(all)
}

fn show(
    options: &Options,
    disk: &Looked,
    findings: &Findings,
    mended: &[String],
) -> Result<(), Failure> {
    let (node, condition) = (disk.target.node, &disk.condition);
    let Condition { disk, bytes, why, .. } = condition;
    let on = |copies: &[Target]| nodes(copies.iter().map(|it| it.node));
    if options.query.json {
        let found = findings.found.iter().map(|it| {
            let (name, damaged) = (&it.listed.name, &it.damaged);
            json!({ "name": name, "damaged": damaged, "copies": on(&it.copies) })
        });
        let found: Vec<_> = found.collect();
        let document = json!({
            "node": node.to_string(), "disk": disk, "bytes": bytes, "fault": why,
            "whole": findings.whole, "found": found, "lost": findings.lost, "mended": mended,
        });
        return crate::print(&format!("{document}\n"));
    }
    let is_blank = condition.fault == DiskFault::Blank;
    let state = match why.as_str() {
        "" if is_blank => "nothing was ever written to it",
        "" => "its label and its log are whole",
        why => why,
    };
    let mut text = format!("{node}: {disk}, {bytes} bytes: {state}\n");
    if condition.fault == DiskFault::None {
        text += &format!("datasets of which all blocks here are whole: {}\n", findings.whole);
    }
    for Finding { listed, damaged, copies } in &findings.found {
        let (name, blocks) = (&listed.name, listed.blocks);
        let what = match damaged.len() {
            0 => "is not here".into(),
            some => format!("{some} of {blocks} blocks are damaged, the first is {}", damaged[0]),
        };
        let copies = match (mended.contains(name), copies.is_empty()) {
            (true, _) => format!("mended from {}", on(copies).join(", ")),
            (false, true) => "no other node has all of it".into(),
            (false, false) => format!("others have it: {}", on(copies).join(", ")),
        };
        text += &format!("{name}: {what}; {copies}\n");
    }
    for name in &findings.lost {
        text += &format!("{name}: no node that answers has all of it\n");
    }
    crate::print(&text)
}
