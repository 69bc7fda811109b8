//! The catalogue of three nodes: what is committed, whole, lost, and what is left to be decided.

use alloc::rc::Rc;
use alloc::vec::Vec;

use nile_abi::{Generation, NodeId};

use super::name;
use crate::{Block, Catalogue, Error, Manifest, Owner, State, Verdict, Version};

const NODES: [NodeId; 3] = [NodeId(1), NodeId(2), NodeId(3)];
const VERSION: Version = Version { epoch: crate::Epoch(4), attempt: crate::Attempt(0) };

/// Three blocks in two copies each: on nodes 1 and 2, 2 and 3, 3 and 1.
fn manifest(version: Version) -> Rc<Manifest> {
    let owner = Owner::Node { node: NODES[0], generation: Generation(7) };
    let mut manifest = Manifest::new(name("d"), version, owner, 2).expect("two copies");
    for at in 0..3 {
        let block = Block { bytes: 10, checksum: at as u32 };
        assert!(manifest.push(block, &[NODES[at], NODES[(at + 1) % 3]]));
    }
    Rc::new(manifest)
}

fn catalogue(states: [State; 3]) -> Catalogue {
    let mut catalogue = Catalogue::new();
    for (node, state) in NODES.into_iter().zip(states) {
        catalogue.present(node, Generation(7));
        catalogue.add(node, &manifest(VERSION), state).expect("they agree");
    }
    catalogue
}

#[test]
fn one_store_that_says_committed_is_enough() {
    use State::{Committed, Prepared};
    assert!(catalogue([Prepared; 3]).find(&name("d")).is_none());
    for at in 0..3 {
        let mut states = [Prepared; 3];
        states[at] = Committed;
        let catalogue = catalogue(states);
        let view = catalogue.find(&name("d")).expect("it is committed");
        assert_eq!((view.confirmed(), view.is_whole()), (1, true));
        assert_eq!(catalogue.list().count(), 1);
        for (node, state) in NODES.into_iter().zip(states) {
            let verdict = catalogue.verdict(node, &name("d"), VERSION);
            let expected = if state == Prepared { Verdict::Commit } else { Verdict::Wait };
            assert_eq!(verdict, expected);
        }
    }
}

#[test]
fn blocks_are_lost_with_their_last_node() {
    let mut catalogue = catalogue([State::Committed; 3]);
    catalogue.absent(NODES[1]);
    let view = catalogue.find(&name("d")).expect("it is committed");
    assert!(view.is_whole());
    assert_eq!(view.nodes(0).collect::<Vec<_>>(), [NODES[0]]);
    assert_eq!(view.nodes(2).collect::<Vec<_>>(), [NODES[2], NODES[0]]);
    catalogue.absent(NODES[2]);
    let view = catalogue.find(&name("d")).expect("it is committed");
    assert_eq!(view.lost().collect::<Vec<_>>(), [1]);
    // A node that is back without its disk has nothing.
    catalogue.present(NODES[2], Generation(8));
    assert!(!catalogue.find(&name("d")).expect("it is committed").is_whole());
    catalogue.add(NODES[2], &manifest(VERSION), State::Committed).expect("they agree");
    assert!(catalogue.find(&name("d")).expect("it is committed").is_whole());
    NODES.into_iter().for_each(|node| catalogue.absent(node));
    assert!(catalogue.find(&name("d")).is_none() && catalogue.list().next().is_none());
}

#[test]
fn only_the_owner_gives_up() {
    let mut catalogue = catalogue([State::Prepared; 3]);
    let verdict = |it: &Catalogue| it.verdict(NODES[1], &name("d"), VERSION);
    assert_eq!(verdict(&catalogue), Verdict::Wait, "the owner is still at it");
    catalogue.absent(NODES[0]);
    assert_eq!(verdict(&catalogue), Verdict::Wait, "the owner may have committed it");
    catalogue.present(NODES[0], Generation(8));
    assert_eq!(verdict(&catalogue), Verdict::Remove, "the owner knows nothing of it");
    catalogue.add(NODES[0], &manifest(VERSION), State::Committed).expect("they agree");
    assert_eq!(verdict(&catalogue), Verdict::Commit, "the owner had committed it");
}

#[test]
fn a_later_epoch_wins_and_what_is_older_goes() {
    let mut catalogue = catalogue([State::Committed; 3]);
    let later = Version::new(5, 1);
    catalogue.add(NODES[2], &manifest(later), State::Prepared).expect("they agree");
    assert_eq!(catalogue.find(&name("d")).expect("it is").manifest().version, VERSION);
    assert_eq!(catalogue.verdict(NODES[0], &name("d"), VERSION), Verdict::Wait);
    catalogue.add(NODES[2], &manifest(later), State::Committed).expect("they agree");
    assert_eq!(catalogue.find(&name("d")).expect("it is").manifest().version, later);
    assert_eq!(catalogue.verdict(NODES[0], &name("d"), VERSION), Verdict::Remove);
    catalogue.remove(NODES[2], &name("d"), later);
    assert_eq!(catalogue.find(&name("d")).expect("it is").manifest().version, VERSION);
}

#[test]
fn stores_that_disagree_are_told() {
    let mut catalogue = catalogue([State::Committed; 3]);
    catalogue.present(NodeId(4), Generation::FIRST);
    let mut other = Manifest::clone(&manifest(VERSION));
    assert!(other.push(Block { bytes: 1, checksum: 1 }, &NODES[..2]));
    let added = catalogue.add(NodeId(4), &Rc::new(other), State::Committed);
    assert_eq!(added, Err(Error::Mismatch { block: 3 }));
    let absent = catalogue.add(NodeId(5), &manifest(VERSION), State::Committed);
    assert_eq!(absent, Err(Error::NotFound));
    assert_eq!(catalogue.find(&name("d")).expect("it is").confirmed(), 3);
}
