//! A service of a package: it counts, in user mode, for whoever calls.

use core::cell::Cell;

use nile_stl::{Start, Stl, service};
use nile_user::{Runtime, Services};

/// The count.
pub struct Counter {
    total: Cell<u64>,
}

impl Start for Counter {
    fn start(_: &Stl) -> Counter {
        Counter { total: Cell::new(0) }
    }
}

/// Counts.
#[service(
    subsystem = "examples",
    capability = "counting",
    layer = high,
    on = worker,
    keywords(counter = 1)
)]
impl Counter {
    /// Adds a number to the total, and gives it.
    #[stl_u(reply = "total", allow(package, operator, peer))]
    fn add(&self, #[range(0..=1000)] number: u64) -> u64 {
        self.total.set(self.total.get() + number);
        self.total.get()
    }
}

/// Publishes the service and serves it until the package is stopped.
pub fn serve(runtime: &Runtime<'_>, services: &Services) -> u64 {
    let Some(make) = REGISTRATION.user else { return 40 };
    if let Err(error) = services.publish(&REGISTRATION, make) {
        return 50 + u64::from(error.status.code());
    }
    services.serve();
    loop {
        runtime.park();
    }
}
