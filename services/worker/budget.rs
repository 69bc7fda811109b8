//! Whether what a map attempt makes can stay in memory. No IO.
//!
//! Outputs stay until the job is over, so a worker that keeps its output takes buffers from all of
//! its node for good. What all need to go on has to be left, or everybody waits for ever.

/// Buffers that a worker needs to go on: the block it works on and two that are loaded meanwhile;
/// what it writes and what of that is on its way to the disk; one that is packed for another node,
/// and one that is on its way there.
pub const WORKING: usize = 8;

/// One part in so many of a pool is left to those who receive from other nodes and from disks.
pub const RECEIVERS: usize = 4;

/// What is known of a node's pool when a map attempt begins.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Buffers of the pool.
    pub capacity: usize,
    /// Buffers that nobody has.
    pub free: usize,
    /// Buffers that the job may use; 0: all.
    pub most: usize,
    /// Worker cores of the node: each may be about to keep as much.
    pub workers: usize,
    /// Whether pieces of outputs go to other nodes, and theirs come here.
    pub is_shared: bool,
}

impl Budget {
    /// Whether an attempt that would keep this many buffers has to spill.
    pub fn spills(&self, buffers: usize) -> bool {
        let workers = self.workers.max(1);
        let used = self.capacity.saturating_sub(self.free);
        let most = if self.most == 0 { self.capacity } else { self.most.min(self.capacity) };
        let working = WORKING * workers;
        // What a mailbox receives is taken from the quarter that is left to receivers, and from
        // the rest when that is not enough.
        let receiving = self.capacity / RECEIVERS;
        let room = most.saturating_sub(working.max(receiving.min(most / RECEIVERS)));
        // As much comes here of others' outputs as goes there of those of this node.
        let room = if self.is_shared { room / 2 } else { room };
        used.saturating_add(buffers.saturating_mul(workers)) > room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Budget =
        Budget { capacity: 1024, free: 1024, most: 0, workers: 2, is_shared: false };

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
        // The other one may have begun at the same time.
        assert!(free - 64 >= NODE.capacity / RECEIVERS / 2, "{free} are left");
    }

    #[test]
    fn a_job_keeps_within_its_memory() {
        let bounded = Budget { most: 100, ..NODE };
        assert!(!bounded.spills(20));
        assert!(bounded.spills(60));
        assert!(Budget { free: 1024 - 60, ..bounded }.spills(20));
        assert!(Budget { most: 10, ..NODE }.spills(1), "not even what two workers need");
        assert!(Budget { capacity: 8, free: 8, ..NODE }.spills(1));
    }

    #[test]
    fn with_other_nodes_half_is_for_what_comes() {
        let shared = Budget { is_shared: true, ..NODE };
        let most = |budget: Budget| (0..).find(|buffers| budget.spills(*buffers)).unwrap_or(0);
        assert!(most(shared) <= most(NODE) / 2 + 1);
        assert!(!shared.spills(64));
    }

    #[test]
    fn nothing_overflows() {
        let all = Budget { capacity: usize::MAX, free: 0, most: 1, workers: 0, is_shared: true };
        assert!(all.spills(usize::MAX));
    }
}
