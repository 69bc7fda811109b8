//! Jobs whose records, masters or nodes are lost.

use std::time::Duration;

use nile_abi::CoreId;
use nile_bosml::Bytes;
use nile_interfaces::dataset::DatasetClient;
use nile_interfaces::dataset::records::Decider;
use nile_interfaces::job::records::{JobEnd, JobEntry, JobRequest};
use nile_interfaces::registry::RegistryClient;
use nile_platform_sim::Deed;
use nile_stl::Place;

use super::job::{meet, request, run, until, wait};
use super::{put, remove};

#[test]
fn a_node_that_takes_an_ended_job_to_go_on_refuses_no_other() {
    let ms = Duration::from_millis;
    let (killed, again) = (ms(700), ms(20_000));
    let deeds = vec![(killed, Deed::Kill(2)), (again, Deed::Start(2))];
    run((3, 3, 0), deeds, move |at, stl| async move {
        if at != 0 {
            return Ok(());
        }
        let client = meet(&stl, 3).await?;
        put(&stl, "input", 400).await?;
        let job = client.submit(request(&["input"], "made", 1)).await?;
        let begun = until(&stl, &client, job, |it| it.maps_done > 0).await;
        let now = || stl.host().now();
        assert!(begun.ended.is_open() && now() < nile_abi::Instant::START + killed, "{begun:?}");
        assert_eq!(until(&stl, &client, job, |it| !it.ended.is_open()).await.ended, JobEnd::Made);
        assert!(now() > nile_abi::Instant::START + killed, "one of its keepers has died");
        remove(&stl, "made").await?;
        // The others forget it when that one is there again, which believes it to go on.
        let is_back = |it: &JobEntry| (it.job, it.ended, it.master) == (job, JobEnd::Open, None);
        while !client.list_all().await?.iter().any(is_back) {
            let other = client.submit(request(&[], "other", 1)).await?;
            assert_eq!(
                until(&stl, &client, other, |it| !it.ended.is_open()).await.ended,
                JobEnd::Made
            );
            remove(&stl, "other").await?;
        }
        assert!(now() > nile_abi::Instant::START + again);
        let same = client.submit(request(&[], "made", 1)).await?;
        while client.list_all().await?.iter().any(|it| it.job == job) {
            wait(&stl, Duration::from_millis(20)).await;
        }
        assert_eq!(until(&stl, &client, same, |it| !it.ended.is_open()).await.ended, JobEnd::Made);
        Ok(())
    });
}

#[test]
fn a_node_whose_record_of_a_job_is_damaged_keeps_others() {
    // What n3 has of the first job is damaged. Were it no keeper any more, the second job could not
    // end once n2 is gone.
    let ms = Duration::from_millis;
    let (killed, again, gone) = (ms(700), ms(1_000), ms(3_000));
    let mark = b"an argument that nothing else has";
    let deeds = vec![
        (killed, Deed::Kill(2)),
        (killed, Deed::Spoil(2, mark.to_vec())),
        (again, Deed::Start(2)),
        (gone, Deed::Kill(1)),
    ];
    run((3, 3, 0), deeds, move |at, stl| async move {
        if at != 0 {
            return Ok(());
        }
        let client = meet(&stl, 3).await?;
        let arguments = vec![String::from_utf8_lossy(mark).into()];
        let first = JobRequest { arguments, ..request(&[], "first", 1) };
        let first = client.submit(first).await?;
        until(&stl, &client, first, |it| !it.ended.is_open()).await;
        let passed = |moment| stl.host().now() > nile_abi::Instant::START + moment;
        assert!(!passed(killed), "its record is there when n3 ends");
        put(&stl, "input", 400).await?;
        while !passed(gone - ms(30)) || client.workers().await?.len() < 3 {
            wait(&stl, ms(1)).await;
        }
        let second = client.submit(request(&["input"], "second", 1)).await?;
        assert!(!passed(gone), "all three keep it");
        let ended = until(&stl, &client, second, |it| !it.ended.is_open()).await;
        assert_eq!((ended.ended, ended.error.as_str()), (JobEnd::Made, ""));
        assert!(passed(gone), "one of its keepers has died");
        Ok(())
    });
}

#[test]
fn a_job_goes_on_when_the_node_of_its_master_is_gone_for_ever() {
    // n4 has no disk: what is submitted there begins on n1, and its core is not used.
    let killed = Duration::from_millis(700);
    let deeds = vec![(killed, Deed::Kill(0))];
    run((4, 3, 3), deeds, move |at, stl| async move {
        if at != 3 {
            return Ok(());
        }
        let client = meet(&stl, 3).await?;
        let there = nile_stl::At { node: nile_abi::NodeId(2), core: CoreId(1) };
        let found = RegistryClient::find(&stl).await?.instances("dataset", 0, 0).await?;
        let second = found.into_iter().map(Place::from).find(|it| it.node == there.node);
        let store = DatasetClient::at(&stl, second.expect("n2 has a disk"));
        let draft = store.create("input", 1, 1, Decider::Here, 100).await?.draft;
        store.write(draft, 0, Bytes::from(&vec![1; 40_000][..])).await?;
        store.commit(draft).await?;
        let job = client.submit(request(&["input"], "output", 2)).await?;
        let begun = until(&stl, &client, job, |it| it.maps_done > 0).await;
        assert_eq!((begun.master, begun.ended), (Some(1), JobEnd::Open));
        let killed = nile_abi::Instant::START + killed;
        assert!(stl.host().now() < killed, "the job began too late: {begun:?}");
        let ended = until(&stl, &client, job, |it| !it.ended.is_open()).await;
        assert_eq!((ended.ended, ended.error.as_str()), (JobEnd::Made, ""));
        assert!(stl.host().now() > killed, "the job ended too early: {ended:?}");
        assert!(ended.parts.iter().all(|part| part.node != 1), "{:?}", ended.parts);
        Ok(())
    });
}
