//! The timeline in the trace event format of Chrome, which Perfetto reads too: a process for each
//! node with a thread for each core, and one with the jobs and their phases.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Core, Job, Seen};
use crate::run::jobs::Attempt;

/// The process that jobs and phases are shown in. No node has this number.
const JOBS: u64 = 1_000_000;

/// The thread of a core. Each has a number of its own: Perfetto knows threads by it alone.
fn thread(node: u32, core: u16) -> u64 {
    u64::from(node) * 1000 + u64::from(core) + 1
}

/// All that was seen.
pub fn document(seen: &Seen) -> Value {
    let mut events = vec![
        name("process_name", JOBS, JOBS, "jobs"),
        name("thread_name", JOBS, JOBS, "jobs and their phases"),
    ];
    events.extend(seen.cores.iter().flat_map(names));
    for job in &seen.jobs {
        let whole = (job.begun, job.begun + job.times.until);
        events.push(slice(&job.name, "job", (JOBS, JOBS), whole, json!({})));
        events.extend(job.times.phases.iter().map(|(name, begun, ended)| {
            let span = (job.begun + *begun, job.begun + *ended);
            slice(name, "phase", (JOBS, JOBS), span, json!({}))
        }));
        events.extend(job.times.attempts.iter().map(|it| attempt(job, it)));
    }
    json!({ "displayTimeUnit": "ms", "traceEvents": events })
}

fn names(core: &Core) -> [Value; 2] {
    let (process, thread) = (u64::from(core.node.0), thread(core.node.0, core.core.0));
    let text = format!("{} {}", core.core, core.role());
    [
        name("process_name", process, thread, &core.node.to_string()),
        name("thread_name", process, thread, &text),
    ]
}

fn name(what: &str, process: u64, thread: u64, name: &str) -> Value {
    json!({ "ph": "M", "name": what, "pid": process, "tid": thread, "args": { "name": name } })
}

fn attempt(job: &Job, it: &Attempt) -> Value {
    let track = (u64::from(it.node), thread(it.node, it.core));
    let span = (job.begun + it.begun, job.begun + it.ended);
    let about = json!({
        "job": job.name, "attempt": it.number, "outcome": it.outcome, "bytes_read": it.read,
    });
    slice(&format!("{} {}", it.kind, it.task), it.kind, track, span, about)
}

fn slice(
    name: &str,
    category: &str,
    (process, thread): (u64, u64),
    (begun, ended): (Duration, Duration),
    about: Value,
) -> Value {
    json!({
        "ph": "X", "name": name, "cat": category, "pid": process, "tid": thread,
        "ts": begun.as_micros() as u64, "dur": ended.saturating_sub(begun).as_micros() as u64,
        "args": about,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::seen;
    use super::*;

    fn number(event: &Value, field: &str) -> u64 {
        event[field].as_u64().unwrap()
    }

    #[test]
    fn slices_lie_in_their_jobs_and_no_two_of_a_core_overlap() {
        let text = document(&seen()).to_string();
        let read: Value = serde_json::from_str(&text).unwrap();
        let events = read["traceEvents"].as_array().unwrap();
        let slices: Vec<&Value> = events.iter().filter(|it| it["ph"] == "X").collect();
        let end = |it: &Value| number(it, "ts") + number(it, "dur");
        let jobs: Vec<&&Value> = slices.iter().filter(|it| it["cat"] == "job").collect();
        assert_eq!(jobs.len(), 2);
        assert!(end(jobs[0]) <= number(jobs[1], "ts"));
        for it in slices.iter().filter(|it| it["cat"] != "job") {
            let within =
                |job: &&&&Value| number(job, "ts") <= number(it, "ts") && end(it) <= end(job);
            assert_eq!(jobs.iter().filter(within).count(), 1, "{it}");
        }
        let mut maps: Vec<&&Value> = slices.iter().filter(|it| it["cat"] == "map").collect();
        maps.sort_by_key(|it| number(it, "ts"));
        assert_eq!(maps.len(), 4);
        assert!(maps.windows(2).all(|two| end(two[0]) <= number(two[1], "ts")));
        assert_eq!((&maps[3]["name"], &maps[3]["args"]["job"]), (&"map 1".into(), &"sort".into()));
    }

    #[test]
    fn cores_have_names_with_their_roles_and_numbers_of_their_own() {
        let read = document(&seen());
        let events = read["traceEvents"].as_array().unwrap();
        let named = events.iter().filter(|it| it["name"] == "thread_name");
        let mut threads: Vec<(u64, u64, &str)> = named
            .map(|it| (number(it, "pid"), number(it, "tid"), it["args"]["name"].as_str().unwrap()))
            .collect();
        threads.sort_unstable();
        let expected = [
            (1, 1001, "c0 management"),
            (1, 1003, "c2 worker"),
            (2, 2003, "c2 worker"),
            (JOBS, JOBS, "jobs and their phases"),
        ];
        assert_eq!(threads, expected);
    }
}
