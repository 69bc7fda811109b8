//! Random requests to the service and to the naive one.

use super::super::*;
use super::model::{Model, ModelRegion};
use super::{GIB, LARGE, MIB, OWNERS, Storage, garbage};
use alloc::collections::BTreeMap;
use proptest::prelude::*;
use proptest::sample::Index;

#[derive(Clone, Debug)]
enum Op {
    Alloc(PageSize, CoreId, usize),
    Free(Index),
    FreeAnything(Index, u64, PageSize),
    Reserve(Index, u64, u64, CoreId),
    Reclaim(CoreId),
    Add(Index),
    Drain(Index),
    Resume(Index),
    Remove(Index),
    Recover,
}

fn any_op(most: usize) -> impl Strategy<Value = Op> {
    let size = proptest::sample::select(PageSize::ALL.to_vec());
    let owner = proptest::sample::select(OWNERS.to_vec());
    prop_oneof![
        8 => (size.clone(), owner.clone(), 1..=most).prop_map(|(s, o, n)| Op::Alloc(s, o, n)),
        8 => any::<Index>().prop_map(Op::Free),
        2 => (any::<Index>(), 0u64..1 << 20, size).prop_map(|(i, f, s)| Op::FreeAnything(i, f, s)),
        2 => (any::<Index>(), 0u64..2000, 0u64..1500, owner.clone())
            .prop_map(|(i, f, n, o)| Op::Reserve(i, f, n, o)),
        1 => owner.prop_map(Op::Reclaim),
        2 => any::<Index>().prop_map(Op::Add),
        1 => any::<Index>().prop_map(Op::Drain),
        1 => any::<Index>().prop_map(Op::Resume),
        2 => any::<Index>().prop_map(Op::Remove),
        1 => Just(Op::Recover),
    ]
}

/// The service and the model, with the regions that can be added.
struct Pair {
    memory: PhysicalMemory<Storage>,
    records: BTreeMap<u64, Storage>,
    model: Model,
    candidates: &'static [(u64, u64)],
}

impl Pair {
    fn new(candidates: &'static [(u64, u64)]) -> Pair {
        let memory = PhysicalMemory::new();
        Pair { memory, records: BTreeMap::new(), model: Model::default(), candidates }
    }

