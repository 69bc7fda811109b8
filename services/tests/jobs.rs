//! The job service on simulated nodes: what is refused, how a job runs, and that it goes on when
//! its master's node is gone. What tasks do is made up: packages have scenarios of their own.

mod job;
mod lost;

use std::time::Duration;

use job::{fifo, meet, request, run, run_on, run_with, until, wait, worker};
use nile_abi::{CoreId, Status};
use nile_bosml::Bytes;
use nile_interfaces::dataset::DatasetClient;
use nile_interfaces::dataset::records::{Decider, Listed};
use nile_interfaces::job::JobClient;
use nile_interfaces::job::records::{
    AttemptEntry, AttemptKind, AttemptOutcome, JobEnd, JobEntry, JobPhase, JobPolicy, JobRequest,
    ProgressEntry, SpanEntry,
};
use nile_interfaces::name::records::{Facts, Meaning, NameAnswer, NameEntry, NameExpectation};
use nile_interfaces::name::{LEASE, NameClient};
use nile_interfaces::registry::RegistryClient;
use nile_platform_sim::Deed;
use nile_stl::{CallResult, Place, Stl};

async fn store(stl: &Stl) -> CallResult<DatasetClient> {
    let found = RegistryClient::find(stl).await?.instances("dataset", 0, 0).await?;
    let here = found.into_iter().map(Place::from).find(Place::is_here);
    Ok(DatasetClient::at(stl, here.expect("this node has a disk")))
}

/// A dataset of some blocks of a hundred bytes.
async fn put(stl: &Stl, name: &str, blocks: usize) -> CallResult<()> {
    let store = store(stl).await?;
    let draft = store.create(name, 1, 1, Decider::Here, 100).await?.draft;
    store.write(draft, 0, Bytes::from(&vec![1; 100 * blocks][..])).await?;
    store.commit(draft).await.map(drop)
}

async fn refused(client: &JobClient, request: JobRequest) -> (Status, String) {
    let error = client.submit(request).await.expect_err("it is refused");
    (error.status, error.message.into())
}

/// The attempt whose part is the output `made`.
async fn ended_version(store: &DatasetClient) -> CallResult<u32> {
    Ok(store.look_up("made/0-of-1").await?.attempt)
}

/// What a name means.
async fn entry(names: &NameClient, name: &str) -> CallResult<NameEntry> {
    match names.look(name).await? {
        NameAnswer::Done(entry) => Ok(entry),
        other => panic!("{name}: {other:?}"),
    }
}

/// Removes the parts of an output from all nodes that can be asked.
async fn remove(stl: &Stl, output: &str) -> CallResult<()> {
    let names = NameClient::find(stl).await?;
    let stamp = entry(&names, output).await?.stamp;
    let expected = NameExpectation::Stamp(stamp);
    let change = names.change(output, stamp + 1, expected, Meaning::Absent).await?;
    assert!(matches!(change, NameAnswer::Done(_)), "{change:?}");
    let parts = format!("{output}/");
    for at in RegistryClient::find(stl).await?.instances("dataset", 0, 0).await? {
        let store = DatasetClient::at(&stl.with_patience(Duration::from_millis(50)), at.into());
        for it in store.list(0).await.unwrap_or_default() {
            if it.name.starts_with(&parts) {
                store.remove(&it.name, it.epoch, it.attempt).await?;
            }
        }
    }
    Ok(())
}

fn outputs(listed: &[Listed]) -> Vec<(&str, bool)> {
    let data = listed.iter().filter(|it| !it.name.starts_with(".jobs/"));
    data.map(|it| (it.name.as_str(), it.committed)).collect()
}

/// What is told of the times of a job that has ended.
async fn timeline(client: &JobClient, job: u64, ended: &ProgressEntry) -> CallResult<()> {
    let told = client.timeline(job, 0).await?;
    assert_eq!((told.until_us, told.kept, told.lost), (ended.total_us, ended.attempts, 0));
    let names = told.phases.iter().map(|it| it.name);
    assert!(names.eq(ended.phases.iter().map(|it| it.name)));
    let follow = |pair: &[SpanEntry]| pair[0].ended_us == pair[1].begun_us;
    assert!(told.phases.windows(2).all(follow), "{:?}", told.phases);
    let is_sample = |it: &&AttemptEntry| it.kind == AttemptKind::Sample;
    assert_eq!(told.attempts.iter().filter(is_sample).count(), 2);
    // One worker has them all, one after the other.
    assert!(told.attempts.windows(2).all(|it| it[0].ended_us <= it[1].begun_us));
    assert!(
        told.attempts
            .iter()
            .all(|it| it.begun_us <= it.ended_us && it.outcome == AttemptOutcome::Done)
    );
    assert_eq!(told.attempts.iter().map(|it| it.read).sum::<u64>(), ended.read);
    let rest = client.timeline(job, told.kept - 1).await?;
    assert_eq!(rest.attempts, told.attempts[told.attempts.len() - 1..]);
    Ok(())
}

