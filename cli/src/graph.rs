//! `nile graph`: graphs that change while they are asked, in the memory of worker cores.

pub mod args;
mod feed;
mod lines;
mod page;
mod show;

use nile_abi::Status;
use nile_interfaces::graph::{GraphClient, GraphState};
use nile_stl::CallError;

use crate::cluster::args::{Place, Query};
use crate::cluster::session::Session;
use crate::data::service;
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::known::Target;
use args::{Graph, GraphAction};

/// Does what is asked for.
pub fn run(options: &Graph) -> Result<(), Failure> {
    match &options.action {
        GraphAction::Create { name, on, error, patience, vertices, query } => {
            let mut cores = Cores::open(query)?;
            if let Some((core, _)) = cores.all_of(name)?.first() {
                let place = core.place();
                let message = format!("{place} has a graph {name} already: remove it first");
                return Err(Failure::request(message));
            }
            let on = on.map(|on| on.on(&query.which)).transpose()?;
            let core = cores.free(on)?;
            let (name, patience_ms) = (name.clone(), patience.as_millis().clamp(1, 3_600_000));
            let create = async |it: GraphClient| {
                it.create(name, *error, patience_ms as u32, *vertices).await
            };
            cores.ask(core, create)?;
            show::done(query, core, "the graph is on")
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
        GraphAction::List(query) => {
            let mut cores = Cores::open(query)?;
            let states = cores.states()?;
            show::list(query, &states)?;
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

/// The worker cores of a cluster.
pub struct Cores {
    session: Session,
    all: Vec<Target>,
}

impl Cores {
    fn open(query: &Query) -> Result<Cores, Failure> {
        let mut session = Session::open(&query.which, query.timeout)?;
        let none = || Failure::failed("no node has a worker core that answers");
        let all = service::find::<GraphClient>(&mut session)?.ok_or_else(none)?;
        Ok(Cores { session, all })
    }

    /// The graphs of all cores.
    fn states(&mut self) -> Result<Vec<(Target, GraphState)>, Failure> {
        let mut states = Vec::new();
        for core in self.all.clone() {
            let list = async |it: GraphClient| {
                let mut all: Vec<GraphState> = Vec::new();
                loop {
                    let after = all.last().map_or(String::new(), |it| it.name.clone());
                    let more = it.list(&after).await?;
                    if more.is_empty() {
                        return Ok(all);
                    }
                    all.extend(more);
                }
            };
            states.extend(self.ask(core, list)?.into_iter().map(|state| (core, state)));
        }
        Ok(states)
    }

    fn all_of(&mut self, name: &str) -> Result<Vec<(Target, GraphState)>, Failure> {
        let mut states = self.states()?;
        states.retain(|(_, state)| state.name == name);
        Ok(states)
    }

    /// The core that is meant, or one with the fewest graphs.
    fn free(&mut self, on: Option<Place>) -> Result<Target, Failure> {
        if let Some(place) = on {
            let is_it = |it: &&Target| Some(it.core) == place.core && it.node == place.node;
            let none = || Failure::request(format!("{place} is no worker core that answers"));
            return self.all.iter().find(is_it).copied().ok_or_else(none);
        }
        let states = self.states()?;
        let graphs = |core: &&Target| states.iter().filter(|(it, _)| it == *core).count();
        let none = || Failure::failed("no node has a worker core that answers");
        self.all.iter().min_by_key(graphs).copied().ok_or_else(none)
    }

    /// The core with the graph.
    fn named(&mut self, name: &str) -> Result<Target, Failure> {
        let found = self.all_of(name)?;
        let none = || {
            let advice = "`nile graph list` shows those that there are";
            Failure::request(format!("no core that answers has a graph {name}: {advice}"))
        };
        found.first().map(|it| it.0).ok_or_else(none)
    }

    /// Asks a core.
    fn ask<T>(
        &mut self,
        core: Target,
        ask: impl AsyncFnOnce(GraphClient) -> Result<T, CallError>,
    ) -> Result<T, Failure> {
        let session = &mut self.session;
        let asked = session.peer.work(session.patience, async |clients| {
            ask(clients.at(core)).await.map_err(CallFailed::from)
        })?;
        asked.map_err(|failed| refused(core, failed))
    }
}

fn refused(core: Target, failed: CallFailed) -> Failure {
    let place = core.place();
    match failed.status {
        Status::NotFound | Status::Exists | Status::Invalid | Status::NoMemory => {
            Failure::request(format!("{place}: {}", failed.message))
        }
        _ => Failure::failed(format!("{place}: {failed}")),
    }
}
