//! Bounds of partitions, cut from samples by the job's code on this core.

use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

use nile_abi::Status;
use nile_bosml::Blob;
use nile_job::{Bounds, JobId, MOST_SLICES};
use nile_stl::{CallError, CallResult};

use super::desk::Ticket;
use super::engine::Engine;

/// The most samples of a job.
pub const MOST_SAMPLES: u32 = 1024;

/// A cut: its samples, and what came of it.
pub struct Cut {
    /// How the package names it.
    pub ticket: Ticket,
    samples: RefCell<Vec<Option<Vec<u8>>>>,
    end: RefCell<Option<CallResult<Bounds>>>,
}

impl Cut {
    /// How many samples there are.
    pub fn samples(&self) -> u32 {
        self.samples.borrow().len() as u32
    }

    /// It came to nothing.
    pub fn fail(&self, error: CallError) {
        self.end.borrow_mut().get_or_insert(Err(error));
    }

    /// Takes a sample; gives whether it was the last one that was missing.
    fn put(&self, index: u32, sample: &[u8]) -> bool {
        let samples = &mut *self.samples.borrow_mut();
        let Some(slot) = samples.get_mut(index as usize) else { return false };
        let was_missing = slot.replace(sample.into()).is_none();
        was_missing && samples.iter().all(Option::is_some)
    }
}

impl Engine {
    /// Takes a sample of `of`; of none, it says that there are none. The bounds when all are there;
    /// waits until they are cut then.
    pub async fn cut(
        self: &Rc<Self>,
        job: JobId,
        index: u32,
        of: u32,
        sample: &[u8],
    ) -> CallResult<Option<Bounds>> {
        if index >= of.max(1) || of > MOST_SAMPLES {
            let text = format!("sample {index} of {of}, and there are at most {MOST_SAMPLES}");
            return Err(CallError::new(Status::Invalid, text));
        }
        let new = self.number();
        let cut = self.with_job(job, |it| {
            it.job()?;
            let is_new = it.cut.as_ref().is_none_or(|cut| cut.samples() != of);
            if is_new {
                let samples = RefCell::new(alloc::vec![None; of as usize]);
                it.cut = Some(Rc::new(Cut { ticket: new, samples, end: RefCell::default() }));
            }
            it.cut.clone().map(|cut| (cut, is_new))
        });
        let unknown = || CallError::new(Status::NotFound, format!("{job} has not come here"));
        let (cut, is_new) = cut.flatten().ok_or_else(unknown)?;
        if cut.put(index, sample) || of == 0 && is_new {
            self.with_job(job, |it| it.claim.cuts = true);
            self.share();
        }
        if cut.samples.borrow().iter().any(Option::is_none) {
            return Ok(None);
        }
        let look = || {
            let is_here = self
                .with_job(job, |it| it.cut.as_ref().is_some_and(|known| Rc::ptr_eq(known, &cut)));
            let over = || Some(Err(CallError::new(Status::NotFound, "the cut is off")));
            cut.end.borrow().clone().or_else(|| if is_here == Some(true) { None } else { over() })
        };
        let end = self.changes.until(look).await;
        if end.is_err() {
            // Who asks again begins anew.
            self.with_job(job, |it| it.cut = None);
        }
        end.map(Some)
    }

    /// A sample for the package that cuts.
    pub fn sample(&self, ticket: Ticket, index: u32) -> CallResult<Vec<u8>> {
        let (_, cut) = self.cut_of(ticket)?;
        let sample = cut.samples.borrow().get(index as usize).cloned().flatten();
        sample.ok_or_else(|| CallError::new(Status::Invalid, "there are fewer samples"))
    }

    /// The package has cut.
    pub fn package_has_cut(
        self: &Rc<Self>,
        ticket: Ticket,
        bytes: &[u8],
        slices: u32,
    ) -> CallResult<()> {
        let (job, cut) = self.cut_of(ticket)?;
        if !(1..=MOST_SLICES).contains(&slices) {
            let text = format!("{slices} slices: there are 1 to {MOST_SLICES}");
            return Err(CallError::new(Status::Invalid, text));
        }
        self.with_job(job, |it| it.desk.let_go(ticket));
        cut.end.borrow_mut().get_or_insert(Ok(Bounds { bytes: Blob(bytes.into()), slices }));
        self.changes.notify();
        self.share();
        Ok(())
    }

    fn cut_of(&self, ticket: Ticket) -> CallResult<(JobId, Rc<Cut>)> {
        let job = self.state.borrow().program.as_ref().map(|it| it.job);
        let cut = job.and_then(|job| {
            let working = |it: &mut super::engine::JobState| {
                it.cut.clone().filter(|cut| it.desk.working() == Some(cut.ticket))
            };
            let cut = self.with_job(job, working)?;
            cut.filter(|cut| cut.ticket == ticket).map(|cut| (job, cut))
        });
        cut.ok_or_else(|| CallError::new(Status::NotFound, "the cut is off"))
    }
}
