//! A table alone: ranges and their parts, digests, and random choice.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use proptest::prelude::*;
use rand_xoshiro::rand_core::SeedableRng;

use super::*;

fn row(node: u32, version: u32, live: bool) -> Row {
    Row { node, generation: 1, nonce: 1, renewal: 0, live, version }
}

fn parts(prefix: Prefix) -> Vec<Prefix> {
    (0..Prefix::PARTS).filter_map(|number| prefix.part(number)).collect()
}

#[test]
fn parts_are_the_whole() {
    let mut table = Table::default();
    for node in 0..5_000 {
        table.set(row(node, node, node % 3 > 0));
    }
    let mut ranges = alloc::vec![Prefix::ALL];
    for _ in 0..4 {
        ranges = ranges.into_iter().flat_map(parts).collect();
        let sums = ranges.iter().map(|range| table.summary(*range));
        let (count, digest) =
            sums.fold((0, 0_u64), |(n, sum), (more, hash)| (n + more, sum.wrapping_add(hash)));
        assert_eq!((count, digest), (table.live(), table.digest()));
    }
    for range in ranges.iter().step_by(777) {
        assert_eq!(table.within(*range).count(), table.summary(*range).0);
    }
}

#[test]
fn what_is_no_range_is_refused() {
    assert_eq!(Prefix::new(1, 31), None);
    assert_eq!(Prefix::new(0, 33), None);
    let single = Prefix::new(7, 32).unwrap();
    assert_eq!(parts(single), []);
    assert_eq!(parts(Prefix::new(0x10, 28).unwrap()).len(), 16);
    assert_eq!(parts(Prefix::new(0x40, 30).unwrap()), [], "there are no parts of two bits");
    assert!((0..1_000).all(|node| Prefix::ALL.has(node)));
}

#[test]
fn nodes_are_chosen_alike() {
    let mut table = Table::default();
    for node in 0..50 {
        table.set(row(node, 0, node < 40));
    }
    let mut random = Xoshiro128PlusPlus::seed_from_u64(7);
    let mut counts = [0; 50];
    for _ in 0..39_000 {
        let node = table.any(&mut random, true, &[NodeId(3)]).unwrap();
        counts[node.0 as usize] += 1;
    }
    assert_eq!((counts[3], counts[40..].iter().sum::<u32>()), (0, 0));
    let others = counts[..40].iter().enumerate().filter(|(node, _)| *node != 3);
    assert!(others.into_iter().all(|(_, count)| (800..1_200).contains(count)), "{counts:?}");
    let dead = table.any(&mut random, false, &[]).unwrap();
    assert!(dead.0 >= 40);
    let all: Vec<NodeId> = (0..50).map(NodeId).collect();
    assert_eq!(table.any(&mut random, true, &all), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_table_is_a_map(
        steps in prop::collection::vec((0..40_u32, 0..3_u32, any::<bool>(), any::<bool>()), 0..200),
    ) {
        let (mut table, mut map) = (Table::default(), BTreeMap::new());
        for (node, version, live, removes) in steps {
            if removes {
                table.remove(NodeId(node));
                if map.get(&node).is_some_and(|row: &Row| !row.live) {
                    map.remove(&node);
                }
            } else {
                table.set(row(node, version, live));
                map.insert(node, row(node, version, live));
            }
            let live = map.values().filter(|row| row.live);
            let digest = live.clone().fold(0_u64, |sum, row| sum.wrapping_add(hash(row)));
            prop_assert_eq!((table.len(), table.live()), (map.len(), live.count()));
            prop_assert_eq!(table.digest(), digest);
        }
        let mut rows: Vec<Row> = table.rows().cloned().collect();
        rows.sort_by_key(|row| row.node);
        prop_assert_eq!(rows, map.values().cloned().collect::<Vec<_>>());
        prop_assert!((0..40).all(|node| table.get(NodeId(node)) == map.get(&node)));
    }
}
