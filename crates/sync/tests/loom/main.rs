//! Models of what several cores share, run by loom under each interleaving and each value that the
//! memory model lets a load see, with a core that dies after each of its stores:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p nile-sync --release --test loom
//! ```
//!
//! Beside each model stands its control: the same with one step left out, which loom must find
//! broken. They try every execution with at most two switches away from a thread that could have
//! gone on (LOOM_MAX_PREEMPTIONS sets another bound).
#![cfg(loom)]

mod mvrlu;
mod quiet;
mod ranges;
mod shfl;
mod spread;

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loom::model::Builder;
use nile_ring::Region;
use nile_sync::Seats;

/// Runs a model with at most `preemptions` preemptions.
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = 10_000;
    builder.check(model);
}

/// Runs a model for each number of stores after which a core may die, until it does not die any
/// more. The model says whether it did.
fn for_each_death(preemptions: usize, model: impl Fn(u32) -> bool + Send + Sync + Copy + 'static) {
    for stores in 0.. {
        let has_died = Arc::new(AtomicBool::new(false));
        let died = has_died.clone();
        check(preemptions, move || {
            if model(stores) {
                died.store(true, Ordering::Relaxed);
            }
        });
        if !has_died.load(Ordering::Relaxed) {
            assert!(stores > 0, "it makes no store");
            return;
        }
    }
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

/// Seats of so many cores, none of whom is there yet.
fn seats(count: usize) -> Seats {
    Seats::attach(Region::owned(Seats::region_len(count)))
}
