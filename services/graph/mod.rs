//! The graphs of a worker core, as `nile-graph` has them. While one has something to do, a task of
//! its own sweeps over it, a piece in each turn, so that calls are answered meanwhile.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::{Instant, Status};
use nile_graph::{Event, Graph, Placed, Settings, SourceState};
use nile_interfaces::graph::{
    ComponentEntry, EdgeEvent, GraphKernel, GraphState, MOST_EVENTS, OfferedEvents, RankEntry,
    SourceEntry,
};
use nile_order::SortedMap;
use nile_stl::{CallError, CallResult, Start, Stl, service};
use nile_sync::{Notify, yield_now};

use crate::page::page;

/// Graphs of one core.
const MOST: usize = 64;

/// About how many edges a turn sweeps over.
const TURN: usize = 4096;

/// The most edges for each vertex that there may be.
const EDGES: u64 = 64;

/// Sources of one call.
const SOURCES: usize = 512;

/// The graphs of a core, by name.
pub struct Graphs {
    stl: Stl,
    graphs: RefCell<SortedMap<String, Rc<Kept>>>,
}

/// A graph, and what is known of its publications.
struct Kept {
    graph: RefCell<Graph>,
    wanted_error: u64,
    published: Cell<Instant>,
    /// When the first event came that the publication lacks, and the first that the next one will.
    lacks: Cell<Option<Instant>>,
    will_lack: Cell<Option<Instant>>,
    /// A task sweeps over it.
    is_swept: Cell<bool>,
    is_gone: Cell<bool>,
    changes: Notify,
}

impl Start for Graphs {
    fn start(stl: &Stl) -> Graphs {
        Graphs { stl: stl.clone(), graphs: RefCell::default() }
    }
}

#[service(on = worker, keywords(graph = 5, ranks = 3, streams = 2))]
impl GraphKernel for Graphs {
    fn create(&self, name: String, error: u64, patience_ms: u32, vertices: u32) -> CallResult<()> {
        let mut graphs = self.graphs.borrow_mut();
        if graphs.contains_key(&name) {
            let message = format!("this core has a graph {name} already; remove it first");
            return Err(CallError::new(Status::Exists, message));
        }
        if graphs.keys().len() >= MOST {
            let message = format!("a core has {MOST} graphs at most; remove one");
            return Err(CallError::new(Status::NoMemory, message));
        }
        let patience = Duration::from_millis(patience_ms.into()).as_micros() as u64;
        let edges = EDGES * u64::from(vertices);
        let settings = Settings { error, patience, vertices: vertices as usize, edges };
        graphs.insert(name, Rc::new(Kept::new(settings, self.now())));
        Ok(())
    }

    fn remove(&self, name: &str) -> CallResult<()> {
        let kept = self.graph(name)?;
        self.graphs.borrow_mut().remove(name);
        kept.is_gone.set(true);
        kept.changes.notify();
        Ok(())
    }

    fn list(&self, after: &str) -> Vec<GraphState> {
        let graphs = self.graphs.borrow();
        let behind = graphs.iter().filter(|(name, _)| name.as_str() > after);
        page(behind.map(|(name, kept)| kept.state(name, self.now())))
    }

    fn offer(
        &self,
        name: &str,
        source: u64,
        until: u64,
        events: Vec<EdgeEvent>,
    ) -> CallResult<OfferedEvents> {
        let kept = self.graph(name)?;
        if events.len() > MOST_EVENTS {
            let message = format!("{} events in a call; {MOST_EVENTS} at most", events.len());
            return Err(CallError::new(Status::Invalid, message));
        }
        let events: Vec<Event> = events.into_iter().map(event).collect();
        let now = self.now();
        let offered = kept.graph.borrow_mut().offer(micros(now), source, &events, until);
        if offered.new > 0 {
            let lacks = if kept.is_swept.get() { &kept.will_lack } else { &kept.lacks };
            lacks.set(lacks.get().or(Some(now)));
            self.sweep(&kept);
        }
        let nile_graph::Offered { new, known, ahead, next } = offered;
        Ok(OfferedEvents { new, known, ahead, next })
    }

    fn state(&self, name: &str) -> CallResult<GraphState> {
        Ok(self.graph(name)?.state(name, self.now()))
    }

