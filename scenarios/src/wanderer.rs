//! A service that is on one core and then on another.

use nile_stl::{Start, Stl, service};

/// Where it is.
pub struct Wanderer {
    core: u16,
}

impl Start for Wanderer {
    fn start(stl: &Stl) -> Wanderer {
        Wanderer { core: stl.host().core().0 }
    }
}

/// What moves from core to core.
#[service(
    subsystem = "tests",
    capability = "wandering",
    layer = high,
    on = every,
    keywords(wanderer = 1)
)]
impl Wanderer {
    /// The core that it is on.
    #[stl_k(allow(package, operator, peer))]
    fn seat(&self) -> u16 {
        self.core
    }
}
