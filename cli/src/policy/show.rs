//! `nile policies`: the policies of every node by their types, those of a node's cores together.

use std::collections::BTreeSet;

use nile_abi::NodeId;
use nile_interfaces::policy_manager::{PolicyEntry, PolicyManagerClient, SubjectEntry};
use nile_stl::all;
use serde_json::{Value, json};

use super::args::Policies;
use super::lines::{Line, Lines, SCHEDULING};
use super::used;
use crate::cluster::session::Session;
use crate::failure::Failure;
use crate::jobs;
use crate::nearest::suggestion;
use crate::peer::call::CallFailed;
use crate::peer::clients::Clients;
use crate::peer::known::{self, Target};
use crate::table;

/// Prints them.
pub fn run(session: &mut Session, managers: &[Target], options: &Policies) -> Result<(), Failure> {
    let patience = session.patience;
    let told = session.peer.work(patience, async |clients| {
        all(managers.iter().map(|target| tell(&clients, *target))).await
    })?;
    let mut silent: BTreeSet<NodeId> = session.away();
    let mut lines = Lines::published(&known::instances(session.peer.known()));
    for (target, told) in managers.iter().zip(told) {
        match told {
            Ok((policies, subjects)) => lines.scheduled(*target, &policies, &subjects),
            Err(_) => drop(silent.insert(target.node)),
        }
    }
    silent.extend(used::timers(session, &mut lines)?);
    silent.extend(used::roles(session, &mut lines)?);
    if let Some(open) = jobs::known(session)? {
        used::jobs(&mut lines, &open);
    }
    lines.sort();
    let all = match &options.what {
        None => lines.0,
        Some(what) => meant(lines.0, what)?,
    };
    match options.query.json {
        true => crate::print(&format!("{}\n", document(&all)))?,
        false => crate::print(&text(&all))?,
    }
    Failure::unless_all_asked(&silent)
}

/// What a manager says.
type Told = (Vec<PolicyEntry>, Vec<SubjectEntry>);

async fn tell(clients: &Clients, target: Target) -> Result<Told, CallFailed> {
    let manager: PolicyManagerClient = clients.at(target);
    let policies = manager.policies().await.map_err(CallFailed::from)?;
    Ok((policies, manager.subjects().await.map_err(CallFailed::from)?))
}

/// Those of a type or a name.
fn meant(all: Vec<Line>, what: &str) -> Result<Vec<Line>, Failure> {
    if all.iter().any(|it| it.is(what)) {
        return Ok(all.into_iter().filter(|it| it.is(what)).collect());
    }
    let mut types: Vec<&str> = all.iter().map(Line::kind).collect();
    types.dedup();
    let near = suggestion(what, types);
    Err(Failure::request(format!("no policy, and no type of policies, is `{what}`; {near}")))
}

fn document(all: &[Line]) -> Value {
    let instance = |it: &Line| {
        json!({
            "name": it.name,
            "location": it.location,
            "priority": it.priority,
            "subjects": it.bound.as_ref().map(Vec::len),
            "bound": it.bound,
            "decisions": it.decisions,
            "refused": it.refused,
            "expelled": it.expelled,
            "last": it.last,
        })
    };
    let types = all.chunk_by(|one, next| one.kind() == next.kind()).map(|alike| {
        let instances: Vec<Value> = alike.iter().map(instance).collect();
        json!({ "type": alike[0].kind(), "instances": instances })
    });
    json!({ "types": types.collect::<Vec<Value>>() })
}

fn text(all: &[Line]) -> String {
    let titles = ["type", "name", "location", "priority", "subjects", "decisions", "refused"];
    let mut rows = vec![titles.map(String::from).to_vec()];
    let mut notes = String::new();
    for it in all {
        let bound = it.bound.as_deref().unwrap_or_default();
        let subjects = it.bound.as_ref().map(|it| it.len() as u64);
        let number = |it: Option<u64>| it.as_ref().map_or_else(String::new, u64::to_string);
        let priority = it.priority.as_ref().map_or_else(String::new, i64::to_string);
        let cells = [it.types.join(" < "), it.name.clone(), it.location.clone(), priority];
        let counts = [subjects, it.decisions, it.refused].map(number);
        rows.push(cells.into_iter().chain(counts).collect());
        let name = &it.name;
        if it.kind() == SCHEDULING {
            for subject in bound {
                notes += &format!("{subject} is bound to {name}\n");
            }
        } else if !bound.is_empty() {
            notes += &format!("{name} serves {}\n", bound.join(", "));
        }
        if let Some(why) = &it.expelled {
            notes += &format!("{name} is expelled from {why}\n");
        }
        if !it.last.is_empty() {
            notes += &format!("{name} decided last: {}\n", it.last.join(", "));
        }
    }
    let gap = if notes.is_empty() { "" } else { "\n" };
    table::columns("", &rows) + gap + &notes
}

