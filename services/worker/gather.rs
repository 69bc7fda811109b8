//! What comes for reduce attempts: pieces that were asked for, until each is whole, and what the
//! package has not taken yet. No IO.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use nile_abi::{CoreId, Generation};
use nile_job::{AttemptId, JobId, PieceId, WorkerId};
use nile_order::{SortedMap, SortedSet};
use nile_stl::node::Buffer;

use nile_interfaces::task::records::Output;
use nile_interfaces::worker::records::{Delivered, Delivery, RunEntry};

/// A piece that was asked for.
#[derive(Debug)]
pub struct Fetch {
    /// Of which job.
    pub job: JobId,
    /// Which piece.
    pub piece: PieceId,
    /// For which attempt.
    pub by: AttemptId,
    /// Who has it.
    pub from: WorkerId,
    outputs: Vec<Delivered>,
    runs: Vec<RunEntry>,
    /// How many calls have told of it.
    calls: u32,
    /// What has come, by its place in the piece.
    buffers: SortedMap<u32, Buffer>,
    /// How many buffers there will be, once that is known.
    expected: Option<u32>,
}

/// Pieces that were asked for and are not whole, by the numbers that tell them apart.
#[derive(Default, Debug)]
pub struct Fetches(SortedMap<u64, Fetch>);

impl Fetches {
    /// The number of a piece that is asked for, again or, with the number `new`, for the first
    /// time. A number that was lost is not used again.
    pub fn begin(
        &mut self,
        new: u64,
        job: JobId,
        piece: PieceId,
        by: AttemptId,
        from: WorkerId,
    ) -> u64 {
        let is_it =
            |it: &Fetch| it.job == job && it.piece == piece && it.by == by && it.from == from;
        if let Some((number, _)) = self.0.iter().find(|(_, it)| is_it(it)) {
            return *number;
        }
        let (outputs, runs, calls, buffers, expected) = Default::default();
        let fetch = Fetch { job, piece, by, from, outputs, runs, calls, buffers, expected };
        self.0.insert(new, fetch);
        new
    }

    /// A piece that is waited for.
    pub fn get(&self, number: u64) -> Option<&Fetch> {
        self.0.get(&number)
    }

    /// The buffer of this place in a piece has come. Gives it back if nobody waits for it.
    pub fn put(&mut self, number: u64, place: u32, buffer: Buffer) -> Result<(), Buffer> {
        match self.0.get_mut(&number) {
            Some(fetch) => drop(fetch.buffers.insert(place, buffer)),
            None => return Err(buffer),
        }
        Ok(())
    }

    /// Something was told about a piece. Gives whether anybody waits for it. A piece that was asked
    /// for twice is told of twice, in the same calls: what was told before is not taken again.
    pub fn tell(&mut self, number: u64, delivery: Delivery) -> bool {
        let Some(fetch) = self.0.get_mut(&number) else { return false };
        if delivery.call != fetch.calls {
            return true;
        }
        fetch.calls += 1;
        fetch.outputs.extend(delivery.outputs);
        fetch.runs.extend(delivery.runs);
        if !delivery.more {
            fetch.expected = Some(delivery.buffers);
        }
        true
    }

    /// The piece, if it is whole: it is not waited for any more.
    pub fn take_whole(&mut self, number: u64) -> Option<Fetch> {
        let fetch = self.0.get(&number)?;
        let is_whole = fetch.expected? as usize <= fetch.buffers.len();
        if is_whole { self.0.remove(&number) } else { None }
    }

    /// What came of a piece is worth nothing, or nobody wants it.
    pub fn forget(&mut self, number: u64) {
        self.0.remove(&number);
    }

    /// An attempt is over.
    pub fn forget_all(&mut self, job: JobId, by: AttemptId) {
        self.0.retain(|_, it| it.job != job || it.by != by);
    }
}

/// What a package takes next.
#[derive(Debug)]
pub enum Given {
    /// An output of this node, where it is.
    Shared(u32, Output),
    /// An output of another node, and the buffers with its ranges.
    Own(u32, Output, Vec<Buffer>),
    /// A sorted run, and the number by which the package asks for its blocks.
    Run(u32, u64, RunEntry),
}

/// A run that an attempt reads, and who has it.
#[derive(Clone, Copy, Debug)]
pub struct RunAt {
    /// Whose disk it is on, and of which output it is.
    pub from: WorkerId,
    pub output: AttemptId,
    /// Where.
    pub entry: RunEntry,
}

