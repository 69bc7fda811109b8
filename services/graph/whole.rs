//! What is asked of a graph that is divided: any of its parts answers, and asks the others.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::Status;
use nile_graph::{Call, Placed, merged};
use nile_interfaces::graph::{
    Acknowledgement, EdgeEvent, GraphClient, GraphState, OfferedEvents, SequenceRun, SourceEntry,
    VertexValue,
};
use nile_stl::{CallError, CallResult, LocalFuture, all};

use super::Graphs;
use super::opened::Opened;
use super::parts::Parts;

/// How often it is looked whether a part has a publication, and how long until it is given up, and
/// how often all of it is tried.
const LOOK: Duration = Duration::from_millis(1);
const LOOKS: usize = 2000;
const ATTEMPTS: usize = 3;

/// What makes one number of the openings of all parts.
const LIVES: u64 = 0x9E37_79B9_7F4A_7C15;

/// As long as somebody looks at all parts.
struct Looking(Rc<Opened>);

impl Looking {
    fn begin(opened: &Rc<Opened>) -> Looking {
        opened.live().graph.look(true);
        Looking(opened.clone())
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.live().graph.look(false);
        self.0.sweep();
    }
}

impl Opened {
    /// The other parts, if this name means the whole graph.
    pub fn parts_of(&self, name: &str) -> Option<&Parts> {
        self.parts().filter(|_| name != self.name())
    }

    /// How the whole graph stands.
    pub async fn whole_state(&self, parts: &Parts) -> GraphState {
        let others = parts.ask_all(async |_, it: GraphClient, name: &str| it.state(name).await);
        let mut all = self.state();
        let mut taken = all.events + all.behind;
        for (part, other) in parts.others().zip(others.await) {
            match other {
                Ok(it) => {
                    taken += it.events + it.behind;
                    all.staleness_us = all.staleness_us.max(it.staleness_us);
                    all.refused += it.refused;
                    all.rejected = all.rejected.max(it.rejected);
                    if all.log_fails.is_empty() {
                        all.log_fails = it.log_fails;
                    }
                }
                Err(error) => all.log_fails = format!("part {part} does not answer: {error}"),
            }
        }
        let it = self.graph().whole();
        GraphState {
            name: parts.graph().into(),
            publication: it.number,
            watermark: it.watermark,
            events: it.events,
            behind: taken.saturating_sub(it.events),
            vertices: it.vertices,
            edges: it.edges,
            error: it.error,
            ..all
        }
    }

    /// The vertices with the highest ranks of the whole graph, all of one publication: no round
    /// begins meanwhile.
    pub async fn whole_top(self: &Rc<Self>, parts: &Parts, most: u32) -> CallResult<Vec<Placed>> {
        let mut failed = CallError::from(Status::Busy);
        for _ in 0..ATTEMPTS {
            match self.try_whole_top(parts, most).await {
                Err(error) if error.status == Status::Busy => failed = error,
                told => return told,
            }
        }
        Err(failed)
    }

    async fn try_whole_top(self: &Rc<Self>, parts: &Parts, most: u32) -> CallResult<Vec<Placed>> {
        let _looking = Looking::begin(self);
        self.comes_to(|it| it.is_still()).await?;
        let publication = self.graph().whole().number;
        let ask = async |_, it: GraphClient, name: &str| it.highest(name, publication, most).await;
        let others = parts.ask_all(ask).await.into_iter().collect::<CallResult<Vec<_>>>()?;
        let pair = |it: VertexValue| (it.vertex, it.value);
        let others = others.into_iter().map(|it| it.into_iter().map(pair).collect());
        let graph = self.graph();
        let own = graph.highest(most as usize);
        if graph.whole().number != publication {
            return Err(CallError::new(Status::Busy, "a part was opened anew; say it again"));
        }
        Ok(graph.placed(&merged(others.chain([own])), most as usize))
    }

