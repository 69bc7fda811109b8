//! Bounds, cut by the job's code on a worker core, on whichever answers.

use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::iter;
use core::time::Duration;

use nile_abi::Status;
use nile_job::{Bounds, Epoch, Failure, Fault, JobId, WorkerId};
use nile_stl::{CallError, CallResult, all};

use super::board::{Board, LOOK};
use super::hosted::Hosted;

/// How often the job's code may fail to cut.
const CUTS: u32 = 4;

/// How much later than its worker the master gives a cut up, and when if a task may do nothing for
/// ever.
const LATER: Duration = Duration::from_secs(60);
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

/// Bytes of samples that are told at once: far fewer than wait for a core before it is called
/// busy. Short samples count as some, since each is a call.
const AT_ONCE: usize = 64 << 10;
const LEAST: usize = 4 << 10;

impl Board {
    /// Has a worker cut bounds, and others until one does it, as long as the master waits for them.
    pub(super) async fn cut(
        self: &Rc<Self>,
        hosted: &Rc<Hosted>,
        epoch: Epoch,
        samples: Vec<Vec<u8>>,
    ) {
        let (mut asked, mut failures) = (0, 0);
        let on = hosted.with(|record| record.job.on.clone());
        let patience = match hosted.with(|record| record.job.task_timeout) {
            None => FOR_EVER,
            Some(seconds) => Duration::from_secs(seconds.into()) + LATER,
        };
        let is_wanted = || {
            let master = hosted.master.borrow();
            master.as_ref().is_some_and(|it| it.epoch() == epoch && it.is_cutting())
        };
        let end = loop {
            if !is_wanted() {
                return;
            }
            let cutters = cutters(&hosted.samplers.borrow(), self.cluster.workers_on(&on));
            if let Some(worker) = cutters.get(asked % cutters.len().max(1)) {
                asked += 1;
                match self.cut_by(hosted.id, *worker, &samples, patience).await {
                    Ok(bounds) => break Ok(bounds),
                    Err(error) if is_of_code(error.status) && failures + 1 == CUTS => {
                        break Err(error);
                    }
                    Err(error) => failures += u32::from(is_of_code(error.status)),
                }
            }
            self.stl.host().pause(LOOK).await;
        };
        if let Some(master) = hosted.master.borrow_mut().as_mut().filter(|it| it.epoch() == epoch) {
            let now = self.now();
            match end {
                Ok(bounds) => master.cut(now, bounds),
                Err(error) => {
                    let text = format!("bounds cannot be cut: {error}");
                    master.cut_failed(now, Failure { fault: Fault::Code, text });
                }
            }
        }
        self.kick(hosted);
    }

    async fn cut_by(
        &self,
        id: JobId,
        worker: WorkerId,
        samples: &[Vec<u8>],
        patience: Duration,
    ) -> CallResult<Bounds> {
        let stl = self.stl.with_patience(patience);
        let gone = || CallError::new(Status::Dead, format!("{worker} is gone"));
        let line = self.cluster.line(worker).ok_or_else(gone)?;
        let of = samples.len() as u32;
        if samples.is_empty() {
            let cut = line.cut(&stl, id, (0, 0), &[]).await?;
            return cut.ok_or_else(|| CallError::new(Status::NotFound, "nothing was cut"));
        }
        let mut bounds = None;
        let mut samples = (0..of).zip(samples).peekable();
        while samples.peek().is_some() {
            let mut room = AT_ONCE;
            let some = iter::from_fn(|| {
                let next = samples.next_if(|(_, sample)| sample.len().max(LEAST) <= room)?;
                room -= next.1.len().max(LEAST);
                Some(next)
            });
            let telling = some.map(|(index, sample)| line.cut(&stl, id, (index, of), sample));
            for told in all(telling).await {
                bounds = told?.or(bounds);
            }
        }
        let missing = || CallError::new(Status::NotFound, "the samples were lost");
        bounds.ok_or_else(missing)
    }
}

/// The workers that can be asked, one after the other: first those that have taken samples, the
/// latest first, whose package runs already. The master tells all others of the job as well.
fn cutters(samplers: &[WorkerId], alive: Vec<WorkerId>) -> Vec<WorkerId> {
    let mut cutters: Vec<WorkerId> = Vec::new();
    let known = samplers.iter().rev().filter(|worker| alive.contains(worker));
    for worker in known.chain(&alive) {
        if !cutters.contains(worker) {
            cutters.push(*worker);
        }
    }
    cutters
}

/// Whether a cut failed for a reason that is the same everywhere, and not because its worker is
/// gone, or has not heard of the job yet, or works for another.
fn is_of_code(status: Status) -> bool {
    !matches!(
        status,
        Status::Dead
            | Status::Gone
            | Status::NotFound
            | Status::Busy
            | Status::NoMemory
            | Status::NoTables
    )
}

#[cfg(test)]
mod tests {
    use nile_abi::{CoreId, Generation, NodeId};

    use super::*;

    #[test]
    fn whoever_lives_can_be_asked_to_cut_samplers_first() {
        let [life, generation] = [Generation::FIRST; 2];
        let worker = |node| WorkerId { node: NodeId(node), life, core: CoreId(2), generation };
        let [a, b, c] = [1, 2, 3].map(worker);
        assert_eq!(cutters(&[a, b, a], Vec::from([a, b, c])), [a, b, c]);
        assert_eq!(cutters(&[a, b], Vec::from([a, c])), [a, c]);
        assert_eq!(cutters(&[a], Vec::from([b, c])), [b, c], "all samplers are gone");
        assert!(cutters(&[a], Vec::new()).is_empty());
        assert!(is_of_code(Status::Failed) && is_of_code(Status::Timeout));
        assert!(!is_of_code(Status::Dead) && !is_of_code(Status::NotFound));
    }
}
