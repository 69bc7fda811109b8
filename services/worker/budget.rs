//! Whether what a map attempt makes can stay in memory. No IO.
//!
//! Outputs stay until the job is over, so a worker that keeps its output takes buffers from all of
//! its node for good. What all need to go on has to be left, or everybody waits for ever.

/// Buffers that a worker needs to go on: the block it works on and four that are loaded meanwhile;
/// what it writes and what of that is on its way to the disk; one that is packed for another node,
/// and one that is on its way there. A task that groups the records of eight blocks has all of
/// them, but neither writes nor sends; what is more is for two workers one of which does a task
/// again, whose output nobody has counted.
pub const WORKING: usize = 14;

/// What is known of a node's pool when a map attempt begins.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Buffers of the pool.
    pub capacity: usize,
    /// Buffers that nobody has.
    pub free: usize,
    /// Buffers that are left to those who receive from other nodes.
    pub reserve: usize,
    /// Buffers that the job may use, if not all.
    pub most: Option<usize>,
    /// Worker cores of the node: each may be about to keep as much.
    pub workers: usize,
    /// Buffers for pieces that come from other nodes; `None` if there are no others.
    pub coming: Option<usize>,
    /// Buffers that would hold the job's whole input as its outputs; 0 if that is not known.
    pub all: usize,
    /// Map tasks of the job, about: each may leave a run.
    pub maps: usize,
}

impl Budget {
    fn used(&self) -> usize {
        self.capacity.saturating_sub(self.free)
    }

    fn left(&self) -> usize {
        self.capacity.saturating_sub(self.reserve)
    }

    /// Buffers that outputs, and what comes from other nodes, may have on this node.
    fn shared(&self) -> usize {
        let left = self.left();
        let most = self.most.map_or(left, |most| most.min(left));
        most.saturating_sub(WORKING * self.workers.max(1))
    }

    /// Buffers that outputs may have on this node.
    fn room(&self) -> usize {
        let shared = self.shared();
        // Half is for outputs, however much comes.
        shared - self.coming.unwrap_or(0).min(shared / 2)
    }

    /// How many buffers an attempt keeps at most that does not have to spill and was expected to
    /// keep this many: an eighth more or, as long as there is room, half of its share of that. Who
    /// makes more than was expected is not alone: what comes from other nodes is more, too, by the
    /// same factor.
    pub fn keeps(&self, buffers: usize) -> usize {
        let coming = self.coming.unwrap_or(0).div_ceil(buffers.max(1));
        let shares = (2 * self.workers.max(1)).saturating_add(coming);
        let share = self.shared().saturating_sub(self.used()) / shares;
        share.max(buffers + buffers / 8 + 1)
    }

    /// How many outputs an attempt keeps at most. Whoever reduces on another node has all outputs
    /// of a partition at once, each in buffers of its own: half of what a node like this one has
    /// for outputs is for them.
    pub fn outputs(&self) -> usize {
        if self.coming.is_none() {
            return usize::MAX;
        }
        let room = self.left().saturating_sub(WORKING * self.workers.max(1));
        (room / 2 / self.workers.max(1) / self.maps.max(1)).max(1)
    }

    /// Whether an attempt that would keep this many buffers has to spill.
    pub fn spills(&self, buffers: usize) -> bool {
        let workers = self.workers.max(1);
        let (used, left, room) = (self.used(), self.left(), self.room());
        if self.coming.is_none() && (1..=room).contains(&self.all) {
            return false;
        }
        // All may leave runs from now on, and a worker at a time has to have room to merge them.
        let merging = self.maps.saturating_add(WRITING).saturating_add(2 * workers);
        let kept = used.saturating_add(buffers.saturating_mul(workers));
        if merging <= left && kept.saturating_add(merging) > left {
            return true;
        }
        // Who spills from now on needs a whole split for that, and so do all others.
        let splits = buffers.saturating_mul(workers);
        used.saturating_add(splits.saturating_mul(2)) > room
    }
}

