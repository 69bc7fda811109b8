//! Models of every protocol in the crate, run by loom under each interleaving and each value
//! that the memory model lets a load see:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p nile-ring --release --test loom
//! ```
//!
//! Beside each model stands its control: the same with one step of the protocol left out, which
//! loom must find broken. A model whose control passes proves nothing.
//!
//! Models of two threads are explored to the end. Those of three and more try every execution
//! with up to two or three switches away from a thread that could have gone on, which finds
//! every fault of the controls; the variable LOOM_MAX_PREEMPTIONS sets another bound.
#![cfg(loom)]

mod channel;
mod compute;
mod moving;
mod pool;
mod sleep;

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::model::Builder;
use nile_abi::{CoreId, EndpointId, Generation};
use nile_ring::channel::region_len;
use nile_ring::{
    Doorbells, Endpoint, Message, Mover, Notifier, PAYLOAD_BYTES, Receiver, ReceiverMap, Region,
    Sender, Signal, Wake,
};

/// Runs a model of three threads or more with at most `preemptions` preemptions.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(model);
}

/// Asserts that loom finds an execution in which `model` fails with a message that has `lost`.
fn must_fail(lost: &str, model: impl Fn() + Send + Sync + 'static) {
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| check(2, model)));
    let panic = outcome.expect_err("loom found no fault in a protocol without one of its steps");
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or_default();
    assert!(text.contains(lost), "it failed for another reason: {text}");
}

/// Counts the platform's signals to each of two cores, without ordering anything.
#[derive(Clone, Default)]
struct Signals(Arc<[AtomicUsize; 2]>);

impl Signal for Signals {
    fn signal(&self, core: CoreId) {
        self.0[core.index()].fetch_add(1, Ordering::Relaxed);
    }
}

impl Signals {
    fn to(&self, core: CoreId) -> usize {
        self.0[core.index()].load(Ordering::Relaxed)
    }
}

fn endpoint(id: u16) -> Endpoint {
    Endpoint { id: EndpointId(id), generation: Generation::FIRST }
}

/// A message whose every word is `mark`.
fn marked(mark: u8) -> Message {
    Message::new(mark, &[mark; PAYLOAD_BYTES]).expect("it fits")
}

/// The mark of a message that is whole.
fn mark(message: &Message) -> u8 {
    assert_eq!(*message, marked(message.kind()), "torn message");
    message.kind()
}

/// A channel of `capacity` cells to receiver `id`.
fn ends(capacity: usize, id: u16) -> (Region, Sender, Receiver) {
    let region = Region::owned(region_len(capacity));
    let sender = Sender::attach(region.clone(), endpoint(id)).expect("a ring's size");
    let receiver = Receiver::attach(region.clone(), endpoint(id)).expect("a ring's size");
    (region, sender, receiver)
}

/// A node of two cores whose receivers 0 and 1 run on `home`.
fn node(home: CoreId, wake: Wake) -> (Region, Notifier, Mover) {
    let lines = Region::owned(Doorbells::region_len(2));
    let bells = Doorbells::attach(lines.clone());
    let map = ReceiverMap::attach(Region::owned(ReceiverMap::region_len(2))).expect("its size");
    let mut mover = Mover::new(map.clone(), bells.clone());
    for id in [0, 1] {
        let step = mover.begin(EndpointId(id), home, wake).expect("it is in the map");
        step.finish(&Signals::default());
    }
    (lines, Notifier::new(bells, map), mover)
}
