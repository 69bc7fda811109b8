//! What this node's stores have, held against what names mean: what was decided is committed, what
//! was replaced or removed while this node was away goes, and what nobody will decide any more is
//! given up.

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{Instant, NodeId};
use nile_names::{Entry, Expect, Facts, What};
use nile_order::{SortedMap, SortedSet};
use nile_stl::CallResult;
use nile_store::{RECORDS, Version};

use super::{Shared, named};
use crate::job::catalogue::{Catalogue, listed, part_of};
use crate::job::cluster::{Store, spawn};
use nile_interfaces::dataset::records::{Decider, Listed};

/// How long until it is looked after a node has begun, or one of its cores has ended.
const SOON: Duration = Duration::from_secs(4);

/// How long until it is looked again for what could not be decided, or settled.
const AGAIN: Duration = Duration::from_secs(20);

/// How long whoever prepares a dataset has to have its name decided.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is to be done with a dataset of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It is what its name means, or somebody else's matter.
    Keep,
    /// It is what its name means, and not committed yet.
    Confirm,
    /// Its name means something else, or nothing.
    Remove,
    /// Whoever has prepared it may still have its name decided.
    Undecided,
    /// Nobody has ever heard of its name: it is of a disk that was written before names had
    /// keepers, or these have lost theirs.
    Adopt,
}

/// What is to be done with a dataset whose name, or whose output's, means `entry`.
pub(super) fn verdict(dataset: &Listed, entry: &Entry) -> Verdict {
    if part_of(&dataset.name).is_some() && dataset.owner != Decider::Name {
        return match &entry.what {
            // The record of its job decides.
            _ if !dataset.committed => Verdict::Keep,
            What::Output { job, .. } | What::Making { job } if *job == dataset.epoch => {
                Verdict::Keep
            }
            _ if entry.stamp == 0 => Verdict::Adopt,
            _ => Verdict::Remove,
        };
    }
    let own = Version::new(dataset.epoch, dataset.attempt);
    match &entry.what {
        What::Dataset { version, .. } if *version == own => match dataset.committed {
            true => Verdict::Keep,
            false => Verdict::Confirm,
        },
        _ if entry.stamp >= dataset.epoch => Verdict::Remove,
        _ if dataset.committed && entry.stamp == 0 => Verdict::Adopt,
        // Nothing says that its name ever meant something later.
        _ if dataset.committed => Verdict::Keep,
        _ if dataset.owner == Decider::Name => Verdict::Undecided,
        // Its owner is a node, which decides by itself.
        _ => Verdict::Keep,
    }
}

/// Datasets that were seen undecided, and since when.
pub type Undecided = SortedMap<(String, u64, u32), Instant>;

impl Shared {
    /// In a while it is looked at all that this node's stores have.
    pub fn sweep_soon(self: &Rc<Self>) {
        if !self.sweeping.ask() {
            return;
        }
        let shared = self.clone();
        spawn(&self.stl, async move {
            let mut pause = SOON;
            loop {
                shared.sleep(pause).await;
                pause = AGAIN;
                shared.sweeping.begin();
                // What cannot be asked now is asked again.
                let is_clean = shared.sweep().await == Ok(true);
                if shared.sweeping.is_over(is_clean) {
                    break;
                }
            }
        });
    }

    /// Looks at everything. Gives whether nothing is left to decide.
    async fn sweep(self: &Rc<Self>) -> CallResult<bool> {
        let mut stores = Vec::new();
        for store in self.cluster.own_stores().await? {
            if store.client.is_formatted().await? {
                stores.push(store);
            }
        }
        if stores.is_empty() {
            return Ok(true);
        }
        let entries = self.everything().await?;
        let mut seen = SortedSet::new();
        let mut is_clean = true;
        for store in &stores {
            let datasets = listed(&store.client).await?.into_iter();
            for it in datasets.filter(|it| !it.name.starts_with(RECORDS)) {
                let name = part_of(&it.name).map_or(it.name.as_str(), |(whole, ..)| whole);
                if entries.get(name).is_some_and(|known| verdict(&it, known) == Verdict::Keep) {
                    continue;
                }
                // The names were read before the list: what is in it may have been decided since.
                let entry = self.read(named(name)?).await?;
                match verdict(&it, &entry) {
                    Verdict::Keep => {}
                    Verdict::Confirm => {
                        store.client.confirm(&it.name, it.epoch, it.attempt).await?
                    }
                    Verdict::Remove => self.remove(store, &it).await?,
                    Verdict::Adopt => {
                        self.adopt(name).await?;
                        // What else there is of this name is looked at again by what it means now.
                        is_clean = false;
                    }
                    Verdict::Undecided => {
                        is_clean = false;
                        seen.insert((it.name.clone(), it.epoch, it.attempt));
                        self.wait_for(&it, &entry).await?;
                    }
                }
            }
        }
        self.undecided.borrow_mut().retain(|key, _| seen.contains(key));
        Ok(is_clean)
    }