/// The sources of one reduce attempt.
#[derive(Default, Debug)]
pub struct Gather {
    /// What has come of each slice that is not over yet.
    ready: SortedMap<u32, VecDeque<Given>>,
    /// The slice that the package takes, how many have all come, and how many there are.
    present: u32,
    whole: u32,
    slices: u32,
    /// Of each map task, which output a piece was taken of, and whether that has a run.
    outputs: BTreeMap<u32, (AttemptId, bool)>,
    runs: Vec<RunAt>,
    /// Cores of this node whose buffers the package looks at.
    sharers: SortedSet<(CoreId, Generation)>,
    bytes: u64,
}

impl Gather {
    /// The sources of an attempt whose partition has so many slices.
    pub fn new(slices: u32) -> Gather {
        Gather { slices, ..Gather::default() }
    }

    /// A whole piece, which was taken. It is not, and the attempt cannot go on, if other slices are
    /// of another output of the map task, and one of the two is on a disk: a run has the records of
    /// all slices.
    #[must_use]
    pub fn add(&mut self, fetch: Fetch) -> bool {
        let (map, has_run) = (fetch.piece.output.task.index, !fetch.runs.is_empty());
        let slice = fetch.piece.partition % self.slices.max(1);
        let taken = self.outputs.entry(map).or_insert((fetch.piece.output, has_run));
        if taken.0 != fetch.piece.output && (taken.1 || has_run) {
            return false;
        }
        let ready = self.ready.entry(slice).or_default();
        let mut buffers = fetch.buffers.into_values();
        for output in fetch.outputs {
            self.bytes += output.output.pieces.iter().map(|it| u64::from(it.bytes)).sum::<u64>();
            let own: Vec<Buffer> = buffers.by_ref().take(output.own as usize).collect();
            ready.push_back(if output.own > 0 {
                Given::Own(map, output.output, own)
            } else {
                self.sharers.insert((fetch.from.core, fetch.from.generation));
                Given::Shared(map, output.output)
            });
        }
        for entry in fetch.runs.into_iter().filter(|_| slice == 0) {
            self.bytes += entry.bytes;
            let number = self.runs.len() as u64;
            self.runs.push(RunAt { from: fetch.from, output: fetch.piece.output, entry });
            ready.push_back(Given::Run(map, number, entry));
        }
        true
    }

    /// All pieces of one slice more have come.
    pub fn close_slice(&mut self) {
        self.whole += 1;
    }

    /// The slice that the package takes.
    pub fn present(&self) -> u32 {
        self.present
    }

    /// What the package takes next: `None` if that has not come yet, `Some(None)` if there is
    /// nothing more of the slice. The slice after that is the present one then.
    pub fn next(&mut self) -> Option<Option<Given>> {
        let next = self.ready.get_mut(&self.present).and_then(VecDeque::pop_front);
        if next.is_some() {
            return Some(next);
        }
        if self.present >= self.whole {
            return None;
        }
        self.ready.remove(&self.present);
        // Behind the last slice there is nothing for ever.
        self.present = (self.present + 1).min(self.slices.max(1) - 1);
        Some(None)
    }

    /// A run that the package was told of.
    pub fn run(&self, number: u64) -> Option<RunAt> {
        self.runs.get(usize::try_from(number).ok()?).copied()
    }

    /// Whose memory the package has looked at.
    pub fn sharers(&self) -> impl Iterator<Item = (CoreId, Generation)> {
        self.sharers.iter().copied()
    }

