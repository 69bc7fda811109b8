//! What jobs have left behind: parts of outputs on this node's disks that no worker takes care of
//! any more.

use alloc::format;
use alloc::rc::Rc;
use core::time::Duration;

use nile_job::{End, JobId, Part, Standing};
use nile_names::Facts;
use nile_order::SortedMap;
use nile_stl::CallResult;

use super::board::Board;
use super::catalogue::{Catalogue, listed, part_of};
use super::cluster::{Store, spawn};
use super::hosted::Hosted;
use super::names;
use nile_interfaces::dataset::records::{Decider, Listed};

/// How long workers have to take care of what is theirs.
const SOON: Duration = Duration::from_secs(8);

/// How long until it is looked again for what could not be decided.
const AGAIN: Duration = Duration::from_secs(15);

/// How long until it is looked again for parts that are not there.
const BETWEEN: Duration = Duration::from_millis(100);

impl Board {
    /// In a while it is looked what was left behind.
    pub fn sweep_soon(self: &Rc<Self>) {
        self.sweep_in(SOON);
    }

    /// The same, of a node that has just begun: nothing on its disks is anybody's any more.
    pub fn sweep_first(self: &Rc<Self>) {
        self.sweep_in(BETWEEN);
    }

    fn sweep_in(self: &Rc<Self>, mut pause: Duration) {
        if !self.sweeping.ask() {
            return;
        }
        let board = self.clone();
        spawn(&self.stl, async move {
            loop {
                board.stl.host().pause(pause).await;
                // Of nodes that were away then, nothing could be forgotten.
                board.forget_old_soon();
                board.sweeping.begin();
                // What cannot be asked now is asked again.
                let is_clean = board.sweep().await == Ok(true);
                if board.sweeping.is_over(is_clean) {
                    break;
                }
                pause = if is_clean { SOON } else { AGAIN };
            }
        });
    }

    /// Has all stores show the output of a job that has just ended, and its name mean that; its
    /// workers commit parts as well, but nobody knows when. What is not shown by then, the sweep
    /// will find. The name of a job that came to nothing is given up.
    pub fn publish(self: &Rc<Self>, hosted: &Rc<Hosted>) {
        let Some(end) = hosted.end() else { return };
        if hosted.is_publishing.replace(true) {
            return;
        }
        let (board, hosted) = (self.clone(), hosted.clone());
        spawn(&self.stl, async move {
            let has_run = hosted.has_run();
            match end {
                End::Published(parts) => {
                    let (facts, are_all) = board.shown(&hosted, &parts, has_run).await;
                    board.name_output(&hosted, facts, has_run).await;
                    if !are_all {
                        // A node may be back by now. If not, it will do this by itself.
                        let _ = board.show(hosted.id, &parts).await;
                    }
                }
                End::Failed(_) => {
                    board.unname(&hosted).await;
                    let _ = board.show(hosted.id, &[]).await;
                }
            }
            if has_run {
                hosted.account.borrow_mut().ended = Some(board.now());
            }
            hosted.is_publishing.set(false);
            hosted.is_published.set(true);
            hosted.tell();
            board.turn.ring();
        });
    }

    /// Has the stores show the parts of a job, for a while, until all of them do; what there is,
    /// and whether that is all.
    async fn shown(&self, hosted: &Hosted, parts: &[Part], has_run: bool) -> (Facts, bool) {
        let until = self.now() + SOON;
        let bytes = parts.iter().map(|part| part.bytes).sum();
        let copies = hosted.with(|record| record.job.copies.max(1)) as u8;
        loop {
            // Who cannot be asked may have some.
            let (shown, blocks) = match self.show(hosted.id, parts).await {
                Ok((shown, blocks)) => (Some(shown), blocks),
                Err(_) => (None, 0),
            };
            let are_all = shown == Some(parts.len());
            // An output that is nowhere was removed, maybe long ago.
            let is_gone = shown == Some(0) && !has_run;
            if are_all || is_gone || self.now() >= until {
                return (names::facts(bytes, blocks, copies), are_all);
            }
            self.stl.host().pause(BETWEEN).await;
        }
    }

