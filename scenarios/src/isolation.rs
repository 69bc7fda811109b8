//! One core writes through a pointer into another core's private data: the writer faults and
//! comes back as a new incarnation, the data is as it was, the node goes on.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};

use nile_abi::{Generation, Status, VirtAddr};
use nile_kernel::Core;
use nile_platform::{Fault, Misbehave};

use crate::conduct::{conduct, conducts};
use crate::restart::wait_for;
use crate::talk::Talk;
use crate::tickless::last_worker;

const WRITE: u32 = 8;
const UNTOUCHED: u64 = 0x600d_da7a;
const STRAY: u64 = 0xbad;

/// Starts this core's part.
pub fn start<M: Misbehave>(core: &Core<M>) {
    let writer = core.clone();
    core.spawn(async move {
        let Ok(talk) = Talk::answer(&writer, WRITE).await else { return };
        while let Ok(address) = talk.listen().await {
            writer.machine().stray_write(VirtAddr(address), STRAY);
            // The write went through: say so.
            if talk.tell(STRAY).await.is_err() {
                break;
            }
        }
    });
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "isolation", move |findings| async move {
            let Some(worker) = last_worker(&core) else {
                return findings.check(false, format_args!("the node has no worker core"));
            };
            let private = Box::new(AtomicU64::new(UNTOUCHED));
            let address = &raw const *private as u64;
            let talk = Talk::start(&core, worker, WRITE).await;
            let Some(talk) = findings.expect(talk, "no talk with the worker") else { return };
            let answer = talk.ask(address).await;
            findings.check(
                answer == Err(Status::Dead),
                format_args!("the write to {address:#x} gives {answer:?}"),
            );
            wait_for(&core, worker, Generation(2)).await;
            let value = private.load(Ordering::SeqCst);
            findings.check(value == UNTOUCHED, format_args!("the data is {value:#x}"));
            let record = core.machine().board().record(worker);
            let generation = record.generation();
            findings.check(generation == Generation(2), format_args!("it is {generation}"));
            let fault = record.fault();
            findings.check(fault.is_some(), format_args!("no fault is recorded"));
            if let Some(Fault { kind: Fault::PAGE, address: at, .. }) = fault {
                findings.check(at == address, format_args!("it faulted at {at:#x}"));
            }
            // The writer's next incarnation can write where it may: nothing else is broken.
            let again = Talk::start(&core, worker, WRITE).await;
            findings.expect(again, "no talk with the next incarnation");
        });
    }
}
