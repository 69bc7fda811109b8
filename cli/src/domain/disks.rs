//! The disks of a hosted domain: files in the cluster's folder, which are there as long as the
//! domain is. What they alone have of datasets goes with them, so somebody has to say that it may.

use std::fs;
use std::time::Duration;

use nile_abi::NodeId;
use nile_domain::Name;
use nile_interfaces::name::records::{Meaning, NameExpectation};

use crate::advice;
use crate::cluster::args::{Query, Which};
use crate::cluster::folder::{Folder, Record};
use crate::data::catalogue::{Catalogue, is_hidden};
use crate::data::stores::Stores;
use crate::failure::Failure;

/// How long a node may take to say what it has.
const PATIENCE: Duration = Duration::from_secs(2);

/// Names that are told of before there are too many.
const TOLD: usize = 8;

/// Removes the disks of a node that is no more.
pub fn remove(folder: &Folder, node: &str) {
    let prefix = format!("{node}.disk");
    let entries = fs::read_dir(folder.path()).into_iter().flatten().flatten();
    for entry in entries.filter(|it| it.file_name().to_string_lossy().starts_with(&prefix)) {
        // What cannot be removed goes with the cluster.
        let _ = fs::remove_file(entry.path());
    }
}

/// Looks after what a domain that is to end has on its disks. If that is all that there is of a
/// dataset this fails, unless it is forced: then the dataset's name means nothing from now on.
pub fn let_go(
    folder: &Folder,
    record: &Record,
    which: &Which,
    name: Name,
    force: bool,
) -> Result<(), Failure> {
    let Ok(node) = record.domain(name.as_str()) else { return Ok(()) };
    if record.disk_of(node).is_none() {
        return Ok(());
    }
    let destroy = || advice::on(folder, "domain destroy", &[name.as_str()]) + " --force";
    let only = match Only::of(which, node.node()) {
        Ok(only) => only,
        // Whoever forces it does not wait until they can be asked.
        Err(_) if force => return Ok(()),
        Err(failure) => {
            return Err(Failure::failed(format!(
                "which datasets {name} alone has cannot be found out: {failure}; `{}` ends it all \
                 the same",
                destroy()
            )));
        }
    };
    let told: Vec<&str> = only.names.iter().map(|it| &**it).filter(|it| !is_hidden(it)).collect();
    if !told.is_empty() && !force {
        return Err(Failure::request(format!(
            "only {name} has all of {}; get or remove them, or let them go with `{}`",
            listed(&told),
            destroy()
        )));
    }
    if !told.is_empty() {
        crate::say(format_args!("nile: gone with {name}: {}", listed(&told)));
    }
    // What is not forgotten now, `rm` forgets.
    let _ = only.forget();
    Ok(())
}

/// Some names in words.
fn listed(names: &[&str]) -> String {
    match names.len().checked_sub(TOLD) {
        None | Some(0) => names.join(", "),
        Some(more) => format!("{} and {more} more", names[..TOLD].join(", ")),
    }
}

/// Datasets and outputs that are not whole without a node.
struct Only {
    stores: Stores,
    names: Vec<String>,
}

impl Only {
    fn of(which: &Which, node: NodeId) -> Result<Only, Failure> {
        let query = Query { which: which.clone(), json: false, timeout: PATIENCE };
        let mut stores = Stores::open(&query)?;
        let all = Catalogue::survey(&mut stores)?;
        let is_away = stores.absent().contains(&node);
        let mut names = Vec::new();
        for (name, known) in all.all() {
            let is_on = known.nodes().contains(&node) || known.facts.nodes.contains(&node);
            // Which nodes have parts of an output is not known of those that do not answer.
            if (is_on || is_away && known.of.is_some())
                && !known.without(node).is_whole(&mut stores)?
            {
                names.push(name.to_string());
            }
        }
        Ok(Only { stores, names })
    }

    /// From now on they mean nothing.
    fn forget(mut self) -> Result<(), Failure> {
        for name in &self.names {
            let entry = self.stores.look(name)?;
            if entry.meaning.facts().is_some() {
                let expected = NameExpectation::Stamp(entry.stamp);
                self.stores.change(name, expected, &Meaning::Absent)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_counted() {
        let names: Vec<String> = (0..10).map(|it| format!("d{it}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(listed(&names[..1]), "d0");
        assert_eq!(listed(&names[..8]), "d0, d1, d2, d3, d4, d5, d6, d7");
        assert_eq!(listed(&names), "d0, d1, d2, d3, d4, d5, d6, d7 and 2 more");
    }
}
