//! How busy worker cores were: for each job and core the attempts that it made, how long they took,
//! and what share of the job's time that is.

use std::time::Duration;

use nile_abi::{CoreId, NodeId, Role};
use serde_json::{Value, json};

use super::Seen;
use crate::size::Bytes;
use crate::table;

/// What a worker core has done for a job.
#[derive(Clone, PartialEq, Debug)]
pub struct Share {
    job: String,
    node: NodeId,
    core: CoreId,
    attempts: usize,
    busy: Duration,
    /// Of the job's time, from 0 to 1.
    part: f64,
    longest: Duration,
    read: u64,
}

/// That of every worker core in every job.
pub fn of(seen: &Seen) -> Vec<Share> {
    let cores = || seen.cores.iter().filter(|it| it.roles.contains(Role::Worker));
    let pairs = seen.jobs.iter().flat_map(|job| cores().map(move |core| (job, core)));
    let share = |(job, core): (&super::Job, &super::Core)| {
        let own = || {
            let all = job.times.attempts.iter();
            all.filter(|it| it.node == core.node.0 && it.core == core.core.0)
        };
        let took = || own().map(|it| it.ended.saturating_sub(it.begun));
        let busy: Duration = took().sum();
        Share {
            job: job.name.clone(),
            node: core.node,
            core: core.core,
            attempts: own().count(),
            busy,
            part: busy.as_secs_f64() / job.times.until.as_secs_f64().max(1e-6),
            longest: took().max().unwrap_or_default(),
            read: own().map(|it| it.read).sum(),
        }
    };
    pairs.map(share).collect()
}

/// As a table.
pub fn text(shares: &[Share]) -> String {
    let title = ["job", "core", "attempts", "busy s", "busy %", "longest s", "read"];
    let row = |it: &Share| {
        vec![
            it.job.clone(),
            format!("{}.{}", it.node, it.core),
            it.attempts.to_string(),
            format!("{:.3}", it.busy.as_secs_f64()),
            format!("{:.0}", it.part * 100.0),
            format!("{:.3}", it.longest.as_secs_f64()),
            Bytes(it.read).to_string(),
        ]
    };
    let rows: Vec<_> =
        std::iter::once(title.map(String::from).to_vec()).chain(shares.iter().map(row)).collect();
    table::columns("", &rows)
}

/// As JSON.
pub fn documents(shares: &[Share]) -> Vec<Value> {
    let document = |it: &Share| {
        json!({
            "job": it.job, "node": it.node.0, "core": it.core.0, "attempts": it.attempts,
            "busy_seconds": it.busy.as_secs_f64(), "busy_share": it.part,
            "longest_seconds": it.longest.as_secs_f64(), "bytes_read": it.read,
        })
    };
    shares.iter().map(document).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::seen;
    use super::*;

    #[test]
    fn a_core_without_attempts_was_not_busy() {
        let shares = of(&seen());
        let said: Vec<(&str, u32, usize, u64, f64)> = shares
            .iter()
            .map(|it| (it.job.as_str(), it.node.0, it.attempts, it.read, it.part))
            .collect();
        let expected = [
            ("generate", 1, 2, 200, 0.5),
            ("generate", 2, 0, 0, 0.0),
            ("sort", 1, 2, 200, 0.5),
            ("sort", 2, 0, 0, 0.0),
        ];
        assert_eq!(said, expected);
        assert!(text(&shares).lines().nth(3).unwrap().starts_with("sort      n1.c2         2"));
        assert_eq!(documents(&shares)[2]["busy_seconds"], 0.002);
    }
}