#[cfg(test)]
mod tests {
    use nile_abi::{CoreId, Generation, NodeId};
    use nile_gossip::{Attribute, Instance, Layer};

    use super::*;

    const WHY: &str = "three times it lied; 2 bound to it went to the default";

    fn instance(type_name: &str, name: &str, attributes: &[(&str, &str)]) -> Instance {
        let attribute = |(name, value): &(&str, &str)| Attribute {
            name: name.to_string(),
            value: value.to_string(),
        };
        Instance {
            number: 1,
            core: 0,
            generation: 1,
            name: name.into(),
            type_name: type_name.into(),
            subsystem: String::new(),
            capability: String::new(),
            layer: Layer::High,
            extends: Vec::new(),
            keywords: Vec::new(),
            attributes: attributes.iter().map(attribute).collect(),
            changed: 0,
        }
    }

    fn target(core: u16) -> Target {
        let (node, generation, core) = (NodeId(1), Generation::FIRST, CoreId(core));
        Target { node, generation, core, number: 1 }
    }

    fn entry(name: &str, priority: i64, expelled: Option<&str>, last: &[&str]) -> PolicyEntry {
        PolicyEntry {
            name: name.into(),
            priority,
            subjects: 0,
            ready: 0,
            decisions: 4,
            refused: 3,
            reserved: 0,
            ran_ns: 0,
            expelled: expelled.map(String::from),
            last: last.iter().map(|it| it.to_string()).collect(),
        }
    }

    /// A liar that two cores have, one of which has expelled it, and what else a node publishes.
    fn lines(is_told: bool) -> Lines {
        let attributes = [("global_priority", "40"), ("expelled", "n1.c2: it lied once")];
        let known = [
            instance(SCHEDULING, "liar", &attributes),
            instance("timer_source", "apic", &[("cost", "100")]),
            instance("time", "time", &[]),
        ];
        let known: Vec<_> = known.iter().map(|it| (target(0), it)).collect();
        let mut lines = Lines::published(&known);
        if is_told {
            let expelled = [entry("liar", 40, Some(WHY), &["blue 2 times", "(nothing)"])];
            let subject = SubjectEntry { name: "package".into(), policy: "liar".into() };
            lines.scheduled(target(1), &[entry("liar", 40, None, &[])], &[subject]);
            lines.scheduled(target(2), &expelled, &[]);
        }
        lines.sort();
        lines
    }

    #[test]
    fn an_expelled_policy_is_shown_with_what_it_decided_last() {
        let all = lines(true).0;
        let shown = text(&all);
        for line in [
            format!("\nliar is expelled from n1.c2: {WHY}\n"),
            "\nliar decided last: blue 2 times, (nothing)\n".into(),
            "\nn1.c1/package is bound to liar\n".into(),
        ] {
            assert!(shown.contains(&line), "{shown}");
        }
        let liar = &document(&all)["types"][0]["instances"][0];
        let counts = [&liar["subjects"], &liar["decisions"], &liar["refused"], &liar["priority"]];
        assert_eq!(counts, [1, 8, 6, 40], "those of the cores together");
        assert_eq!(liar["expelled"], format!("n1.c2: {WHY}"));
        assert_eq!(liar["last"], json!(["blue 2 times", "(nothing)"]));
        // Where the core has begun anew since, the registry still knows.
        let liar = &document(&lines(false).0)["types"][0]["instances"][0];
        assert_eq!((&liar["expelled"], &liar["last"]), (&"n1.c2: it lied once".into(), &json!([])));
    }

    #[test]
    fn types_are_those_of_which_somebody_chooses() {
        let all = lines(true).0;
        let types: Vec<&str> = all.iter().map(Line::kind).collect();
        assert_eq!(types, [SCHEDULING, "timer_source"]);
        let named = |what: &str| meant(lines(true).0, what).map(|all| all[0].name.clone());
        assert_eq!(named("timer_source").unwrap(), "apic");
        assert_eq!(named("apic").unwrap(), "apic");
        let refused = named("timer_sauce").unwrap_err().to_string();
        assert!(refused.contains("did you mean `timer_source`?"), "{refused}");
    }
}
