//! The pieces of a reduce attempt: every map task's is taken once of each slice, whichever attempts
//! made it. Slices are fetched one after the other: a piece of a later one waits until the job's
//! code is about to take it, so that not all of a partition has to be in memory at once.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use nile_abi::Instant;
use nile_order::SortedMap;

use super::{Action, Core, Run, Worker};
use crate::id::{AttemptId, PieceId};
use crate::message::{Lack, Location, Note, Peer};

/// A piece that is wanted: which slice, of which map task.
type Wanted = (u32, u32);

/// What a reduce attempt has of its pieces.
#[derive(Debug)]
pub struct Gathering {
    slices: u32,
    /// Of each slice, the map tasks whose piece was taken, and how many are left.
    taken: Vec<(Vec<bool>, u32)>,
    /// The last slice that is fetched: the one that the job's code takes next.
    next: u32,
    /// Where the outputs are of which pieces were not taken, as far as is known.
    known: BTreeMap<u32, Location>,
    /// Pieces of known outputs that nobody was asked for.
    ready: BTreeSet<Wanted>,
    /// Pieces that were asked for: at most a handful.
    open: SortedMap<Wanted, Fetch>,
    /// Slices of which it was said that all their pieces are taken.
    told: u32,
}

#[derive(Debug)]
struct Fetch {
    tries: u32,
    due: Instant,
}

impl Gathering {
    /// The pieces of `maps` map tasks in so many slices; these outputs are known.
    pub fn new(maps: u32, slices: u32, outputs: &[Location]) -> Gathering {
        let mut gathering = Gathering {
            slices,
            taken: vec![(vec![false; maps as usize], maps); slices as usize],
            next: 0,
            known: BTreeMap::new(),
            ready: BTreeSet::new(),
            open: SortedMap::new(),
            told: 0,
        };
        gathering.learn(outputs);
        gathering
    }

    /// When a piece is to be asked for again.
    pub fn due(&self) -> Option<Instant> {
        self.open.values().map(|fetch| fetch.due).min()
    }

    fn is_left(&self, (slice, map): Wanted) -> bool {
        let taken = self.taken.get(slice as usize).and_then(|(taken, _)| taken.get(map as usize));
        taken == Some(&false)
    }

    /// The pieces of a map task's output that were not taken.
    fn left_of(&self, map: u32) -> Vec<Wanted> {
        (0..self.slices).map(|slice| (slice, map)).filter(|it| self.is_left(*it)).collect()
    }

    /// Learns where outputs are; a later location of a task replaces an earlier one.
    pub fn learn(&mut self, locations: &[Location]) {
        for location in locations {
            let map = location.output.task.index;
            let left = self.left_of(map);
            if !left.is_empty() {
                self.known.insert(map, *location);
            }
            for wanted in left {
                self.open.remove(&wanted);
                self.ready.insert(wanted);
            }
        }
    }

    /// An output cannot be had from where it was said to be.
    fn forget(&mut self, map: u32) -> Option<Location> {
        for wanted in self.left_of(map) {
            self.ready.remove(&wanted);
            self.open.remove(&wanted);
        }
        self.known.remove(&map)
    }

    /// Whether this piece is one that is wanted; it is not, from then on.
    fn take(&mut self, wanted: Wanted) -> bool {
        let is_left = self.is_left(wanted);
        let (slice, map) = wanted;
        if is_left && let Some((taken, left)) = self.taken.get_mut(slice as usize) {
            taken[map as usize] = true;
            *left -= 1;
            self.ready.remove(&wanted);
            self.open.remove(&wanted);
            if self.left_of(map).is_empty() {
                self.known.remove(&map);
            }
        }
        is_left
    }

    /// How many slices from the first on have all their pieces.
    fn whole(&self) -> u32 {
        self.taken.iter().take_while(|(_, left)| *left == 0).count() as u32
    }

    /// Whom to ask for what now, and what cannot be had.
    fn ask(
        &mut self,
        now: Instant,
        settings: &crate::Settings,
    ) -> (Vec<(u32, Location)>, Vec<Location>) {
        let (mut asked, mut missing) = (Vec::new(), Vec::new());
        let late: Vec<Wanted> =
            self.open.iter().filter(|(_, fetch)| fetch.due <= now).map(|(it, _)| *it).collect();
        for wanted in late {
            let (slice, map) = wanted;
            let Some(fetch) = self.open.get_mut(&wanted) else { continue };
            fetch.tries += 1;
            if fetch.tries < settings.fetch_tries {
                fetch.due = now + settings.patience * (fetch.tries + 1);
                asked.extend(self.known.get(&map).map(|location| (slice, *location)));
            } else {
                missing.extend(self.forget(map));
            }
        }
        while self.open.len() < settings.fetches
            && let Some(wanted) = self.ready.first().copied()
            && wanted.0 <= self.next
        {
            self.ready.remove(&wanted);
            asked.extend(self.known.get(&wanted.1).map(|location| (wanted.0, *location)));
            self.open.insert(wanted, Fetch { tries: 0, due: now + settings.patience });
        }
        (asked, missing)
    }

