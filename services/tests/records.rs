//! Records by key on a node: those of each core's share, and those that have snapshots.

mod node;

use nile_abi::Status;
use nile_interfaces::records::{
    MOST_OPERATIONS, RecordAction, RecordOperation, RecordsClient, TYPE, owner,
};
use nile_interfaces::registry::Wanted;
use nile_registry::{Attribute, AttributeValue};
use nile_stl::{CallResult, Stl};

async fn find(stl: &Stl, snapshots: bool) -> CallResult<RecordsClient> {
    let wanted = Wanted::of(&TYPE);
    wanted.with(&Attribute::new("snapshots", AttributeValue::Bool(snapshots))).find(stl).await
}

fn put(key: &[u8], value: &[u8]) -> RecordOperation {
    let (key, value) = (key.into(), value.into());
    RecordOperation { action: RecordAction::Put, key, version: 0, value }
}

#[test]
fn both_do_the_same() {
    node::run(3, |stl| async move {
        for snapshots in [false, true] {
            let records = find(&stl, snapshots).await?;
            assert_eq!(records.get(b"a".into()).await?, None);
            let first = records.put(b"a".into(), b"one".into()).await?;
            let stored = records.get(b"a".into()).await?.unwrap();
            assert_eq!((stored.version, &stored.value[..]), (first, &b"one"[..]));
            let refused = records.compare(b"a".into(), 0, b"two".into()).await?;
            assert_eq!(
                (refused.done, refused.version, &refused.value[..]),
                (false, first, &b"one"[..])
            );
            let second = records.compare(b"a".into(), first, b"two".into()).await?;
            assert!(second.done && second.version > first, "{second:?}");
            assert!(records.remove(b"a".into()).await?);
            assert!(!records.remove(b"a".into()).await?);
            let third = records.compare(b"a".into(), 0, vec![3; 4096]).await?;
            assert!(third.done && third.version > second.version, "{third:?}");
            for (key, value) in [(vec![], vec![]), (vec![0; 257], vec![]), (vec![0], vec![0; 4097])]
            {
                let wrong = records.put(key, value).await.unwrap_err();
                assert_eq!(wrong.status, Status::Invalid);
            }
            let too_many = vec![put(b"b", b""); MOST_OPERATIONS + 1];
            assert_eq!(records.many(too_many).await.unwrap_err().status, Status::Invalid);
            assert_eq!(records.state().await?.records, 1);
        }
        Ok(())
    });
}

/// All pages of a snapshot, or of what is there now.
async fn scan(records: &RecordsClient, snapshot: u64) -> CallResult<Vec<(Vec<u8>, Vec<u8>)>> {
    let (mut all, mut from) = (Vec::new(), None);
    loop {
        let page = records.scan(snapshot, from).await?;
        all.extend(page.records.into_iter().map(|it| (it.key, it.value)));
        from = page.next;
        if from.is_none() {
            all.sort();
            return Ok(all);
        }
    }
}

#[test]
fn pages_have_each_record_once() {
    node::run(3, |stl| async move {
        for snapshots in [false, true] {
            let records = find(&stl, snapshots).await?;
            let mut expected = Vec::new();
            for number in 0..300_u32 {
                let (key, value) =
                    (number.to_be_bytes(), vec![number as u8; number as usize % 900]);
                records.put(key.into(), value.clone()).await?;
                expected.push((key.to_vec(), value));
            }
            let snapshot = if snapshots { records.snapshot().await? } else { 0 };
            assert_eq!(scan(&records, snapshot).await?, expected);
        }
        Ok(())
    });
}

#[test]
fn a_snapshot_stays_as_it_was() {
    node::run(3, |stl| async move {
        let records = find(&stl, true).await?;
        let many = [put(b"a", b"1"), put(b"b", b"1")];
        assert!(records.many(many.into()).await?.iter().all(|it| it.done));
        let snapshot = records.snapshot().await?;
        records.put(b"a".into(), b"2".into()).await?;
        records.remove(b"b".into()).await?;
        let then = [(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"1".to_vec())];
        assert_eq!(scan(&records, snapshot).await?, then);
        assert_eq!(records.state().await?.snapshots, 1);
        assert!(records.release(snapshot).await?);
        assert!(!records.release(snapshot).await?);
        assert_eq!(scan(&records, snapshot).await.unwrap_err().status, Status::NotFound);
        // Writers take the room of one that nobody releases.
        let kept = records.snapshot().await?;
        for round in 0..2_000_u32 {
            records.put(b"c".into(), round.to_le_bytes().into()).await?;
        }
        assert_eq!(scan(&records, kept).await.unwrap_err().status, Status::NotFound);
        let shares = find(&stl, false).await?;
        assert_eq!(shares.snapshot().await.unwrap_err().status, Status::Invalid);
        Ok(())
    });
}

#[test]
fn only_the_records_of_a_core_that_goes_have_another_owner() {
    let cores = [1, 2, 3, 4].map(nile_abi::CoreId);
    let mut shares = [0; 5];
    for number in 0..4_000_u32 {
        let key = number.to_le_bytes();
        let has = owner(&key, &cores, |it| it.0.into()).unwrap();
        shares[has.index()] += 1;
        let left: Vec<_> = cores.into_iter().filter(|core| core.0 != 2).collect();
        assert!(has.0 == 2 || owner(&key, &left, |it| it.0.into()) == Some(has));
    }
    assert!(shares[1..].iter().all(|share| (800..1_200).contains(share)), "{shares:?}");
}
