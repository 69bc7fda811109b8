//! The memory of a hosted domain that runs. Its node has as much as it can ever have, of which some
//! is away: free, and Linux's. Which part that is the node says; the ledger counts.

use std::time::Duration;

use nile_domain::UNIT;
use nile_interfaces::physical_memory::PhysicalMemoryClient;
use nile_stl::Client;

use super::cores;
use crate::cluster::folder::Node;
use crate::failure::Failure;
use crate::peer::Peer;

/// How long a node may take to give memory up.
const LIMIT: Duration = Duration::from_secs(5);

/// Has a domain use as much memory as it has in the record. Blocks until it does. One that has too
/// little that is free keeps all, and this fails.
pub fn settle(peer: &mut Peer, node: &Node) -> Result<(), Failure> {
    let Some(domain) = &node.domain else { return Ok(()) };
    let away = domain.most_memory.saturating_sub(domain.memory) / UNIT;
    let target = cores::find(peer, node, PhysicalMemoryClient::INTERFACE.name)?;
    let settled = peer.work(LIMIT, async |clients| {
        clients.at::<PhysicalMemoryClient>(target).set_away(away).await
    })?;
    settled.map_err(|error| Failure::failed(format!("{}: {error}", domain.name)))
}
