//! A job from its submission to its end: it is watched, shown, and cancelled when someone presses
//! Ctrl-C.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::args::Hook;
use super::jobs::{End, Jobs, Request, State};
use super::show::Bar;
use crate::failure::Failure;

/// How often a job is shown in whose phase nothing ends.
const EVERY: Duration = Duration::from_millis(100);

/// How long it is waited until one that is cancelled is looked at again.
const AGAIN: Duration = Duration::from_millis(200);

/// How long a job may take to end when it is cancelled.
const PATIENCE: Duration = Duration::from_secs(15);

/// A job that came to its end.
#[derive(Clone, Debug)]
pub struct Done {
    /// Its number.
    pub job: u64,
    /// When it was submitted.
    pub begun: Instant,
    /// From its submission to its end as this end saw it.
    pub took: Duration,
    /// What was last said of it.
    pub state: State,
}

/// Submits a job and waits for its end. Fails if the job does, or if it cannot be seen any more. Of
/// a job that is interrupted nothing is left.
pub fn to_end(
    jobs: &mut impl Jobs,
    request: &Request,
    hooks: &[Hook],
    bar: &mut Bar,
) -> Result<Done, Failure> {
    let begun = Instant::now();
    let job = jobs.submit(request)?;
    see(jobs, request, (job, begun), hooks, bar)
}

/// The same of a job that was submitted then.
pub fn see(
    jobs: &mut impl Jobs,
    request: &Request,
    (job, begun): (u64, Instant),
    hooks: &[Hook],
    bar: &mut Bar,
) -> Result<Done, Failure> {
    let mut hooks: Vec<&Hook> = hooks.iter().filter(|it| it.job == request.name).collect();
    let watched = watch(jobs, job, begun, &mut hooks, bar);
    if watched.is_err() {
        cancel(jobs, job);
    }
    let done = watched.map_err(Failure::once_begun)?;
    match &done.state.end {
        Some(End::Failed(why)) => Err(Failure::failed(format!("{}: {why}", request.name))),
        _ => Ok(done),
    }
}

fn watch(
    jobs: &mut impl Jobs,
    job: u64,
    begun: Instant,
    hooks: &mut Vec<&Hook>,
    bar: &mut Bar,
) -> Result<Done, Failure> {
    let mut seen = 0;
    loop {
        let state = jobs.news(job, seen, EVERY)?;
        let took = begun.elapsed();
        bar.show(&state);
        seen = state.phases.len();
        if state.end.is_some() {
            return Ok(Done { job, begun, took, state });
        }
        let (due, later) = hooks.iter().partition(|it| state.phase >= it.phase);
        *hooks = later;
        let due: Vec<&Hook> = due;
        due.into_iter().try_for_each(do_hook)?;
    }
}

/// Ends a job of which nobody wants to know the end, and waits until it is over.
fn cancel(jobs: &mut impl Jobs, job: u64) {
    let deadline = Instant::now() + PATIENCE;
    jobs.insist();
    let mut is_told = false;
    while Instant::now() < deadline {
        // A node that is gone may be the one that was asked; the next one is asked then.
        is_told = is_told || jobs.cancel(job).is_ok();
        if matches!(jobs.news(job, 0, Duration::ZERO), Ok(State { end: Some(_), .. })) {
            return;
        }
        let _ = jobs.rest(AGAIN);
    }
}

fn do_hook(hook: &Hook) -> Result<(), Failure> {
    let mut command = Command::new("sh");
    command.args(["-c", &hook.command]).stdin(Stdio::null()).stdout(Stdio::null());
    let failed = |why: String| Failure::failed(format!("`{}`: {why}", hook.command));
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(status.to_string())),
        Err(error) => Err(failed(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use nile_interfaces::job::records::JobPhase::*;

    use super::super::jobs::fake::Fake;
    use super::*;

    fn run(fake: &mut Fake, hooks: &[&str]) -> Result<Done, Failure> {
        let hooks: Vec<Hook> = hooks.iter().map(|it| it.parse().unwrap()).collect();
        let request = Request { name: "sort".into(), ..Request::default() };
        to_end(fake, &request, &hooks, &mut Bar::new("sort", 0))
    }

    #[test]
    fn a_job_is_watched_to_its_end() {
        let mut fake = Fake::of(&[Sampling, Mapping, Mapping, Reducing]);
        let done = run(&mut fake, &[]).unwrap();
        assert!(matches!(done.state.end, Some(End::Done { records: 7, .. })));
        assert_eq!((fake.submitted, fake.cancelled), (1, 0));
    }

    #[test]
    fn a_job_that_fails_says_why() {
        let mut fake = Fake::of(&[Mapping]);
        fake.end = End::Failed("lost a.0 on n2".into());
        let Err(Failure::Failed(message)) = run(&mut fake, &[]) else { panic!("it has failed") };
        assert_eq!(message, "sort: lost a.0 on n2");
        assert_eq!(fake.cancelled, 0, "it is over");
    }

    #[test]
    fn an_interrupted_job_is_cancelled_and_waited_for() {
        let mut fake = Fake::of(&[Mapping; 30]);
        fake.interrupt_at = 2;
        assert!(matches!(run(&mut fake, &[]), Err(Failure::Interrupted)));
        assert_eq!((fake.cancelled, fake.insists), (1, true));
        assert!(fake.seen_end);
    }

    #[test]
    fn a_job_that_cannot_be_submitted_is_not_cancelled() {
        let mut fake = Fake::of(&[]);
        fake.refusal = Some("no such input");
        assert!(matches!(run(&mut fake, &[]), Err(Failure::Request(_))));
        assert_eq!((fake.submitted, fake.cancelled), (0, 0));
    }

    #[test]
    fn hooks_are_done_once_when_their_phase_has_come() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let hook =
            |job: &str, phase: &str| format!("{job}:{phase}=echo {phase} >> {}", log.display());
        let [now, passed, other] =
            [hook("sort", "mapping"), hook("sort", "sampling"), hook("gen", "mapping")];
        // The first phase was over before anybody looked.
        let mut fake = Fake::of(&[Mapping, Mapping, Reducing]);
        run(&mut fake, &[&now, &passed, &other]).unwrap();
        let mut done: Vec<String> =
            std::fs::read_to_string(&log).unwrap().lines().map(String::from).collect();
        done.sort();
        assert_eq!(done, ["mapping", "sampling"]);
        let mut fake = Fake::of(&[Queued, Waiting]);
        run(&mut fake, &["sort:sampling=exit 3"]).expect("while it waits it has come nowhere");
        let mut fake = Fake::of(&[Mapping, Mapping]);
        assert!(matches!(run(&mut fake, &["sort:mapping=exit 3"]), Err(Failure::Failed(_))));
        assert_eq!(fake.cancelled, 1);
    }
}
