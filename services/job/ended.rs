//! Ended jobs: which of them are forgotten, so that their records do not fill the log of a store.

use alloc::rc::Rc;
use alloc::vec::Vec;

use nile_abi::NodeId;
use nile_job::{End, JobId};
use nile_stl::CallResult;

use super::board::Board;
use super::catalogue::{Catalogue, part_of};
use super::cluster::spawn;
use nile_interfaces::dataset::records::Listed;

/// How many ended jobs a node tells of, at most.
const MOST_ENDED: usize = 64;

/// One record for so many units of a store's log, so that all of them have room in that of a small
/// disk.
const SHARE_OF_LOG: u64 = 4;

/// An ended job.
struct Ended {
    id: JobId,
    end: Option<End>,
    /// How many nodes are to have each part.
    copies: usize,
}

impl Ended {
    /// Whether nobody can have a question about it: nothing of it is undecided, those who wrote
    /// its parts live, and each part has all its copies or was removed.
    fn is_settled(&self, living: &[NodeId], datasets: &[(usize, Listed)]) -> bool {
        let of_it = || datasets.iter().map(|it| &it.1).filter(|it| it.epoch == self.id.0);
        if of_it().any(|it| !it.committed) {
            return false;
        }
        let Some(End::Published(parts)) = &self.end else { return true };
        parts.iter().zip(0..).all(|(part, index)| {
            let is_of_part = |it: &&Listed| {
                let place = part_of(&it.name).map(|(_, index, _)| index);
                place == Some(index) && part.attempt.version() == Some(it.attempt)
            };
            let copies = of_it().filter(is_of_part).count();
            living.contains(&part.at.node) && (copies == 0 || copies >= self.copies)
        })
    }
}

/// Which jobs to forget so that `most` are left, if so many can be: the oldest, but none of the
/// latter half, whose end somebody may not have seen yet.
fn to_forget(ended: &[Ended], most: usize, is_settled: impl Fn(&Ended) -> bool) -> Vec<JobId> {
    let many = ended.len().saturating_sub(most);
    let old = &ended[..ended.len().saturating_sub(most / 2)];
    old.iter().filter(|job| is_settled(job)).take(many).map(|job| job.id).collect()
}

impl Board {
    /// Forgets jobs that ended long ago, if there are too many.
    pub fn forget_old_soon(self: &Rc<Self>) {
        if !self.is_forgetting.replace(true) {
            let board = self.clone();
            spawn(&self.stl, async move {
                // What cannot be asked now is asked when the next job ends.
                let _ = board.forget_old().await;
                board.is_forgetting.set(false);
            });
        }
    }

    async fn forget_old(&self) -> CallResult<()> {
        let mut ended: Vec<Ended> = Vec::new();
        for hosted in self.jobs().into_iter().filter(|hosted| !hosted.is_open()) {
            let copies = hosted.with(|record| record.job.copies) as usize;
            ended.push(Ended { id: hosted.id, end: hosted.end(), copies });
        }
        nile_order::sort_by_key(&mut ended, |job| job.id);
        let most = self.most_ended().await?;
        if ended.len() <= most {
            return Ok(());
        }
        let catalogue = Catalogue::gather(&self.cluster).await?;
        let living = catalogue.nodes();
        let is_settled = |job: &Ended| job.is_settled(&living, &catalogue.entries);
        // Some more than has to be, as all stores were asked for it.
        for id in to_forget(&ended, most - most / 4, is_settled) {
            self.forget(id).await;
        }
        Ok(())
    }

    /// How many ended jobs this node's stores have room for.
    async fn most_ended(&self) -> CallResult<usize> {
        let mut most = MOST_ENDED;
        for store in self.cluster.own_stores().await? {
            if store.client.is_formatted().await? {
                let units = store.client.space().await?.log / nile_store::UNIT;
                most = most.min((units / SHARE_OF_LOG) as usize);
            }
        }
        Ok(most)
    }
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::vec;

    use nile_abi::{CoreId, Generation};
    use nile_job::{AttemptId, Epoch, Kind, Part, TaskId, WorkerId};

    use nile_interfaces::dataset::records::Decider;

    use super::*;

    const ATTEMPT: AttemptId =
        AttemptId { task: TaskId { kind: Kind::Reduce, index: 0 }, epoch: Epoch::FIRST, number: 1 };

    /// A job whose only part is on n2, and has two copies.
    fn published(id: u64) -> Ended {
        let at = WorkerId {
            node: NodeId(2),
            core: CoreId(1),
            life: Generation::FIRST,
            generation: Generation::FIRST,
        };
        let part = Part { attempt: ATTEMPT, at, bytes: 1, records: 1, checksum: 1 };
        Ended { id: JobId(id), end: Some(End::Published(vec![part])), copies: 2 }
    }

    fn copy(committed: bool) -> (usize, Listed) {
        let attempt = ATTEMPT.version().expect("it has one");
        let (bytes, blocks, here, copies, owner) = (1, 1, 1, 2, Decider::Job { keepers: 0 });
        let name = "made/0-of-1".to_owned();
        let listed =
            Listed { name, epoch: 7, attempt, committed, bytes, blocks, here, copies, owner };
        (0, listed)
    }

    #[test]
    fn a_job_is_settled_when_every_copy_is_committed_or_gone() {
        let is_settled = |living: &[u32], datasets: &[(usize, Listed)]| {
            let living: Vec<NodeId> = living.iter().copied().map(NodeId).collect();
            published(7).is_settled(&living, datasets)
        };
        assert!(is_settled(&[1, 2], &[copy(true), copy(true)]));
        assert!(is_settled(&[1, 2], &[]), "it was removed");
        assert!(!is_settled(&[1, 2], &[copy(true), copy(false)]));
        assert!(!is_settled(&[1, 2], &[copy(true)]), "the other copy is on a node that is away");
        assert!(!is_settled(&[1], &[copy(true), copy(true)]), "who wrote it is away");
    }

    #[test]
    fn the_oldest_are_forgotten_and_what_is_not_settled_takes_no_others_place() {
        let ended: Vec<Ended> = (1..=12).map(published).collect();
        let forgotten = |most, kept: &[u64]| {
            let ids = to_forget(&ended, most, |job| !kept.contains(&job.id.0));
            ids.into_iter().map(|id| id.0).collect::<Vec<_>>()
        };
        assert_eq!(forgotten(12, &[]), []);
        assert_eq!(forgotten(10, &[]), [1, 2]);
        assert_eq!(forgotten(10, &[1, 3]), [2, 4]);
        // The last ones stay, whatever is kept of the first.
        assert_eq!(forgotten(4, &[1, 2, 3, 4, 5, 6, 7, 8]), [9, 10]);
    }
}