    fn apply(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Alloc(size, owner, count) => {
                for _ in 0..count {
                    self.alloc(size, owner)?;
                }
            }
            Op::Free(index) => {
                let pieces: Vec<_> = self.model.pieces.iter().map(|(a, (s, _))| (*a, *s)).collect();
                if let Some((address, size)) = any_of(index, &pieces) {
                    prop_assert_eq!(self.memory.free(PhysAddr(address), size), Ok(()));
                    let again = self.memory.free(PhysAddr(address), size);
                    prop_assert_eq!(again, Err(FreeError::NotAllocated));
                    prop_assert_eq!(self.model.free(address, size), Ok(()));
                }
            }
            Op::FreeAnything(index, offset, size) => {
                let (start, _) = self.candidates[index.index(self.candidates.len())];
                let address = start + offset * 512;
                let expected = self.model.free(address, size);
                prop_assert_eq!(self.memory.free(PhysAddr(address), size), expected);
            }
            Op::Reserve(index, offset, frames, owner) => {
                let (start, _) = self.candidates[index.index(self.candidates.len())];
                self.reserve(start + offset * 4096 + offset % 4, frames * 4096, owner)?;
            }
            Op::Reclaim(owner) => {
                let before = self.memory.usage(owner);
                prop_assert_eq!(self.memory.reclaim(owner), before);
                self.model.pieces.retain(|_, (_, of)| *of != owner);
            }
            Op::Add(index) => {
                let (start, bytes) = self.candidates[index.index(self.candidates.len())];
                let words = garbage(start, bytes);
                let added = self.memory.add_region(PhysAddr(start), bytes, words.clone());
                if self.model.regions.iter().any(|region| region.start == start) {
                    prop_assert_eq!(added, Err(AddError::Overlaps));
                } else {
                    prop_assert_eq!(added, Ok(()));
                    self.model.regions.push(ModelRegion { start, bytes, draining: false });
                    self.model.regions.sort_by_key(|region| region.start);
                    self.records.insert(start, words);
                }
            }
            Op::Drain(index) | Op::Resume(index) if !self.model.regions.is_empty() => {
                let draining = matches!(op, Op::Drain(_));
                let at = index.index(self.model.regions.len());
                self.model.regions[at].draining = draining;
                let region = self.model.regions[at];
                let start = PhysAddr(region.start);
                if draining {
                    let free: u64 = self.model.collections(&region).iter().map(|c| c.free).sum();
                    prop_assert_eq!(self.memory.drain(start), Ok(region.bytes - free * 4096));
                } else {
                    prop_assert_eq!(self.memory.resume(start), Ok(()));
                }
            }
            Op::Remove(index) => self.remove(index)?,
            Op::Recover => {
                let records = self.records.values().cloned();
                let recovered = PhysicalMemory::recover(records);
                prop_assert!(recovered.is_ok());
                self.memory = recovered.unwrap_or_default();
            }
            Op::Drain(_) | Op::Resume(_) => {}
        }
        Ok(())
    }

    fn alloc(&mut self, size: PageSize, owner: CoreId) -> Result<(), TestCaseError> {
        let allowed = self.model.allowed(size);
        match self.memory.alloc(size, owner) {
            Ok(address) => {
                prop_assert!(address.is_aligned(size));
                prop_assert!(allowed.iter().any(|range| range.contains(&address.0)));
                let last = address.0 + size.bytes() - 1;
                prop_assert_eq!(self.model.covered(address.0), None);
                prop_assert_eq!(self.model.covered(last), None);
                let region = self.model.region_of(address.0);
                prop_assert!(region.is_some());
                prop_assert_eq!(self.model.region_of(last), region);
                self.model.pieces.insert(address.0, (size, owner));
            }
            Err(error) => {
                prop_assert_eq!(error, AllocError::OutOfFrames);
                prop_assert!(allowed.is_empty(), "{:?} of {:?}", size, allowed);
            }
        }
        Ok(())
    }

    fn reserve(&mut self, start: u64, bytes: u64, owner: CoreId) -> Result<(), TestCaseError> {
        let result = self.memory.reserve(PhysAddr(start), bytes, owner);
        let (first, end) = (start / 4096 * 4096, (start + bytes).next_multiple_of(4096));
        let region = self.model.region_of(first).map(|at| self.model.regions[at]);
        if region.is_none_or(|region| start + bytes > region.start + region.bytes) {
            prop_assert_eq!(result, Err(ReserveError::NotOurs));
            return Ok(());
        }
        if (first..end).step_by(4096).any(|frame| self.model.covered(frame).is_some()) {
            prop_assert_eq!(result, Err(ReserveError::NotFree));
            return Ok(());
        }
        prop_assert_eq!(result, Ok(()));
        let mut at = first;
        while at < end {
            let large = at.is_multiple_of(LARGE) && end - at >= LARGE;
            let size = if large { PageSize::Large } else { PageSize::Small };
            self.model.pieces.insert(at, (size, owner));
            at += size.bytes();
        }
        Ok(())
    }

    fn remove(&mut self, index: Index) -> Result<(), TestCaseError> {
        let Some(region) = any_of(index, &self.model.regions) else { return Ok(()) };
        let removed = self.memory.remove(PhysAddr(region.start)).map(|_| ());
        let frames: u64 = self.model.collections(&region).iter().map(|c| c.free).sum();
        let used = region.bytes - frames * 4096;
        if !region.draining {
            prop_assert_eq!(removed, Err(DrainError::NotDraining));
        } else if used > 0 {
            prop_assert_eq!(removed, Err(DrainError::InUse(used)));
        } else {
            prop_assert_eq!(removed, Ok(()));
            self.model.regions.retain(|other| other.start != region.start);
            let record = self.records.remove(&region.start);
            prop_assert!(PhysicalMemory::recover(record).is_err());
        }
        Ok(())
    }
}

fn any_of<T: Copy>(index: Index, of: &[T]) -> Option<T> {
    (!of.is_empty()).then(|| of[index.index(of.len())])
}

fn compare(candidates: &'static [(u64, u64)], ops: Vec<Op>) -> Result<(), TestCaseError> {
    let mut pair = Pair::new(candidates);
    // The last candidate is left to be added on the way.
    for &(start, bytes) in &candidates[..candidates.len() - 1] {
        let words = garbage(start, bytes);
        prop_assert_eq!(pair.memory.add_region(PhysAddr(start), bytes, words.clone()), Ok(()));
        pair.records.insert(start, words);
        pair.model.regions.push(ModelRegion { start, bytes, draining: false });
    }
    for op in ops {
        pair.apply(op)?;
        pair.model.check(&pair.memory)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn small_regions_are_handed_out_as_the_naive_policy_does(
        ops in proptest::collection::vec(any_op(700), 1..40),
    ) {
        compare(&[(0x1000, 0x9_e000), (0x10_0000, 6 * MIB + 0x3000), (0x80_0000, 4096),
            (0x80_1000, 3 * MIB)], ops)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn large_regions_are_handed_out_as_the_naive_policy_does(
        ops in proptest::collection::vec(any_op(3), 1..120),
    ) {
        compare(&[(0x10_0000, 2 * GIB + 5 * MIB), (3 * GIB - LARGE, 2 * LARGE + 0x5000),
            (4 * GIB, GIB)], ops)?;
    }
}
