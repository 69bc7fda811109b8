//! When what of a job ran.

use alloc::vec::Vec;

use nile_abi::{Instant, NodeId};
use nile_job::{JobId, Master, Phase, Span, Spans};
use nile_stl::CallResult;

use super::board::Board;
use super::hosted::{Account, Hosted};
use super::report::{micros, unknown};
use super::told;
use nile_interfaces::job::JobClient;
use nile_interfaces::job::records::{AttemptEntry, JobPhase, SpanEntry, TimelineEntry};

/// Attempts of a reply.
const MOST: usize = 128;

impl Hosted {
    /// Its times, if it had a master on this node, which is `own`.
    fn timeline(&self, now: Instant, own: NodeId, from: u32) -> Option<TimelineEntry> {
        let account = self.account.borrow();
        let master = self.master.borrow();
        let spans = master.as_ref().map_or(&account.spans, Master::spans);
        let until = account.ended.unwrap_or(now);
        let phases = phases(&account, until);
        (!phases.is_empty()).then(|| TimelineEntry {
            master: own.0,
            until_us: micros(until.since(account.since)),
            phases,
            attempts: attempts(spans, account.since, until, from as usize),
            kept: spans.kept().len() as u32,
            lost: spans.lost(),
        })
    }
}

fn phases(account: &Account, until: Instant) -> Vec<SpanEntry> {
    let after = |at: Instant| micros(at.min(until).since(account.since));
    let ends = account.phases.iter().skip(1).map(|(_, begun, _)| *begun).chain([until]);
    let phase = |((phase, begun, _), end): (&(Phase, Instant, u64), Instant)| SpanEntry {
        name: told::phase(*phase),
        begun_us: after(*begun),
        ended_us: after(end),
    };
    let queued = account.begun.map(|begun| SpanEntry {
        name: JobPhase::Queued,
        begun_us: 0,
        ended_us: after(begun),
    });
    let known = account.phases.iter().zip(ends).filter(|((phase, ..), _)| *phase != Phase::Over);
    queued.into_iter().chain(known.map(phase)).collect()
}

fn attempts(spans: &Spans, since: Instant, until: Instant, from: usize) -> Vec<AttemptEntry> {
    let after = |at: Instant| micros(at.min(until).since(since));
    let attempt = |span: &Span| AttemptEntry {
        node: span.worker.node.0,
        core: span.worker.core.0,
        kind: told::kind(span.attempt.task.kind),
        task: span.attempt.task.index,
        attempt: span.attempt.number,
        begun_us: after(span.begun),
        ended_us: after(span.over.map_or(until, |(at, _)| at)),
        outcome: told::outcome(span.over.map(|(_, outcome)| outcome)),
        read: span.read,
    };
    spans.kept().iter().skip(from).take(MOST).map(attempt).collect()
}

impl Board {
    /// When what of a job ran, if its last master was here.
    pub fn timeline_here(&self, id: JobId, from: u32) -> CallResult<TimelineEntry> {
        let own = self.cluster.node();
        let entry = self.job(id).and_then(|hosted| hosted.timeline(self.now(), own, from));
        entry.ok_or_else(|| unknown(id))
    }

    /// When what of a job ran, wherever its last master was. Of several that were its masters, the
    /// one that knows most.
    pub async fn timeline(&self, id: JobId, from: u32) -> CallResult<TimelineEntry> {
        let here = self.timeline_here(id, from).ok();
        let nodes = self.cluster.nodes().await?;
        let ask = |client: JobClient| async move { client.timeline_here(id.0, from).await };
        let there = self.ask_nodes(&nodes, ask).await.into_iter();
        let all = there.filter_map(|(_, entry)| entry.ok()).chain(here);
        let knows = |it: &TimelineEntry| {
            (it.phases.last().is_some_and(|last| last.name == JobPhase::Ending), it.kept)
        };
        all.max_by_key(knows).ok_or_else(|| unknown(id))
    }
}
