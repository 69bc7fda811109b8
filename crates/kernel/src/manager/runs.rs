//! Runs of consecutive frames for what cores share. A channel needs a few 4 KiB frames in a row;
//! they are cut out of whole 2 MiB collections, so that shared memory stays together and the other
//! collections stay free for large requests.

use alloc::vec::Vec;

use nile_abi::{PageSize, PhysAddr};

const FRAMES: usize = PageSize::Large.frames() as usize;
const FRAME: u64 = PageSize::Small.bytes();

struct Chunk {
    start: PhysAddr,
    used: [bool; FRAMES],
    /// An earlier incarnation of the managing core cut it; not all its runs need be known here.
    adopted: bool,
}

/// The 2 MiB collections that runs are cut from.
#[derive(Default)]
pub struct Runs {
    chunks: Vec<Chunk>,
}

/// Why a run cannot be given back: no run starts there, or it is shorter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotARun;

impl Runs {
    /// The most frames in one run.
    pub const MOST: usize = FRAMES;

    /// Adds a 2 MiB collection to cut from.
    pub fn add(&mut self, start: PhysAddr) {
        debug_assert!(start.is_aligned(PageSize::Large));
        self.push(start, false);
    }

    fn push(&mut self, start: PhysAddr, adopted: bool) {
        self.chunks.push(Chunk { start, used: [false; FRAMES], adopted });
    }

    /// The first run of `frames` free frames, or `None`: then [`add`](Runs::add) a collection.
    pub fn take(&mut self, frames: usize) -> Option<PhysAddr> {
        if frames == 0 || frames > Runs::MOST {
            return None;
        }
        self.chunks.iter_mut().filter(|chunk| !chunk.adopted).find_map(|chunk| {
            let first = (0..=FRAMES - frames)
                .find(|at| chunk.used[*at..*at + frames].iter().all(|u| !u))?;
            chunk.used[first..first + frames].fill(true);
            Some(PhysAddr(chunk.start.0 + first as u64 * FRAME))
        })
    }

    /// Notes a run that an earlier incarnation of the managing core cut. Its collection is not cut
    /// again, and does not come back before [`Runs::all_adopted`]. In a collection that this
    /// incarnation cuts there is none: it was free when this one took it.
    pub fn adopt(&mut self, start: PhysAddr, frames: usize) -> Result<(), NotARun> {
        let base = start.align_down(PageSize::Large);
        if !self.chunks.iter().any(|chunk| chunk.start == base) {
            self.push(base, true);
        }
        let first = ((start.0 - base.0) / FRAME) as usize;
        let mut chunks = self.chunks.iter_mut();
        let chunk = chunks.find(|chunk| chunk.start == base && chunk.adopted).ok_or(NotARun)?;
        let run = chunk.used.get_mut(first..first.saturating_add(frames)).ok_or(NotARun)?;
        run.fill(true);
        Ok(())
    }

    /// Every run that anybody knows of has been adopted: the collections are like all others, and
    /// those without runs come back. What is still mapped though nobody knows of it stays in use.
    pub fn all_adopted(&mut self, is_mapped: impl Fn(PhysAddr) -> bool) -> Vec<PhysAddr> {
        for chunk in self.chunks.iter_mut().filter(|chunk| chunk.adopted) {
            chunk.adopted = false;
            for (number, used) in chunk.used.iter_mut().enumerate() {
                *used |= is_mapped(PhysAddr(chunk.start.0 + number as u64 * FRAME));
            }
        }
        let unused = |chunk: &Chunk| chunk.used.iter().all(|used| !used);
        let back = self.chunks.iter().filter(|chunk| unused(chunk)).map(|chunk| chunk.start);
        let back = back.collect();
        self.chunks.retain(|chunk| !unused(chunk));
        back
    }