    async fn settled(&self, name: &str) -> CallResult<GraphState> {
        let kept = self.graph(name)?;
        let events = kept.graph.borrow().published();
        let events = events.events + events.behind;
        let is_in = || {
            let published = kept.graph.borrow().published();
            let is_good = published.error <= kept.wanted_error || !kept.is_swept.get();
            let is_in = published.events >= events && is_good;
            (is_in || kept.is_gone.get()).then_some(())
        };
        kept.changes.until(is_in).await;
        self.state(name)
    }

    fn top(&self, name: &str, most: u32) -> CallResult<Vec<RankEntry>> {
        let top = self.graph(name)?.graph.borrow().top(most as usize);
        let entry =
            |it: Placed| RankEntry { vertex: it.vertex, rank: it.rank, certain: it.is_certain };
        Ok(top.into_iter().map(entry).collect())
    }

    fn rank(&self, name: &str, vertex: u64) -> CallResult<u64> {
        let rank = self.graph(name)?.graph.borrow().rank(vertex);
        rank.ok_or_else(|| no_vertex(vertex, "has no rank yet"))
    }

    fn component(&self, name: &str, vertex: u64) -> CallResult<ComponentEntry> {
        let component = self.graph(name)?.graph.borrow().component(vertex);
        let (lowest, vertices) = component.ok_or_else(|| no_vertex(vertex, "is in no edge"))?;
        Ok(ComponentEntry { lowest, vertices })
    }

    fn distance(&self, name: &str, from: u64, to: u64) -> CallResult<Option<u32>> {
        Ok(self.graph(name)?.graph.borrow().distance(from, to))
    }

    fn sources(&self, name: &str, after: Option<u64>) -> CallResult<Vec<SourceEntry>> {
        let now = micros(self.now());
        let sources = self.graph(name)?.graph.borrow().sources(now, after, SOURCES);
        let entry = |SourceState { source, next, beyond, until, is_idle }| SourceEntry {
            source,
            next,
            beyond,
            until,
            idle: is_idle,
        };
        Ok(page(sources.into_iter().map(entry)))
    }
}

impl Graphs {
    fn now(&self) -> Instant {
        self.stl.host().now()
    }

    fn graph(&self, name: &str) -> CallResult<Rc<Kept>> {
        let none = || CallError::new(Status::NotFound, format!("this core has no graph {name}"));
        self.graphs.borrow().get(name).cloned().ok_or_else(none)
    }

    /// Sees to it that a task sweeps over the graph until there is nothing to do.
    fn sweep(&self, kept: &Rc<Kept>) {
        if kept.is_swept.replace(true) {
            return;
        }
        let (kept, host) = (kept.clone(), self.stl.host().clone());
        self.stl.host().spawn(Box::pin(async move {
            while !kept.is_gone.get() {
                let now = host.now();
                let Some(is_over) = kept.graph.borrow_mut().step(micros(now), TURN) else { break };
                if is_over {
                    kept.published.set(host.now());
                    kept.lacks.set(kept.will_lack.take());
                    kept.changes.notify();
                }
                yield_now().await;
            }
            kept.is_swept.set(false);
            kept.changes.notify();
        }));
    }
}

impl Kept {
    fn new(settings: Settings, now: Instant) -> Kept {
        Kept {
            wanted_error: settings.error,
            graph: RefCell::new(Graph::new(settings)),
            published: Cell::new(now),
            lacks: Cell::default(),
            will_lack: Cell::default(),
            is_swept: Cell::default(),
            is_gone: Cell::default(),
            changes: Notify::default(),
        }
    }

    fn state(&self, name: &str, now: Instant) -> GraphState {
        let it = self.graph.borrow().published();
        let since = |then: Instant| now.since(then).as_micros() as u64;
        GraphState {
            name: name.into(),
            publication: it.number,
            age_us: since(self.published.get()),
            watermark: it.watermark,
            events: it.events,
            behind: it.behind,
            staleness_us: self.lacks.get().filter(|_| it.behind > 0).map_or(0, since),
            refused: it.refused,
            vertices: it.vertices,
            edges: it.edges,
            error: it.error,
            wanted_error: self.wanted_error,
        }
    }
}

fn event(it: EdgeEvent) -> Event {
    let EdgeEvent { sequence, time, from, to, removes } = it;
    Event { sequence, time, from, to, removes }
}

fn micros(now: Instant) -> u64 {
    now.since(Instant::default()).as_micros() as u64
}

fn no_vertex(vertex: u64, why: &str) -> CallError {
    CallError::new(Status::NotFound, format!("the vertex {vertex} {why}"))
}
