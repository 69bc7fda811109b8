//! The gossip service: who is in the cluster, and what every node offers (NileOS paper, III.B). It
//! runs on the managing core, beside the registry: what this node has goes from there to all
//! others, and what they have comes into it, so that a service is found by its name wherever it
//! is.
//!
//! An *era* is the time for which this node is in one generation and has the same network core;
//! each begins with nothing known.
//!
//! * `era`: what goes on in one.
//! * `local`: what this node has, told to the cluster.
//! * `remote`: what the cluster has, told to the registry.

mod era;
mod local;
mod remote;

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{Generation, NodeId, Status};
use nile_gossip::State;
use nile_registry::Caller as Binder;
use nile_stl::{CallError, CallResult, Caller, Record, Start, Stl, service};

use crate::network::Identity;
use era::{Namesake, Shared};

/// For how long another node with this one's number is shown.
const NAMESAKES_SHOWN: Duration = Duration::from_secs(600);

/// How long until a cluster that cannot be reached is tried again.
const RETRY: Duration = Duration::from_millis(20);

/// The most members of one reply.
pub const MOST_MEMBERS: usize = 1000;

/// The node's gossip.
pub struct Gossip {
    stl: Stl,
    shared: Rc<Shared>,
}

/// Another node that has this one's number.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct NamesakeEntry {
    /// Where its frames come from.
    pub address: String,
    /// Its generation.
    pub generation: u32,
}

/// A node of the cluster.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct MemberEntry {
    /// Which.
    pub identity: Identity,
    /// `alive`, `suspect` or `down`.
    pub state: String,
    /// How often its directory has changed, as far as this node has it.
    pub version: u32,
}

impl Start for Gossip {
    fn start(stl: &Stl) -> Gossip {
        let shared: Rc<Shared> = Rc::default();
        shared.born.set(stl.host().now());
        let (living, own) = (shared.clone(), stl.clone());
        let stl = stl.acting_as(Binder::Operator);
        stl.host().clone().spawn(Box::pin(async move {
            let mut told = None;
            loop {
                let Err(error) = era::live(&stl, &living).await;
                living.end_era();
                if living.has_given_up.get() {
                    return;
                }
                // Each reason once: a network core that restarts is tried for a while.
                let expected = matches!(error.status, Status::Dead | Status::NotFound);
                if told.as_ref() != Some(&error) && !expected {
                    stl.host().log(format_args!("gossip begins anew: {error}"));
                }
                told = Some(error);
                stl.host().sleep_until(stl.host().now() + RETRY).await;
            }
        }));
        Gossip { stl: own, shared }
    }
}

/// The nodes of the cluster.
#[service(
    subsystem = "network",
    capability = "membership",
    layer = low,
    on = manager,
    keywords(gossip = 5, cluster = 3, member = 3, node = 2)
)]
impl Gossip {
    /// The nodes that are known, the dead of the last minutes among them, in the order of their
    /// numbers: those behind `after`, at most a thousand. Fewer: there are no more.
    #[stl_k(reply = "members")]
    fn members(&self, after: u32) -> CallResult<Vec<MemberEntry>> {
        self.shared.with(|gossip| {
            let entry = |it: nile_gossip::Member| MemberEntry {
                identity: Identity { node: it.node.0, generation: it.generation.0 },
                state: String::from(match it.state {
                    State::Alive => "alive",
                    State::Suspect => "suspect",
                    State::Down => "down",
                }),
                version: it.version,
            };
            let behind = gossip.members().filter(|it| it.node.0 > after);
            let mut members: Vec<MemberEntry> = behind.map(entry).collect();
            members.sort_by_key(|it| it.identity.node);
            members.truncate(MOST_MEMBERS);
            members
        })
    }

    /// Whether a node lives in a generation, as far as this one knows.
    #[stl_k(reply = "lives")]
    fn lives(&self, node: u32, generation: u32) -> CallResult<bool> {
        self.shared.with(|gossip| {
            gossip.member(NodeId(node)).is_some_and(|it| {
                it.state != State::Down && it.generation == Generation(generation)
            })
        })
    }

    /// Other nodes that have this one's number, as far as it has heard of them in the last minutes.
    #[stl_k(reply = "namesakes")]
    fn namesakes(&self) -> CallResult<Vec<NamesakeEntry>> {
        let now = self.stl.host().now();
        let last = self.shared.namesake.borrow().clone();
        let last = last.filter(|it| now.since(it.heard) < NAMESAKES_SHOWN);
        let entry = |it: Namesake| NamesakeEntry {
            address: it.address.to_string(),
            generation: it.generation.0,
        };
        Ok(last.into_iter().map(entry).collect())
    }

    /// Leaves the cluster in order: the others learn at once that this node is gone.
    #[stl_k]
    fn leave(&self, caller: &Caller) -> CallResult<()> {
        caller.own_core()?;
        self.shared.with(nile_gossip::Gossip::leave)?;
        self.shared.pump();
        Ok(())
    }
}

impl GossipClient {
    /// Every node that is known. Each page is a call.
    pub async fn everyone(&self) -> CallResult<Vec<MemberEntry>> {
        let mut all: Vec<MemberEntry> = Vec::new();
        loop {
            let after = all.last().map_or(0, |it| it.identity.node);
            let more = self.members(after).await?;
            let is_last = more.len() < MOST_MEMBERS;
            all.extend(more);
            if is_last {
                return Ok(all);
            }
        }
    }
}

fn not_joined() -> CallError {
    CallError::new(Status::Busy, "this node has not joined its cluster yet: try again")
}
