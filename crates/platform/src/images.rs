//! Kernel images that cores run in place of the one that their node was started with (NileOS
//! paper, IV: a core "may even get a different kernel image"), as far as machines that can do that
//! have it in common: which core runs which, and what becomes of one that fails.
//!
//! An image is on *trial* for its first ten seconds on a core: if the core fails in these, it has
//! the former one again, whose own trial, if that was not over, begins anew. Nothing is begun here
//! and no clock is read; the machine does both.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Instant};

/// How long an image is on trial.
pub const TRIAL: Duration = Duration::from_secs(10);

/// A kernel image.
#[derive(Clone, Debug)]
pub struct Image<T> {
    /// A digest of its bytes, not zero.
    pub name: u64,
    /// What a machine begins an incarnation from.
    pub body: T,
}

/// Which core runs which image. One that is not in it runs the node's own.
#[derive(Debug)]
pub struct Images<T>(BTreeMap<CoreId, Choice<T>>);

/// What a core runs: the last image on trial, if there is one.
#[derive(Debug)]
struct Choice<T> {
    /// What it runs when no trial comes to a good end; none is the node's own.
    proven: Option<Image<T>>,
    /// Those on trial, each with the moment at which the core first began with it. The core runs,
    /// or ran last, the last one that has one.
    trials: Vec<(Image<T>, Option<Instant>)>,
}

impl<T> Default for Images<T> {
    fn default() -> Images<T> {
        Images(BTreeMap::new())
    }
}

impl<T: Clone> Images<T> {
    /// The name of the image that a core's next incarnation begins with; zero for the node's own.
    pub fn name(&self, core: CoreId) -> u64 {
        self.0.get(&core).and_then(Choice::now).map_or(0, |image| image.name)
    }

    /// Has a core run an image from its next incarnation on. Gives the image's name.
    pub fn load(&mut self, core: CoreId, image: Image<T>, now: Instant) -> u64 {
        let name = image.name;
        let choice = self.0.entry(core).or_insert(Choice { proven: None, trials: Vec::new() });
        choice.settle(now);
        choice.trials.push((image, None));
        name
    }

    /// Takes back an image that a core has yet to run.
    pub fn unload(&mut self, core: CoreId) {
        let choice = self.0.get_mut(&core);
        if let Some(choice) = choice.filter(|it| it.trials.last().is_some_and(|it| it.1.is_none()))
        {
            choice.trials.pop();
        }
    }

    /// An incarnation of a core is about to begin: what it runs, if that is not the node's own.
    pub fn begin(&mut self, core: CoreId, now: Instant) -> Option<Image<T>> {
        let choice = self.0.get_mut(&core)?;
        if let Some((_, since)) = choice.trials.last_mut() {
            since.get_or_insert(now);
        }
        choice.now().cloned()
    }

    /// A core that [began](Images::begin) with what it has here has failed. If its image was on
    /// trial, it does not run that any more: gives its name.
    pub fn failed(&mut self, core: CoreId, now: Instant) -> Option<u64> {
        let choice = self.0.get_mut(&core)?;
        choice.settle(now);
        let at = choice.running()?;
        let (image, _) = choice.trials.remove(at);
        if let Some((_, since)) = at.checked_sub(1).and_then(|below| choice.trials.get_mut(below)) {
            *since = None;
        }
        Some(image.name)
    }
}

impl<T> Choice<T> {
    fn now(&self) -> Option<&Image<T>> {
        self.trials.last().map(|(image, _)| image).or(self.proven.as_ref())
    }

    /// The place of the one that the core runs, if that is on trial.
    fn running(&self) -> Option<usize> {
        self.trials.iter().rposition(|(_, since)| since.is_some())
    }

    /// Ends a trial that has lasted long enough, and with it those before.
    fn settle(&mut self, now: Instant) {
        let Some(at) = self.running() else { return };
        if self.trials[at].1.is_some_and(|since| now.since(since) >= TRIAL) {
            self.proven = self.trials.drain(..=at).next_back().map(|(image, _)| image);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORE: CoreId = CoreId(2);

    /// Images of one core without bodies, by the second.
    #[derive(Default)]
    struct Bench(Images<()>);

    fn at(second: u64) -> Instant {
        Instant::START + Duration::from_secs(second)
    }

    impl Bench {
        fn load(&mut self, name: u64, second: u64) {
            assert_eq!(self.0.load(CORE, Image { name, body: () }, at(second)), name);
            assert_eq!(self.0.name(CORE), name);
        }

        fn begin(&mut self, second: u64) -> u64 {
            let name = self.0.begin(CORE, at(second)).map_or(0, |image| image.name);
            assert_eq!(name, self.0.name(CORE));
            name
        }

        /// What failed on trial, and what runs then.
        fn failed(&mut self, second: u64) -> (Option<u64>, u64) {
            (self.0.failed(CORE, at(second)), self.0.name(CORE))
        }
    }

    #[test]
    fn a_core_without_an_image_has_the_nodes_own() {
        let mut bench = Bench::default();
        assert_eq!((bench.begin(0), bench.failed(1)), (0, (None, 0)));
        bench.load(7, 2);
        assert!(bench.0.begin(CoreId(1), at(2)).is_none());
    }

    #[test]
    fn an_image_that_fails_on_trial_is_taken_back() {
        let mut bench = Bench::default();
        bench.load(7, 1);
        assert_eq!(bench.begin(1), 7);
        bench.load(8, 2);
        assert_eq!(bench.begin(2), 8);
        assert_eq!(bench.failed(3), (Some(8), 7));
    }

    #[test]
    fn an_image_that_fails_later_stays() {
        let mut bench = Bench::default();
        bench.load(7, 1);
        // The trial begins with the first incarnation.
        assert_eq!((bench.begin(30), bench.begin(35)), (7, 7));
        assert_eq!(bench.failed(40), (None, 7));
        bench.load(8, 41);
        assert_eq!((bench.begin(41), bench.failed(42)), (8, (Some(8), 7)));
        assert_eq!((bench.begin(42), bench.failed(43)), (7, (None, 7)), "it is proven");
    }

    #[test]
    fn what_runs_again_is_on_trial_again() {
        let mut bench = Bench::default();
        bench.load(7, 1);
        bench.begin(1);
        bench.load(8, 2);
        bench.begin(2);
        assert_eq!((bench.failed(11), bench.begin(11)), ((Some(8), 7), 7));
        assert_eq!(bench.failed(20), (Some(7), 0));
    }

    #[test]
    fn an_image_that_has_yet_to_begin_is_not_to_blame() {
        let mut bench = Bench::default();
        bench.load(7, 1);
        assert_eq!(bench.failed(2), (None, 7), "the node's own has failed");
        bench.begin(2);
        bench.load(8, 3);
        assert_eq!(bench.failed(4), (Some(7), 8));
        bench.begin(4);
        assert_eq!(bench.failed(5), (Some(8), 0));
    }

    #[test]
    fn an_image_that_has_yet_to_begin_can_be_taken_back() {
        let mut bench = Bench::default();
        bench.load(7, 1);
        bench.begin(1);
        bench.load(8, 2);
        bench.0.unload(CORE);
        bench.0.unload(CORE);
        assert_eq!(bench.0.name(CORE), 7);
        assert_eq!(bench.failed(12), (None, 7), "its trial went on");
    }
}
