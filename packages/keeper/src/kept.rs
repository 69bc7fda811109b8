//! The count as a service: whoever calls adds to it. Each call changes the keep before it is
//! answered, and only one after the other.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use core::cell::RefCell;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use nile_stl::{CallResult, Start, Stl, service};
use nile_sync::{Notify, OneShot};
use nile_user::Services;

/// What came and is not added yet.
#[derive(Default)]
struct Till {
    came: RefCell<VecDeque<(u64, OneShot<u64>)>>,
    changes: Notify,
}

impl Till {
    fn of(stl: &Stl) -> CallResult<Rc<Till>> {
        stl.shared(|| Ok(Rc::default()))
    }
}

/// The count.
pub struct Kept {
    stl: Stl,
}

impl Start for Kept {
    fn start(stl: &Stl) -> Kept {
        Kept { stl: stl.clone() }
    }
}

/// A count that outlives the package.
#[service(
    subsystem = "tests",
    capability = "keeping a count",
    layer = high,
    on = worker,
    keywords(kept = 1)
)]
impl Kept {
    /// Adds a number to the count, and gives that.
    #[stl_u(reply = "count", allow(package, operator, peer))]
    async fn add(&self, number: u64) -> CallResult<u64> {
        let (till, added) = (Till::of(&self.stl)?, OneShot::default());
        till.came.borrow_mut().push_back((number, added.clone()));
        till.changes.notify();
        Ok(added.await)
    }
}

/// Publishes the service, and adds to the count, which is in the first and the last of `words`.
pub fn serve(services: &Services, words: &[AtomicU64]) -> u64 {
    let (Some(make), Some(first), Some(last)) = (REGISTRATION.user, words.first(), words.last())
    else {
        return 1;
    };
    let Ok(till) = Till::of(services.stl()) else { return 2 };
    if let Err(error) = services.publish(&REGISTRATION, make) {
        return super::REFUSED + u64::from(error.status.code());
    }
    services.serve();
    services.block_on(async {
        loop {
            let next = || till.came.borrow_mut().pop_front();
            let (number, added) = till.changes.until(next).await;
            let count = first.load(Relaxed) + number;
            first.store(count, Relaxed);
            last.store(count, Relaxed);
            added.give(count);
        }
    })
}
