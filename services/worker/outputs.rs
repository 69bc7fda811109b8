//! What map attempts have made and this core keeps: outputs in memory, and sorted runs on the disk.
//! No IO.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::{CoreId, Part};
use nile_order::SortedMap;
use nile_stl::node::{Buffer, Pool, in_view};

use nile_interfaces::task::records::{Far, MOST_NOTE, Output, Range};

/// An output that is kept in memory.
#[derive(Debug)]
pub struct Kept {
    buffers: Vec<Buffer>,
    /// Sorted by partitions.
    pieces: Vec<Range>,
    note: Vec<u8>,
    far: Far,
}

/// A sorted run of one partition, in blocks of a draft that are one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The core whose store has the draft.
    pub store: CoreId,
    /// The draft.
    pub draft: u64,
    /// Its first block.
    pub first: u32,
    /// How many.
    pub blocks: u32,
    /// Bytes in all.
    pub bytes: u64,
}

/// Everything that one map attempt has made.
#[derive(Default, Debug)]
pub struct Made {
    kept: Vec<Kept>,
    runs: SortedMap<u32, Run>,
    /// The partition of the last block that was spilled, and how many there were.
    spilled: Option<u32>,
    blocks: u32,
}

impl Kept {
    /// An output as a package has given it, whose buffers have come. What is wrong with it, if it
    /// names bytes that are not there.
    pub fn new(output: Output, buffers: Vec<Buffer>, reducers: u32) -> Result<Kept, String> {
        let Output { mut pieces, note, far, .. } = output;
        let note = note.0;
        if note.len() > MOST_NOTE {
            return Err(format!("a note of {} bytes, more than {MOST_NOTE}", note.len()));
        }
        for range in &pieces {
            let Range { partition, buffer, start, bytes } = *range;
            if partition >= reducers {
                return Err(format!("partition {partition} of {reducers}"));
            }
            let room = buffers.get(buffer as usize).map(|it| it.len() as u64);
            let end = u64::from(start) + u64::from(bytes);
            if room.is_none_or(|room| end > room) {
                return Err(format!("bytes up to {end} of its buffer {buffer}, which ends before"));
            }
        }
        pieces.retain(|range| range.bytes > 0);
        // In their order within a partition, as a sort that keeps it gives them.
        nile_order::sort_by_key(&mut pieces, |range| range.partition);
        Ok(Kept { buffers, pieces, note, far })
    }

    /// What a partition has of it.
    pub fn of(&self, partition: u32) -> &[Range] {
        let start = self.pieces.partition_point(|range| range.partition < partition);
        let end = self.pieces.partition_point(|range| range.partition <= partition);
        self.pieces.get(start..end).unwrap_or(&[])
    }

    /// Bytes of all partitions.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|range| u64::from(range.bytes)).sum()
    }

    /// A range that [`Kept::of`] gave, for others to read where it is.
    pub fn part(&self, range: &Range) -> Option<Part> {
        self.buffers.get(range.buffer as usize)?.part(range.start as usize, range.bytes as usize)
    }

    /// Its buffers.
    pub fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }

    /// Whether other nodes get its buffers whole.
    pub fn is_whole(&self) -> bool {
        self.far == Far::Whole
    }

    /// Whether other nodes may get this one and the next as one output. Whoever made them has said
    /// so of both: what is read in order, as sorted pairs are, is in none if two are read as one.
    pub fn joins(&self, next: &Kept) -> bool {
        [self.far, next.far] == [Far::Joined; 2] && self.note == next.note
    }

    /// The note.
    pub fn note(&self) -> &[u8] {
        &self.note
    }

    /// What a package of this node needs to read a partition where it is.
    pub fn view(&self, pool: &Pool, partition: u32) -> Output {
        Output {
            buffers: self.buffers.iter().map(|it| in_view(pool, it, it.len())).collect(),
            pieces: self.of(partition).into(),
            note: nile_bosml::Blob(self.note.clone()),
            far: self.far,
        }
    }
}

impl Made {
    /// Adds an output.
    pub fn keep(&mut self, kept: Kept) {
        self.kept.push(kept);
    }

    /// A block of so many bytes was added to a partition's run, in a draft of a store. `None` if
    /// that is not in the order of partitions.
    pub fn spill(&mut self, store: CoreId, draft: u64, partition: u32, bytes: u64) -> Option<()> {
        if self.spilled.is_some_and(|last| last > partition) {
            return None;
        }
        self.spilled = Some(partition);
        let first = self.blocks;
        let run = self.runs.entry(partition);
        let run = run.or_insert(Run { store, draft, first, blocks: 0, bytes: 0 });
        run.blocks += 1;
        run.bytes += bytes;
        self.blocks += 1;
        Some(())
    }

    /// The outputs in memory, in the order in which they were made.
    pub fn kept(&self) -> &[Kept] {
        &self.kept
    }

