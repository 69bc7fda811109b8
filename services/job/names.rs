//! The name of a job's output: claimed when the job is submitted, given up when it comes to
//! nothing, and changed to mean its parts when they can all be read. Most of the keepers of names
//! decide each of these, so of two jobs with one output only one is ever seen.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use core::time::Duration;

use nile_abi::{NodeId, Status};
use nile_job::{End, JobId, Standing};
use nile_names::{Entry, Expect, Facts, What};
use nile_stl::{CallError, CallResult, LocalFuture};

use super::board::{Board, LOOK};
use crate::name::{lacking, travel};
use nile_interfaces::job::records::{JobEntry, JobPhase};
use nile_interfaces::name::NameClient;
use nile_interfaces::name::records::NameAnswer;

/// How long a job is waited for that would make the same, and of which it is not known whether it
/// goes on.
const UNDECIDED: Duration = Duration::from_secs(10);

/// How long nobody has to know a job that has a name before that is free: who submits a job has
/// its output's name first.
const UNKNOWN: Duration = Duration::from_secs(3);

impl Board {
    /// What a name means. Boxed, as its callers would each have a copy of all its code.
    pub(super) fn look_up<'a>(&'a self, name: &'a str) -> LocalFuture<'a, CallResult<Entry>> {
        Box::pin(async move {
            let answer = NameClient::find(&self.stl).await?.look(name).await?;
            match answer {
                NameAnswer::Done(entry) | NameAnswer::Refused(entry) => Ok(travel::entry(entry)),
                NameAnswer::NoMajority(missing) | NameAnswer::Unknown(missing) => {
                    Err(lacking(&missing))
                }
            }
        })
    }

    /// Changes what a name means, if it is what is expected; else it says what that is.
    pub(super) fn rename<'a>(
        &'a self,
        name: &'a str,
        change: u64,
        expect: Expect,
        to: What,
    ) -> LocalFuture<'a, CallResult<Result<Entry, Entry>>> {
        Box::pin(async move {
            let client = NameClient::find(&self.stl).await?;
            let (expected, to) = (travel::expectation(expect), travel::meaning(to));
            match client.change(name, change, expected, to).await? {
                NameAnswer::Done(entry) => Ok(Ok(travel::entry(entry))),
                NameAnswer::Refused(entry) => Ok(Err(travel::entry(entry))),
                NameAnswer::NoMajority(missing) | NameAnswer::Unknown(missing) => {
                    Err(lacking(&missing))
                }
            }
        })
    }

    /// Has the output's name mean that this job makes it. `exists` if it means something else, or
    /// another job goes on that makes it.
    pub(super) async fn claim(self: &Rc<Self>, output: &str, id: JobId) -> CallResult<()> {
        let exists = |what: String| CallError::new(Status::Exists, what);
        let begun = self.now();
        let mut expect = Expect::Absent;
        loop {
            let making = What::Making { job: id.0 };
            let other = match self.rename(output, id.0, expect, making).await? {
                Ok(_) => return Ok(()),
                Err(Entry { what: What::Absent, .. }) => {
                    expect = Expect::Absent;
                    continue;
                }
                Err(Entry { what: What::Making { job }, .. }) => JobId(job),
                Err(_) => return Err(exists(format!("{output} is there already"))),
            };
            let waited = self.now().since(begun);
            let is_undecided = match self.ask_standing(other, 0).await {
                Some(Standing::Ended(End::Failed(_))) => {
                    expect = Expect::Making(other.0);
                    continue;
                }
                Some(Standing::Unknown) if waited >= UNKNOWN => {
                    expect = Expect::Making(other.0);
                    continue;
                }
                Some(Standing::Unknown | Standing::Ended(_)) => true,
                // It may have ended, and its only keeper that is left not know yet.
                None => true,
                Some(Standing::Open(_)) => false,
            };
            let phase = self.phase_of(other).await;
            let is_undecided = is_undecided || phase.is_none();
            if !is_undecided || waited >= UNDECIDED {
                let phase = phase.unwrap_or(JobPhase::Ending);
                let job = other.0;
                let message = format!("{output} is being made by job {job}, which is {phase}");
                return Err(exists(message));
            }
            self.stl.host().pause(LOOK).await;
        }
    }

    /// The phase of a job that goes on and has a master.
    async fn phase_of(&self, id: JobId) -> Option<JobPhase> {
        let jobs = self.list().await;
        let is_it = |it: &&JobEntry| {
            let goes_on = it.ended.is_open() && it.master.is_some();
            it.job == id.0 && goes_on && it.phase != JobPhase::Ending
        };
        jobs.iter().find(is_it).map(|it| it.phase)
    }

    /// Gives the output's name up, if it is this job's.
    pub(super) async fn give_up(&self, output: &str, id: JobId) -> CallResult<()> {
        let change = id.0 ^ GIVEN_UP;
        self.rename(output, change, Expect::Making(id.0), What::Absent).await.map(drop)
    }

    /// Has the output's name mean the job's parts. Whether it does now, or did.
    pub(super) async fn give_name(
        &self,
        output: &str,
        id: JobId,
        parts: u32,
        facts: Facts,
    ) -> CallResult<bool> {
        let to = What::Output { job: id.0, parts, facts };
        let change = id.0 ^ PUBLISHED;
        let named = self.rename(output, change, Expect::Making(id.0), to).await?;
        let is_output =
            |entry: &Entry| matches!(entry.what, What::Output { job, .. } if job == id.0);
        Ok(named.is_ok_and(|entry| is_output(&entry)))
    }
}

/// What tells the changes of one job's name from each other: each is asked for by its own number,
/// and whoever asks for it again is told that it is done.
const PUBLISHED: u64 = 1 << 63;
const GIVEN_UP: u64 = 1 << 62;

/// The facts of an output, of which no nodes are named: its parts are on many.
pub(super) fn facts(bytes: u64, blocks: u32, copies: u8) -> Facts {
    Facts { bytes, blocks, copies, nodes: alloc::vec::Vec::<NodeId>::new() }
}
