//! What part of times is at most how long.

use std::time::Duration;

/// The least time, in microseconds, that so large a part of `times` does not exceed; these are
/// sorted. Infinity of none, which meets no target.
pub fn part(times: &[Duration], of: f64) -> f64 {
    let place = (of * times.len() as f64).ceil() as usize;
    let time = times.get(place.max(1) - 1);
    time.map_or(f64::INFINITY, |it| it.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_times_is_at_most_one_of_them() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_micros).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|it| part(&times, it)), [1.0, 100.0, 198.0, 200.0]);
        assert_eq!(part(&[], 0.5), f64::INFINITY);
    }
}