#[test]
fn a_node_without_a_cluster_runs_jobs_one_after_the_other() {
    run((1, 1, 0), Vec::new(), |_, stl| async move {
        let client = meet(&stl, 1).await?;
        let job = client.submit(request(&[], "made", 1)).await?;
        let ended = until(&stl, &client, job, |it| !it.ended.is_open()).await;
        assert_eq!((ended.ended, ended.error.as_str()), (JobEnd::Made, ""));
        assert_eq!((ended.reduces_done, ended.maps, ended.records), (1, 0, 1));
        assert_eq!((ended.parts.len(), ended.checksum, ended.phase), (1, 5, JobPhase::Over));
        let phases: Vec<JobPhase> = ended.phases.iter().map(|it| it.name).collect();
        assert!(phases.starts_with(&[JobPhase::Reducing, JobPhase::Ending]), "{phases:?}");
        assert!(ended.first_task_us.is_some_and(|first| (1..=ended.total_us).contains(&first)));

        // Its output is the input of another job, with samples.
        put(&stl, "more", 20).await?;
        let sampled = JobRequest { samples: 2, ..request(&["made", "more"], "counted", 1) };
        let second = client.submit(sampled).await?;
        assert!(second > job, "later jobs have higher numbers");
        let ended = until(&stl, &client, second, |it| !it.ended.is_open()).await;
        assert_eq!((ended.ended, ended.error.as_str()), (JobEnd::Made, ""));
        assert!(ended.maps > 4 && ended.maps_done == ended.maps, "{ended:?}");
        // All of it to be mapped, and before that two splits to be sampled: the byte of the one
        // dataset, and five blocks of the other.
        assert_eq!(ended.read, 2001 + 1 + 500);
        timeline(&client, second, &ended).await?;
        assert_eq!(client.timeline(77, 0).await.expect_err("no such job").status, Status::NotFound);

        wait(&stl, Duration::from_secs(2)).await;
        let listed = store(&stl).await?.list(0).await?;
        let expected = [("counted/0-of-1", true), ("made/0-of-1", true), ("more", true)];
        assert_eq!(outputs(&listed), expected);
        let jobs = client.list_all().await?;
        assert_eq!(jobs.iter().map(|it| it.ended).collect::<Vec<_>>(), [JobEnd::Made; 2]);

        // Each of these is refused, and nothing of it is left.
        let (status, text) = refused(&client, request(&["more"], "made", 1)).await;
        assert_eq!((status, text.as_str()), (Status::Exists, "made is there already"));
        let (status, text) = refused(&client, request(&["more"], "more", 1)).await;
        assert_eq!((status, text.as_str()), (Status::Exists, "more is there already"));
        let (status, text) = refused(&client, request(&["less"], "new", 1)).await;
        assert_eq!((status, text.as_str()), (Status::NotFound, "less: no such dataset"));
        put(&stl, "half/1-of-2", 1).await?;
        let (status, text) = refused(&client, request(&["half"], "new", 1)).await;
        assert_eq!((status, text.as_str()), (Status::NotFound, "half: no such dataset"));
        store(&stl)
            .await?
            .remove("made/0-of-1", job, ended_version(&store(&stl).await?).await?)
            .await?;
        let (status, text) = refused(&client, request(&["made"], "new", 1)).await;
        let expected = "made: part 0 of 1 is on no node that is alive";
        assert_eq!((status, text.as_str()), (Status::NotFound, expected));
        let (status, text) = refused(&client, request(&["more"], "new", 0)).await;
        assert!(status == Status::Invalid && text.contains("without reducers"), "{text}");
        let (status, text) = refused(&client, request(&["more"], "new", 2)).await;
        assert!(status == Status::Invalid && text.contains("worker cores for 1"), "{text}");
        let copies = JobRequest { copies: Some(2), ..request(&["more"], "new", 1) };
        let (status, text) = refused(&client, copies).await;
        assert!(status == Status::Invalid && text.contains("1 nodes have disks"), "{text}");
        let conserves = JobRequest { conserves: true, ..request(&[], "new", 1) };
        assert_eq!(refused(&client, conserves).await.0, Status::Invalid);
        for output in ["", "new/0-of-1", &"n".repeat(113)] {
            assert_eq!(refused(&client, request(&[], output, 1)).await.0, Status::Invalid);
        }
        let after = store(&stl).await?.list(0).await?;
        assert_eq!(after.len(), listed.len(), "one came, and one was removed");
        assert_eq!(client.list_all().await?.len(), 2);
        let missing = client.progress(77).await.expect_err("there is none").status;
        assert_eq!(missing, Status::NotFound);
        Ok(())
    });
}

