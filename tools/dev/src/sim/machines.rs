//! `nile sim machines`: a machine that is shared out while its supervisor dies at any step, its
//! domains panic, hang and keep what they have, and a user commands anything. The kernel runs in
//! the simulator, on the supervisor's node and in every domain.

use nile_sim::{Misdeed, Tried};
use nile_simulations::{Figure, Options, Outcome, Report, Scenario, run_seeds};

/// The scenario.
pub const SCENARIO: Scenario = Scenario {
    name: "machines",
    about: "domains with their kernels on one machine, whose supervisor dies at any step",
    run,
};

fn run(options: &Options) -> Report {
    run_seeds(SCENARIO.name, options, 1, |seed| {
        let Tried { trace_hash, broken, counts } = nile_sim::machines(seed, Misdeed::Nothing);
        let figures = vec![
            Figure::count("commands done", counts.done),
            Figure::count("commands refused", counts.refused),
            Figure::count("supervisors", counts.supervisors),
            Figure::count("domains that began", counts.began),
            Figure::count("cores taken by force", counts.forced),
            Figure::count("pieces that domains wrote into parts of a disk", counts.stamped),
            Figure::count("beats of the domain that nothing reaches", counts.beats),
        ];
        Outcome { trace_hash, broken, figures }
    })
}
