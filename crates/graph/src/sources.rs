//! What has come of each source: nothing counts twice, and the watermark.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::bytes::{Damaged, Read, Reader, put};

/// How far ahead of the first missing event of its source one may come.
const AHEAD: u64 = 8192;

/// What becomes of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is new.
    New,
    /// It has been here.
    Known,
    /// Too many before it are missing: its source has to say those first, and it again.
    Ahead,
}

/// How a source stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SourceState {
    /// The source.
    pub source: u64,
    /// All its events before this one are here.
    pub next: u64,
    /// How many after that are.
    pub beyond: u64,
    /// Nothing of it will have happened before this.
    pub until: u64,
    /// Whether it has been silent for longer than it may: the watermark goes on without it.
    pub is_idle: bool,
}

#[derive(Default)]
struct Source {
    next: u64,
    beyond: BTreeSet<u64>,
    until: u64,
    heard: u64,
}

/// All sources that were ever heard of.
pub struct Sources {
    known: BTreeMap<u64, Source>,
    /// How long one may be silent, in units of `now`.
    patience: u64,
    /// It never goes back.
    watermark: u64,
}

impl Sources {
    /// None yet.
    pub fn new(patience: u64) -> Sources {
        Sources { known: BTreeMap::new(), patience, watermark: 0 }
    }

    /// An event of a source has come.
    pub fn take(&mut self, now: u64, source: u64, sequence: u64) -> Verdict {
        let source = self.known.entry(source).or_default();
        source.heard = source.heard.max(now);
        // Most come in order.
        if sequence == source.next && source.beyond.is_empty() {
            source.next += 1;
            return Verdict::New;
        }
        if sequence < source.next || source.beyond.contains(&sequence) {
            return Verdict::Known;
        }
        if sequence - source.next >= AHEAD {
            return Verdict::Ahead;
        }
        source.beyond.insert(sequence);
        while source.beyond.remove(&source.next) {
            source.next += 1;
        }
        Verdict::New
    }

    /// A source says that whatever comes of it happened at `until` or later.
    pub fn promise(&mut self, now: u64, source: u64, until: u64) {
        let source = self.known.entry(source).or_default();
        source.heard = source.heard.max(now);
        source.until = source.until.max(until);
    }

    /// All that happened before this, by sources that are not idle, is here: what they have
    /// promised first.
    pub fn watermark(&mut self, now: u64) -> u64 {
        let patience = self.patience;
        let live = self.known.values().filter(|it| !it.is_idle(now, patience));
        // What is missing may have happened at any time.
        let until = |it: &Source| if it.beyond.is_empty() { it.until } else { 0 };
        self.watermark = self.watermark.max(live.map(until).min().unwrap_or(0));
        self.watermark
    }

    /// How each stands whose number is higher than `after`, at most so many.
    pub fn states(&self, now: u64, after: Option<u64>, most: usize) -> Vec<SourceState> {
        let first = after.map_or(Some(0), |after| after.checked_add(1));
        let known = first.into_iter().flat_map(|first| self.known.range(first..));
        let state = |(source, it): (&u64, &Source)| SourceState {
            source: *source,
            next: it.next,
            beyond: it.beyond.len() as u64,
            until: it.until,
            is_idle: it.is_idle(now, self.patience),
        };
        known.map(state).take(most).collect()
    }

    /// The numbers of all sources.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.known.keys().copied()
    }

    /// Calls `item` for each source, with what writes it.
    pub fn save(&self, mut item: impl FnMut(&dyn Fn(&mut Vec<u8>))) {
        for (number, source) in &self.known {
            item(&|bytes| source.save(*number, self.watermark, bytes));
        }
    }

    /// Reads a source back, which has been silent so far; its number.
    pub fn restore(&mut self, reader: &mut Reader<'_>) -> Read<u64> {
        let number = reader.number()?;
        let (next, until) = (reader.number()?, reader.number()?);
        self.watermark = self.watermark.max(reader.number()?);
        let (mut beyond, mut before) = (BTreeSet::new(), next);
        for _ in 0..reader.count()? {
            before = before.saturating_add(reader.number()?);
            beyond.insert(before);
        }
        let source = Source { next, beyond, until, heard: 0 };
        match self.known.insert(number, source) {
            None => Ok(number),
            Some(_) => Err(Damaged("a source is there twice")),
        }
    }

    /// All sources count as heard of now.
    pub fn hear(&mut self, now: u64) {
        self.known.values_mut().for_each(|it| it.heard = now);
    }

    /// What a source has promised.
    pub fn until(&self, source: u64) -> u64 {
        self.known.get(&source).map_or(0, |it| it.until)
    }

    /// The first event of a source that is missing.
    pub fn next(&self, source: u64) -> u64 {
        self.known.get(&source).map_or(0, |it| it.next)
    }
}

/// Writes a source of which nothing has come.
pub fn save_silent(bytes: &mut Vec<u8>, number: u64) {
    Source::default().save(number, 0, bytes);
}

impl Source {
    fn save(&self, number: u64, watermark: u64, bytes: &mut Vec<u8>) {
        let beyond = self.beyond.len() as u64;
        [number, self.next, self.until, watermark, beyond].iter().for_each(|it| put(bytes, *it));
        let mut before = self.next;
        for sequence in &self.beyond {
            put(bytes, sequence - before);
            before = *sequence;
        }
    }

    fn is_idle(&self, now: u64, patience: u64) -> bool {
        now.saturating_sub(self.heard) > patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_counts_once_in_any_order() {
        let mut sources = Sources::new(10);
        let mut take = |sequence| sources.take(0, 7, sequence);
        let verdicts = [take(1), take(0), take(1), take(0), take(AHEAD + 2), take(AHEAD + 1)];
        use Verdict::{Ahead, Known, New};
        assert_eq!(verdicts, [New, New, Known, Known, Ahead, New]);
        let state = sources.states(0, None, 9)[0];
        assert_eq!((state.source, state.next, state.beyond), (7, 2, 1));
        assert!(sources.states(0, Some(7), 9).is_empty());
        assert!(sources.states(0, Some(u64::MAX), 9).is_empty());
    }

    #[test]
    fn the_watermark_waits_for_the_slowest_that_lives_and_never_goes_back() {
        let mut sources = Sources::new(10);
        assert_eq!(sources.watermark(0), 0);
        sources.promise(0, 1, 50);
        sources.promise(0, 2, 20);
        assert_eq!(sources.watermark(0), 20);
        sources.promise(9, 1, 60);
        assert_eq!(sources.watermark(10), 20);
        assert_eq!(sources.watermark(11), 60, "the other one is idle");
        assert!(sources.states(11, Some(1), 1)[0].is_idle);
        sources.promise(12, 2, 30);
        assert_eq!(sources.watermark(12), 60, "it is back, and late");
        sources.promise(12, 2, 70);
        sources.take(12, 1, 3);
        sources.promise(12, 1, 80);
        assert_eq!(sources.watermark(12), 60, "events before the fourth are missing");
    }
}