    async fn remove(&self, store: &Store, it: &Listed) -> CallResult<()> {
        let host = self.stl.host();
        host.log(format_args!("{} of epoch {} was replaced or removed", it.name, it.epoch));
        store.client.remove(&it.name, it.epoch, it.attempt).await
    }

    /// Whoever has prepared a dataset has a while for the rest. Then the name gets a later stamp,
    /// whatever it means, so that it can never mean this version: the next sweep removes it.
    async fn wait_for(self: &Rc<Self>, it: &Listed, entry: &Entry) -> CallResult<()> {
        let now = self.stl.host().now();
        let key = (it.name.clone(), it.epoch, it.attempt);
        let since = *self.undecided.borrow_mut().entry(key).or_insert(now);
        if now.since(since) < PATIENCE {
            return Ok(());
        }
        let expect = Expect::Stamp(entry.stamp);
        self.change(&it.name, self.draw(), expect, entry.what.clone()).await.map(drop)
    }

    /// Has a name that nobody has ever heard of mean what the stores that answer have committed of
    /// it: the latest, if there is one whole.
    async fn adopt(self: &Rc<Self>, name: &str) -> CallResult<()> {
        let catalogue = Catalogue::gather(&self.cluster).await?;
        let Some(what) = latest(&catalogue, name) else { return Ok(()) };
        let host = self.stl.host();
        host.log(format_args!("{name} has no history: its name means what is there"));
        self.change(name, self.draw(), Expect::Stamp(0), what).await.map(drop)
    }
}

