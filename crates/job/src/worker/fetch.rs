//! The pieces of a reduce attempt: every map task's is taken once, whichever attempts made it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use nile_abi::Instant;

use super::{Action, Core, Run, Worker};
use crate::id::{AttemptId, PieceId};
use crate::message::{Location, Note, Peer};

/// What a reduce attempt has of its pieces.
#[derive(Debug)]
pub struct Gathering {
    /// Map tasks whose piece was taken.
    taken: Vec<bool>,
    left: u32,
    /// Where the pieces are that were not taken, as far as is known.
    known: BTreeMap<u32, Location>,
    /// Map tasks of which a location is known and whose piece nobody was asked for.
    ready: BTreeSet<u32>,
    /// Pieces that were asked for: at most a handful.
    open: BTreeMap<u32, Fetch>,
    is_told: bool,
}

#[derive(Debug)]
struct Fetch {
    tries: u32,
    due: Instant,
}

impl Gathering {
    /// The pieces of `maps` map tasks, of which these outputs are known.
    pub fn new(maps: u32, outputs: &[Location]) -> Gathering {
        let mut gathering = Gathering {
            taken: vec![false; maps as usize],
            left: maps,
            known: BTreeMap::new(),
            ready: BTreeSet::new(),
            open: BTreeMap::new(),
            is_told: false,
        };
        gathering.learn(outputs);
        gathering
    }

    /// When a piece is to be asked for again.
    pub fn due(&self) -> Option<Instant> {
        self.open.values().map(|fetch| fetch.due).min()
    }

    /// Learns where outputs are; a later location of a task replaces an earlier one.
    pub fn learn(&mut self, locations: &[Location]) {
        for location in locations {
            let map = location.output.task.index;
            if self.taken.get(map as usize) == Some(&false) {
                self.known.insert(map, *location);
                self.open.remove(&map);
                self.ready.insert(map);
            }
        }
    }

    /// Whether this piece is one that is wanted; it is not, from then on.
    fn take(&mut self, map: u32) -> bool {
        match self.taken.get_mut(map as usize) {
            Some(taken) if !*taken => {
                *taken = true;
                self.left -= 1;
                self.known.remove(&map);
                self.ready.remove(&map);
                self.open.remove(&map);
                true
            }
            _ => false,
        }
    }

    /// Whom to ask for what now, and what cannot be had.
    fn ask(&mut self, now: Instant, settings: &crate::Settings) -> (Vec<Location>, Vec<Location>) {
        let (mut asked, mut missing) = (Vec::new(), Vec::new());
        let late: Vec<u32> =
            self.open.iter().filter(|(_, fetch)| fetch.due <= now).map(|(map, _)| *map).collect();
        for map in late {
            let Some(fetch) = self.open.get_mut(&map) else { continue };
            fetch.tries += 1;
            if fetch.tries < settings.fetch_tries {
                fetch.due = now + settings.patience * (fetch.tries + 1);
                asked.extend(self.known.get(&map));
            } else {
                self.open.remove(&map);
                missing.extend(self.known.remove(&map));
            }
        }
        while self.open.len() < settings.fetches
            && let Some(map) = self.ready.pop_first()
        {
            asked.extend(self.known.get(&map));
            self.open.insert(map, Fetch { tries: 0, due: now + settings.patience });
        }
        (asked, missing)
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
        let is_wanted = *attempt == by && piece.partition == by.task.index;
        let is_taken = is_wanted && gathering.take(piece.output.task.index);
        if is_taken {
            self.fetch(now);
            self.flush(now);
        }
        is_taken
    }

    /// A piece is on its way, and takes its time: it counts as asked for just now.
    pub fn coming(&mut self, now: Instant, piece: PieceId, by: AttemptId) {
        let Core::Running(Run { attempt, gathering: Some(gathering), .. }) = &mut self.core else {
            return;
        };
        if *attempt == by
            && let Some(fetch) = gathering.open.get_mut(&piece.output.task.index)
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
        if *attempt == by && is_known && gathering.open.remove(&map).is_some() {
            let location = gathering.known.remove(&map);
            location.into_iter().for_each(|location| self.lane.push(Note::Missing(location)));
        }
    }

    /// Asks for pieces, as many as may be open.
    pub(super) fn fetch(&mut self, now: Instant) {
        let Core::Running(Run { attempt, gathering: Some(gathering), .. }) = &mut self.core else {
            return;
        };
        let by = *attempt;
        if gathering.left == 0 {
            if !gathering.is_told {
                gathering.is_told = true;
                self.lane.push(Note::Gathered(by));
                self.actions.push_back(Action::Gathered(by));
            }
            return;
        }
        let (asked, missing) = gathering.ask(now, &self.settings);
        for location in asked {
            let piece = PieceId { output: location.output, partition: by.task.index };
            let fetch = Peer::Fetch { job: self.job_id, piece, by, from: self.id };
            self.actions.push_back(Action::Peer(location.at, fetch));
        }
        missing.into_iter().for_each(|location| self.lane.push(Note::Missing(location)));
    }
}
