//! `nile jobs`: the jobs of a cluster, those that run and those that ended lately.

use nile_interfaces::job::JobClient;
use nile_interfaces::job::records::{JobEnd, JobEntry, JobPolicy};
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

fn list(session: &mut Session) -> Result<Vec<JobEntry>, Failure> {
    known(session)?.ok_or_else(none)
}

fn none() -> Failure {
    Failure::request("no node of the cluster has a job service")
}

/// The jobs that the first node knows that answers; it asks the others. `None` if no node has a
/// job service.
pub fn known(session: &mut Session) -> Result<Option<Vec<JobEntry>>, Failure> {
    let away = session.away();
    let Some(mut targets) = service::find::<JobClient>(session)? else { return Ok(None) };
    targets.retain(|target| !away.contains(&target.node));
    let patience = session.patience;
    let mut why = none();
    for target in targets {
        let told = session.peer.work(patience, async |clients| {
            clients.at::<JobClient>(target).list_all().await.map_err(CallFailed::from)
        })?;
        match told {
            Ok(all) => return Ok(Some(all)),
            Err(failed) => why = Failure::failed(format!("jobs of {}: {failed}", target.place())),
        }
    }
    Err(why)
}

/// How it ended, or what it does.
fn state(of: &JobEntry) -> &'static str {
    match of.ended {
        JobEnd::Open => of.phase.name(),
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
        "phase": it.phase.name(),
        "ended": ended,
        "maps": [it.maps_done, it.maps],
        "reduces": [it.reduces_done, it.reduces],
        "policy": it.policy.name(),
        "weight": weight(it),
        "deadline_ms": deadline_ms(it),
        "submitted_to": node(it.submitted_to),
        "master": it.master.map(node),
    })
}

fn weight(of: &JobEntry) -> Option<u32> {
    match of.policy {
        JobPolicy::Fair { weight } => Some(weight),
        JobPolicy::EarliestDeadline { .. } | JobPolicy::Fifo => None,
    }
}

fn deadline_ms(of: &JobEntry) -> Option<u64> {
    match of.policy {
        JobPolicy::EarliestDeadline { deadline_ms } => Some(deadline_ms),
        JobPolicy::Fair { .. } | JobPolicy::Fifo => None,
    }
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
        let deadline = |ms: u64| format!("{}.{:03} s", ms / 1000, ms % 1000);
        let cells = [
            it.job.to_string(),
            it.name.clone(),
            it.output.clone(),
            state(it).into(),
            done(it.maps_done, it.maps),
            done(it.reduces_done, it.reduces),
            it.policy.name().into(),
            weight(it).as_ref().map_or_else(String::new, u32::to_string),
            deadline_ms(it).map_or_else(String::new, deadline),
            node(it.submitted_to),
            it.master.map_or_else(String::new, node),
        ];
        rows.push(cells.to_vec());
    }
    table::columns("", &rows)
}

#[cfg(test)]
mod tests {
    use nile_interfaces::job::records::JobPhase;

    use super::*;

    #[test]
    fn a_job_is_shown_with_its_claim_and_its_progress() {
        let job = JobEntry {
            job: 7,
            name: "sort".into(),
            output: "sorted".into(),
            phase: JobPhase::Mapping,
            master: Some(2),
            ended: JobEnd::Open,
            policy: JobPolicy::EarliestDeadline { deadline_ms: 1500 },
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
        let policy = JobPolicy::default();
        let over = JobEntry { ended: JobEnd::Failed, master: None, policy, ..job };
        let (shown, document) = (text(std::slice::from_ref(&over)), document(&over));
        assert!(shown.contains("failed") && !shown.contains("mapping"), "{shown}");
        assert!(document["deadline_ms"].is_null() && document["weight"] == 100);
        assert!(document["master"].is_null());
        assert_eq!((&document["maps"][1], &document["ended"]), (&8.into(), &"failed".into()));
    }
}