    /// Has the name of a job's output mean its parts. Nobody is told that the job has made it
    /// before, so it is tried until most of the name's keepers have answered.
    async fn name_output(&self, hosted: &Hosted, facts: Facts, has_run: bool) {
        let (output, parts) = hosted.with(|it| (it.job.output.clone(), it.job.reducers));
        let mut pause = BETWEEN;
        while !hosted.is_dropped.get() {
            match self.give_name(&output, hosted.id, parts, facts.clone()).await {
                Ok(is_named) => {
                    // Whoever is asked later cannot tell whether it was removed since.
                    hosted.has_lost_name.set(has_run && !is_named);
                    return;
                }
                Err(error) => {
                    hosted.account.borrow_mut().trouble =
                        format!("the name of its output waits: {error}");
                }
            }
            self.stl.host().pause(pause).await;
            pause = (pause * 2).min(AGAIN);
        }
    }

    /// Gives up the name of a job's output. If that cannot be now, whoever wants the name finds
    /// that its job has ended.
    async fn unname(&self, hosted: &Hosted) {
        let output = hosted.with(|it| it.job.output.clone());
        if let Err(error) = self.give_up(&output, hosted.id).await {
            let host = self.stl.host();
            host.log(format_args!("{}: the name {output} stays claimed: {error}", hosted.id));
        }
    }

    /// Commits the parts of the output of a job that has ended, wherever they are, and removes
    /// those that are none: whoever made one may have ended before it could. Gives how many there
    /// were, and how many blocks they have.
    async fn show(&self, id: JobId, parts: &[Part]) -> CallResult<(usize, u32)> {
        let catalogue = Catalogue::gather(&self.cluster).await?;
        let mut found = SortedMap::new();
        for (store, it) in &catalogue.entries {
            if it.epoch != id.0 || !matches!(it.owner, Decider::Job { .. }) {
                continue;
            }
            let client = &catalogue.stores[*store].client;
            let is_part = is_among(parts, &it.name, it.attempt);
            match (is_part, it.committed) {
                (true, false) => client.confirm(&it.name, it.epoch, it.attempt).await?,
                // The node does it by itself, if it cannot be asked and comes back.
                (false, false) => drop(client.remove(&it.name, it.epoch, it.attempt).await),
                (_, true) => {}
            }
            if is_part {
                found.insert(&it.name, it.blocks);
            }
        }
        Ok((found.len(), found.values().sum()))
    }

    /// Looks at everything. Gives whether nothing is left to decide.
    async fn sweep(self: &Rc<Self>) -> CallResult<bool> {
        let mut is_clean = true;
        for store in self.cluster.own_stores().await? {
            if !store.client.is_formatted().await? {
                continue;
            }
            let parts = listed(&store.client).await?.into_iter();
            for part in parts.filter(|it| !it.committed) {
                if let Decider::Job { keepers } = part.owner {
                    is_clean &= self.settle(&store, &part, keepers).await?;
                }
            }
        }
        Ok(is_clean)
    }

    /// Keeps a part or removes it, if it is known which; gives whether it is.
    async fn settle(
        self: &Rc<Self>,
        store: &Store,
        part: &Listed,
        keepers: u32,
    ) -> CallResult<bool> {
        let Listed { name, epoch, attempt, .. } = part;
        let standing = self.ask_standing(JobId(*epoch), keepers).await;
        let is_kept = match standing {
            None | Some(Standing::Open(_)) => return Ok(false),
            Some(Standing::Ended(End::Published(parts))) => is_among(&parts, name, *attempt),
            Some(Standing::Ended(End::Failed(_)) | Standing::Unknown) => false,
        };
        match is_kept {
            true => {
                store.client.confirm(name, *epoch, *attempt).await?;
                // The output may have been removed since: its name decides from now on.
                self.missed.tell();
            }
            false => store.client.remove(name, *epoch, *attempt).await?,
        }
        Ok(true)
    }
}

/// Whether this version of a part is one of the job's output.
fn is_among(parts: &[Part], name: &str, version: u32) -> bool {
    let Some((_, index, _)) = part_of(name) else { return false };
    let part = parts.get(index as usize);
    part.is_some_and(|part| part.attempt.version() == Some(version))
}
