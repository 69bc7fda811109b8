//! Events that strangers send, given to graphs wherever those are.

use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use nile_abi::Status;
use nile_interfaces::graph::{
    Acknowledgement, EdgeEvent, GraphClient, MOST_EVENTS, OfferedEvents, RejectedEvent,
};
use nile_stl::CallError;

use crate::cluster::args::Query;
use crate::failure::Failure;
use crate::graph::cores::{Cores, Refused};
use crate::graph::graph_of;
use crate::peer::known::Target;

/// How long nothing is asked for until it is looked what has changed in the cluster.
const LOOK: Duration = Duration::from_millis(100);
/// How long that takes.
const LEARN: Duration = Duration::from_millis(5);

/// Rejected parts of a call.
const MOST_REJECTED: usize = 64;

/// What a source says to a graph.
pub struct Delivery {
    pub graph: String,
    pub source: u64,
    pub acknowledgement: Acknowledgement,
    pub events: Vec<EdgeEvent>,
    pub rejects: Vec<RejectedEvent>,
}

/// Why something was not done.
#[derive(Clone, Debug)]
pub enum Undelivered {
    /// There is no such graph.
    NoGraph(String),
    /// It may be tried again.
    Later(String),
    /// The graph takes nothing of this.
    Refused(String),
}

/// The graphs that are known of.
#[derive(Default)]
pub struct Graphs {
    pub names: Vec<String>,
    /// Whether there may be others, with nodes that do not answer.
    pub is_part: bool,
}

/// What strangers ask for, with where the answer goes.
pub enum Wish {
    /// The names of all graphs.
    Graphs(Sender<Result<Graphs, Undelivered>>),
    /// The number of the first event of a source that a graph lacks.
    Next { graph: String, source: u64, answer: Sender<Result<u64, Undelivered>> },
    /// That a graph takes something.
    Deliver(Delivery, Sender<Result<OfferedEvents, Undelivered>>),
}

