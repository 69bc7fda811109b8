//! When a domain gets a core more and when it gives one back: two thresholds (RainForest 5.3). A
//! window in which a domain is worse than the upper one gives it a core at once; so many in a row
//! that are better than the lower one take it back. Each step is followed by a window that decides
//! nothing, as it shows what was before.
//!
//! A load that is too much for so many cores and too little for one more would have a core come
//! and go for ever. So whoever needs back at once what it has just given is left alone for twice
//! as many good windows the next time.

/// The most good windows that are waited for.
const MOST_CALM: u32 = 1024;

/// What is to be done after a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Nothing.
    Stay,
    /// The domain gets a core.
    Grow,
    /// It gives one back.
    Shrink,
}

/// What decides for one domain. What is measured, the caller knows: a time, a load.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Elastic {
    lower: u64,
    upper: u64,
    /// Good windows in a row before a core is given back: at first, and now.
    first_calm: u32,
    calm: u32,
    /// Good windows so far.
    good: u32,
    /// Windows since the last core was given back, if it was not needed since.
    given: Option<u32>,
    /// The next window decides nothing.
    settles: bool,
}

impl Elastic {
    /// A domain is well below `lower`, gets a core above `upper`, and gives one back after so many
    /// good windows. `None` unless the lower threshold is below the upper one and `calm` is some.
    pub fn new(lower: u64, upper: u64, calm: u32) -> Option<Elastic> {
        let is_one = lower < upper && (1..=MOST_CALM).contains(&calm);
        is_one.then_some(Elastic {
            lower,
            upper,
            first_calm: calm,
            calm,
            good: 0,
            given: None,
            settles: false,
        })
    }

    /// What to do after a window in which so much was measured; none: the domain had nothing to
    /// do, which is good.
    pub fn decide(&mut self, measured: Option<u64>) -> Step {
        self.given = self.given.map(|windows| windows.saturating_add(1));
        if core::mem::take(&mut self.settles) {
            return Step::Stay;
        }
        match measured {
            Some(measured) if measured > self.upper => {
                self.good = 0;
                self.settles = true;
                if let Some(windows) = self.given.take() {
                    let was_needed = windows <= self.calm.saturating_mul(2);
                    let longer = self.calm.saturating_mul(2).min(MOST_CALM);
                    self.calm = if was_needed { longer } else { self.first_calm };
                }
                Step::Grow
            }
            Some(measured) if measured >= self.lower => {
                self.good = 0;
                Step::Stay
            }
            _ => {
                self.good += 1;
                if self.good < self.calm {
                    return Step::Stay;
                }
                self.good = 0;
                self.settles = true;
                self.given = Some(0);
                Step::Shrink
            }
        }
    }

    /// The step that was decided last could not be taken: it is as if none was decided.
    pub fn undo(&mut self, step: Step) {
        self.settles = false;
        if step == Step::Shrink {
            self.given = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// What a domain decides that has `work` to do, each of its cores as much of that as another:
    /// the steps, and the cores that it has in the end.
    fn run(elastic: &mut Elastic, work: &[u64], mut cores: u64, most: u64) -> (Vec<Step>, u64) {
        let steps = work.iter().map(|work| {
            let step = elastic.decide((*work > 0).then(|| work / cores));
            match step {
                Step::Grow if cores < most => cores += 1,
                Step::Shrink if cores > 1 => cores -= 1,
                Step::Stay => {}
                step => elastic.undo(step),
            }
            step
        });
        let steps = steps.collect();
        (steps, cores)
    }

    #[test]
    fn thresholds_are_in_order() {
        assert_eq!(Elastic::new(5, 5, 3), None);
        assert_eq!(Elastic::new(1, 5, 0), None);
    }

    #[test]
    fn a_burst_gets_a_core_at_once_and_gives_it_back_after_it() {
        let mut elastic = Elastic::new(20, 60, 3).unwrap();
        let mut work = [40; 4].to_vec();
        work.extend([90; 6]);
        work.extend([10; 6]);
        let (steps, cores) = run(&mut elastic, &work, 1, 4);
        assert_eq!(steps[4], Step::Grow, "{steps:?}");
        assert_eq!(steps.iter().filter(|it| **it == Step::Grow).count(), 1, "{steps:?}");
        assert!(steps[10..].contains(&Step::Shrink), "{steps:?}");
        assert_eq!(cores, 1);
    }

    #[test]
    fn a_load_between_two_numbers_of_cores_moves_none_for_ever() {
        // On one core it is 70, above 60; on two 35, below 40.
        let mut elastic = Elastic::new(40, 60, 3).unwrap();
        let (steps, _) = run(&mut elastic, &[70; 4000], 1, 4);
        let moves = steps.iter().filter(|it| **it != Step::Stay).count();
        assert!(moves <= 24, "{moves} moves");
        // With what it waits for kept as it was, it has as many as it has windows for.
        let mut control = Elastic::new(40, 60, 3).unwrap();
        let mut moves = 0;
        let mut cores = 1;
        for _ in 0..4000 {
            let step = control.decide(Some(70 / cores));
            cores = if step == Step::Grow {
                2
            } else if step == Step::Shrink {
                1
            } else {
                cores
            };
            moves += u32::from(step != Step::Stay);
            control.calm = 3;
        }
        assert!(moves > 1000, "{moves} moves");
    }

    #[test]
    fn what_cannot_be_done_is_wanted_again_in_the_next_window() {
        let mut elastic = Elastic::new(20, 60, 3).unwrap();
        for _ in 0..3 {
            assert_eq!(elastic.decide(Some(100)), Step::Grow);
            elastic.undo(Step::Grow);
        }
    }

    proptest! {
        #[test]
        fn steps_come_one_in_two_windows_and_for_a_reason(
            work in proptest::collection::vec(0_u64..200, 1..200),
            calm in 1_u32..6,
        ) {
            let mut elastic = Elastic::new(20, 60, calm).unwrap();
            let mut before = Step::Stay;
            let mut good = 0;
            for work in work {
                let step = elastic.decide(Some(work));
                good = if work < 20 { good + 1 } else { 0 };
                prop_assert!(step == Step::Stay || before == Step::Stay);
                prop_assert!(step != Step::Grow || work > 60);
                prop_assert!(step != Step::Shrink || good >= calm);
                before = step;
            }
        }
    }
}
