//! Measuring in turns: A, B, B, A, … so that what happens to the machine meanwhile happens to
//! both. Each round gives one ratio; a round that the machine disturbed gives a wrong one, and the
//! median does not mind.

use std::time::Instant;

/// What several contestants took in one unit of work, round by round: `times[contestant][round]`.
pub struct Times(pub Vec<Vec<f64>>);

impl Times {
    /// No rounds yet, of so many contestants.
    pub fn of(contestants: usize) -> Times {
        Times(vec![Vec::new(); contestants])
    }

    /// What was beyond that which `part`, a contestant itself, took in the same round.
    #[must_use]
    pub fn without(mut self, part: usize) -> Times {
        let part = self.0[part].clone();
        for rounds in &mut self.0 {
            rounds.iter_mut().zip(&part).for_each(|(took, part)| *took -= part);
        }
        self
    }

    /// The middle of what a contestant took.
    pub fn median(&self, contestant: usize) -> f64 {
        median(&self.0[contestant])
    }

    /// The middle of what `ours` took against `peer` in the same round.
    pub fn ratio(&self, ours: usize, peer: usize) -> f64 {
        let pairs = self.0[ours].iter().zip(&self.0[peer]);
        median(&pairs.map(|(ours, peer)| ours / peer).collect::<Vec<_>>())
    }
}

/// The order of the contestants in a round: each is first, and last, equally often.
pub fn order(round: usize, contestants: usize) -> impl Iterator<Item = usize> {
    let forward = (round / contestants).is_multiple_of(2);
    (0..contestants).map(move |turn| {
        let turn = if forward { turn } else { contestants - 1 - turn };
        (round + turn) % contestants
    })
}

/// Lets each contestant do its work once a round, and gives the nanoseconds that a unit of it
/// took; `units` is how many there are in it. The first round only warms up.
pub fn contest(rounds: usize, units: u32, contestants: &mut [&mut dyn FnMut()]) -> Times {
    let mut times = Times::of(contestants.len());
    for round in 0..=rounds {
        for contestant in order(round, contestants.len()) {
            let start = Instant::now();
            contestants[contestant]();
            let took = start.elapsed().as_nanos() as f64 / f64::from(units);
            if round > 0 {
                times.0[contestant].push(took);
            }
        }
    }
    times
}

/// The middle of the values; not a number if there is none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len() / 2, sorted.len() % 2) {
        (0, 0) => f64::NAN,
        (middle, 0) => f64::midpoint(sorted[middle - 1], sorted[middle]),
        (middle, _) => sorted[middle],
    }
}

/// What 1%, 2% and so on of the values are at most, up to all; nothing if there is none.
pub fn by_part(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let parts = (1..=100).map(|part| (sorted.len() * part).div_ceil(100));
    parts.filter_map(|count| sorted.get(count.checked_sub(1)?).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_ignores_what_is_far_off() {
        assert_eq!(median(&[3.0, 1.0, 1e9]), 3.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, -7.0]), 1.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn parts_are_of_the_values_in_rising_order() {
        let falling: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        let parts = by_part(&falling);
        assert_eq!((parts.len(), parts[0], parts[49], parts[99]), (100, 2.0, 100.0, 200.0));
        assert_eq!(by_part(&[3.0, 1.0])[48..51], [1.0, 1.0, 3.0]);
        assert!(by_part(&[]).is_empty());
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The machine was three times slower in the second round; both saw it.
        let times = Times(vec![vec![2.0, 6.0, 2.0], vec![1.0, 3.0, 1.0]]);
        assert_eq!((times.median(0), times.ratio(0, 1)), (2.0, 2.0));
        assert_eq!(times.without(1).0, [[1.0, 3.0, 1.0], [0.0; 3]]);
    }

    #[test]
    fn every_contestant_has_every_turn_equally_often() {
        let mut counts = [[0; 3]; 3];
        for round in 0..6 {
            for (turn, contestant) in order(round, 3).enumerate() {
                counts[contestant][turn] += 1;
            }
        }
        assert_eq!(counts, [[2; 3]; 3]);
    }

    #[test]
    fn a_contest_runs_everyone_every_round() {
        let (mut one, mut two) = (0, 0);
        let times = contest(4, 10, &mut [&mut || one += 1, &mut || two += 1]);
        assert_eq!((one, two), (5, 5));
        assert!(times.0.iter().all(|rounds| rounds.len() == 4));
    }
}
