//! Graphs as text and as JSON.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nile_graph::ONE;
use nile_interfaces::graph::{
    ComponentEntry, GraphClient, GraphState, RankEntry, RejectedEvent, SourceEntry,
};
use serde_json::{Value, json};

use super::cores::Cores;
use super::page::{self, Sample};
use crate::cluster::args::Query;
use crate::failure::Failure;
use crate::peer::known::Target;
use crate::{interrupt, table, write};

/// How often the top is shown.
const WATCH: Duration = Duration::from_secs(1);

/// How often a graph is asked that is watched for a page.
const SAMPLE: Duration = Duration::from_millis(250);

/// A page asks for so many more of the highest vertices than it shows, since a vertex of the last
/// top may have been behind it before.
const DEEPER: u32 = 4;

/// Says that something is done, and where.
pub fn done(query: &Query, places: &[Target], what: &str) -> Result<(), Failure> {
    match (query.json, places) {
        (true, [core]) => json_line(&json!({ "core": core.place().to_string() })),
        (true, _) => {
            let cores: Vec<String> = places.iter().map(|it| it.place().to_string()).collect();
            json_line(&json!({ "cores": cores }))
        }
        (false, _) => crate::print(&format!("{what} {}\n", joined(places))),
    }
}

fn joined(places: &[Target]) -> String {
    let places: Vec<String> = places.iter().map(|it| it.place().to_string()).collect();
    places.join(" ")
}

/// Shows the highest ranks.
pub fn top(
    cores: &mut Cores,
    mut core: Target,
    name: &str,
    number: u32,
    is_settled: bool,
    watches: bool,
    query: &Query,
) -> Result<(), Failure> {
    loop {
        let look = async |it: GraphClient| {
            let state = match is_settled {
                true => it.settled(name).await?,
                false => it.state(name).await?,
            };
            Ok((state, it.top(name, number).await?))
        };
        let told = match cores.ask(core, look) {
            // It has found that another has it by now.
            Err(Failure::Request(_)) => {
                core = cores.named(name)?;
                cores.ask(core, look)
            }
            told => told,
        };
        let (state, ranks) = told?;
        if query.json {
            let ranks: Vec<Value> = ranks.iter().map(ranked).collect();
            json_line(&json!({ "graph": document(core, &state), "top": ranks }))?;
        } else {
            crate::print(&table(&state, &ranks))?;
        }
        if !watches {
            return Ok(());
        }
        thread::sleep(WATCH);
        crate::print("\n")?;
    }
}

fn table(state: &GraphState, ranks: &[RankEntry]) -> String {
    let title = ["", "vertex", "rank", ""].map(String::from).to_vec();
    let row = |(place, it): (usize, &RankEntry)| {
        let certain = if it.certain { "" } else { "perhaps behind the next" };
        vec![place.to_string(), it.vertex.to_string(), rank(it.rank), certain.into()]
    };
    let rows: Vec<_> = [title].into_iter().chain((1..).zip(ranks).map(row)).collect();
    let told = match state.publication {
        0 => String::from("nothing is published yet"),
        number => format!(
            "publication {number}: {} events in, {} behind; errors of all ranks {:.1e} at most",
            state.events,
            state.behind,
            error(state.error)
        ),
    };
    format!("{}{told}\n", table::columns("", &rows))
}

/// Shows how a graph stands.
pub fn state(cores: &mut Cores, core: Target, name: &str, query: &Query) -> Result<(), Failure> {
    let state = cores.ask(core, async |it| it.state(name).await)?;
    if query.json {
        return json_line(&document(core, &state));
    }
    let place = match state.parts {
        1 => core.place().to_string(),
        parts => format!("{}, which has one of {parts} parts", core.place()),
    };
    let rows = [
        ("core", place),
        ("vertices", state.vertices.to_string()),
        ("edges", state.edges.to_string()),
        ("publication", state.publication.to_string()),
        ("events in", state.events.to_string()),
        ("events behind", state.behind.to_string()),
        ("events refused", state.refused.to_string()),
        ("lines rejected", state.rejected.to_string()),
        ("kept", kept(&state)),
        ("watermark", state.watermark.to_string()),
        ("staleness", format!("{:.1} ms", state.staleness_us as f64 / 1e3)),
        ("age", format!("{:.1} ms", state.age_us as f64 / 1e3)),
        ("errors of all ranks", format!("{:.1e} at most", error(state.error))),
        ("wanted", format!("{:.1e}", error(state.wanted_error))),
    ];
    let rows: Vec<_> = rows.into_iter().map(|(what, is)| vec![what.into(), is]).collect();
    crate::print(&table::columns("", &rows))
}