/// The latest of what stores have of a name whole: a dataset, or all parts of an output.
fn latest(catalogue: &Catalogue, name: &str) -> Option<What> {
    let committed = || catalogue.entries.iter().filter(|(_, it)| it.committed);
    let nodes = |is_it: &dyn Fn(&Listed) -> bool| -> Vec<NodeId> {
        let stores = committed().filter(|(_, it)| is_it(it)).map(|(store, _)| *store);
        let nodes: SortedSet<NodeId> = stores.map(|it| catalogue.stores[it].node).collect();
        nodes.into_iter().take(nile_names::MOST_NODES).collect()
    };
    let dataset = committed().map(|it| &it.1).filter(|it| it.name == name);
    let dataset = dataset.max_by_key(|it| (it.epoch, it.attempt));
    let mut outputs: SortedMap<(u64, u32), SortedMap<u32, &Listed>> = SortedMap::new();
    for (_, it) in committed() {
        if let Some((whole, index, of)) = part_of(&it.name)
            && whole == name
        {
            outputs.entry((it.epoch, of)).or_default().insert(index, it);
        }
    }
    let whole = outputs.into_iter().rfind(|((_, of), parts)| parts.len() as u64 == u64::from(*of));
    match (dataset, whole) {
        (Some(it), whole) if whole.as_ref().is_none_or(|(key, _)| key.0 <= it.epoch) => {
            let is_it = |other: &Listed| {
                (other.name.as_str(), other.epoch, other.attempt) == (name, it.epoch, it.attempt)
            };
            let facts = Facts {
                bytes: it.bytes,
                blocks: it.blocks,
                copies: it.copies,
                nodes: nodes(&is_it),
            };
            Some(What::Dataset { version: Version::new(it.epoch, it.attempt), facts })
        }
        (_, Some(((job, of), parts))) => {
            let facts = Facts {
                bytes: parts.values().map(|it| it.bytes).sum(),
                blocks: parts.values().map(|it| it.blocks).sum(),
                copies: parts.values().map(|it| it.copies).min().unwrap_or(1),
                nodes: Vec::new(),
            };
            Some(What::Output { job, parts: of, facts })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;

    use nile_abi::Generation;

    use super::*;

    const OF_JOB: Decider = Decider::Job { keepers: 0 };

    fn listed(name: &str, epoch: u64, attempt: u32, owner: Decider, committed: bool) -> Listed {
        Listed {
            name: name.to_string(),
            epoch,
            attempt,
            committed,
            bytes: 1,
            blocks: 1,
            here: 1,
            copies: 1,
            owner,
        }
    }

    fn facts() -> Facts {
        Facts { bytes: 1, blocks: 1, copies: 1, nodes: Vec::new() }
    }

    fn dataset(stamp: u64, epoch: u64, attempt: u32) -> Entry {
        let what = What::Dataset { version: Version::new(epoch, attempt), facts: facts() };
        Entry { stamp, change: 1, what }
    }

    #[test]
    fn what_a_name_means_stays_and_all_before_it_goes() {
        let of_name = Decider::Name;
        let of_node = Decider::Node { node: NodeId(1), generation: Generation::FIRST };
        let says = |it: Listed, entry: &Entry| verdict(&it, entry);
        let now = dataset(4, 4, 9);
        assert_eq!(says(listed("a", 4, 9, of_name, true), &now), Verdict::Keep);
        assert_eq!(says(listed("a", 4, 9, of_name, false), &now), Verdict::Confirm);
        assert_eq!(says(listed("a", 4, 8, of_name, false), &now), Verdict::Remove, "it lost");
        assert_eq!(says(listed("a", 2, 5, of_name, true), &now), Verdict::Remove);
        assert_eq!(says(listed("a", 5, 5, of_name, false), &now), Verdict::Undecided);
        let gone = Entry { stamp: 5, change: 1, what: What::Absent };
        assert_eq!(says(listed("a", 4, 9, of_name, true), &gone), Verdict::Remove);
        assert_eq!(says(listed("a", 6, 9, of_name, false), &gone), Verdict::Undecided);
        // By nodes that decide by themselves, as packages have them.
        assert_eq!(says(listed("a", 6, 9, of_node, false), &gone), Verdict::Keep);
        assert_eq!(says(listed("a", 1, 9, of_node, true), &Entry::NEVER), Verdict::Adopt);
        assert_eq!(says(listed("a", 6, 9, of_name, true), &now), Verdict::Keep, "it is later");
    }

    #[test]
    fn parts_follow_their_output() {
        let part = |epoch, committed| listed("a/0-of-2", epoch, 1, OF_JOB, committed);
        let entry = |what| Entry { stamp: 3, change: 1, what };
        let output = entry(What::Output { job: 7, parts: 2, facts: facts() });
        assert_eq!(verdict(&part(7, true), &output), Verdict::Keep);
        assert_eq!(verdict(&part(6, true), &output), Verdict::Remove);
        assert_eq!(verdict(&part(6, false), &output), Verdict::Keep, "its record decides");
        assert_eq!(verdict(&part(7, true), &entry(What::Making { job: 7 })), Verdict::Keep);
        assert_eq!(verdict(&part(7, true), &entry(What::Absent)), Verdict::Remove);
        assert_eq!(verdict(&part(7, true), &Entry::NEVER), Verdict::Adopt);
    }

    #[test]
    fn a_name_without_a_history_means_the_latest_whole() {
        let catalogue = |entries: Vec<Listed>| Catalogue {
            stores: Vec::new(),
            entries: entries.into_iter().map(|it| (0, it)).collect(),
        };
        let part = |index, epoch| listed(&format!("a/{index}-of-2"), epoch, 1, OF_JOB, true);
        let half = catalogue(alloc::vec![part(0, 9), part(0, 8), part(1, 8)]);
        assert!(matches!(latest(&half, "a"), Some(What::Output { job: 8, parts: 2, .. })));
        assert_eq!(latest(&half, "b"), None);
    }
}
