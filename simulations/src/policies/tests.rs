//! The checks find what they are for.

use super::{Conduct, simulate};

fn broken(conduct: Conduct) -> usize {
    (0..20).filter(|seed| simulate(*seed, conduct).broken.is_some()).count()
}

#[test]
fn runs_hold() {
    for seed in 0..20 {
        let outcome = simulate(seed, Conduct::default());
        assert_eq!(outcome.broken, None, "seed {seed}");
        assert!(outcome.figures.iter().all(|it| it.holds()), "seed {seed}: {:?}", outcome.figures);
        assert_eq!(outcome.trace_hash, simulate(seed, Conduct::default()).trace_hash);
    }
}

#[test]
fn what_is_lost_doubled_or_mixed_up_is_found() {
    for conduct in [
        Conduct { loses_at_bind: true, ..Conduct::default() },
        Conduct { doubles_at_bind: true, ..Conduct::default() },
        Conduct { mixes_subjects: true, ..Conduct::default() },
    ] {
        assert!(broken(conduct) >= 18, "{conduct:?}");
    }
}

#[test]
fn who_uses_more_than_was_promised_is_late() {
    assert!(broken(Conduct { overruns: true, ..Conduct::default() }) >= 10);
}
