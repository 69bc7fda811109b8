//! Names that pass, of jobs that go on: their keepers renew them, so that what a job reads and
//! makes stays until it has ended, whatever becomes of the command that submitted it.

use alloc::rc::Rc;
use alloc::string::String;

use nile_names::{Expect, What};
use nile_order::SortedSet;
use nile_stl::CallResult;

use super::board::Board;
use super::catalogue::whole_of;
use super::cluster::spawn;
use super::hosted::Hosted;
use nile_interfaces::name::passes;

/// Told from other changes of a name by the same job.
const RENEWED: u64 = 1 << 60;

impl Board {
    /// Renews names that pass, of the jobs that this node answers for.
    pub(super) fn renew_names(self: &Rc<Self>) {
        let mut names = SortedSet::new();
        let mut job = 0;
        for hosted in self.jobs().iter().filter(|it| it.is_open() && self.answers_for(it)) {
            job = hosted.id.0;
            hosted.with(|record| {
                let of_it = &record.job;
                let used = of_it.input.iter().chain([&of_it.package, &of_it.output]);
                let whole = used.map(|it| whole_of(it.rsplit_once('@').map_or(it, |it| it.0)));
                names.extend(whole.filter(|name| passes(name)).map(String::from));
            });
        }
        if !names.is_empty() {
            let board = self.clone();
            spawn(&self.stl, async move {
                for name in &names {
                    // What cannot be renewed now is renewed the next time, as a rule in time.
                    let _ = board.renew_name(name, job).await;
                }
            });
        }
    }

    /// Whether this node is the one of a job's keepers that renews its names.
    fn answers_for(&self, hosted: &Hosted) -> bool {
        let first = hosted.with(|record| record.job.keepers.first().copied());
        hosted.master.borrow().is_some()
            || first.is_none_or(|it| it == self.cluster.node() || self.cluster.is_dead(it))
    }

    async fn renew_name(&self, name: &str, job: u64) -> CallResult<()> {
        let entry = self.look_up(name).await?;
        if matches!(entry.what, What::Dataset { .. } | What::Output { .. }) {
            let change = job ^ RENEWED ^ entry.stamp << 20;
            self.rename(name, change, Expect::Stamp(entry.stamp), entry.what).await?.ok();
        }
        Ok(())
    }
}