    /// The vertices of this part with the highest values, at a publication of the whole graph.
    pub async fn highest(&self, publication: u64, most: u32) -> CallResult<Vec<VertexValue>> {
        self.comes_to(|it| it.whole().number >= publication).await?;
        let graph = self.graph();
        if graph.whole().number != publication {
            let message = "the part has another publication; say it again";
            return Err(CallError::new(Status::Busy, message));
        }
        let entry = |(vertex, value)| VertexValue { vertex, value };
        Ok(graph.highest(most as usize).into_iter().map(entry).collect())
    }

    async fn comes_to(&self, is_there: impl Fn(&nile_graph::Graph) -> bool) -> CallResult<()> {
        for _ in 0..LOOKS {
            if is_there(&self.graph()) {
                return Ok(());
            }
            self.wait(LOOK).await;
        }
        Err(CallError::new(Status::Busy, "the other parts of the graph do not answer"))
    }
}

impl Graphs {
    /// Gives each part what is its own of a call.
    pub(super) async fn give_all(
        &self,
        opened: &Rc<Opened>,
        parts: &Parts,
        call: Call,
        acknowledgement: Acknowledgement,
    ) -> CallResult<OfferedEvents> {
        let own = parts.part().number;
        let divided = (0..).zip(parts.part().divide(call));
        let given =
            divided.map(|(part, call)| -> LocalFuture<'_, CallResult<OfferedEvents>> {
                match part == own {
                    true => Box::pin(self.give(opened, call, acknowledgement)),
                    false => Box::pin(parts.ask(part, async move |it, name| {
                        give(&it, name, call, acknowledgement).await
                    })),
                }
            });
        let told = all(given).await.into_iter().collect::<CallResult<Vec<_>>>()?;
        let sum = |of: fn(&OfferedEvents) -> u64| told.iter().map(of).sum();
        Ok(OfferedEvents {
            new: sum(|it| it.new),
            known: sum(|it| it.known),
            ahead: sum(|it| it.ahead),
            next: told.iter().map(|it| it.next).min().unwrap_or(0),
            // Another one if any is.
            life: told.iter().fold(0, |all: u64, it| all.wrapping_mul(LIVES).wrapping_add(it.life)),
        })
    }
}

async fn give(
    part: &GraphClient,
    name: &str,
    call: Call,
    acknowledgement: Acknowledgement,
) -> CallResult<OfferedEvents> {
    let Call { source, until, events, covers, .. } = call;
    let run = |(first, count)| SequenceRun { first, count };
    let covers = covers.into_iter().map(run).collect();
    let events = events.into_iter().map(|it| {
        let nile_graph::Event { sequence, time, from, to, removes } = it;
        EdgeEvent { sequence, time, from, to, removes }
    });
    part.offer_part(name, source, until, acknowledgement, events.collect(), covers).await
}

/// How sources stand in all parts: what one lacks is missing.
pub async fn sources(
    parts: &Parts,
    mut own: Vec<SourceEntry>,
    after: Option<u64>,
) -> CallResult<Vec<SourceEntry>> {
    let others = parts.ask_all(async |_, it, name| it.sources(name, after).await).await;
    for other in others {
        let other = other?;
        for it in &mut own {
            let Some(same) = other.iter().find(|other| other.source == it.source) else { continue };
            it.next = it.next.min(same.next);
            it.beyond = it.beyond.max(same.beyond);
            it.until = it.until.min(same.until);
            it.idle &= same.idle;
        }
    }
    Ok(own)
}

/// Waits until all other parts are settled. One whose core finds that it has it no more is looked
/// for again.
pub async fn all_settled(parts: &Parts) -> CallResult<()> {
    let mut told = Ok(());
    for _ in 0..ATTEMPTS {
        told = parts.ask_all(settled).await.into_iter().try_for_each(|it| it.map(drop));
        if told.as_ref().is_err_and(|it: &CallError| it.status == Status::NotFound) {
            continue;
        }
        break;
    }
    told
}

/// Waits until a part is settled, for as long as whoever asks does.
async fn settled(_: u32, part: GraphClient, name: &str) -> CallResult<GraphState> {
    loop {
        match part.settled(name).await {
            Err(error) if error.status == Status::Timeout => {}
            told => return told,
        }
    }
}