    /// A partition's run, if some of it was spilled.
    pub fn run_of(&self, partition: u32) -> Option<&Run> {
        self.runs.get(&partition)
    }

    /// Bytes in memory, and on the disk.
    pub fn bytes(&self) -> (u64, u64) {
        let kept = self.kept.iter().map(Kept::bytes).sum();
        (kept, self.runs.values().map(|run| run.bytes).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_bosml::Blob;
    use nile_stl::node::PoolId;

    fn pool() -> Pool {
        Pool::owned(PoolId(0), CoreId(1), 4, 4096).unwrap()
    }

    fn range(partition: u32, buffer: u32, start: u32, bytes: u32) -> Range {
        Range { partition, buffer, start, bytes }
    }

    fn output(pieces: &[Range]) -> Output {
        Output { pieces: pieces.into(), note: Blob(Vec::from([7])), ..Output::default() }
    }

    fn filled(pool: &Pool) -> Buffer {
        let mut buffer = pool.alloc().unwrap();
        buffer.iter_mut().zip(0..).for_each(|(byte, at): (&mut u8, u32)| *byte = at as u8);
        buffer
    }

    #[test]
    fn each_partition_has_its_ranges_in_their_order() {
        let pool = pool();
        let pieces =
            [range(2, 0, 100, 10), range(0, 1, 0, 4), range(2, 1, 4, 6), range(1, 0, 5, 0)];
        let buffers = Vec::from([filled(&pool), filled(&pool)]);
        let kept = Kept::new(output(&pieces), buffers, 3).unwrap();
        assert_eq!(kept.of(0), [range(0, 1, 0, 4)]);
        assert_eq!(kept.of(1), [], "an empty range is none");
        assert_eq!(kept.of(2), [range(2, 0, 100, 10), range(2, 1, 4, 6)]);
        assert_eq!(kept.bytes(), 20);
        let mut read = [0; 6];
        let part = kept.part(&range(2, 1, 4, 6)).unwrap();
        pool.read(part, 0, &mut read).unwrap();
        assert_eq!(read, [4, 5, 6, 7, 8, 9]);
        assert_eq!(kept.part(&range(2, 9, 4, 6)), None);
        let view = kept.view(&pool, 2);
        assert_eq!((view.pieces.len(), view.buffers.len(), view.note.0[0]), (2, 2, 7));
        assert_eq!(view.buffers[0].length, 4096);
        drop(kept);
        assert_eq!(pool.free_buffers(), 4);
    }

    #[test]
    fn outputs_go_as_one_only_if_both_are_to_and_have_one_note() {
        let made = |far, note: u8| {
            let note = Blob(Vec::from([note]));
            Kept::new(Output { far, note, ..Output::default() }, Vec::new(), 1)
        };
        let kept = |far, note| made(far, note).unwrap();
        let one = kept(Far::Joined, 7);
        assert!(one.joins(&kept(Far::Joined, 7)));
        assert!(!one.joins(&kept(Far::Joined, 8)), "noted of another");
        for other in [Far::Ranges, Far::Whole] {
            assert!(!one.joins(&kept(other, 7)) && !kept(other, 7).joins(&one));
            assert!(!kept(other, 7).joins(&kept(other, 7)));
        }
    }

    #[test]
    fn ranges_that_are_not_there_are_refused() {
        let pool = pool();
        for wrong in [
            range(3, 0, 0, 1),
            range(0, 1, 0, 1),
            range(0, 0, 4096, 1),
            range(0, 0, u32::MAX, u32::MAX),
        ] {
            let refused = Kept::new(output(&[wrong]), Vec::from([filled(&pool)]), 3);
            assert!(refused.is_err(), "{wrong:?}");
            assert_eq!(pool.free_buffers(), 4, "its buffers are free");
        }
        let long = Output { note: Blob([0; MOST_NOTE + 1].into()), ..Output::default() };
        assert!(Kept::new(long, Vec::new(), 3).is_err());
    }

    #[test]
    fn runs_are_blocks_one_after_the_other() {
        let mut made = Made::default();
        let mut spill = |partition, bytes| made.spill(CoreId(2), 9, partition, bytes);
        assert_eq!([spill(0, 10), spill(0, 5), spill(3, 7)], [Some(()); 3]);
        assert_eq!(spill(1, 1), None, "out of order");
        assert_eq!(spill(3, 1), Some(()));
        let run = |first, blocks, bytes| Run { store: CoreId(2), draft: 9, first, blocks, bytes };
        assert_eq!(made.run_of(0), Some(&run(0, 2, 15)));
        assert_eq!(made.run_of(3), Some(&run(2, 2, 8)));
        assert_eq!(made.run_of(1), None);
        assert_eq!(made.bytes(), (0, 23));
    }
}
