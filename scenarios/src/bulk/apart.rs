//! Bulk transfer on a network core of its own: the core that has the calls carries none of its
//! frames, and when either core of a node ends, what was on its way is dead and what comes later
//! gets there.

use nile_abi::{CoreId, NodeId, Status};
use nile_interfaces::bulk::BulkClient;
use nile_interfaces::core_manager::CoreManagerClient;
use nile_interfaces::network::{Counter, NetworkClient};
use nile_interfaces::registry::RegistryClient;
use nile_platform::Machine;
use nile_services::bulk::port::{Mailbox, Port};
use nile_stl::{At, CallError, CallResult, Place};

use super::{ANSWERED, CONDUCTOR, Conductor, FIRST, LAST, RELAY_ASIDE};
use crate::cluster::{all_known, until};

/// Where a core of a node is, seen from n1.
pub fn at(node: NodeId, core: CoreId) -> At {
    At { node: if node == CONDUCTOR { Place::HERE } else { node }, core }
}

/// What is counted by this name.
pub fn count(counters: &[Counter], name: &str) -> u64 {
    counters.iter().find(|it| it.name == name).map_or(0, |it| it.count)
}

impl<M: Machine> Conductor<M> {
    /// The cores of a node that have the calls and the transfers.
    pub async fn cores(&self, node: NodeId) -> CallResult<[CoreId; 2]> {
        until(&self.stl, async || {
            let registry = RegistryClient::find_at(&self.stl, at(node, CoreId::BOOT)).await?;
            let listed = registry.list_all().await?;
            let core = |name: &str| {
                let mut found = listed.iter().filter(|it| it.name == name && it.found.node == 0);
                found.next().map(|it| CoreId(it.found.core))
            };
            let missing = || CallError::new(Status::NotFound, "a protocol is missing");
            Ok([core("network").ok_or_else(missing)?, core("bulk").ok_or_else(missing)?])
        })
        .await
    }

    /// Every node has carried the frames of both protocols, each by its own core. What goes to all,
    /// until it is known who is where, is nobody's where its protocol is not.
    pub async fn check_apart(&self) -> CallResult<()> {
        let Conductor { stl, findings, .. } = self;
        let mut total = 0;
        for node in (1..=self.nodes).map(NodeId) {
            let [calls, bulk] = self.cores(node).await?;
            findings.check(calls != bulk, format_args!("{node} has both protocols on {calls}"));
            // A core that has just begun anew is not known at once.
            let of_calls = until(stl, async || {
                NetworkClient::find_at(stl, at(node, calls)).await?.counters().await
            });
            let of_bulk = until(stl, async || {
                BulkClient::find_at(stl, at(node, bulk)).await?.counters().await
            });
            let (of_calls, of_bulk) = (of_calls.await?, of_bulk.await?);
            let strange = [count(&of_calls, "carried-bulk"), count(&of_bulk, "carried-calls")];
            findings.check(strange == [0, 0], format_args!("{node} has carried {strange:?}"));
            let own = [count(&of_calls, "carried-calls"), count(&of_bulk, "carried-bulk")];
            findings.check(!own.contains(&0), format_args!("{node} has carried {own:?}"));
            total += own[1];
        }
        findings.figure("bulk_frames", total);
        Ok(())
    }

    /// Each network core of n2 ends while transfers to a mailbox there wait for room.
    pub async fn ends(&self, port: &Port, aside: &Mailbox) -> CallResult<()> {
        let there = NodeId(2);
        for which in [0, 1] {
            let core = self.cores(there).await?[which];
            let sends = self.crowd(port, there);
            // Some are there by then, and the others have no room.
            self.core.sleep(ANSWERED).await;
            let place = at(there, CoreId::BOOT);
            let cores =
                until(&self.stl, async || CoreManagerClient::find_at(&self.stl, place).await);
            match cores.await?.end_core(core.0).await {
                // The call itself went through the core that ended.
                Ok(()) | Err(CallError { status: Status::Dead, .. }) => {}
                Err(error) => return Err(error),
            }
            let mut dead = 0;
            for send in sends {
                match send.await {
                    Ok(()) => {}
                    // The next incarnation may not have opened it yet.
                    Err(Status::Dead | Status::NotFound) => dead += 1,
                    Err(other) => {
                        self.findings.check(false, format_args!("{core} ends: a send {other}"));
                    }
                }
            }
            self.findings.check(dead > 0, format_args!("{core} ends: no transfer is dead"));
            // Each station opens its mailbox again when it has noticed.
            for station in [FIRST, LAST] {
                let asked = async || self.ask(port, (there, station), RELAY_ASIDE, aside).await;
                until(&self.stl, asked).await?;
            }
            all_known(&self.stl, self.nodes.into()).await?;
        }
        self.check_apart().await
    }
}
