//! A directory alone: pages from any version, in any order, end with the same directory.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

const ROOM: Room = Room { entries: 1_000, instance: 1_000, bytes: 1 << 20 };

fn instance(number: u16, name: &str) -> Instance {
    Instance {
        number,
        core: 1,
        generation: 1,
        name: name.to_string(),
        type_name: "store".to_string(),
        subsystem: "storage".to_string(),
        capability: "blocks".to_string(),
        layer: crate::Layer::High,
        extends: Vec::new(),
        keywords: Vec::new(),
        attributes: Vec::new(),
        changed: 0,
    }
}

fn copy(source: &Directory, into: &mut Directory, room: usize) -> Vec<Applied> {
    let mut told = Vec::new();
    while let Some(changes) = source.changes(1, 1, into.version(), room) {
        assert!(size(&changes) <= room, "{} bytes", size(&changes));
        assert!(changes.version > into.version());
        assert_eq!(into.apply(changes, ROOM, |it| told.push(it)), 0);
    }
    told
}

#[test]
fn a_change_is_told_as_what_it_is() {
    let (mut own, mut other) = (Directory::default(), Directory::default());
    own.update(Update::Publish(instance(1, "a")), ROOM).unwrap();
    assert!(matches!(copy(&own, &mut other, 500)[..], [Applied::Published(_)]));
    own.update(Update::Move { number: 1, core: 2, generation: 1 }, ROOM).unwrap();
    assert!(matches!(copy(&own, &mut other, 500)[..], [Applied::Moved(_)]));
    own.update(Update::Publish(Instance { core: 2, ..instance(1, "b") }), ROOM).unwrap();
    assert!(matches!(copy(&own, &mut other, 500)[..], [Applied::Published(_)]));
    own.update(Update::Unpublish(1), ROOM).unwrap();
    assert!(matches!(copy(&own, &mut other, 500)[..], [Applied::Unpublished(_)]));
    assert_eq!((own.version(), other.version(), other.bytes()), (4, 4, own.bytes()));
    assert_eq!(copy(&own, &mut other, 500), []);
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let mut own = Directory::default();
    let room = Room { entries: 2, instance: 80, ..ROOM };
    assert_eq!(own.update(Update::Unpublish(7), room), Err(Refused::Unknown { number: 7 }));
    let moved = Update::Move { number: 7, core: 1, generation: 1 };
    assert_eq!(own.update(moved, room), Err(Refused::Unknown { number: 7 }));
    let large = instance(1, &"a".repeat(60));
    let bytes = size(&large);
    let refused = Refused::TooLarge { bytes, most: 80 };
    assert_eq!(own.update(Update::Publish(large), room), Err(refused));
    assert_eq!(own, Directory::default());
    for number in 1..=2 {
        own.update(Update::Publish(instance(number, "a")), room).unwrap();
    }
    let third = Update::Publish(instance(3, "a"));
    assert_eq!(own.update(third, room), Err(Refused::Full { entries: 2 }));
    let core = Update::Core(Core { core: 0, generation: 1, roles: 1, changed: 0 });
    assert_eq!(own.update(core, room), Err(Refused::Full { entries: 2 }));
    assert_eq!(own.version(), 2);
}

#[test]
fn former_numbers_become_one_range() {
    let mut own = Directory::default();
    for number in 1..=600 {
        own.update(Update::Publish(instance(number, "a")), ROOM).unwrap();
        own.update(Update::Unpublish(number), ROOM).unwrap();
    }
    assert_eq!(own.gone, [Gone { first: 1, last: 600, changed: 1_200 }]);
    own.update(Update::Publish(instance(300, "again")), ROOM).unwrap();
    let ranges: Vec<(u16, u16)> = own.gone.iter().map(|gone| (gone.first, gone.last)).collect();
    assert_eq!(ranges, [(1, 299), (301, 600)]);
}

#[derive(Clone, Debug)]
enum Step {
    Change(Update),
    /// A copy takes the pages that it lacks from the owner, or from the other copy.
    Copy {
        to: usize,
        from_owner: bool,
        room: usize,
        pages: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let number = 1..12_u16;
    let change = prop_oneof![
        (number.clone(), "[a-c]{0,40}").prop_map(|(n, name)| Update::Publish(instance(n, &name))),
        number.clone().prop_map(Update::Unpublish),
        (number, 0..4_u16).prop_map(|(number, core)| Update::Move { number, core, generation: 2 }),
        (0..4_u16, 0..16_u8).prop_map(|(core, roles)| {
            Update::Core(Core { core, generation: 1, roles, changed: 0 })
        }),
    ];
    let copy = (0..2_usize, any::<bool>(), 130..600_usize, 1..4_usize);
    let step = prop_oneof![
        3 => change.prop_map(Step::Change),
        1 => copy.prop_map(|(to, from_owner, room, pages)| {
            Step::Copy { to, from_owner, room, pages }
        }),
    ];
    prop::collection::vec(step, 0..60)
}

/// The change, but of an instance that there is, or of a number that was never used.
fn fresh(owner: &Directory, update: Update) -> Update {
    let known = |number: u16| {
        let mut numbers = owner.instances.keys();
        numbers.nth(usize::from(number) % owner.instances.len().max(1)).copied()
    };
    let next = owner.version as u16 + 100;
    match update {
        Update::Publish(instance) => {
            let number = Some(instance.number).filter(|it| it % 3 > 0).and_then(known);
            Update::Publish(Instance { number: number.unwrap_or(next), ..instance })
        }
        Update::Unpublish(number) => Update::Unpublish(known(number).unwrap_or(next)),
        Update::Move { number, core, generation } => {
            Update::Move { number: known(number).unwrap_or(next), core, generation }
        }
        Update::Core(core) => Update::Core(core),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_way_through_the_pages_ends_with_the_same(steps in steps()) {
        let mut owner = Directory::default();
        let mut copies = vec![Directory::default(), Directory::default()];
        for step in steps {
            match step {
                Step::Change(update) => drop(owner.update(fresh(&owner, update), ROOM)),
                Step::Copy { to, from_owner, room, pages } => {
                    for _ in 0..pages {
                        let held = copies[to].version();
                        let source = if from_owner { &owner } else { &copies[1 - to] };
                        let Some(changes) = source.changes(1, 1, held, room) else { break };
                        prop_assert_eq!(copies[to].apply(changes, ROOM, |_| {}), 0);
                    }
                }
            }
        }
        for mut held in copies {
            copy(&owner, &mut held, 400);
            held.version = owner.version;
            prop_assert_eq!(&held, &owner);
        }
    }
}