#[test]
fn many_long_samples_are_cut() {
    run((1, 1, 0), Vec::new(), |_, stl| async move {
        let client = meet(&stl, 1).await?;
        let names: Vec<String> = (0..32).map(|at| format!("many{at}")).collect();
        for name in &names {
            put(&stl, name, 1).await?;
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let sampled = JobRequest { samples: 32, ..request(&names, "counted", 1) };
        let job = client.submit(sampled).await?;
        let ended = until(&stl, &client, job, |it| !it.ended.is_open()).await;
        assert_eq!((ended.ended, ended.error.as_str()), (JobEnd::Made, ""));
        // Each has been sampled, mapped, and all reduced.
        assert_eq!((ended.attempts, ended.maps), (32 + 32 + 1, 32));
        Ok(())
    });
}

#[test]
fn a_small_disk_has_room_for_one_job_after_the_other() {
    run((1, 1, 0), Vec::new(), |_, stl| async move {
        let client = meet(&stl, 1).await?;
        let store = store(&stl).await?;
        let mut least = u64::MAX;
        for _ in 0..100 {
            let job = client.submit(request(&[], "made", 1)).await?;
            let ended = until(&stl, &client, job, |it| !it.ended.is_open()).await;
            assert_eq!((ended.ended, ended.error.as_str()), (JobEnd::Made, ""));
            remove(&stl, "made").await?;
            least = least.min(store.space().await?.log_free);
        }
        // The log has 64 units; half of them are always free for datasets.
        assert!(least >= 32 * 4096, "{least}");
        let kept = client.list_all().await?.len();
        assert!((8..=20).contains(&kept), "{kept} jobs are told of");
        Ok(())
    });
}

#[test]
fn a_cancelled_job_leaves_nothing_and_a_second_of_the_same_output_waits() {
    run((1, 1, 0), Vec::new(), |_, stl| async move {
        let client = meet(&stl, 1).await?;
        put(&stl, "input", 40).await?;
        let job = client.submit(request(&["input"], "output", 1)).await?;
        until(&stl, &client, job, |it| it.maps_done > 2).await;
        let (status, text) = refused(&client, request(&["input"], "output", 1)).await;
        assert!(status == Status::Exists && text.contains("is being made by job"), "{text}");
        client.cancel(job).await?;
        let ended = until(&stl, &client, job, |it| !it.ended.is_open()).await;
        assert_eq!((ended.ended, ended.error.as_str()), (JobEnd::Failed, "cancelled"));
        client.cancel(job).await?;
        wait(&stl, Duration::from_secs(1)).await;
        assert_eq!(outputs(&store(&stl).await?.list(0).await?), [("input", true)]);
        let again = client.submit(request(&["input"], "output", 1)).await?;
        assert_eq!(until(&stl, &client, again, |it| !it.ended.is_open()).await.ended, JobEnd::Made);
        Ok(())
    });
}

#[test]
fn what_passes_ends_with_its_use() {
    run((3, 3, 0), Vec::new(), |node, stl| async move {
        if node != 0 {
            return Ok(());
        }
        let client = meet(&stl, 3).await?;
        let names = NameClient::find(&stl).await?;
        // Nobody uses the first; the job that reads the second goes on for long.
        for name in [".run/1/0", ".run/2/0"] {
            put(&stl, name, 5).await?;
            let absent = NameExpectation::Stamp(0);
            let dataset = Meaning::Dataset { epoch: 1, attempt: 1, facts: Facts::default() };
            let named = names.change(name, 7, absent, dataset).await?;
            assert!(matches!(named, NameAnswer::Done(_)), "{named:?}");
        }
        let arguments = vec![worker::IS_LONG.into()];
        let long = JobRequest { arguments, ..request(&[".run/2/0"], "made", 1) };
        let job = client.submit(long).await?;
        wait(&stl, LEASE - Duration::from_secs(20)).await;
        assert!(entry(&names, ".run/1/0").await?.meaning.facts().is_some(), "not yet");
        wait(&stl, Duration::from_secs(60)).await;
        assert_eq!(entry(&names, ".run/1/0").await?.meaning, Meaning::Absent);
        let passing =
            |listed: Vec<Listed>| listed.into_iter().find(|it| it.name.starts_with(".run"));
        let left = passing(store(&stl).await?.list(0).await?);
        assert_eq!(left.map(|it| it.name).as_deref(), Some(".run/2/0"));
        let ended = until(&stl, &client, job, |it| !it.ended.is_open()).await;
        assert_eq!((ended.ended, ended.error.as_str()), (JobEnd::Made, ""));
        wait(&stl, LEASE + Duration::from_secs(40)).await;
        assert!(entry(&names, "made").await?.meaning.facts().is_some());
        assert_eq!(entry(&names, ".run/2/0").await?.meaning, Meaning::Absent);
        assert!(passing(store(&stl).await?.list(0).await?).is_none());
        Ok(())
    });
}

#[test]
fn news_of_a_job_come_at_once_or_after_a_while() {
    run((1, 1, 0), Vec::new(), |_, stl| async move {
        let client = meet(&stl, 1).await?;
        put(&stl, "input", 40).await?;
        let now = || stl.host().now();
        let job = client.submit(fifo(&["input"], "output", 1)).await?;
        let behind = client.submit(fifo(&["input"], "behind", 1)).await?;
        // It waits for its turn, and has nothing else to tell.
        let queued = until(&stl, &client, behind, |it| !it.error.is_empty()).await;
        let seen = queued.phases.len() as u32;
        let begun = now();
        let entry = client.news(behind, seen, 20).await?;
        assert_eq!((entry.phase, entry.phases.len() as u32), (JobPhase::Queued, seen));
        assert!(now().since(begun) >= Duration::from_millis(20));
        let (mut phases, mut looks) = (Vec::new(), 0);
        loop {
            let entry = client.news(job, phases.len() as u32, 1000).await?;
            looks += 1;
            assert!(!entry.ended.is_open() || entry.phases.len() > phases.len(), "{entry:?}");
            phases = entry.phases;
            if !entry.ended.is_open() {
                break;
            }
        }
        let names: Vec<JobPhase> = phases.iter().map(|it| it.name).collect();
        assert!(
            names.ends_with(&[JobPhase::Mapping, JobPhase::Reducing, JobPhase::Ending]),
            "{names:?}"
        );
        assert!(looks <= names.len() + 1, "{looks} looks");
        // What is over has no news, and is told at once.
        let begun = now();
        assert_eq!(client.news(job, 9, 1000).await?.ended, JobEnd::Made);
        assert!(now().since(begun) < Duration::from_millis(20));
        let missing = client.news(77, 0, 0).await.expect_err("there is none").status;
        assert_eq!(missing, Status::NotFound);
        assert_eq!(
            until(&stl, &client, behind, |it| !it.ended.is_open()).await.ended,
            JobEnd::Made
        );
        Ok(())
    });
}

#[test]
fn jobs_take_turns_and_one_that_waits_can_be_cancelled() {
    run((1, 1, 0), Vec::new(), |_, stl| async move {
        let client = meet(&stl, 1).await?;
        put(&stl, "input", 40).await?;
        let first = client.submit(fifo(&["input"], "first", 1)).await?;
        until(&stl, &client, first, |it| it.maps_done > 0).await;
        let second = client.submit(fifo(&["input"], "second", 1)).await?;
        let third = client.submit(fifo(&["input"], "third", 1)).await?;
        let waits = until(&stl, &client, second, |it| !it.error.is_empty()).await;
        assert_eq!((waits.phase, waits.master), (JobPhase::Queued, Some(1)));
        assert_eq!((waits.error.as_str(), waits.attempts), ("count (first) has the workers", 0));
        let waits = until(&stl, &client, third, |it| !it.error.is_empty()).await;
        assert_eq!(waits.phase, JobPhase::Queued);
        client.cancel(third).await?;
        let ended = until(&stl, &client, third, |it| !it.ended.is_open()).await;
        assert_eq!(
            (ended.ended, ended.error.as_str(), ended.attempts),
            (JobEnd::Failed, "cancelled", 0)
        );
        let other = client.progress(first).await?;
        assert_eq!(other.ended, JobEnd::Open, "it was not waited for: {other:?}");
        let begun = until(&stl, &client, second, |it| it.attempts > 0).await;
        let other = client.progress(first).await?;
        assert_eq!((other.ended, begun.error.as_str()), (JobEnd::Made, ""), "they took turns");
        let ended = until(&stl, &client, second, |it| !it.ended.is_open()).await;
        assert_eq!((ended.ended, ended.phases[0].name), (JobEnd::Made, JobPhase::Queued));
        assert!(
            ended.phases[0].us > 0 && ended.first_task_us >= Some(ended.phases[0].us),
            "{ended:?}"
        );
        Ok(())
    });
}

#[test]
fn jobs_that_share_workers_begin_at_once() {
    run((1, 1, 0), Vec::new(), |_, stl| async move {
        let client = meet(&stl, 1).await?;
        put(&stl, "input", 40).await?;
        let mut jobs = vec![client.submit(request(&["input"], "large", 1)).await?];
        let dated = JobPolicy::EarliestDeadline { deadline_ms: 60_000 };
        let policies = [JobPolicy::default(), dated, JobPolicy::Fifo];
        for (output, policy) in ["light", "dated", "last"].into_iter().zip(policies) {
            let job = JobRequest { policy, ..request(&[], output, 1) };
            jobs.push(client.submit(job).await?);
        }
        for job in &jobs[1..] {
            let begun = until(&stl, &client, *job, |it| it.attempts > 0).await;
            assert!(begun.phases.iter().all(|it| it.name != JobPhase::Queued), "{begun:?}");
        }
        let known = client.list_all().await?;
        assert_eq!(known[0].policy, JobPolicy::default());
        assert!(known[1..].iter().map(|it| it.policy).eq(policies), "{known:?}");
        assert!(known.iter().all(|it| it.submitted_to == 1 && it.maps_done <= it.maps));
        assert_eq!(client.list(known[1].job).await?.len(), 2, "those behind the second");
        for job in jobs {
            assert_eq!(
                until(&stl, &client, job, |it| !it.ended.is_open()).await.ended,
                JobEnd::Made
            );
        }
        let policy = JobPolicy::EarliestDeadline { deadline_ms: 0 };
        let wrong = JobRequest { policy, ..request(&[], "wrong", 1) };
        let (status, text) = refused(&client, wrong).await;
        assert_eq!(status, Status::Invalid);
        assert!(text.contains("needs a deadline"), "{text}");
        Ok(())
    });
}

#[test]
fn jobs_of_several_nodes_take_turns() {
    run((3, 3, 2), Vec::new(), |at, stl| async move {
        let client = meet(&stl, 3).await?;
        // All of them at the same time, and two at a time from each node.
        let mut jobs = Vec::new();
        for output in ["a", "b"] {
            let made = format!("{output}{at}");
            jobs.push(client.submit(fifo(&[], &made, 3)).await?);
        }
        let is_waiting = |it: &JobEntry| matches!(it.phase, JobPhase::Queued | JobPhase::Next);
        let mut most = 0;
        loop {
            let known = client.list_all().await?;
            let runs =
                |it: &&JobEntry| it.ended.is_open() && it.master.is_some() && !is_waiting(it);
            most = most.max(known.iter().filter(runs).count());
            if known.len() == 6 && known.iter().all(|it| it.ended == JobEnd::Made) {
                break;
            }
            wait(&stl, Duration::from_millis(5)).await;
        }
        assert_eq!(most, 1, "never two at a time");
        Ok(())
    });
}

#[test]
fn of_jobs_that_make_the_same_one_is_taken_and_the_others_harm_it_not() {
    run((3, 3, 2), Vec::new(), |at, stl| async move {
        let client = meet(&stl, 3).await?;
        // All nodes at the same time.
        let mine = client.submit(request(&[], "same", 2)).await;
        if let Err(error) = &mine {
            assert_eq!(error.status, Status::Exists, "{error}");
            assert!(error.message.contains("is being made by job"), "{error}");
        }
        let ended = loop {
            let known = client.list_all().await?;
            let ended: Vec<&JobEntry> =
                known.iter().filter(|it| it.ended == JobEnd::Made).collect();
            assert!(
                known.len() <= 1 && known.iter().all(|it| it.ended != JobEnd::Failed),
                "{known:?}"
            );
            if let [it] = &ended[..] {
                break it.job;
            }
            wait(&stl, Duration::from_millis(20)).await;
        };
        assert!(mine.is_err() || mine == Ok(ended), "at {at}");
        let named = entry(&NameClient::find(&stl).await?, "same").await?.meaning;
        let is_its = matches!(named, Meaning::Output { job, parts: 2, .. } if job == ended);
        assert!(is_its, "{named:?}");
        // Whoever makes it now is told that it is there.
        let (status, text) = refused(&client, request(&[], "same", 2)).await;
        assert_eq!((status, text.as_str()), (Status::Exists, "same is there already"));
        Ok(())
    });
}

#[test]
fn a_job_waits_for_a_worker_that_is_just_coming_back() {
    let (killed, again) = (Duration::from_secs(2), Duration::from_secs(20));
    let deeds = vec![(killed, Deed::Kill(1)), (again, Deed::Start(1))];
    run((2, 2, 0), deeds, move |at, stl| async move {
        if at != 0 {
            return Ok(());
        }
        let client = meet(&stl, 2).await?;
        let asked = nile_abi::Instant::START + (again - Duration::from_millis(500));
        stl.host().sleep_until(asked).await;
        assert_eq!(client.workers().await?.len(), 1, "the other node is known to be dead");
        let job = client.submit(request(&[], "made", 2)).await?;
        let ended = until(&stl, &client, job, |it| !it.ended.is_open()).await;
        assert_eq!((ended.ended, ended.error.as_str(), ended.reduces_done), (JobEnd::Made, "", 2));
        // It does not wait for one that never comes.
        let begun = stl.host().now();
        let (status, text) = refused(&client, request(&[], "new", 3)).await;
        assert!(status == Status::Invalid && text.contains("worker cores for 2"), "{text}");
        let waited = stl.host().now() - begun;
        assert!(waited < Duration::from_secs(5), "{waited:?}");
        Ok(())
    });
}

#[test]
fn a_cluster_of_many_nodes_does_a_job() {
    run_on(4, (24, 24, 0), Vec::new(), |at, stl| async move {
        if at != 0 {
            return Ok(());
        }
        let client = meet(&stl, 48).await?;
        put(&stl, "input", 400).await?;
        let job = client.submit(request(&["input"], "made", 48)).await?;
        let ended = until(&stl, &client, job, |it| !it.ended.is_open()).await;
        assert_eq!((ended.ended, ended.error.as_str(), ended.reduces_done), (JobEnd::Made, "", 48));
        Ok(())
    });
}

#[test]
fn a_node_with_a_workers_services_does_its_part() {
    let only = nile_services::only::only(["worker"]).expect("there is one");
    let has = move |at: usize, name: &str| at == 0 || only.iter().any(|it| it.name() == name);
    run_with(3, (2, 2, 0), Vec::new(), has, |at, stl| async move {
        if at != 0 {
            return Ok(());
        }
        let client = meet(&stl, 2).await?;
        let registry = RegistryClient::find(&stl).await?;
        assert_eq!((registry.places("job").await?.len(), client.workers().await?.len()), (1, 2));
        put(&stl, "input", 40).await?;
        let job = client.submit(request(&["input"], "made", 2)).await?;
        let ended = until(&stl, &client, job, |it| !it.ended.is_open()).await;
        assert_eq!((ended.ended, ended.error.as_str()), (JobEnd::Made, ""));
        let told = client.timeline(job, 0).await?;
        assert!([1, 2].iter().all(|node| told.attempts.iter().any(|it| it.node == *node)));
        assert!(ended.parts.iter().any(|part| part.node == 2), "{:?}", ended.parts);
        // What the job has left on the second node goes as it does elsewhere.
        remove(&stl, "made").await
    });
}

#[test]
fn without_a_disk_or_a_worker_a_job_is_refused() {
    run((1, 0, 0), Vec::new(), |_, stl| async move {
        let client = JobClient::find_at(&stl, CoreId::BOOT).await?;
        wait(&stl, Duration::from_millis(100)).await;
        let (status, text) = refused(&client, request(&[], "made", 1)).await;
        assert_eq!(status, Status::NotFound);
        assert!(text.contains("disk"), "{text}");
        Ok(())
    });
}
