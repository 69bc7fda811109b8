//! The simulator's promise: the same seed is the same run, event by event, in every run and in
//! every build of one source tree.

use std::process::Command;

use crate::support::{launcher, launcher_again, nile, run};

/// The line that says what happened, as a hash.
#[track_caller]
fn trace(command: &mut Command, seed: &str, program: &str) -> String {
    let request = ["boot", "--machine", "sim", "--json", "--seed", seed, "--program", program];
    let said = run(command, &request).expect(0);
    let trace = said.err.lines().rfind(|line| line.starts_with("trace "));
    trace.expect("the simulator says what its trace is").to_string()
}

#[test]
fn a_seed_is_one_run_in_debug_and_release_builds() {
    let released = |mut command: Command| {
        command.env("NILE_PROFILE", "release");
        command
    };
    let mut release = released(launcher());
    for program in ["boot", "ping", "restart", "moving", "churn", "manager-restart"] {
        // This test's own build is a debug build.
        let debug = trace(&mut nile(), "7", program);
        assert_eq!(debug, trace(&mut nile(), "7", program), "{program}: two runs");
        assert_eq!(debug, trace(&mut release, "7", program), "{program}: two builds");
        release = released(launcher_again());
        assert_ne!(debug, trace(&mut nile(), "8", program), "{program}: two seeds");
    }
}