    /// Bytes that have come.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The attempt is over: what nobody took is free.
    pub fn clear(&mut self) {
        self.ready.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_abi::NodeId;
    use nile_job::{Epoch, Kind, TaskId};
    use nile_stl::node::{Pool, PoolId};

    use nile_interfaces::task::records::Range;

    const JOB: JobId = JobId(3);

    fn attempt(kind: Kind, index: u32) -> AttemptId {
        AttemptId { epoch: Epoch(1), task: TaskId { kind, index }, number: 1 }
    }

    fn worker(core: u16) -> WorkerId {
        let (node, life) = (NodeId(1), Generation(1));
        WorkerId { node, life, core: CoreId(core), generation: Generation(2) }
    }

    fn piece(map: u32) -> PieceId {
        PieceId { output: attempt(Kind::Map, map), partition: 0 }
    }

    fn begin(fetches: &mut Fetches, new: u64, map: u32) -> u64 {
        fetches.begin(new, JOB, piece(map), attempt(Kind::Reduce, 0), worker(1))
    }

    fn delivery(buffers: u32) -> Delivery {
        Delivery { buffers, ..Delivery::default() }
    }

    const RUN: RunEntry = RunEntry { store: 1, draft: 2, first: 3, blocks: 4, bytes: 5 };

    #[test]
    fn a_piece_is_whole_when_all_that_was_told_has_come() {
        let pool = Pool::owned(PoolId(0), CoreId(1), 4, 4096).unwrap();
        let mut fetches = Fetches::default();
        assert_eq!(begin(&mut fetches, 10, 0), 10);
        assert_eq!(begin(&mut fetches, 11, 0), 10, "it is asked for again");
        assert_eq!(begin(&mut fetches, 12, 1), 12);
        assert!(fetches.put(10, 1, pool.alloc().unwrap()).is_ok());
        assert!(fetches.take_whole(10).is_none(), "nobody knows how many there are");
        assert!(fetches.tell(10, delivery(2)));
        assert!(fetches.take_whole(10).is_none(), "one is missing");
        assert!(fetches.put(10, 0, pool.alloc().unwrap()).is_ok());
        let whole = fetches.take_whole(10).unwrap();
        assert_eq!((whole.piece, whole.buffers.len()), (piece(0), 2));
        assert!(fetches.put(10, 2, pool.alloc().unwrap()).is_err(), "late");
        assert!(!fetches.tell(10, delivery(0)));
        assert!(fetches.put(12, 0, pool.alloc().unwrap()).is_ok());
        drop(whole);
        fetches.forget_all(JOB, attempt(Kind::Reduce, 1));
        assert!(fetches.get(12).is_some(), "another attempt is over");
        fetches.forget_all(JOB, attempt(Kind::Reduce, 0));
        assert_eq!(pool.free_buffers(), 4);
    }

    #[test]
    fn what_got_lost_is_asked_for_by_another_number() {
        let mut fetches = Fetches::default();
        assert_eq!(begin(&mut fetches, 1, 0), 1);
        fetches.forget(1);
        assert_eq!(begin(&mut fetches, 2, 0), 2);
        assert!(!fetches.tell(1, delivery(0)));
        assert!(fetches.tell(2, Delivery { more: true, ..delivery(0) }));
        assert!(fetches.take_whole(2).is_none());
        assert!(fetches.tell(2, Delivery { call: 1, ..delivery(0) }));
        assert!(fetches.take_whole(2).is_some(), "an empty piece");
    }

    #[test]
    fn what_is_told_twice_is_taken_once() {
        let pool = Pool::owned(PoolId(0), CoreId(1), 4, 4096).unwrap();
        let (mut fetches, mut gather) = (Fetches::default(), Gather::new(1));
        begin(&mut fetches, 1, 7);
        let outputs = || Vec::from([Delivered { own: 1, ..Delivered::default() }]);
        let calls = || {
            let first = Delivery { outputs: outputs(), more: true, ..delivery(0) };
            let last = Delivery { outputs: outputs(), runs: [RUN].into(), ..delivery(2) };
            [first, Delivery { call: 1, ..last }]
        };
        // It was asked for again while its last buffer came.
        for delivery in calls().into_iter().chain(calls()) {
            assert!(fetches.tell(1, delivery));
            assert!(fetches.take_whole(1).is_none());
        }
        for place in [0, 1] {
            assert!(fetches.put(1, place, pool.alloc().unwrap()).is_ok());
        }
        assert!(gather.add(fetches.take_whole(1).unwrap()));
        let given: Vec<Given> = core::iter::from_fn(|| gather.next().flatten()).collect();
        let own = |given: &Given| matches!(given, Given::Own(7, _, own) if own.len() == 1);
        assert!(own(&given[0]) && own(&given[1]));
        assert!(matches!(given[2..], [Given::Run(7, 0, RUN)]), "nothing comes twice");
    }

    #[test]
    fn outputs_of_other_nodes_have_their_buffers_in_the_order_of_their_sender() {
        let pool = Pool::owned(PoolId(0), CoreId(1), 4, 4096).unwrap();
        let (mut fetches, mut gather) = (Fetches::default(), Gather::new(1));
        begin(&mut fetches, 1, 7);
        for place in [2, 0, 1] {
            let mut buffer = pool.alloc().unwrap();
            buffer[0] = place as u8;
            assert!(fetches.put(1, place, buffer).is_ok());
        }
        let outputs = [2, 1].map(|own| Delivered { own, ..Delivered::default() });
        fetches.tell(1, Delivery { outputs: outputs.into(), ..delivery(3) });
        assert!(gather.add(fetches.take_whole(1).unwrap()));
        let Some(Some(Given::Own(7, _, own))) = gather.next() else { panic!("the first output") };
        assert_eq!([own[0][0], own[1][0], own.len() as u8], [0, 1, 2]);
        let Some(Some(Given::Own(7, _, own))) = gather.next() else { panic!("the second") };
        assert_eq!((own.len(), own[0][0]), (1, 2));
        assert_eq!(gather.sharers().count(), 0, "nothing of it is looked at elsewhere");
    }

    #[test]
    fn slices_are_given_one_after_the_other_however_they_come() {
        let (mut fetches, mut gather) = (Fetches::default(), Gather::new(3));
        let mut come = |gather: &mut Gather, map, slice| {
            // The second partition's.
            let piece = PieceId { partition: 3 + slice, ..piece(map) };
            let number = u64::from(10 * map + slice + 1);
            fetches.begin(number, JOB, piece, attempt(Kind::Reduce, 1), worker(1));
            let outputs = Vec::from([Delivered::default()]);
            fetches.tell(number, Delivery { outputs, ..delivery(0) });
            assert!(gather.add(fetches.take_whole(number).unwrap()));
        };
        come(&mut gather, 4, 1);
        assert!(gather.next().is_none(), "the first slice is not there");
        come(&mut gather, 5, 0);
        assert!(matches!(gather.next(), Some(Some(Given::Shared(5, _)))));
        assert!(gather.next().is_none() && gather.present() == 0);
        gather.close_slice();
        assert!(matches!(gather.next(), Some(None)) && gather.present() == 1);
        assert!(matches!(gather.next(), Some(Some(Given::Shared(4, _)))));
        assert!(gather.next().is_none());
        gather.close_slice();
        gather.close_slice();
        assert!(matches!(gather.next(), Some(None)) && gather.present() == 2);
        assert!(matches!(gather.next(), Some(None)) && matches!(gather.next(), Some(None)));
    }

    #[test]
    fn slices_are_of_one_output_if_some_of_it_is_on_a_disk() {
        let taken = |runs: [bool; 2], numbers: [u32; 2]| {
            let (mut fetches, mut gather) = (Fetches::default(), Gather::new(2));
            let mut take = |slice: u32, has_run, number| {
                let output = AttemptId { number, ..attempt(Kind::Map, 7) };
                let piece = PieceId { output, partition: slice };
                let fetch = u64::from(slice) + 1;
                fetches.begin(fetch, JOB, piece, attempt(Kind::Reduce, 0), worker(1));
                let runs = if has_run { Vec::from([RUN]) } else { Vec::new() };
                fetches.tell(fetch, Delivery { runs, ..delivery(0) });
                gather.add(fetches.take_whole(fetch).unwrap())
            };
            let are_taken = [take(1, runs[0], numbers[0]), take(0, runs[1], numbers[1])];
            (are_taken, gather.runs.len())
        };
        assert_eq!(taken([true, true], [1, 1]), ([true, true], 1), "the run is read once");
        assert_eq!(taken([false, false], [1, 2]), ([true, true], 0));
        assert_eq!(taken([true, false], [1, 2]).0, [true, false]);
        assert_eq!(taken([false, true], [1, 2]).0, [true, false]);
        assert_eq!(taken([true, true], [1, 2]).0, [true, false]);
    }

    #[test]
    fn sources_are_given_one_after_the_other_and_then_the_end() {
        let pool = Pool::owned(PoolId(0), CoreId(1), 4, 4096).unwrap();
        let (mut fetches, mut gather) = (Fetches::default(), Gather::new(1));
        assert!(gather.next().is_none());
        begin(&mut fetches, 1, 7);
        let outputs = Vec::from([Delivered::default(), Delivered::default()]);
        fetches.tell(1, Delivery { outputs, runs: Vec::from([RUN]), ..Delivery::default() });
        assert!(gather.add(fetches.take_whole(1).unwrap()));
        begin(&mut fetches, 2, 8);
        fetches.put(2, 0, pool.alloc().unwrap()).unwrap();
        let range = Range { partition: 0, buffer: 0, start: 8, bytes: 4000 };
        let output = Output { pieces: Vec::from([range]), ..Output::default() };
        let outputs = Vec::from([Delivered { own: 1, output }]);
        fetches.tell(2, Delivery { outputs, ..delivery(1) });
        assert!(gather.add(fetches.take_whole(2).unwrap()));
        let mut next = || gather.next();
        assert!(matches!(next(), Some(Some(Given::Shared(7, _)))));
        assert!(matches!(next(), Some(Some(Given::Shared(7, _)))));
        assert!(matches!(next(), Some(Some(Given::Run(7, 0, RUN)))));
        assert!(matches!(next(), Some(Some(Given::Own(8, ..)))));
        assert!(next().is_none(), "others may come");
        gather.close_slice();
        assert!(matches!(gather.next(), Some(None)));
        assert!(matches!(gather.next(), Some(None)), "and that again");
        assert_eq!(gather.run(0).map(|it| it.from), Some(worker(1)));
        assert!(gather.run(1).is_none());
        let sharers: Vec<_> = gather.sharers().collect();
        assert_eq!(sharers, [(CoreId(1), Generation(2))]);
        assert_eq!(gather.bytes(), 5 + 4000);
    }
}
