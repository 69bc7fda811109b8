//! The checks find what they are for.

use super::{Conduct, simulate};

const SEEDS: std::ops::Range<u64> = 0..20;
/// Where two are looked for of a control that breaks fewer of these.
const MORE: std::ops::Range<u64> = SEEDS.end..400;

/// Others that once broke an invariant.
const FOUND: [u64; 2] = [165, 1857];

#[test]
fn runs_hold() {
    for seed in SEEDS.chain(FOUND) {
        let outcome = simulate(seed, 8, Conduct::default());
        assert_eq!(outcome.broken, None, "seed {seed}");
        assert_eq!(outcome.trace_hash, simulate(seed, 8, Conduct::default()).trace_hash);
    }
}

/// Each control breaks the invariants that it is for, and no run of it breaks another first.
#[test]
fn what_is_done_wrong_is_found() {
    let right = Conduct::default();
    let controls: [(Conduct, &[&str]); 11] = [
        (Conduct { loses_words: true, ..right }, &["I1", "I2", "I5", "I8"]),
        (Conduct { keeps_given_memory: true, ..right }, &["I2"]),
        (Conduct { keeps_shared_memory: true, ..right }, &["I2", "I5"]),
        (Conduct { never_parks: true, ..right }, &["I2", "I3"]),
        (Conduct { starts_anything: true, ..right }, &["I2", "I3"]),
        (Conduct { forgets_generations: true, ..right }, &["I4"]),
        (Conduct { scrubs_nothing: true, ..right }, &["I5"]),
        (Conduct { tells_nobody: true, ..right }, &["I6"]),
        (Conduct { ignores_limits: true, ..right }, &["I7"]),
        (Conduct { has_no_clock: true, ..right }, &["I6", "I11", "I12"]),
        (Conduct { leaves_devices: true, ..right }, &["I14"]),
    ];
    for (conduct, meant) in controls {
        let broken = |seed| simulate(seed, 8, conduct).broken;
        let mut all: Vec<String> = SEEDS.filter_map(broken).collect();
        all.extend(MORE.filter_map(broken).take(2_usize.saturating_sub(all.len())));
        let broken = all;
        assert!(broken.len() >= 2, "{conduct:?}: {broken:?}");
        for one in broken {
            assert!(meant.contains(&one.split(':').next().unwrap()), "{conduct:?}: {one}");
        }
    }
}
