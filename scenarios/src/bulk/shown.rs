//! Bulk transfer between nodes that show each other their pools: what each gets it reads where the
//! sender has it.

use nile_abi::NodeId;
use nile_interfaces::bulk::BulkClient;
use nile_platform::Machine;
use nile_stl::CallResult;

use super::Conductor;
use super::apart::{at, count};
use crate::cluster::until;

impl<M: Machine> Conductor<M> {
    /// Every node has read where others have it what these have sent to it.
    pub async fn check_shown(&self) -> CallResult<()> {
        let Conductor { stl, findings, .. } = self;
        let mut total = 0;
        for node in (1..=self.nodes).map(NodeId) {
            let [_, bulk] = self.cores(node).await?;
            let counters = until(stl, async || {
                BulkClient::find_at(stl, at(node, bulk)).await?.counters().await
            });
            let fetched = count(&counters.await?, "fetched-bytes");
            findings.check(fetched > 0, format_args!("{node} has read nothing where it was"));
            total += fetched;
        }
        findings.figure("fetched_bytes", total);
        Ok(())
    }
}
