//! Which calls are over: numbers in ranges, so that what never ends does not make it grow.

use alloc::vec::Vec;

/// A set of numbers. Everything below a floor is in it.
#[derive(Debug, Default)]
pub struct Ended {
    floor: u64,
    /// First and last of each range above the floor, in order; no two touch.
    ranges: Vec<(u64, u64)>,
}

impl Ended {
    /// Everything below this is in the set.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// How many ranges it has to remember.
    pub fn ranges(&self) -> usize {
        self.ranges.len()
    }

    /// How many ranges begin at `number` or before.
    fn begun(&self, number: u64) -> usize {
        self.ranges.partition_point(|(first, _)| *first <= number)
    }

    /// Whether this number is in the set.
    pub fn contains(&self, number: u64) -> bool {
        let last = self.begun(number).checked_sub(1).map(|at| self.ranges[at].1);
        number < self.floor || last.is_some_and(|last| number <= last)
    }

    /// Puts everything below this in.
    pub fn raise(&mut self, floor: u64) {
        if floor <= self.floor {
            return;
        }
        self.floor = floor;
        let passed = self.begun(floor);
        if let Some((_, last)) = self.ranges.drain(..passed).next_back() {
            self.floor = floor.max(last + 1);
        }
    }

    /// Puts one number in.
    pub fn insert(&mut self, number: u64) {
        if number == self.floor {
            return self.raise(number + 1);
        }
        if self.contains(number) {
            return;
        }
        let at = self.begun(number);
        let joins_next = self.ranges.get(at).is_some_and(|(first, _)| *first == number + 1);
        let joins_last = at > 0 && self.ranges[at - 1].1 + 1 == number;
        match (joins_last, joins_next) {
            (true, true) => self.ranges[at - 1].1 = self.ranges.remove(at).1,
            (true, false) => self.ranges[at - 1].1 = number,
            (false, true) => self.ranges[at].0 = number,
            (false, false) => self.ranges.insert(at, (number, number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn is_a_set(steps in proptest::collection::vec((0u64..200, any::<bool>()), 1..300)) {
            let (mut ended, mut model) = (Ended::default(), BTreeSet::new());
            for (number, raise) in steps {
                if raise && number % 8 == 0 {
                    ended.raise(number / 4);
                    model.extend(0..number / 4);
                } else {
                    ended.insert(number);
                    model.insert(number);
                }
                for number in 0..201 {
                    prop_assert_eq!(ended.contains(number), model.contains(&number));
                }
                let starts = |it: &&u64| **it > ended.floor() && !model.contains(&(**it - 1));
                prop_assert_eq!(ended.ranges(), model.iter().filter(starts).count());
            }
        }
    }
}
