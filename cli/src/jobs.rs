//! `nile jobs`: the jobs of a cluster, those that run and those that ended lately.

use nile_interfaces::job::JobClient;
use nile_interfaces::job::records::{JobEnd, JobEntry};
use serde_json::{Value, json};

use crate::cluster::args::Query;
use crate::cluster::session::Session;
use crate::data::service;
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::table;

/// Prints them.
pub fn run(options: &Query) -> Result<(), Failure> {
    let mut session = Session::open(&options.which, options.timeout)?;
    let all = list(&mut session)?;
    match options.json {
        true => {
            let jobs: Vec<Value> = all.iter().map(document).collect();
            crate::print(&format!("{}\n", json!({ "jobs": jobs })))?;
        }
        false => crate::print(&text(&all))?,
    }
    Failure::unless_all_asked(&session.away())
}

/// The jobs that the first node knows that answers; it asks the others.
fn list(session: &mut Session) -> Result<Vec<JobEntry>, Failure> {
    let away = session.away();
    let none = || Failure::request("no node of the cluster has a job service");
    let mut targets = service::find::<JobClient>(session)?.ok_or_else(none)?;
    targets.retain(|target| !away.contains(&target.node));
    let patience = session.patience;
    let mut why = none();
    for target in targets {
        let told = session.peer.work(patience, async |clients| {
            clients.at::<JobClient>(target).list_all().await.map_err(CallFailed::from)
        })?;
        match told {
            Ok(all) => return Ok(all),
            Err(failed) => why = Failure::failed(format!("jobs of {}: {failed}", target.place())),
        }
    }
    Err(why)
}

/// How it ended, or what it does.
fn state(of: &JobEntry) -> &str {
    match of.ended {
        JobEnd::Open => &of.phase,
        JobEnd::Made => "made",
        JobEnd::Failed => "failed",
    }
}

fn document(it: &JobEntry) -> Value {
    let ended = match it.ended {
        JobEnd::Open => "open",
        JobEnd::Made => "made",
        JobEnd::Failed => "failed",
    };
    json!({
        "job": it.job,
        "name": it.name,
        "output": it.output,
        "phase": it.phase,
        "ended": ended,
        "maps": [it.maps_done, it.maps],
        "reduces": [it.reduces_done, it.reduces],
        "policy": it.policy,
        "weight": it.weight,
        "deadline_ms": (it.deadline_ms > 0).then_some(it.deadline_ms),
        "submitted_to": node(it.submitted_to),
        "master": (it.master > 0).then(|| node(it.master)),
    })
}

fn node(number: u32) -> String {
    format!("n{number}")
}

fn text(all: &[JobEntry]) -> String {
    let titles = [
        "job",
        "name",
        "output",
        "state",
        "maps",
        "reduces",
        "policy",
        "weight",
        "deadline",
        "submitted to",
        "master",
    ];
    let mut rows = vec![titles.map(String::from).to_vec()];
    for it in all {
        let done = |done: u32, all: u32| format!("{done} of {all}");
        // Only fair jobs are weighed.
        let weight = if it.policy == "fair" { it.weight.to_string() } else { String::new() };
        let deadline = match it.deadline_ms {
            0 => String::new(),
            ms => format!("{}.{:03} s", ms / 1000, ms % 1000),
        };
        let cells = [
            it.job.to_string(),
            it.name.clone(),
            it.output.clone(),
            state(it).into(),
            done(it.maps_done, it.maps),
            done(it.reduces_done, it.reduces),
            it.policy.clone(),
            weight,
            deadline,
            node(it.submitted_to),
            if it.master > 0 { node(it.master) } else { String::new() },
        ];
        rows.push(cells.to_vec());
    }
    table::columns("", &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_shown_with_its_claim_and_its_progress() {
        let job = JobEntry {
            job: 7,
            name: "sort".into(),
            output: "sorted".into(),
            phase: "mapping".into(),
            master: 2,
            ended: JobEnd::Open,
            policy: "earliest_deadline".into(),
            weight: 100,
            deadline_ms: 1500,
            submitted_to: 1,
            maps_done: 3,
            maps: 8,
            reduces_done: 0,
            reduces: 2,
        };
        let shown = text(std::slice::from_ref(&job));
        let line = shown.lines().nth(1).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let expected = "7 sort sorted mapping 3 of 8 0 of 2 earliest_deadline 1.500 s n1 n2";
        assert_eq!(words.join(" "), expected);
        let over = JobEntry { ended: JobEnd::Failed, master: 0, deadline_ms: 0, ..job };
        let (shown, document) = (text(std::slice::from_ref(&over)), document(&over));
        assert!(shown.contains("failed") && !shown.contains("mapping"), "{shown}");
        assert!(document["deadline_ms"].is_null() && document["master"].is_null());
        assert_eq!((&document["maps"][1], &document["ended"]), (&8.into(), &"failed".into()));
    }
}
