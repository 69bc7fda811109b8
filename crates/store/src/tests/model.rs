//! Free space beside a list of units that are free or not, and stores beside a list of datasets.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::{NODE, OWNER, formatted, mount, name, settle, small};
use crate::manifest::Version;
use crate::space::Free;
use crate::{Error, State, UNIT};

const UNITS: u32 = 40;

fn longest(used: &[bool]) -> usize {
    used.split(|used| *used).map(<[bool]>::len).max().unwrap_or(0)
}

proptest! {
    #[test]
    fn space_is_given_once_and_comes_back(
        steps in prop::collection::vec((0u8..3, 1u32..12, 0u32..44), 0..80),
    ) {
        let mut free = Free::new(UNITS);
        let mut used = [false; UNITS as usize];
        let mut taken: Vec<(u32, u32)> = Vec::new();
        for (kind, units, at) in steps {
            let range = |start: u32, units: u32| start as usize..(start + units) as usize;
            let got = match kind {
                0 => {
                    let first = used.windows(units as usize).position(|it| !it.contains(&true));
                    prop_assert_eq!(free.take(units), first.map(|it| it as u32));
                    first.map(|it| (it as u32, units))
                }
                1 => {
                    let there = used.get(range(at, units));
                    let is_free = there.is_some_and(|it| !it.contains(&true));
                    prop_assert_eq!(free.claim(at, units), is_free);
                    is_free.then_some((at, units))
                }
                _ => {
                    if !taken.is_empty() {
                        let (start, units) = taken.swap_remove(at as usize % taken.len());
                        free.give(start, units);
                        used[range(start, units)].fill(false);
                    }
                    None
                }
            };
            if let Some((start, units)) = got {
                used[range(start, units)].fill(true);
                taken.push((start, units));
            }
            let (all, in_one) = free.bytes();
            let count = used.iter().filter(|used| !**used).count() as u64;
            prop_assert_eq!(all, count * UNIT);
            prop_assert_eq!(in_one, longest(&used) as u64 * UNIT);
        }
    }

    /// Of two names: epochs and attempts come in any order, are prepared, committed, removed.
    #[test]
    fn the_highest_epoch_wins_and_later_ones_are_fenced(
        steps in prop::collection::vec((0u8..4, any::<bool>(), 0u64..5, 0u32..2), 0..40),
        mounts in prop::collection::vec(any::<bool>(), 40),
    ) {
        let extent = small(40, 64);
        let mut disk = formatted(&extent);
        let mut store = mount(&disk, &extent).expect("an empty store");
        let mut model: BTreeMap<(bool, Version), State> = BTreeMap::new();
        for ((kind, which, epoch, attempt), remount) in steps.into_iter().zip(mounts) {
            let key = name(if which { "x" } else { "y" });
            let version = Version::new(epoch, attempt);
            let mut committed = model.iter().filter(|it| it.0.0 == which);
            let committed = committed.find(|it| *it.1 == State::Committed).map(|it| it.0.1);
            let fence = committed.filter(|it| *it != version && it.epoch >= version.epoch);
            let fence = fence.map(|committed| Error::Fenced { committed });
            let there = model.get(&(which, version)).copied();
            let expected = match kind {
                0 | 1 => {
                    let state = if kind == 0 { State::Prepared } else { State::Committed };
                    let exists = there.map(|_| Error::Exists);
                    let created = store.create(key.clone(), version, OWNER);
                    prop_assert_eq!(created.err(), fence.or(exists));
                    if let Ok(draft) = created {
                        let manifest = store.manifest(draft, &[NODE]).expect("it has no blocks");
                        let ticket = match state {
                            State::Prepared => store.prepare(draft, manifest),
                            State::Committed => store.commit_alone(draft, manifest),
                        };
                        prop_assert!(ticket.is_ok());
                        model.insert((which, version), state);
                        Some((Ok(()), state == State::Committed))
                    } else {
                        None
                    }
                }
                2 => {
                    prop_assert!(store.commit(&key, version).is_ok());
                    let error = fence.or(there.is_none().then_some(Error::NotFound));
                    Some((error.map_or(Ok(()), Err), error.is_none()))
                }
                _ => {
                    prop_assert!(store.remove(&key, version).is_ok());
                    let was = model.remove(&(which, version));
                    Some((was.map(|_| ()).ok_or(Error::NotFound), false))
                }
            };
            let ended = settle(&mut store, &mut disk);
            prop_assert_eq!(ended.first().map(|it| it.1), expected.map(|it| it.0));
            if expected.is_some_and(|it| it.1) {
                model.insert((which, version), State::Committed);
                model.retain(|it, _| {
                    it.0 != which || it.1 == version || it.1.epoch > version.epoch
                });
            }
            if remount {
                store = mount(&disk, &extent).expect("it was whole");
                settle(&mut store, &mut disk);
            }
            let found = store.datasets().map(|it| {
                ((it.manifest.name.as_str() == "x", it.manifest.version), it.state)
            });
            prop_assert_eq!(found.collect::<BTreeMap<_, _>>(), model.clone());
        }
    }
}
