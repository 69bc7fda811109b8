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

use nile_interfaces::graph::GraphClient;

use crate::failure::Failure;
use args::{Graph, GraphAction};
use cores::Cores;

/// For how long freshness is watched if nobody says.
const WATCHED: Duration = Duration::from_secs(10);

/// Does what is asked for.
pub fn run(options: &Graph) -> Result<(), Failure> {
    match &options.action {
        GraphAction::Create { name, on, error, patience, vertices, copies, query } => {
            let mut cores = Cores::open(query)?;
            if let Some((core, _)) = cores.states()?.iter().find(|(_, it)| it.name == *name) {
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
            let on = on.map(|on| on.on(&query.which)).transpose()?;
            let core = cores.free(on)?;
            let (name, patience_ms) = (name.clone(), patience.as_millis().clamp(1, 3_600_000));
            let create = async |it: GraphClient| {
                it.create(name.clone(), *error, patience_ms as u32, *vertices, copies).await
            };
            cores.ask(core, create)?;
            let what = match copies {
                0 => "the graph is in memory only, on",
                _ => "the graph is on",
            };
            show::done(query, core, what)
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
            let states = cores.states()?;
            let open: BTreeSet<&str> = states.iter().map(|(_, it)| it.name.as_str()).collect();
            let mut closed = cores.kept()?;
            closed.retain(|it| !open.contains(it.as_str()));
            show::list(query, &states, &closed)?;
            Failure::unless_all_asked(&cores.session.away())
        }
        GraphAction::Remove { name, query } => {
            let mut cores = Cores::open(query)?;
            let core = cores.named(name)?;
            cores.ask(core, async |it| it.remove(name).await)?;
            show::done(query, core, "the graph is removed from")
        }
    }
}
