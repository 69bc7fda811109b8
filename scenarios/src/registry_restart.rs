//! The management core's kernel panics, and with it the registry is gone. Every core publishes
//! what it has anew, and all services are found and called as before; what was called on the
//! management core ends with a reason.

use core::time::Duration;

use nile_abi::{CoreId, Generation, Status};
use nile_kernel::Core;
use nile_platform::Machine;
use nile_stl::{CallError, CallResult};

use crate::calls::{probe_on, serve};
use crate::conduct::{Findings, conduct, conducts};

/// How long the calls may take to arrive.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>) {
    serve(core);
    if !conducts(core) {
        return;
    }
    if core.machine().generation() == Generation::FIRST {
        let core = core.clone();
        core.clone().spawn(async move {
            if core.all_running().await.is_ok() {
                let stl = core.stl();
                for peer in core.peers() {
                    // Whatever it says, this core ends.
                    let _ = probe_on(&stl, peer).await;
                }
                // A call of each core to the one that ends.
                let others = core.peers().filter(|peer| *peer != core.id());
                let mut wanted = 0;
                for peer in others {
                    wanted += 1;
                    if let Ok(probe) = probe_on(&stl, peer).await {
                        let _ = probe.ask_manager().await;
                    }
                }
                let limit = core.now() + PATIENCE;
                if let Ok(own) = probe_on(&stl, core.id()).await {
                    while own.waiting().await != Ok(wanted) && core.now() < limit {
                        core.sleep(Duration::from_micros(200)).await;
                    }
                }
            }
            panic!("the management core panics on purpose");
        });
        return;
    }
    let core = core.clone();
    conduct(&core.clone(), "registry-restart", move |findings| async move {
        for peer in core.peers() {
            if let Err(error) = check(&core, peer, &findings).await {
                findings.check(false, format_args!("core {peer}: {error}"));
            }
        }
    });
}

/// Calls to a core's probe whose registry may still be told of it.
async fn check<M: Machine>(core: &Core<M>, peer: CoreId, findings: &Findings) -> CallResult<()> {
    let stl = core.stl();
    let probe = probe_on(&stl, peer).await?;
    findings.check(probe.next(6).await? == 7, format_args!("{peer} does not count"));
    if peer != core.id() {
        let end = probe.end_of_call().await?;
        let told = end == Status::Dead.code() || end == Status::Panicked.code();
        findings.check(told, format_args!("{peer}'s call of the management core ended with {end}"));
        // From there to here, by the registry that is here now.
        let relayed = loop {
            match probe.relay(2, 3).await {
                Err(CallError { status: Status::NotFound | Status::Dead, .. }) => {
                    core.sleep(Duration::from_micros(200)).await;
                }
                result => break result?,
            }
        };
        findings.check(relayed == 9, format_args!("{peer} relays wrongly"));
    }
    Ok(())
}
