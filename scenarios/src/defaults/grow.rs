//! The heap's kernel half, as the kernel of a package calls it for the package.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Status};
use nile_interfaces::heap::{Grown, HeapClient};
use nile_kernel::{Core, Package, PackageLimits, ServiceCalls};
use nile_platform::Machine;
use nile_stl::{CallError, CallResult};

/// How long a package may take to begin.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is wrong when the heap grows for a package of this core. A node without packages has
/// nothing that could be wrong.
pub async fn check<M: Machine>(core: &Core<M>) -> Vec<String> {
    let Some(image) = core.find_package("caller") else { return Vec::new() };
    let argument = format!("core={} serve", core.id().0);
    let calls = ServiceCalls::new(&core.stl());
    let limits = PackageLimits::default();
    let package = match core.run_package(image, argument.as_bytes(), limits, calls) {
        Ok(package) => package,
        Err(status) => return alloc::vec![format!("no package: {status}")],
    };
    let mut wrong = Vec::new();
    if let Err(error) = grow(core, &package, limits, &mut wrong).await {
        wrong.push(format!("the heap does not grow: {error}"));
    }
    package.stop();
    package.ended().await;
    core.serve_package(None);
    let gone = match HeapClient::find(&core.stl().for_package()).await {
        Ok(heap) => heap.grow(4096).await,
        Err(error) => Err(error),
    };
    expect(&mut wrong, gone, Status::NotFound, "growing for no package");
    wrong
}

async fn grow<M: Machine>(
    core: &Core<M>,
    package: &Package<M>,
    limits: PackageLimits,
    wrong: &mut Vec<String>,
) -> CallResult<()> {
    core.serve_package(Some(package.clone()));
    let stl = core.stl().for_package();
    let heap = HeapClient::find(&stl).await?;
    // It runs once its own service is there.
    let deadline = core.now() + PATIENCE;
    while core.stl().find_at(core.id(), "counter").await.is_err() {
        if core.now() > deadline {
            return Err(CallError::new(Status::Timeout, "the package publishes nothing"));
        }
        core.sleep(Duration::from_micros(200)).await;
    }
    let first = heap.grow(4096).await?;
    let second = heap.grow(5000).await?;
    let apart = first.address + first.bytes <= second.address;
    if first.bytes != 4096 || second.bytes != 8192 || !apart {
        wrong.push(format!("the heap grows by {first:?} and {second:?}"));
    }
    expect(wrong, heap.grow(0).await, Status::Invalid, "growing by nothing");
    let too_much = heap.grow(limits.memory_bytes).await;
    expect(wrong, too_much, Status::NoMemory, "growing beyond the limit");
    let other = HeapClient::find_at(&stl, CoreId::BOOT).await?.grow(4096).await;
    if core.id() != CoreId::BOOT {
        expect(wrong, other, Status::Denied, "growing on another core");
    }
    Ok(())
}

fn expect(wrong: &mut Vec<String>, result: CallResult<Grown>, status: Status, what: &str) {
    let got = result.map_err(|error| error.status);
    if got != Err(status) {
        wrong.push(format!("{what}: {got:?}, not {status}"));
    }
}
