//! Measuring in turns, so that what happens to the machine meanwhile happens to all.

use alloc::format;
use alloc::vec::Vec;

use nile_kernel::Core;
use nile_platform::Machine;
use nile_stl::{CallResult, LocalFuture};
use nile_sync::yield_now;

use crate::conduct::Findings;

/// One of those that are measured.
pub struct Contestant<'a> {
    /// What its figures are called.
    pub name: &'static str,
    /// Does its operation so many times.
    pub run: &'a dyn Fn(u64) -> LocalFuture<'a, CallResult<()>>,
}

/// How long a contest is.
#[derive(Clone, Copy)]
pub struct Contest {
    /// Rounds that count; one before them only warms up.
    pub rounds: u64,
    /// Operations of a contestant in a round.
    pub operations: u64,
}

impl Contest {
    /// Runs all in turns, and notes what an operation of each took, and the ratio to each that
    /// stands before it. Fails as the first operation that does.
    pub async fn run<M: Machine>(
        self,
        core: &Core<M>,
        findings: &Findings,
        contestants: &[Contestant<'_>],
    ) -> CallResult<()> {
        let all = contestants.len();
        let mut times: Vec<Vec<u64>> = contestants.iter().map(|_| Vec::new()).collect();
        for round in 0..=self.rounds as usize {
            for turn in 0..all {
                let place = if round.is_multiple_of(2) { turn } else { all - 1 - turn };
                // What the core has to do besides, it does now.
                yield_now().await;
                let before = core.now();
                (contestants[place].run)(self.operations).await?;
                let took = core.now().since(before).as_nanos() as u64;
                if round > 0 {
                    times[place].push(took);
                }
            }
        }
        for (place, (Contestant { name, .. }, took)) in contestants.iter().zip(&times).enumerate() {
            findings.figure(*name, median(took.iter().map(|took| took * 100 / self.operations)));
            for (peer, beside) in contestants.iter().zip(&times).take(place) {
                let pairs = took.iter().zip(beside);
                let ratios = pairs.map(|(ours, peer)| ours * 10_000 / (*peer).max(1));
                findings.figure(format!("{name}/{}", peer.name), median(ratios));
            }
        }
        Ok(())
    }
}

/// The middle one of the values, the upper one of two; nothing of none.
fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut sorted: Vec<u64> = values.collect();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_ignores_what_is_far_off() {
        assert_eq!(median([3, 1, 1_000_000].into_iter()), 3);
        assert_eq!(median([].into_iter()), 0);
    }
}
