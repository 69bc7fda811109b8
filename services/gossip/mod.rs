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
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{Generation, NodeId, Status};
use nile_gossip::State;
use nile_registry::Caller as Binder;
use nile_stl::{CallError, CallResult, Caller, Start, Stl, service};

use era::{Namesake, Shared};
use nile_interfaces::gossip::{
    GossipKernel, MOST_MEMBERS, MemberEntry, MemberState, NamesakeEntry,
};
use nile_interfaces::network::Identity;

/// For how long another node with this one's number is shown.
const NAMESAKES_SHOWN: Duration = Duration::from_secs(600);

/// How long until a cluster that cannot be reached is tried again: at first, while this node's
/// services begin, and in the end.
const FIRST_RETRY: Duration = Duration::from_millis(1);
const RETRY: Duration = Duration::from_millis(20);

/// The node's gossip.
pub struct Gossip {
    stl: Stl,
    shared: Rc<Shared>,
}

impl Start for Gossip {
    fn start(stl: &Stl) -> Gossip {
        let shared: Rc<Shared> = Rc::default();
        shared.born.set(stl.host().now());
        let (living, own) = (shared.clone(), stl.clone());
        let stl = stl.acting_as(Binder::Operator);
        stl.host().clone().spawn(Box::pin(async move {
            let mut told = None;
            let mut rest = FIRST_RETRY;
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
                stl.host().pause(rest).await;
                rest = RETRY.min(rest * 2);
            }
        }));
        Gossip { stl: own, shared }
    }
}

#[service(on = manager, keywords(gossip = 5, cluster = 3, member = 3, node = 2))]
impl GossipKernel for Gossip {
    fn members(&self, after: u32) -> CallResult<Vec<MemberEntry>> {
        self.shared.with(|gossip| {
            let entry = |it: nile_gossip::Member| MemberEntry {
                identity: Identity { node: it.node.0, generation: it.generation.0 },
                state: match it.state {
                    State::Alive => MemberState::Alive,
                    State::Suspect => MemberState::Suspect,
                    State::Down => MemberState::Down,
                },
                version: it.version,
            };
            let behind = gossip.members().filter(|it| it.node.0 > after);
            let mut members: Vec<MemberEntry> = behind.map(entry).collect();
            nile_order::sort_by_key(&mut members, |it| it.identity.node);
            members.truncate(MOST_MEMBERS);
            members
        })
    }

    fn lives(&self, node: u32, generation: u32) -> CallResult<bool> {
        self.shared.with(|gossip| {
            gossip.member(NodeId(node)).is_some_and(|it| {
                it.state != State::Down && it.generation == Generation(generation)
            })
        })
    }

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

    fn leave(&self, caller: &Caller) -> CallResult<()> {
        caller.own_core()?;
        self.shared.with(nile_gossip::Gossip::leave)?;
        self.shared.pump();
        Ok(())
    }
}

fn not_joined() -> CallError {
    CallError::new(Status::Busy, "this node has not joined its cluster yet: try again")
}
