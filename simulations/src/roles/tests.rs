//! What is promised of days, and that the simulation itself is right.

use nile_roles::optimisers::{Exact, Greedy, HillClimbing, Threshold};

use super::*;

#[test]
fn roles_that_change_beat_those_that_stay() {
    for (seed, cores) in [(1, 4), (2, 8), (3, 16)] {
        let stretches = day::draw(&mut random(seed), cores);
        let bounds = bounds(&stretches, cores);
        let Bounds { usual, fixed, clairvoyant } = bounds;
        assert!(clairvoyant <= fixed && fixed <= usual, "{bounds:?}");
        for optimiser in [&Exact as &dyn Optimiser, &HillClimbing, &Threshold] {
            let lived = live(&stretches, cores, optimiser, seed);
            let name = optimiser.name();
            assert!(lived.seconds >= clairvoyant * 0.99, "{name}: {lived:?} {bounds:?}");
            assert!(lived.seconds <= clairvoyant * 1.10, "{name}: {lived:?} {bounds:?}");
            assert!(lived.seconds <= fixed * 1.02, "{name}: {lived:?} {bounds:?}");
        }
    }
}

#[test]
fn a_run_is_repeated_by_its_seed() {
    let once = || {
        let stretches = day::draw(&mut random(5), 6);
        live(&stretches, 6, &Greedy, 5).seconds.to_bits()
    };
    assert_eq!(once(), once());
}

/// Whoever never changes anything, for comparison.
struct Idle;

impl Optimiser for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn explain(&self) -> &'static str {
        "stays"
    }

    fn search(&self, _: &mut nile_roles::Search<'_>) -> Result<(), nile_roles::Spent> {
        Ok(())
    }
}

#[test]
fn a_node_that_stays_takes_as_long_as_is_computed() {
    let stretches = day::draw(&mut random(4), 5);
    let usual = bounds(&stretches, 5).usual;
    let lived = live(&stretches, 5, &Idle, 4);
    assert!((lived.seconds / usual - 1.0).abs() < 1e-6, "{lived:?} {usual}");
    assert_eq!(lived.changes, 0);
}
