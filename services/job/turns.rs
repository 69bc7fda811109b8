//! Jobs share the cluster's workers: each worker core decides by policies whose task comes next.
//! Here is decided when a job begins, which is at once but for two:
//!
//! * Jobs of the policy `fifo` take turns: one at a time has begun.
//! * Each has its outputs in the nodes' memory until it ends, so that no more than [`MOST_BEGUN`]
//!   have begun.
//!
//! Which jobs there are is asked of all nodes. A job is *queued* while it has to wait for others.
//! Else it is *next*, and asks again: if no other is next whom it would have to wait for, it
//! begins, else it is queued again. Of two that were next at the same time, at least one asks when
//! the other was next already, so never do both begin. Those that are queued again see each other,
//! and their numbers decide.
//!
//! A job that begins anew, after its master was lost, waits for nobody.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use core::task::Poll;

use nile_abi::Window;
use nile_job::{Epoch, JobId, Master, Settings, Share};

use super::board::{Board, LOOK};
use super::cluster::spawn;
use super::hosted::Hosted;
use nile_interfaces::job::records::JobPhase::{Next, Queued};
use nile_interfaces::job::records::{JobEntry, JobPhase, JobPolicy};

/// The most jobs of a cluster that have begun.
const MOST_BEGUN: usize = 8;

impl Board {
    /// Has a new job wait for its turn, which may be now.
    pub(super) fn queue(self: &Rc<Self>, hosted: &Hosted) {
        hosted.turn.set(Some(Queued));
        self.turn.ring();
        if self.is_taking_turns.replace(true) {
            return;
        }
        let board = self.clone();
        spawn(&self.stl, async move {
            loop {
                board.look_whose_turn_it_is().await;
                if board.jobs().iter().all(|it| it.turn.get().is_none()) {
                    break;
                }
                let again = Window::within(board.now() + LOOK, LOOK / 4);
                board.turn.wait(&board.stl, Some(again), |_| Poll::Pending).await;
            }
            board.is_taking_turns.set(false);
        });
    }

    async fn look_whose_turn_it_is(self: &Rc<Self>) {
        for hosted in self.jobs() {
            for turn in [Queued, Next] {
                let jobs = self.list().await;
                if !hosted.is_open() || hosted.is_dropped.get() {
                    hosted.turn.set(None);
                }
                if hosted.turn.get() != Some(turn) {
                    break;
                }
                let share = hosted.with(|record| record.job.share);
                match ahead(hosted.id, share, turn, &jobs) {
                    Some(other) => {
                        hosted.turn.set(Some(Queued));
                        hosted.account.borrow_mut().wait_for(self.now(), described(other));
                    }
                    None if turn == Queued => hosted.turn.set(Some(Next)),
                    None => {
                        self.begin_master(&hosted, Epoch::FIRST);
                        hosted.feed(self.now(), &self.cluster);
                        self.kick(&hosted);
                    }
                }
            }
        }
    }

    /// Puts a job's master in its place.
    pub(super) fn begin_master(&self, hosted: &Hosted, epoch: Epoch) {
        let (job, splits) = hosted.with(|it| (it.job.clone(), it.splits.clone()));
        let (now, node) = (self.now(), self.cluster.node());
        hosted.account.borrow_mut().begin(now);
        hosted.turn.set(None);
        let master = Master::new(now, node, epoch, job, splits, Settings::default());
        hosted.set_master(master, self.stl.engage());
    }
}

/// The job that one has to wait for, which is queued or next itself.
fn ahead(id: JobId, share: Share, turn: JobPhase, jobs: &[JobEntry]) -> Option<&JobEntry> {
    // One without a master has none that would ever make place.
    let others =
        jobs.iter().filter(|it| it.job != id.0 && it.ended.is_open() && it.master.is_some());
    let mut before = others.filter(|it| it.phase != Queued || turn == Queued && it.job < id.0);
    let is_fifo = |it: &&JobEntry| share == Share::Fifo && it.policy == JobPolicy::Fifo;
    let mut found = before.clone().filter(is_fifo);
    found.next().or_else(|| before.nth(MOST_BEGUN - 1))
}

fn described(job: &JobEntry) -> String {
    match job.phase {
        Queued | Next => format!("{} ({}) is first", job.name, job.output),
        _ => format!("{} ({}) has the workers", job.name, job.output),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use nile_interfaces::job::records::JobEnd::{self, Failed, Made, Open};
    use nile_interfaces::job::records::JobPhase::{Mapping, Over, Waiting};

    fn job(job: u64, phase: JobPhase, master: u32, ended: JobEnd) -> JobEntry {
        let [name, output] = ["sort", "out"].map(String::from);
        let (master, policy) = ((master > 0).then_some(master), JobPolicy::Fifo);
        JobEntry { job, name, output, phase, master, ended, policy, ..JobEntry::default() }
    }

    const FIFO: Share = Share::Fifo;

    #[test]
    fn who_has_begun_and_who_has_a_lower_number_is_first() {
        let first = |jobs: &[JobEntry]| ahead(JobId(5), FIFO, Queued, jobs).map(|it| it.job);
        assert_eq!(first(&[job(5, Queued, 1, Open)]), None);
        assert_eq!(first(&[job(4, Queued, 1, Open), job(5, Queued, 1, Open)]), Some(4));
        assert_eq!(first(&[job(5, Queued, 1, Open), job(6, Queued, 2, Open)]), None);
        assert_eq!(first(&[job(5, Queued, 1, Open), job(6, Mapping, 2, Open)]), Some(6));
        assert_eq!(first(&[job(4, Over, 2, Made), job(3, Over, 0, Failed)]), None);
        assert_eq!(first(&[job(5, Queued, 1, Open), job(6, Next, 2, Open)]), Some(6));
        let next = |jobs: &[JobEntry]| ahead(JobId(5), FIFO, Next, jobs).map(|it| it.job);
        assert_eq!(next(&[job(4, Queued, 1, Open), job(5, Next, 1, Open)]), None);
        assert_eq!(next(&[job(5, Next, 1, Open), job(6, Next, 1, Open)]), Some(6));
        // Nobody runs it now.
        assert_eq!(first(&[job(4, Waiting, 0, Open)]), None);
        assert_eq!(described(&job(6, Mapping, 2, Open)), "sort (out) has the workers");
        assert_eq!(described(&job(4, Queued, 2, Open)), "sort (out) is first");
    }

    #[test]
    fn fair_jobs_begin_beside_others_until_there_are_many() {
        let fair =
            |number| JobEntry { policy: JobPolicy::default(), ..job(number, Mapping, 1, Open) };
        let first =
            |share, jobs: &[JobEntry]| ahead(JobId(50), share, Queued, jobs).map(|it| it.job);
        let many: Vec<JobEntry> = (1..=MOST_BEGUN as u64).map(fair).collect();
        assert_eq!(first(Share::default(), &[job(1, Mapping, 1, Open), fair(2)]), None);
        assert_eq!(first(FIFO, &many[..2]), None, "it waits for those like it alone");
        assert_eq!(first(Share::default(), &many[1..]), None);
        assert_eq!(first(Share::default(), &many), Some(MOST_BEGUN as u64));
        assert_eq!(first(FIFO, &many), Some(MOST_BEGUN as u64));
    }
}