    /// Gives a run back. Returns its collection if nothing of that is in use any more; it is
    /// forgotten here and the caller frees it.
    pub fn give(&mut self, start: PhysAddr, frames: usize) -> Result<Option<PhysAddr>, NotARun> {
        let base = start.align_down(PageSize::Large);
        let at = self.chunks.iter().position(|chunk| chunk.start == base).ok_or(NotARun)?;
        let chunk = &mut self.chunks[at];
        let first = ((start.0 - base.0) / FRAME) as usize;
        let run = chunk.used.get_mut(first..first.saturating_add(frames)).ok_or(NotARun)?;
        if !start.is_aligned(PageSize::Small) || !run.iter().all(|used| *used) {
            return Err(NotARun);
        }
        run.fill(false);
        if chunk.adopted || chunk.used.iter().any(|used| *used) {
            return Ok(None);
        }
        self.chunks.swap_remove(at);
        Ok(Some(base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: PhysAddr = PhysAddr(4 << 20);

    fn at(frame: u64) -> PhysAddr {
        PhysAddr(BASE.0 + frame * FRAME)
    }

    #[test]
    fn runs_do_not_overlap_and_holes_are_filled_first() {
        let mut runs = Runs::default();
        assert_eq!(runs.take(1), None);
        runs.add(BASE);
        assert_eq!(runs.take(3), Some(at(0)));
        assert_eq!(runs.take(2), Some(at(3)));
        assert_eq!(runs.give(at(0), 3), Ok(None));
        assert_eq!(runs.take(4), Some(at(5)));
        assert_eq!(runs.take(2), Some(at(0)));
        assert_eq!(runs.take(FRAMES), None);
        assert_eq!(runs.take(FRAMES + 1), None);
        assert_eq!(runs.take(0), None);
    }

    #[test]
    fn an_unused_collection_comes_back() {
        let mut runs = Runs::default();
        runs.add(BASE);
        let all = runs.take(FRAMES).unwrap();
        assert_eq!(runs.give(all, FRAMES), Ok(Some(BASE)));
        assert_eq!(runs.give(all, FRAMES), Err(NotARun));
        assert_eq!(runs.take(1), None);
    }

    #[test]
    fn an_adopted_run_is_in_use() {
        let mut runs = Runs::default();
        assert_eq!(runs.adopt(at(2), 2), Ok(()));
        assert_eq!(runs.adopt(at(2), 2), Ok(()));
        assert_eq!(runs.adopt(at(511), 2), Err(NotARun));
        assert_eq!(runs.take(3), None, "frames around it may be in use, too");
        assert_eq!(runs.give(at(2), 1), Ok(None));
        assert_eq!(runs.all_adopted(|_| false), []);
        assert_eq!(runs.take(3), Some(at(0)), "the frame after it is in use");
        assert_eq!(runs.give(at(0), 4), Ok(Some(BASE)));
    }

    #[test]
    fn an_adopted_collection_comes_back_when_all_is_known() {
        let mut runs = Runs::default();
        assert_eq!(runs.adopt(at(2), 2), Ok(()));
        assert_eq!(runs.give(at(2), 2), Ok(None));
        assert_eq!(runs.all_adopted(|_| false), [BASE]);
        assert_eq!(runs.take(1), None);
    }

    #[test]
    fn what_nobody_knows_but_is_mapped_stays_in_use() {
        let mut runs = Runs::default();
        assert_eq!(runs.adopt(at(4), 1), Ok(()));
        assert_eq!(runs.all_adopted(|frame| frame == at(2)), []);
        assert_eq!(runs.take(2), Some(at(0)));
        assert_eq!(runs.take(1), Some(at(3)), "not the frame before it");
    }

    #[test]
    fn a_collection_of_this_incarnation_has_no_older_runs() {
        let mut runs = Runs::default();
        runs.add(BASE);
        runs.take(2).unwrap();
        assert_eq!(runs.adopt(at(1), 4), Err(NotARun));
        assert_eq!(runs.take(1), Some(at(2)));
    }

    #[test]
    fn what_is_not_a_run_changes_nothing() {
        let mut runs = Runs::default();
        runs.add(BASE);
        runs.take(2).unwrap();
        assert_eq!(runs.give(at(1), 2), Err(NotARun));
        assert_eq!(runs.give(at(511), 2), Err(NotARun));
        assert_eq!(runs.give(PhysAddr(at(0).0 + 8), 1), Err(NotARun));
        assert_eq!(runs.give(PhysAddr(0), 1), Err(NotARun));
        assert_eq!(runs.take(1), Some(at(2)));
    }
}
