//! Cores that leave, come back, begin anew and change roles at any moment.

use nile_sim::Control;

use crate::passed;

#[test]
fn cores_shift_at_any_moment_and_no_call_is_lost() {
    // A core fails while it is to leave, and all workers that could cut bounds are gone; one is
    // silent for long before it leaves; a package is stopped four times as its cores leave.
    let found = [505_221, 506_476, 509_004, 509_066, 900_890, 901_460, 926_661, 982_676];
    for seed in (0..30).chain(found) {
        let finished = nile_sim::shifting(seed, Control::Nothing);
        let finished = finished.unwrap_or_else(|stuck| panic!("{stuck}\n{}", stuck.log.join("\n")));
        passed(&finished, "shifting", seed);
    }
}
