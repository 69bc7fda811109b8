//! Power loss at every step of everything that a store does to its disk.

use alloc::format;
use alloc::string::String;

use super::world::{Lie, World};

/// Runs a seed; gives how often power was lost.
fn run(seed: u64, lie: Lie) -> Result<usize, String> {
    let mut world = World::new(seed, lie);
    for _ in 0..3 {
        world.live(3).map_err(|error| format!("seed {seed}: {error}"))?;
    }
    Ok(world.probes)
}

/// The first of some seeds that finds something.
fn finds(lie: Lie) -> Option<String> {
    (0..200).find_map(|seed| run(seed, lie).err())
}

#[test]
fn committed_datasets_survive_and_all_others_are_absent() {
    let mut probes = 0;
    for seed in 0..1_000 {
        probes += run(seed, Lie::Never).unwrap_or_else(|error| panic!("{error}"));
    }
    assert!(probes > 50_000, "power was lost only {probes} times");
}

#[test]
fn without_any_flush_they_do_not() {
    assert!(finds(Lie::Always).is_some());
}

#[test]
fn without_the_flush_of_blocks_they_do_not() {
    let found = finds(Lie::Blocks).expect("a dataset that is not whole");
    assert!(found.contains("not whole"), "{found}");
}

#[test]
fn without_the_flush_of_records_they_do_not() {
    assert!(finds(Lie::Records).is_some());
}
