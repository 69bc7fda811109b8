//! A service of jobs that goes through phases as it is told.

use std::time::Duration;

use super::{End, JobPhase, Jobs, Request, State};
use crate::failure::Failure;

/// See the module.
pub struct Fake {
    phases: Vec<JobPhase>,
    looks: usize,
    /// How the job ends.
    pub end: End,
    /// Why it is refused.
    pub refusal: Option<&'static str>,
    /// The look at which someone presses Ctrl-C; 0 for none.
    pub interrupt_at: usize,
    pub submitted: u32,
    pub cancelled: u32,
    pub insists: bool,
    /// Whether it was told that the job has ended.
    pub seen_end: bool,
}

impl Fake {
    /// One whose job is in these phases when it is looked at, one after the other, and then over.
    pub fn of(phases: &[JobPhase]) -> Fake {
        Fake {
            phases: phases.into(),
            looks: 0,
            end: End::Done { records: 7, checksum: 9 },
            refusal: None,
            interrupt_at: 0,
            submitted: 0,
            cancelled: 0,
            insists: false,
            seen_end: false,
        }
    }
}

impl Jobs for Fake {
    fn submit(&mut self, _request: &Request) -> Result<u64, Failure> {
        match self.refusal {
            Some(why) => Err(Failure::request(why)),
            None => {
                self.submitted += 1;
                Ok(5)
            }
        }
    }

    fn news(&mut self, job: u64, _seen: usize, _wait: Duration) -> Result<State, Failure> {
        assert_eq!(job, 5);
        if self.looks + 1 == self.interrupt_at && !self.insists {
            return Err(Failure::Interrupted);
        }
        let phase = self.phases.get(self.looks);
        self.looks += 1;
        let end = phase.is_none() || self.cancelled > 0;
        self.seen_end |= end;
        let phase = if end { JobPhase::Over } else { phase.copied().unwrap_or_default() };
        let end = end.then(|| self.end.clone());
        Ok(State { phase, end, ..State::default() })
    }

    fn cancel(&mut self, job: u64) -> Result<(), Failure> {
        assert_eq!(job, 5);
        self.cancelled += 1;
        Ok(())
    }

    fn rest(&mut self, _span: Duration) -> Result<(), Failure> {
        Ok(())
    }

    fn insist(&mut self) {
        self.insists = true;
    }
}
