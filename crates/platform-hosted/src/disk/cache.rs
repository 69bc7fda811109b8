//! What the page cache had better forget, where it has no room for all of a disk.
//!
//! A job reads all of its input and writes as much. Where memory does not hold both, Linux makes
//! room by evicting the pages that were used the longest ago. These are what comes next, in the
//! input or in the place of the output, each a moment before it is read or written again: in the
//! end all are evicted and come back, where a few would have been enough. What was read last is
//! what nobody wants for the longest time: as much of that is forgotten as is written, while too
//! little memory is free. Forgotten before it is needed, it would not do for what is written
//! later; and there are hosts that take away what is free.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use rustix::system::sysinfo;

/// The machine's memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    total: u64,
    free: u64,
    /// What processes share: the memory of nodes is, and it is not given back for a cache.
    shared: u64,
}

impl Memory {
    fn now() -> Memory {
        let info = sysinfo();
        let unit = u64::from(info.mem_unit);
        let bytes = |count: u64| count.saturating_mul(unit);
        let [total, free, shared] = [info.totalram, info.freeram, info.sharedram].map(bytes);
        Memory { total, free, shared }
    }

    /// Whether a disk of which so many bytes were written leaves no room beside the nodes' memory
    /// for what else a machine does, and too little is free for what will be written.
    fn is_short(self, disk: u64) -> bool {
        let Memory { total, free, shared } = self;
        shared.saturating_add(disk) > total - total / 8 && free < total / 32
    }
}

/// The page cache, as one disk sees it.
pub(super) struct Cache {
    file: File,
    /// Of a block device: how large it is.
    device: Option<u64>,
    memory: fn() -> Memory,
    seen: Seen,
}

impl Cache {
    /// For the file, or device, beneath a disk of so many bytes.
    pub fn new(file: File, bytes: u64) -> io::Result<Cache> {
        let device = file.metadata()?.file_type().is_block_device().then_some(bytes);
        Ok(Cache { file, device, memory: Memory::now, seen: Seen::default() })
    }

    /// One without room.
    #[cfg(test)]
    pub fn short(file: File) -> Cache {
        let memory = || Memory { total: 32, free: 0, shared: 32 };
        Cache { file, device: Some(1), memory, seen: Seen::default() }
    }

    /// Notes that so many bytes were read from `at` on.
    pub fn has_read(&mut self, at: u64, bytes: u64) {
        self.seen.read(at, bytes);
    }

    /// Notes that so many bytes are written from `at` on.
    pub fn writes(&mut self, at: u64, bytes: u64) {
        self.seen.written(at, bytes);
    }

    /// Takes what had better be forgotten now, if there is any: where it begins, and its bytes.
    pub fn victim(&mut self) -> Option<(u64, u64)> {
        self.seen.is_over = true;
        let is_short = !self.seen.turns.is_empty() && self.is_short();
        is_short.then(|| self.seen.victim()).flatten()
    }

    fn is_short(&self) -> bool {
        // A file's bytes are those that were ever written.
        let written = || self.file.metadata().map_or(0, |it| it.blocks().saturating_mul(512));
        (self.memory)().is_short(self.device.unwrap_or_else(written))
    }
}

/// Ranges of a disk that were read and not written since; none has what another has.
#[derive(Default)]
struct Seen {
    /// By where they begin: where they end, and when they were read.
    places: BTreeMap<u64, (u64, Turn)>,
    /// By when they were read: where they begin.
    turns: BTreeMap<Turn, u64>,
    now: Turn,
    /// Whether the scan has ended: what is read next begins another.
    is_over: bool,
}

/// When a range was read: in which scan, which is all that is read between two large writes, and
/// which of all ranges it was.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    scan: u64,
    number: u64,
}

/// More ranges are not known: of a mebibyte each, they are more than memory holds of most disks.
const MOST_SEEN: usize = 1 << 16;

impl Seen {
    fn read(&mut self, at: u64, bytes: u64) {
        self.written(at, bytes);
        self.now.scan += u64::from(std::mem::take(&mut self.is_over));
        self.now.number += 1;
        self.places.insert(at, (at + bytes, self.now));
        self.turns.insert(self.now, at);
        if self.turns.len() > MOST_SEEN {
            let oldest = self.turns.pop_first();
            oldest.and_then(|(_, at)| self.places.remove(&at));
        }
    }

    fn written(&mut self, at: u64, bytes: u64) {
        // They do not overlap: the last that begins before the end is the last to reach into it.
        let last = |seen: &Seen| {
            let (start, (end, turn)) = seen.places.range(..at + bytes).next_back()?;
            (*end > at).then_some((*start, *turn))
        };
        while let Some((start, turn)) = last(self) {
            self.places.remove(&start);
            self.turns.remove(&turn);
        }
    }

    /// Takes the first range of the last scan: where it begins, and its bytes. Who reads all again
    /// misses as much whichever is taken; who writes in its place begins with the first.
    fn victim(&mut self) -> Option<(u64, u64)> {
        let (Turn { scan, .. }, _) = self.turns.last_key_value()?;
        let (turn, at) = self.turns.range(Turn { scan: *scan, number: 0 }..).next()?;
        let (turn, at) = (*turn, *at);
        self.turns.remove(&turn);
        let (end, _) = self.places.remove(&at)?;
        Some((at, end - at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_disk_that_memory_cannot_hold_is_forgotten_and_only_while_little_is_free() {
        let memory = Memory { total: 1600, free: 49, shared: 400 };
        assert!(memory.is_short(1001));
        assert!(!memory.is_short(1000), "all has room");
        assert!(!Memory { free: 50, ..memory }.is_short(1001), "enough is free");
        assert!(Memory { shared: u64::MAX, ..memory }.is_short(1));
        let now = Memory::now();
        assert!(now.total > now.free && now.total > 1 << 26, "{now:?}");
        assert!(!now.is_short(0) || now.shared > now.total / 2, "{now:?}");
    }

    #[test]
    fn what_was_read_last_is_forgotten_first_unless_it_was_written_since() {
        let mut seen = Seen::default();
        for at in [0, 100, 200, 300] {
            seen.read(at, 100);
        }
        seen.is_over = true;
        seen.read(450, 100);
        seen.read(50, 100);
        seen.written(399, 1);
        let victims: Vec<_> = std::iter::from_fn(|| seen.victim()).collect();
        assert_eq!(victims, [(450, 100), (50, 100), (200, 100)]);
        assert!(seen.places.is_empty());
    }

    #[test]
    fn no_more_is_known_than_there_is_room_for() {
        let mut seen = Seen::default();
        (0..=MOST_SEEN as u64).for_each(|at| seen.read(at, 1));
        assert_eq!((seen.turns.len(), seen.places.len()), (MOST_SEEN, MOST_SEEN));
        assert!(!seen.places.contains_key(&0));
    }
}
