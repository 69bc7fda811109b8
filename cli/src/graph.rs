//! `nile graph`: graphs that change while they are asked, on worker cores.

pub mod args;
pub mod cores;
mod feed;
mod freshness;
pub mod lines;
mod page;
mod show;

use std::collections::BTreeSet;
use std::time::Duration;

use nile_interfaces::graph::{Division, GraphClient, GraphState};

use crate::failure::Failure;
use crate::peer::known::Target;
use args::{Graph, GraphAction};
use cores::Cores;

/// For how long freshness is watched if nobody says.
const WATCHED: Duration = Duration::from_secs(10);

/// Does what is asked for.
pub fn run(options: &Graph) -> Result<(), Failure> {
    match &options.action {
        GraphAction::Create { name, on, error, patience, vertices, parts, copies, query } => {
            let mut cores = Cores::open(query)?;
            let is_it = |it: &&(Target, GraphState)| graph_of(&it.1.name) == name;
            if let Some((core, _)) = cores.states()?.iter().find(is_it) {
                let place = core.place();
                let message = format!("{place} has a graph {name} already: remove it first");
                return Err(Failure::request(message));
            }
            let has_disks = cores.session.record.disk.is_some();
            let copies = copies.unwrap_or(u8::from(has_disks));
            if copies > 0 && !has_disks {
                let message = "the cluster has no disks, so its graphs are in memory only: say \
                               --copies 0, or `nile up --disk 4G --pool 64M`";
                return Err(Failure::request(message));
            }
            if cores.kept()?.iter().any(|it| graph_of(it) == name) {
                let message = format!("there is a graph {name} already; remove it first");
                return Err(Failure::request(message));
            }
            let on = on.map(|on| on.on(&query.which)).transpose()?;
            let patience_ms = patience.as_millis().clamp(1, 3_600_000) as u32;
            let number = random()?;
            let mut places = Vec::new();
            for part in 0..*parts {
                // What was made is counted with the graphs of its core.
                let core = cores.free(on)?;
                let create = async |it: GraphClient| match parts {
                    1 => it.create(name.clone(), *error, patience_ms, *vertices, copies).await,
                    _ => {
                        let (name, division) =
                            (format!("{name}/{part}"), Division { parts: *parts, number });
                        let (error, vertices) = (*error, *vertices);
                        it.create_part(name, error, patience_ms, vertices, copies, division).await
                    }
                };
                if let Err(why) = cores.ask(core, create) {
                    for (part, core) in places.iter().enumerate() {
                        let name = format!("{name}/{part}");
                        // One that does not go is shown by `nile graph list`.
                        let _ = cores.ask(*core, async |it| it.remove(&name).await);
                    }
                    return Err(why);
                }
                places.push(core);
            }
            let what = match copies {
                0 => "the graph is in memory only, on",
                _ => "the graph is on",
            };
            show::done(query, &places, what)
        }
        GraphAction::Feed { name, file, source, query } => {
            let mut cores = Cores::open(query)?;
            let core = cores.named(name)?;
            feed::run(&mut cores, core, name, file, *source, query)
        }
        GraphAction::Top { name, number, settled, watch, query } => {
            let mut cores = Cores::open(query)?;
            let core = cores.named(name)?;
            show::top(&mut cores, core, name, *number, *settled, *watch, query)
        }
        GraphAction::Show { name, html, watched, number, query } => {
            let mut cores = Cores::open(query)?;
            let core = cores.named(name)?;
            match html {
                Some(file) => show::watch(&mut cores, core, name, *number, *watched, file),
                None => show::state(&mut cores, core, name, query),
            }
        }
        GraphAction::Freshness { name, watched, watch, number, query } => {
            let mut cores = Cores::open(query)?;
            let core = cores.named(name)?;
            let usual = if *watch { Duration::MAX } else { WATCHED };
            let each = watch.then_some(*number);
            freshness::run(&mut cores, core, name, watched.unwrap_or(usual), each, query)
        }
        GraphAction::Vertex { name, vertex, query } => {
            let mut cores = Cores::open(query)?;
            let core = cores.named(name)?;
            let component = cores.ask(core, async |it| it.component(name, *vertex).await)?;
            let rank = cores.ask(core, async |it| it.rank(name, *vertex).await)?;
            show::vertex(query, *vertex, rank, component)
        }
        GraphAction::Distance { name, from, to, query } => {
            let mut cores = Cores::open(query)?;
            let core = cores.named(name)?;
            let distance = cores.ask(core, async |it| it.distance(name, *from, *to).await)?;
            show::distance(query, *from, *to, distance)
        }
        GraphAction::Sources { name, query } => {
            let mut cores = Cores::open(query)?;
            let core = cores.named(name)?;
            show::sources(&mut cores, core, name, query)
        }
        GraphAction::Rejects { name, query } => {
            let mut cores = Cores::open(query)?;
            let core = cores.named(name)?;
            show::rejects(&mut cores, core, name, query)
        }
        GraphAction::List(query) => {
            let mut cores = Cores::open(query)?;
            let mut states: Vec<(Vec<Target>, GraphState)> = Vec::new();
            for (core, part) in cores.states()? {
                let graph = graph_of(&part.name).to_string();
                if let Some((places, _)) = states.iter_mut().find(|(_, it)| it.name == graph) {
                    places.push(core);
                    continue;
                }
                let state = match part.parts > 1 {
                    true => cores.ask(core, async |it| it.state(&graph).await)?,
                    false => part,
                };
                states.push((vec![core], state));
            }
            let open: BTreeSet<&str> = states.iter().map(|(_, it)| it.name.as_str()).collect();
            let mut closed = cores.kept()?;
            closed.iter_mut().for_each(|it| it.truncate(graph_of(it).len()));
            closed.dedup();
            closed.retain(|it| !open.contains(it.as_str()));
            show::list(query, &states, &closed)?;
            Failure::unless_all_asked(&cores.session.away())
        }
        GraphAction::Remove { name, query } => {
            let mut cores = Cores::open(query)?;
            let places = remove(&mut cores, name)?;
            show::done(query, &places, "the graph is removed from")
        }
    }
}

/// Removes a graph, or what there is of its parts; where they were.
fn remove(cores: &mut Cores, name: &str) -> Result<Vec<Target>, Failure> {
    let mut places = Vec::new();
    for part in cores.parts(name)? {
        let core = cores.opened(&part)?;
        cores.ask(core, async |it| it.remove(&part).await)?;
        places.push(core);
    }
    Ok(places)
}

/// The graph that one is, or that it is a part of.
pub fn graph_of(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

/// A number that nobody has drawn before.
fn random() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Failure::failed(format!("there are no random numbers: {error}")))?;
    Ok(u64::from_ne_bytes(bytes))
}
