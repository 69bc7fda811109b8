//! `nile policies`: the policies of every node, those of its cores together.

use std::collections::{BTreeMap, BTreeSet};

use nile_abi::NodeId;
use nile_interfaces::policy_manager::{PolicyEntry, SubjectEntry};
use nile_stl::all;
use serde_json::{Value, json};

use super::args::Policies;
use crate::cluster::session::Session;
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::clients::Clients;
use crate::peer::known::{self, Target};
use crate::table;
use nile_interfaces::policy_manager::PolicyManagerClient;

/// The type of the policies of a core's executor.
const SCHEDULING: &str = "scheduling";

/// Who schedules those that are bound to nothing; no instance.
const DEFAULT: &str = "default";

/// A policy on a node.
#[derive(Default)]
struct Line {
    location: String,
    priority: i64,
    bound: Vec<String>,
    decisions: u64,
    refused: u64,
    expelled: Option<String>,
}

impl Line {
    /// What a core has of it.
    fn add(&mut self, entry: &PolicyEntry, place: &str) {
        self.priority = entry.priority;
        self.decisions += entry.decisions;
        self.refused += entry.refused;
        let expelled = entry.expelled.as_ref().map(|why| format!("{place}: {why}"));
        self.expelled = self.expelled.take().or(expelled);
    }
}

/// What a manager says.
type Told = (Vec<PolicyEntry>, Vec<SubjectEntry>);

/// Prints them.
pub fn run(session: &mut Session, managers: &[Target], options: &Policies) -> Result<(), Failure> {
    if let Some(kind) = options.kind.as_ref().filter(|kind| *kind != SCHEDULING) {
        let what = format!("no type of policies is `{kind}`; there is {SCHEDULING}");
        return Err(Failure::request(what));
    }
    let patience = session.patience;
    let told = session.peer.work(patience, async |clients| {
        all(managers.iter().map(|target| tell(&clients, *target))).await
    })?;
    let mut silent: BTreeSet<NodeId> = session.away();
    let mut lines = published(session);
    for (target, told) in managers.iter().zip(told) {
        match told {
            Ok(told) => note(&mut lines, *target, &told),
            Err(_) => drop(silent.insert(target.node)),
        }
    }
    let mut all: Vec<((NodeId, String), Line)> = lines.into_iter().collect();
    all.sort_by_key(|((node, name), line)| (*node, -line.priority, name.clone()));
    match options.query.json {
        true => crate::print(&format!("{}\n", document(&all)))?,
        false => crate::print(&text(&all))?,
    }
    Failure::unless_all_asked(&silent)
}

async fn tell(clients: &Clients, target: Target) -> Result<Told, CallFailed> {
    let manager: PolicyManagerClient = clients.at(target);
    let policies = manager.policies().await.map_err(CallFailed::from)?;
    Ok((policies, manager.subjects().await.map_err(CallFailed::from)?))
}

/// The policies that are published, by node and name.
fn published(session: &Session) -> BTreeMap<(NodeId, String), Line> {
    let mut lines = BTreeMap::new();
    for (target, it) in known::instances(session.peer.known()) {
        if it.type_name == SCHEDULING {
            let line: &mut Line = lines.entry((target.node, it.name.clone())).or_default();
            if line.location.is_empty() {
                line.location = target.place();
            }
        }
    }
    lines
}

fn note(lines: &mut BTreeMap<(NodeId, String), Line>, target: Target, told: &Told) {
    let (policies, subjects) = told;
    for entry in policies {
        let line = lines.entry((target.node, entry.name.clone())).or_default();
        line.add(entry, &target.place());
    }
    for subject in subjects.iter().filter(|it| it.policy != DEFAULT) {
        let line = lines.entry((target.node, subject.policy.clone())).or_default();
        line.bound.push(format!("{}/{}", target.place(), subject.name));
    }
}

fn document(all: &[((NodeId, String), Line)]) -> Value {
    let instance = |((node, name), line): &((NodeId, String), Line)| {
        let location =
            if line.location.is_empty() { node.to_string() } else { line.location.clone() };
        json!({
            "name": name,
            "location": location,
            "priority": line.priority,
            "subjects": line.bound.len(),
            "bound": line.bound,
            "decisions": line.decisions,
            "refused": line.refused,
            "expelled": line.expelled,
        })
    };
    let instances: Vec<Value> = all.iter().map(instance).collect();
    json!({ "types": [{ "type": SCHEDULING, "instances": instances }] })
}

fn text(all: &[((NodeId, String), Line)]) -> String {
    let titles = ["type", "name", "location", "priority", "subjects", "decisions", "refused"];
    let mut rows = vec![titles.map(String::from).to_vec()];
    let mut notes = String::new();
    for ((node, name), line) in all {
        let location =
            if line.location.is_empty() { node.to_string() } else { line.location.clone() };
        let numbers = [line.bound.len() as u64, line.decisions, line.refused];
        let [subjects, decisions, refused] = numbers.map(|it| it.to_string());
        let priority = line.priority.to_string();
        let cells = [SCHEDULING.into(), name.clone(), location, priority, subjects];
        rows.push(cells.into_iter().chain([decisions, refused]).collect());
        for subject in &line.bound {
            notes += &format!("{subject} is bound to {name}\n");
        }
        if let Some(why) = &line.expelled {
            notes += &format!("{name} is expelled from {why}\n");
        }
    }
    let gap = if notes.is_empty() { "" } else { "\n" };
    table::columns("", &rows) + gap + &notes
}
