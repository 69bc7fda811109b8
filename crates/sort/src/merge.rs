//! Merges sorted runs of records whose buffers come piece by piece: the second half of a sort of
//! more data than memory.
//!
//! A tree of losers: each inner node remembers the run that lost the comparison there, so that
//! the next record costs one comparison a level.

use alloc::vec::Vec;

use crate::layout::Layout;

/// What a merge stopped for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The output holds no further record: this many bytes of it are filled.
    Full(usize),
    /// This run's buffer is used up. Say [`Merge::supply`] when its next one is there, or
    /// [`Merge::end`] if there is none.
    Wants {
        /// Whose buffer it is.
        run: usize,
        /// Bytes of the output that are filled.
        filled: usize,
    },
    /// All runs have ended: this many bytes of the output are filled.
    Done(usize),
}

/// A merge. Of records with equal keys, those of the earlier run come first.
pub struct Merge {
    runs: Vec<Run>,
    /// The run that lost at each inner node; at 0 the one that won all.
    losers: Vec<usize>,
    /// Whether all runs have had a first buffer, so that `losers` means something.
    begun: bool,
}

/// A run of which the front record's key is known, unless it wants a buffer or has ended.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The front record's key, and below it the number of the run.
    front: u128,
    /// Where in its buffer the front record begins.
    at: usize,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Wants,
    Supplied,
    Front,
    Ended,
}

/// Greater than every front record's.
const ENDED: u128 = u128::MAX;

impl Merge {
    /// A merge of so many runs, fewer than 2^32. All of them want a buffer.
    pub fn new(runs: usize) -> Merge {
        let run = Run { front: 0, at: 0, state: State::Wants };
        Merge { runs: alloc::vec![run; runs], losers: alloc::vec![0; runs], begun: false }
    }

    /// Says that the buffer of `run` holds its next records, whole ones.
    pub fn supply(&mut self, run: usize) {
        if let Some(run) = self.runs.get_mut(run)
            && run.state == State::Wants
        {
            (run.at, run.state) = (0, State::Supplied);
        }
    }

    /// Says that `run` has no further records.
    pub fn end(&mut self, run: usize) {
        if let Some(run) = self.runs.get_mut(run)
            && run.state == State::Wants
        {
            (run.front, run.state) = (ENDED, State::Ended);
        }
    }

    /// Moves records from the front of the runs to `out`, whole ones, until something is missing.
    /// `buffers` are the runs' buffers; each stays the same until its run wants the next one. What
    /// is left of a buffer and is no whole record is not looked at.
    pub fn fill<L: Layout>(&mut self, buffers: &[impl AsRef<[u8]>], out: &mut [u8]) -> Step {
        let mut filled = 0;
        if !self.begun {
            for run in 0..self.runs.len() {
                if !self.front::<L>(run, buffers) {
                    return Step::Wants { run, filled };
                }
            }
            self.begin();
        }
        loop {
            let Some(&winner) = self.losers.first() else { return Step::Done(filled) };
            if !self.front::<L>(winner, buffers) {
                return Step::Wants { run: winner, filled };
            }
            self.play(winner);
            let winner = self.losers[0];
            let run = &mut self.runs[winner];
            if run.front == ENDED {
                return Step::Done(filled);
            }
            let Some(out) = out.get_mut(filled..filled + L::LENGTH) else {
                return Step::Full(filled);
            };
            let buffer = buffers.get(winner).map_or(&[][..], AsRef::as_ref);
            let Some(record) = buffer.get(run.at..run.at + L::LENGTH) else {
                // The buffer has been taken away: the run wants it again.
                run.state = State::Wants;
                return Step::Wants { run: winner, filled };
            };
            out.copy_from_slice(record);
            filled += L::LENGTH;
            run.at += L::LENGTH;
            run.state = State::Supplied;
        }
    }

    /// Looks at the front record of `run`, unless that is known: says whether it is now.
    #[inline]
    fn front<L: Layout>(&mut self, number: usize, buffers: &[impl AsRef<[u8]>]) -> bool {
        let run = &mut self.runs[number];
        if run.state == State::Supplied {
            let buffer = buffers.get(number).map_or(&[][..], AsRef::as_ref);
            match buffer.get(run.at..run.at + L::LENGTH) {
                Some(record) => {
                    (run.front, run.state) = (L::key(record) | number as u128, State::Front)
                }
                None => run.state = State::Wants,
            }
        }
        run.state != State::Wants
    }

    /// Plays all matches.
    fn begin(&mut self) {
        let count = self.runs.len();
        // The winners of the inner nodes, from the leaves up; leaf `run` is node `count + run`.
        let mut winners = alloc::vec![0; 2 * count];
        for node in (1..2 * count).rev() {
            winners[node] = if node >= count {
                node - count
            } else {
                let (left, right) = (winners[2 * node], winners[2 * node + 1]);
                let left_wins = self.runs[left].front < self.runs[right].front;
                let (winner, loser) = if left_wins { (left, right) } else { (right, left) };
                self.losers[node] = loser;
                winner
            };
        }
        if count > 0 {
            self.losers[0] = winners[1];
        }
        self.begun = true;
    }

    /// Plays the matches of `run`, whose front record has changed, from its leaf to the top.
    #[inline]
    fn play(&mut self, run: usize) {
        let mut winner = run;
        let mut node = (self.runs.len() + run) / 2;
        while node > 0 {
            let other = self.losers[node];
            if self.runs[other].front < self.runs[winner].front {
                (self.losers[node], winner) = (winner, other);
            }
            node /= 2;
        }
        self.losers[0] = winner;
    }
}