/// Buffers that pieces from other nodes take at once on a node of so many workers: those of two
/// slices, the one that is taken and the one that comes, each in as many buffers as there are
/// splits at least. `blocks` are those of the input and of a split, `pieces` those of an output:
/// slices of all partitions.
pub fn coming(blocks: (usize, usize), pieces: usize, slices: u32, workers: usize) -> usize {
    let (all, split) = (blocks.0, blocks.1.max(1));
    if slices <= 1 {
        // All of a partition comes before any of it is written.
        return all;
    }
    let piece = split.div_ceil(pieces.max(1));
    2 * workers.max(1) * all.div_ceil(split).saturating_mul(piece)
}

/// Buffers that a merging reduce attempt has besides its runs' blocks: what it writes, what of that
/// is on its way to the disk, and what comes out of memory.
pub const WRITING: usize = 4;

/// Runs that are to be merged by an attempt on a node of so many workers, whose pool has so many
/// buffers for that.
#[derive(Clone, Copy, Debug)]
pub struct Merging {
    /// Buffers of the pool that anybody may take.
    pub buffers: usize,
    /// Worker cores of the node: each may merge as many.
    pub workers: usize,
    /// Runs.
    pub runs: usize,
}

impl Merging {
    /// How many blocks of each run are read ahead: one, if all workers of the node can do so side
    /// by side; `None` if there is no room for merging them at all.
    pub fn ahead(self) -> Option<u32> {
        let Merging { buffers, workers, runs } = self;
        let all = runs.saturating_mul(2).saturating_add(WRITING).saturating_mul(workers.max(1));
        let least = runs.saturating_add(WRITING);
        (least <= buffers).then_some(u32::from(all <= buffers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_read_ahead_where_there_is_room_for_all_workers() {
        let merging = |buffers, workers, runs| Merging { buffers, workers, runs }.ahead();
        assert_eq!(
            [(200, 2, 48), (200, 2, 49)].map(|(a, b, c)| merging(a, b, c)),
            [Some(1), Some(0)]
        );
        assert_eq!([196, 197].map(|runs| merging(200, 2, runs)), [Some(0), None]);
        assert_eq!((merging(4, 0, 0), merging(3, 1, 0)), (Some(1), None));
        assert_eq!(merging(usize::MAX - 1, usize::MAX, usize::MAX / 3), Some(0));
    }

    #[test]
    fn two_slices_come_at_once() {
        // 24 splits of 25 blocks, three partitions of 16 slices: pieces of about half a block.
        assert_eq!(coming((594, 25), 48, 16, 1), 48);
        assert_eq!(coming((594, 25), 6, 2, 2), 2 * 2 * 24 * 5);
        assert_eq!(coming((594, 25), 3, 1, 1), 594);
        assert_eq!(coming((0, 0), 0, 2, 0), 0);
    }

    const NODE: Budget = Budget {
        capacity: 1024,
        free: 1024,
        reserve: 16,
        most: None,
        workers: 2,
        coming: None,
        all: 0,
        maps: 0,
    };

    #[test]
    fn what_fits_is_kept_until_others_would_starve() {
        assert!(!NODE.spills(64));
        // Two workers keep splits of 64 blocks, one after the other.
        let mut free = NODE.capacity;
        let mut kept = 0;
        while !(Budget { free, ..NODE }).spills(64) {
            free -= 64;
            kept += 64;
        }
        assert!(kept >= 1024 / 2, "only {kept} are kept");
        assert!(free >= NODE.workers * WORKING, "{free} are left");
        // The other one may have begun at the same time, and then both spill what comes next.
        let left = free - 64 - NODE.reserve;
        assert!(left >= 2 * 64 + NODE.workers * WORKING, "{left} are left");
    }

    #[test]
    fn who_makes_more_than_was_expected_keeps_what_there_is_room_for() {
        let room = NODE.capacity - NODE.reserve - 2 * WORKING;
        assert_eq!(NODE.keeps(64), room / 4, "as much for the other worker, and for what follows");
        let tight = Budget { free: NODE.capacity - room, ..NODE };
        assert_eq!((tight.keeps(64), tight.keeps(1)), (64 + 8 + 1, 2));
        assert_eq!(Budget { workers: 0, capacity: 0, free: 0, ..NODE }.keeps(0), 1);
    }

    #[test]
    fn outputs_that_are_larger_than_the_input_leave_room_for_as_large_ones_of_others() {
        // Half of eight splits of eight blocks is on another node, and all is reduced here: what
        // both keep has room, however much each makes.
        let node = Budget { capacity: 255, free: 255, workers: 1, coming: Some(62), ..NODE };
        let kept = (0..4).fold(0, |used, _| used + Budget { free: 255 - used, ..node }.keeps(8));
        assert!(2 * kept <= 255 - node.reserve - WORKING, "{kept} of each node");
        assert!(kept >= 4 * 8 * 2, "only {kept}");
        assert!(Budget { coming: Some(usize::MAX), ..node }.keeps(8) == 8 + 1 + 1);
    }

    #[test]
    fn the_outputs_of_all_maps_have_room_where_they_are_reduced() {
        assert_eq!(NODE.outputs(), usize::MAX, "nothing goes to other nodes");
        let small = Budget { capacity: 128, workers: 1, coming: Some(12), maps: 6, ..NODE };
        assert_eq!(small.outputs(), (128 - 16 - WORKING) / 2 / 6);
        assert_eq!(Budget { maps: 1_000, ..small }.outputs(), 1);
        assert_eq!(Budget { maps: 0, workers: 0, capacity: 0, ..small }.outputs(), 1);
    }

    #[test]
    fn a_job_keeps_within_its_memory() {
        let bounded = Budget { most: Some(108), ..NODE };
        assert!(!bounded.spills(20));
        assert!(bounded.spills(60));
        assert!(Budget { free: 1024 - 60, ..bounded }.spills(20));
        assert!(Budget { all: 85, ..bounded }.spills(60));
        assert!(Budget { most: Some(10), ..NODE }.spills(1), "not even what two workers need");
        assert!(Budget { capacity: 8, free: 8, ..NODE }.spills(1));
    }

    #[test]
    fn what_fits_as_a_whole_is_kept_to_the_last_buffer() {
        let most = NODE.capacity - NODE.reserve - 2 * WORKING;
        let full = Budget { all: most, free: NODE.capacity - most, ..NODE };
        assert!(!full.spills(64));
        assert!(Budget { all: most + 1, ..full }.spills(64));
        assert!(Budget { coming: Some(0), ..full }.spills(64));
    }

    #[test]
    fn runs_of_all_others_can_be_merged() {
        let most = |budget: Budget| (0..).find(|buffers| budget.spills(*buffers)).unwrap_or(0);
        let left = NODE.capacity - NODE.reserve;
        let many = Budget { maps: 900, ..NODE };
        assert_eq!(most(many), (left - 900 - WRITING - 2 * NODE.workers) / NODE.workers + 1);
        assert!(!Budget { all: 900, ..many }.spills(64), "no runs, if all are kept");
        // They cannot be merged whatever is kept.
        assert_eq!(most(Budget { maps: 1004, ..NODE }), most(NODE));
    }

    #[test]
    fn with_other_nodes_there_is_room_for_what_comes() {
        let shared = |coming| Budget { coming: Some(coming), ..NODE };
        let most = |budget: Budget| (0..).find(|buffers| budget.spills(*buffers)).unwrap_or(0);
        assert_eq!(most(shared(0)), most(NODE));
        // Two workers, and each of them twice.
        assert_eq!(most(shared(40)), most(NODE) - 10);
        assert!(most(shared(10_000)).abs_diff(most(NODE) / 2) <= 1);
    }

    #[test]
    fn nothing_overflows() {
        let all = Budget {
            capacity: usize::MAX,
            free: 0,
            most: Some(1),
            workers: 0,
            coming: Some(usize::MAX),
            maps: usize::MAX,
            ..NODE
        };
        assert!(all.spills(usize::MAX));
    }
}
