//! The timers of the machine as services of the micro layer (Dhara, IV.D): the managing
//! core publishes an instance for each, by what the machine says of it. Who needs another timer
//! than the usual finds the cheapest that will do; `timer.choose` does so for a core.

use alloc::rc::Rc;

use nile_abi::Status;
use nile_interfaces::timer_source::{CHEAP, SourceEntry, TimerSourceKernel};
use nile_registry::{Attribute, AttributeValue, Caller as Binder};
use nile_stl::node::TimerSource;
use nile_stl::{CallError, CallResult, Half, Start, Stl, service};

use crate::instance;

/// The timer that the managing core has.
pub struct Usual {
    stl: Stl,
}

impl Start for Usual {
    fn start(stl: &Stl) -> Usual {
        Usual { stl: stl.clone() }
    }
}

#[service(on = manager, keywords(timer = 5, source = 5))]
impl TimerSourceKernel for Usual {
    fn describe(&self) -> CallResult<SourceEntry> {
        let (sources, place) = self.stl.node()?.timer_sources();
        let missing = || CallError::new(Status::NotFound, "the machine names no timer");
        sources.get(place).map(SourceEntry::from).ok_or_else(missing)
    }
}

/// One of the machine's timers.
struct Published(SourceEntry);

impl TimerSourceKernel for Published {
    fn describe(&self) -> CallResult<SourceEntry> {
        Ok(self.0.clone())
    }
}

/// Publishes an instance for each timer of the machine; what could not be is logged.
pub async fn publish_all(stl: &Stl) {
    let own = stl.acting_as(Binder::Operator);
    let sources = own.node().map(|node| node.timer_sources().0).unwrap_or_default();
    for source in sources {
        if let Err(error) = publish(&own, &source).await {
            let name = source.name;
            own.host().log(format_args!("timer {name} is not published: {error}"));
        }
    }
}

async fn publish(stl: &Stl, source: &TimerSource) -> CallResult<()> {
    let (name, entry) = (source.name, SourceEntry::from(source));
    let number = |value: u64| AttributeValue::Int(i64::try_from(value).unwrap_or(i64::MAX));
    let attributes = [
        ("resolution_ns", number(entry.resolution_ns)),
        ("longest_ms", number(entry.longest_ms)),
        ("cost", number(entry.cost.into())),
        ("shared", AttributeValue::Bool(entry.shared)),
    ];
    let attributes = attributes.map(|(name, it)| Attribute::new(name, it));
    let cheapness = u32::from(u16::MAX).saturating_sub(entry.cost).max(1);
    let make = |_: &Stl| Half::of::<dyn TimerSourceKernel>(Rc::new(Published(entry)));
    instance::publish(stl, &REGISTRATION, name, [(CHEAP, cheapness)], attributes, make).await
}
