//! Names that pass: files that were put for one job, packages, and outputs that nobody has given a
//! name. Who uses one renews it: the command while it lives, the keepers of a job's record until
//! that has ended. A renewal is a change that leaves what the name means, so all keepers of names
//! see it. One that nobody renews for a while means nothing any more, and its space is freed.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::Instant;
use nile_names::{Durable, Entry, Expect, What};
use nile_order::SortedMap;
use nile_stl::CallResult;
use nile_store::Name;

use super::Shared;
use super::sweep::{Verdict, verdict};
use crate::job::catalogue::{Catalogue, whole_of};
use crate::job::cluster::spawn;
use nile_interfaces::name::{LEASE, passes};

/// How often it is looked whether somebody has renewed them.
const LOOK: Duration = Duration::from_secs(15);

/// What a keeper has seen of names that pass.
#[derive(Default)]
pub struct Passing {
    is_watching: Cell<bool>,
    /// The stamp of each, and since when it has had that.
    seen: RefCell<SortedMap<Name, (u64, Instant)>>,
}

impl Shared {
    /// Watches names that pass, if this one does.
    pub(super) fn heed_passing(self: &Rc<Self>, durable: &Durable) {
        if matches!(durable, Durable::Cell(it) if passes(it.name.as_str())) {
            self.watch_passing();
        }
    }

    /// Watches names that pass as long as there are any.
    pub(super) fn watch_passing(self: &Rc<Self>) {
        if self.passing.is_watching.replace(true) {
            return;
        }
        let shared = self.clone();
        spawn(&self.stl, async move {
            while shared.look_at_passing().await {
                shared.sleep(LOOK).await;
            }
            shared.passing.is_watching.set(false);
        });
    }

    /// Ends those that were left alone. Whether there are any that may be later.
    async fn look_at_passing(self: &Rc<Self>) -> bool {
        let Some(hosted) = self.hosted.borrow().clone() else { return false };
        let now = self.stl.host().now();
        let present: Vec<(Name, u64)> = hosted.passing(|name, entry| {
            (passes(name.as_str())
                && matches!(entry.what, What::Dataset { .. } | What::Output { .. }))
            .then(|| (name.clone(), entry.stamp))
        });
        let mut left_alone = Vec::new();
        {
            let seen = &mut *self.passing.seen.borrow_mut();
            seen.retain(|name, _| present.iter().any(|(it, _)| it == name));
            for (name, stamp) in &present {
                let known = seen.entry(name.clone()).or_insert((*stamp, now));
                if known.0 != *stamp {
                    *known = (*stamp, now);
                }
                if now.since(known.1) >= LEASE {
                    left_alone.push((name.clone(), *stamp));
                }
            }
        }
        for (name, stamp) in left_alone {
            // What cannot be decided now is tried again.
            let _ = self.pass(&name, stamp).await;
        }
        !present.is_empty()
    }

    /// A name means nothing any more if it has not changed since it had the stamp, and stores that
    /// answer free what they have of it; others do when they are back.
    async fn pass(self: &Rc<Self>, name: &Name, stamp: u64) -> CallResult<()> {
        let absent = What::Absent;
        self.change(name.as_str(), self.draw(), Expect::Stamp(stamp), absent).await?;
        let now: Entry = self.read(name.clone()).await?;
        if now.what != What::Absent {
            return Ok(());
        }
        self.stl.host().log(format_args!("nobody uses {name} any more"));
        let catalogue = Catalogue::gather(&self.cluster).await?;
        for (store, it) in &catalogue.entries {
            if whole_of(&it.name) == name.as_str() && verdict(it, &now) == Verdict::Remove {
                let _ =
                    catalogue.stores[*store].client.remove(&it.name, it.epoch, it.attempt).await;
            }
        }
        Ok(())
    }
}
