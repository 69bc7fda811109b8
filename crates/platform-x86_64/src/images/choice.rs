//! Which image each core runs, in memory that all cores read and the managing core writes. All
//! zeros: the one that the machine was booted with.

use core::sync::atomic::{AtomicU64, Ordering};

use nile_abi::{CoreId, Instant, PhysAddr};
use nile_platform::image_memory::Other;
use nile_platform::images::TRIAL;
use nile_ring::Region;

use super::head::{Head, MOST_PIECES, WORDS};
use crate::layout;
use crate::node::{Node, region};

/// Words that there are of a core.
const CHOICE_WORDS: usize = 64;

/// Bytes that there are of a core.
pub const CHOICE_BYTES: usize = CHOICE_WORDS * 8;

/// The place of the image that it runs; of the one that it ran before; of the one that it is to
/// run. The second and the third are none if zero, and one more than a place otherwise.
const NOW: usize = 0;
const FORMER: usize = 1;
const NEXT: usize = 2;
/// When it began with the present one, in nanoseconds; zero if it is yet to.
const SINCE: usize = 3;
/// The third, once this core, which manages the node, has made tables for it.
const PREPARED: usize = 4;
/// Two places; place zero is that of the image that the machine was booted with, and has no words.
const PLACES: usize = 8;
/// Of a place: the image's name, its head, the pieces of its memory.
const PLACE_WORDS: usize = 28;
const MEMORY: usize = 1 + WORDS;
const _: () = assert!(MEMORY + MOST_PIECES <= PLACE_WORDS);
const _: () = assert!(PLACES + 2 * PLACE_WORDS <= CHOICE_WORDS);

/// A place for an image: 1 or 2.
type Place = u64;

/// The images of one core.
pub struct Choice {
    words: Region,
}

/// An image in a core's memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Where its words are: 1 or 2.
    pub place: u64,
    /// What it says of itself.
    pub head: Head,
    /// The pieces of its memory.
    pub memory: heapless::Vec<PhysAddr, MOST_PIECES>,
}

impl Choice {
    /// Those of a core of the node.
    pub fn of(node: &Node, core: CoreId) -> Choice {
        // SAFETY: every core has the choices in its shared zone for ever; they are reached as
        // atomics, and written by the managing core alone.
        let all = unsafe { region(node.shared.images, layout::SHARED_BASE) };
        let words = all.slice(core.index() * CHOICE_BYTES, CHOICE_BYTES);
        Choice { words: words.expect("there is one for each core of the node") }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.words.words()[at]
    }

    fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    fn store(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Release);
    }

    fn in_place(&self, place: Place, at: usize) -> usize {
        PLACES + (place as usize - 1) * PLACE_WORDS + at
    }

    /// The name of the image that it runs, or is to begin with; zero for the machine's own.
    pub fn name(&self) -> u64 {
        match self.load(NOW) {
            0 => 0,
            place => self.load(self.in_place(place, 0)),
        }
    }

    fn image(&self, place: Place) -> Option<Placed> {
        if place == 0 {
            return None;
        }
        let words = core::array::from_fn(|at| self.load(self.in_place(place, 1 + at)));
        let memory = (0..MOST_PIECES).map(|at| self.load(self.in_place(place, MEMORY + at)));
        let memory = memory.take_while(|it| *it != 0).map(PhysAddr).collect();
        Some(Placed { place, head: Head::from_words(&words), memory })
    }

    /// The image that it runs; none: the machine's own.
    pub fn now(&self) -> Option<Placed> {
        self.image(self.load(NOW))
    }

    /// The other one, if there is one; none of that: the machine's own.
    pub fn other(&self, which: Other) -> Option<Option<Placed>> {
        let place = match which {
            Other::Loaded => self.load(NEXT),
            Other::Former => self.load(FORMER),
        };
        Some(self.image(place.checked_sub(1)?))
    }

    /// It has that one from its next incarnation on.
    pub fn enter(&self, which: Other) {
        let (now, former) = (self.load(NOW), self.load(FORMER));
        match which {
            Other::Loaded => {
                let Some(next) = self.load(NEXT).checked_sub(1) else { return };
                self.store(SINCE, 0);
                self.store(FORMER, now + 1);
                self.store(NOW, next);
                self.unload();
            }
            Other::Former => {
                let Some(former) = former.checked_sub(1) else { return };
                self.store(NOW, former);
                self.store(FORMER, 0);
            }
        }
    }

    /// It begins with it now.
    pub fn begin(&self, now: Instant) {
        if self.load(SINCE) == 0 {
            self.store(SINCE, now.as_nanos().max(1));
        }
    }

    /// Whether the image that it runs is on trial.
    pub fn is_on_trial(&self, now: Instant) -> bool {
        let since = self.load(SINCE);
        self.load(FORMER) != 0 && (since == 0 || now.since(Instant::from_nanos(since)) < TRIAL)
    }

    /// It does not go back to its former one.
    pub fn settle(&self) {
        self.store(FORMER, 0);
    }

    /// An image is coming. The core has no other one but the one that it runs.
    pub fn stage(&self, head: &Head, memory: impl Iterator<Item = PhysAddr>) {
        let place = if self.load(NOW) == 1 { 2 } else { 1 };
        self.unload();
        self.store(self.in_place(place, 0), 0);
        for (at, word) in head.words().into_iter().enumerate() {
            self.store(self.in_place(place, 1 + at), word);
        }
        let memory = memory.map(|it| it.0).chain(core::iter::repeat(0));
        for (at, start) in memory.take(MOST_PIECES).enumerate() {
            self.store(self.in_place(place, MEMORY + at), start);
        }
        self.store(NEXT, place + 1);
    }

    /// All of it has come, and it has this name. Whether there is one.
    pub fn load_as(&self, name: u64) -> bool {
        match self.load(NEXT).checked_sub(1) {
            Some(place) if place != 0 => {
                self.store(self.in_place(place, 0), name);
                true
            }
            _ => false,
        }
    }

    /// Forgets the one that it was to run.
    pub fn unload(&self) {
        self.store(PREPARED, 0);
        self.store(NEXT, 0);
    }

    /// There are tables for the one that it is to run.
    pub fn prepare(&self) {
        self.store(PREPARED, self.load(NEXT));
    }

    /// Whether there are.
    pub fn is_prepared(&self) -> bool {
        self.load(PREPARED) != 0
    }

    /// The memory of all its images.
    pub fn memory(&self) -> impl Iterator<Item = PhysAddr> + '_ {
        [1, 2].into_iter().filter_map(|place| self.image(place)).flat_map(|it| it.memory)
    }

    /// The memory of those that it does not run, is not to run and does not go back to, which is
    /// forgotten.
    pub fn unused(&self, now: Instant) -> impl Iterator<Item = PhysAddr> + '_ {
        if !self.is_on_trial(now) {
            self.settle();
        }
        let used = [self.load(NOW) + 1, self.load(FORMER), self.load(NEXT)];
        let unused = [1, 2].into_iter().filter(move |place| !used.contains(&(place + 1)));
        unused.flat_map(|place| {
            let memory = self.image(place).map(|it| it.memory).unwrap_or_default();
            self.store(self.in_place(place, MEMORY), 0);
            memory
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::head::tests::{head, own};

    fn choice() -> Choice {
        Choice { words: Region::owned(CHOICE_BYTES) }
    }

    fn stage(choice: &Choice, first: u64, name: u64) {
        choice.stage(&head(3), (0..3).map(|at| PhysAddr(first + at * 0x20_0000)));
        assert!(choice.load_as(name));
    }

    fn starts(memory: impl Iterator<Item = PhysAddr>) -> std::vec::Vec<u64> {
        memory.map(|it| it.0).collect()
    }

    const NOW: Instant = Instant::from_nanos(5);

    #[test]
    fn a_core_enters_what_was_loaded_and_goes_back_while_it_is_on_trial() {
        let choice = choice();
        assert_eq!((choice.name(), choice.now(), choice.is_on_trial(NOW)), (0, None, false));
        assert!(choice.other(Other::Loaded).is_none() && choice.other(Other::Former).is_none());
        assert!(!choice.load_as(7), "none has come");

        stage(&choice, 0x100_0000, 7);
        assert_eq!(choice.name(), 0);
        choice.enter(Other::Loaded);
        assert_eq!(choice.name(), 7);
        assert!(choice.is_on_trial(NOW), "it is yet to begin");
        choice.begin(NOW);
        assert_eq!(choice.now().map(|it| it.head), Some(head(3)));
        assert_eq!(choice.other(Other::Former), Some(None), "the machine's own");
        assert!(choice.is_on_trial(NOW + TRIAL / 2) && !choice.is_on_trial(NOW + TRIAL));
        assert_eq!(starts(choice.unused(NOW)), []);

        choice.enter(Other::Former);
        assert_eq!((choice.name(), choice.is_on_trial(NOW)), (0, false));
        assert_eq!(starts(choice.unused(NOW)), [0x100_0000, 0x120_0000, 0x140_0000]);
        assert_eq!(starts(choice.memory()), [], "it is given back once");
    }

    #[test]
    fn the_former_one_goes_when_the_trial_is_over_or_another_comes() {
        let choice = choice();
        let first = [0x100_0000, 0x120_0000, 0x140_0000];
        stage(&choice, first[0], 7);
        choice.enter(Other::Loaded);
        choice.begin(NOW);
        choice.settle();
        assert!(choice.other(Other::Former).is_none() && !choice.is_on_trial(NOW));
        assert_eq!(starts(choice.unused(NOW)), []);
        stage(&choice, 0x800_0000, 8);
        choice.enter(Other::Loaded);
        choice.begin(NOW);
        assert_eq!(choice.name(), 8);
        assert_eq!(choice.other(Other::Former).flatten().map(|it| it.memory[0].0), Some(first[0]));
        assert_eq!(starts(choice.memory()).len(), 6);
        assert_eq!(starts(choice.unused(NOW + TRIAL)), first);
        assert!(choice.other(Other::Former).is_none());
        assert_eq!(starts(choice.memory()), [0x800_0000, 0x820_0000, 0x840_0000]);
    }

    #[test]
    fn tables_are_for_the_image_that_they_were_made_for() {
        let choice = choice();
        stage(&choice, 0x100_0000, 7);
        assert!(!choice.is_prepared());
        choice.prepare();
        assert!(choice.is_prepared());
        // Another one comes in its place.
        choice.stage(&head(3), [PhysAddr(0x800_0000)].into_iter());
        assert!(!choice.is_prepared());
        choice.prepare();
        choice.unload();
        assert!(!choice.is_prepared());
        stage(&choice, 0x800_0000, 8);
        choice.prepare();
        choice.enter(Other::Loaded);
        assert!(!choice.is_prepared());
        assert_eq!(choice.now().map(|it| it.place), Some(1));
        stage(&choice, 0x100_0000, 9);
        assert_eq!(choice.other(Other::Loaded).flatten().map(|it| it.place), Some(2));
    }

    #[test]
    fn what_was_to_come_is_forgotten() {
        let choice = choice();
        choice.stage(&own(), [PhysAddr(0x20_0000)].into_iter());
        assert_eq!(starts(choice.unused(NOW)), []);
        choice.unload();
        choice.enter(Other::Loaded);
        assert_eq!(choice.name(), 0);
        assert_eq!(starts(choice.unused(NOW)), [0x20_0000]);
    }
}