fn kept(state: &GraphState) -> String {
    match (state.copies, state.log_fails.as_str()) {
        (0, _) => "in memory only".into(),
        (1, "") => "on 1 node".into(),
        (copies, "") => format!("on {copies} nodes"),
        (_, why) => format!("nothing new now: {why}"),
    }
}

/// Watches a graph for a while, or until Ctrl-C, and writes a page of it.
pub fn watch(
    cores: &mut Cores,
    core: Target,
    name: &str,
    number: u32,
    watched: Duration,
    file: &Path,
) -> Result<(), Failure> {
    write::check(file)?;
    Failure::at_signals()?;
    let begun = Instant::now();
    let mut samples = Vec::new();
    loop {
        let look = async |it: GraphClient| {
            Ok((it.state(name).await?, it.top(name, number * DEEPER).await?))
        };
        let (state, top) = match cores.ask(core, look) {
            Err(Failure::Interrupted) if !samples.is_empty() => break,
            asked => asked?,
        };
        samples.push(Sample { at: begun.elapsed(), state, top });
        if begun.elapsed() >= watched || interrupt::requested() {
            break;
        }
        thread::sleep(SAMPLE.min(watched.saturating_sub(begun.elapsed())));
    }
    let page = page::page(name, &core.place().to_string(), &samples, number as usize);
    let seconds = begun.elapsed().as_secs_f64();
    let written = write::all(file, page.as_bytes())?;
    written.say(&format!("{} has {seconds:.1} s of {name}\n", file.display()))
}

/// Shows a vertex.
pub fn vertex(
    query: &Query,
    vertex: u64,
    rank: u64,
    component: ComponentEntry,
) -> Result<(), Failure> {
    let ComponentEntry { lowest, vertices } = component;
    if query.json {
        let component = json!({ "lowest": lowest, "vertices": vertices });
        return json_line(&json!({
            "vertex": vertex, "rank": fraction(rank), "component": component,
        }));
    }
    let rank = self::rank(rank);
    crate::print(&format!("rank {rank}, connected with {vertices} vertices, {lowest} the lowest\n"))
}

/// Shows a distance.
pub fn distance(query: &Query, from: u64, to: u64, edges: Option<u32>) -> Result<(), Failure> {
    if query.json {
        return json_line(&json!({ "from": from, "to": to, "edges": edges }));
    }
    match edges {
        Some(edges) => crate::print(&format!("{edges}\n")),
        None => crate::print(&format!("no way leads from {from} to {to}\n")),
    }
}

/// Shows the sources of a graph.
pub fn sources(cores: &mut Cores, core: Target, name: &str, query: &Query) -> Result<(), Failure> {
    let list = async |it: GraphClient| {
        let mut all: Vec<SourceEntry> = Vec::new();
        loop {
            let more = it.sources(name, all.last().map(|it| it.source)).await?;
            if more.is_empty() {
                return Ok(all);
            }
            all.extend(more);
        }
    };
    let all = cores.ask(core, list)?;
    if query.json {
        let document = |it: &SourceEntry| {
            let SourceEntry { source, next, beyond, until, idle } = it;
            json!({
                "source": source, "next": next, "beyond": beyond, "until": until, "idle": idle,
            })
        };
        let sources: Vec<Value> = all.iter().map(document).collect();
        return json_line(&json!({ "sources": sources }));
    }
    let mut rows =
        vec![["source", "events", "beyond a gap", "until", ""].map(String::from).to_vec()];
    for it in all {
        let idle = if it.idle { "idle" } else { "" };
        let numbers = [it.source, it.next, it.beyond, it.until].map(|it| it.to_string());
        rows.push(numbers.into_iter().chain([idle.into()]).collect());
    }
    crate::print(&table::columns("", &rows))
}