    /// Which piece of an attempt's this is; `None` if it is of another partition.
    fn wanted(&self, piece: PieceId, by: AttemptId) -> Option<Wanted> {
        let slice = piece.partition.checked_sub(by.task.index.checked_mul(self.slices)?)?;
        (slice < self.slices).then_some((slice, piece.output.task.index))
    }
}

impl Worker {
    /// A piece has come whole, for the attempt `by`: gives whether the engine is to take it. If
    /// not, it is of an attempt that runs no more, or was taken before.
    pub fn arrived(&mut self, now: Instant, piece: PieceId, by: AttemptId) -> bool {
        let Core::Running(Run { attempt, gathering: Some(gathering), .. }) = &mut self.core else {
            return false;
        };
        // What was asked of one attempt's output and comes of it stays good, though the master may
        // have named another since: both are of one plan, and of one split.
        let wanted = gathering.wanted(piece, by).filter(|_| *attempt == by);
        let is_taken = wanted.is_some_and(|wanted| gathering.take(wanted));
        if is_taken {
            self.fetch(now);
            self.flush(now);
        }
        is_taken
    }

    /// The job's code has all of the slice before this one, and takes this one next: it is fetched
    /// meanwhile.
    pub fn takes(&mut self, now: Instant, by: AttemptId, slice: u32) {
        if let Core::Running(Run { attempt, gathering: Some(gathering), .. }) = &mut self.core
            && *attempt == by
        {
            gathering.next = gathering.next.max(slice);
            self.fetch(now);
            self.flush(now);
        }
    }

    /// A piece is on its way, and takes its time: it counts as asked for just now.
    pub fn coming(&mut self, now: Instant, piece: PieceId, by: AttemptId) {
        let Core::Running(Run { attempt, gathering: Some(gathering), .. }) = &mut self.core else {
            return;
        };
        if *attempt == by
            && let Some(wanted) = gathering.wanted(piece, by)
            && let Some(fetch) = gathering.open.get_mut(&wanted)
        {
            *fetch = Fetch { tries: 0, due: now + self.settings.patience };
        }
    }

    /// A worker does not have what it was asked for.
    pub(super) fn is_missing(&mut self, piece: PieceId, by: AttemptId) {
        let Core::Running(Run { attempt, gathering: Some(gathering), .. }) = &mut self.core else {
            return;
        };
        let map = piece.output.task.index;
        let is_known = gathering.known.get(&map).is_some_and(|it| it.output == piece.output);
        let wanted = gathering.wanted(piece, by);
        let is_open = wanted.is_some_and(|wanted| gathering.open.contains_key(&wanted));
        if *attempt == by && is_known && is_open {
            let told =
                gathering.forget(map).map(|location| Note::Missing { location, lack: Lack::Gone });
            told.into_iter().for_each(|note| self.lane.push(note));
        }
    }

    /// Of an output whose piece was taken something cannot be read any more, as it was on a disk:
    /// it is to be made again. The attempt `by` cannot go on without it, and fails after this.
    pub fn unreadable(&mut self, now: Instant, location: Location, by: AttemptId) {
        if matches!(&self.core, Core::Running(run) if run.attempt == by) {
            self.lane.push(Note::Missing { location, lack: Lack::Gone });
        }
        self.flush(now);
    }

    /// Asks for pieces, as many as may be open; says of which slices all have come.
    pub(super) fn fetch(&mut self, now: Instant) {
        let Core::Running(Run { attempt, gathering: Some(gathering), .. }) = &mut self.core else {
            return;
        };
        let by = *attempt;
        for slice in gathering.told..gathering.whole() {
            gathering.told = slice + 1;
            self.actions.push_back(Action::Gathered(by));
            if gathering.told == gathering.slices {
                self.lane.push(Note::Gathered(by));
            }
        }
        let (asked, missing) = gathering.ask(now, &self.settings);
        for (slice, Location { output, at }) in asked {
            let piece = PieceId { output, partition: by.task.index * gathering.slices + slice };
            let fetch = Peer::Fetch { job: self.job_id, piece, by, from: self.id };
            self.actions.push_back(Action::Peer(at, fetch));
        }
        let missing =
            missing.into_iter().map(|location| Note::Missing { location, lack: Lack::Late });
        missing.for_each(|note| self.lane.push(note));
    }
}
