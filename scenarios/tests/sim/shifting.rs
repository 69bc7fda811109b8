//! Cores that leave, come back, begin anew and change roles at any moment.

use nile_sim::Control;

use crate::passed;

#[test]
fn cores_shift_at_any_moment_and_no_call_is_lost() {
    for seed in 0..30 {
        let finished = nile_sim::shifting(seed, Control::Nothing);
        let finished = finished.unwrap_or_else(|stuck| panic!("{stuck}\n{}", stuck.log.join("\n")));
        passed(&finished, "shifting", seed);
    }
}