/// Shows what is no edge.
pub fn rejects(cores: &mut Cores, core: Target, name: &str, query: &Query) -> Result<(), Failure> {
    let list = async |it: GraphClient| {
        let mut all: Vec<RejectedEvent> = Vec::new();
        loop {
            let more = it.rejects(name, all.len() as u32).await?;
            if more.is_empty() {
                return Ok(all);
            }
            all.extend(more);
        }
    };
    let all = cores.ask(core, list)?;
    if query.json {
        let document = |it: &RejectedEvent| {
            let RejectedEvent { source, sequence, text, why } = it;
            json!({ "source": source, "sequence": sequence, "text": text, "why": why })
        };
        let rejects: Vec<Value> = all.iter().map(document).collect();
        return json_line(&json!({ "rejects": rejects }));
    }
    let mut rows = vec![["source", "number", "line", "why"].map(String::from).to_vec()];
    for RejectedEvent { source, sequence, text, why } in all {
        rows.push(vec![source.to_string(), sequence.to_string(), text, why]);
    }
    crate::print(&table::columns("", &rows))
}

/// Shows graphs, those that no core has open last.
pub fn list(
    query: &Query,
    states: &[(Vec<Target>, GraphState)],
    closed: &[String],
) -> Result<(), Failure> {
    if query.json {
        let open = states.iter().map(|(places, it)| {
            let cores: Vec<String> = places.iter().map(|it| it.place().to_string()).collect();
            let mut document = document(places[0], it);
            if it.parts > 1 {
                document["cores"] = cores.into();
            }
            document
        });
        let closed = closed.iter().map(|name| json!({ "name": name, "core": null }));
        let graphs: Vec<Value> = open.chain(closed).collect();
        return json_line(&json!({ "graphs": graphs }));
    }
    let title = ["graph", "core", "vertices", "edges", "events", "behind", "error"];
    let mut rows = vec![title.map(String::from).to_vec()];
    for (places, it) in states {
        let numbers = [it.vertices, it.edges, it.events, it.behind].map(|it| it.to_string());
        let first = [it.name.clone(), joined(places)].into_iter();
        rows.push(first.chain(numbers).chain([format!("{:.1e}", error(it.error))]).collect());
    }
    rows.extend(closed.iter().map(|name| vec![name.clone(), "closed".into()]));
    crate::print(&table::columns("", &rows))
}

fn document(core: Target, it: &GraphState) -> Value {
    json!({
        "name": it.name,
        "parts": it.parts,
        "core": core.place().to_string(),
        "publication": it.publication,
        "age_us": it.age_us,
        "watermark": it.watermark,
        "events": it.events,
        "behind": it.behind,
        "staleness_us": it.staleness_us,
        "refused": it.refused,
        "rejected": it.rejected,
        "copies": it.copies,
        "log_fails": it.log_fails,
        "vertices": it.vertices,
        "edges": it.edges,
        "error": error(it.error),
        "wanted_error": error(it.wanted_error),
    })
}

fn ranked(it: &RankEntry) -> Value {
    json!({ "vertex": it.vertex, "rank": fraction(it.rank), "certain": it.certain })
}

fn rank(rank: u64) -> String {
    format!("{:.6}", fraction(rank))
}

pub fn fraction(rank: u64) -> f64 {
    rank as f64 / 2_f64.powi(64)
}

pub fn error(error: u64) -> f64 {
    error as f64 / ONE as f64
}

fn json_line(value: &Value) -> Result<(), Failure> {
    crate::print(&format!("{value}\n"))
}