/// Fulfils wishes until nobody can have any, or someone presses Ctrl-C. What is wished at the same
/// time is done at the same time, so that logs put it together.
pub fn fulfil(mut cores: Cores, query: &Query, wishes: &Receiver<Wish>) -> Result<(), Failure> {
    let mut open = BTreeMap::new();
    loop {
        let first = match wishes.recv_timeout(LOOK) {
            Ok(wish) => wish,
            Err(RecvTimeoutError::Timeout) => {
                cores.look_again(LEARN)?;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        cores.look_again(Duration::ZERO)?;
        if cores.is_blind() {
            // The only node that was heard of has a new life, or the cluster has.
            match Cores::open(query) {
                Ok(others) => cores = others,
                Err(Failure::Interrupted) => return Err(Failure::Interrupted),
                Err(_) => {}
            }
            open.clear();
        }
        let mut deliveries = Vec::new();
        for wish in [first].into_iter().chain(wishes.try_iter()) {
            match wish {
                // Whoever has gone away wants no answer.
                Wish::Graphs(answer) => drop(answer.send(graphs(&mut cores)?)),
                Wish::Next { graph, source, answer } => {
                    let found = find(&mut cores, &mut open, &graph)?;
                    let next = match found {
                        Ok(core) => next(&mut cores, core, &graph, source)?,
                        Err(why) => Err(why),
                    };
                    let _ = answer.send(next);
                }
                Wish::Deliver(delivery, answer) => {
                    match find(&mut cores, &mut open, &delivery.graph)? {
                        Ok(core) => deliveries.push((core, delivery, answer)),
                        Err(why) => drop(answer.send(Err(why))),
                    }
                }
            }
        }
        deliver(&mut cores, &mut open, deliveries)?;
    }
}

/// A wish's answer; none if the command ends.
pub fn wish<T>(
    wishes: &Sender<Wish>,
    make: impl FnOnce(Sender<Result<T, Undelivered>>) -> Wish,
) -> Result<T, Undelivered> {
    let ends = || Undelivered::Later("the door closes".into());
    let (answer, told) = mpsc::channel();
    wishes.send(make(answer)).map_err(|_| ends())?;
    told.recv().map_err(|_| ends())?
}

/// What can be answered; Ctrl-C ends all.
fn answered<T>(told: Result<T, Failure>) -> Result<Result<T, Undelivered>, Failure> {
    match told {
        Ok(told) => Ok(Ok(told)),
        Err(Failure::Interrupted) => Err(Failure::Interrupted),
        Err(Failure::Request(why)) => Ok(Err(Undelivered::NoGraph(why))),
        Err(other) => Ok(Err(Undelivered::Later(other.to_string()))),
    }
}

fn graphs(cores: &mut Cores) -> Result<Result<Graphs, Undelivered>, Failure> {
    let open = answered(cores.states())?;
    let kept = answered(cores.kept())?;
    let is_part = cores.is_part();
    Ok(open.and_then(|open| {
        let open = open.into_iter().map(|(_, it)| it.name);
        let mut names: Vec<String> =
            open.chain(kept?).map(|it| graph_of(&it).to_string()).collect();
        names.sort();
        names.dedup();
        Ok(Graphs { names, is_part })
    }))
}

fn find(
    cores: &mut Cores,
    open: &mut BTreeMap<String, Target>,
    graph: &str,
) -> Result<Result<Target, Undelivered>, Failure> {
    if let Some(core) = open.get(graph) {
        return Ok(Ok(*core));
    }
    let found = answered(cores.named(graph))?;
    Ok(match found {
        Ok(core) => {
            open.insert(graph.into(), core);
            Ok(core)
        }
        Err(Undelivered::NoGraph(why)) if cores.is_part() => Err(Undelivered::Later(why)),
        none => none,
    })
}

fn next(
    cores: &mut Cores,
    core: Target,
    graph: &str,
    source: u64,
) -> Result<Result<u64, Undelivered>, Failure> {
    let sources = async |it: GraphClient| it.sources(graph, source.checked_sub(1)).await;
    let told = cores.try_ask(core, sources)?;
    let of = |it: nile_interfaces::graph::SourceEntry| (it.source == source).then_some(it.next);
    Ok(told.map(|all| all.into_iter().find_map(of).unwrap_or(0)).map_err(undelivered))
}

fn undelivered(refused: Refused) -> Undelivered {
    match refused {
        Refused::Elsewhere(why) | Refused::Later(why) => Undelivered::Later(why.to_string()),
        Refused::No(why) => Undelivered::Refused(why.to_string()),
    }
}

type Deliveries = Vec<(Target, Delivery, Sender<Result<OfferedEvents, Undelivered>>)>;

/// Gives graphs what is for them, all at once.
fn deliver(
    cores: &mut Cores,
    open: &mut BTreeMap<String, Target>,
    deliveries: Deliveries,
) -> Result<(), Failure> {
    let asked = deliveries.iter().map(|(core, it, _)| (*core, it));
    let ends = cores.try_all(asked, async |client, it| give(&client, it).await)?;
    for ((_, delivery, answer), end) in deliveries.iter().zip(ends) {
        if let Err(Refused::Elsewhere(_)) = end {
            open.remove(&delivery.graph);
        }
        let _ = answer.send(end.map_err(undelivered));
    }
    Ok(())
}

/// Gives a graph all of a delivery; what came of it together, and what it lacks then.
async fn give(client: &GraphClient, it: &Delivery) -> Result<OfferedEvents, CallError> {
    let Delivery { graph, source, .. } = it;
    let mut told: Option<OfferedEvents> = None;
    let mut add = |more: OfferedEvents| {
        let OfferedEvents { new, known, ahead, next, life } = more;
        let before = told.unwrap_or(OfferedEvents { new: 0, known: 0, ahead: 0, ..more });
        if before.life != life {
            let message = "the graph was opened anew meanwhile; say it again";
            return Err(CallError::new(Status::Gone, message));
        }
        let (new, known, ahead) = (before.new + new, before.known + known, before.ahead + ahead);
        let all = OfferedEvents { new, known, ahead, next, life };
        told = Some(all);
        Ok(all)
    };
    for rejects in it.rejects.chunks(MOST_REJECTED) {
        // They are kept.
        client.reject(graph, rejects.to_vec()).await?;
    }
    // The log is in order: when the last of them is kept, all are.
    let last = it.events.len().saturating_sub(1) / MOST_EVENTS * MOST_EVENTS;
    let (before, last) = it.events.split_at(last);
    for events in before.chunks(MOST_EVENTS) {
        let taken = Acknowledgement::Taken;
        add(client.offer(graph, *source, 0, taken, events.to_vec()).await?)?;
    }
    add(client.offer(graph, *source, 0, it.acknowledgement, last.to_vec()).await?)
}
