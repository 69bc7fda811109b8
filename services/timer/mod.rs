//! The timer service: what the timers of a core do (Dhara, IV.C), and which timer of the machine
//! they wake it by (IV.D). Waiting is the service `time`.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::{Instant, Status};
use nile_interfaces::registry::Wanted;
use nile_interfaces::timer::{MOST_LISTED, Sources, TimerCounts, TimerKernel};
use nile_interfaces::timer_source::{self, CHEAP, SourceEntry, TimerSourceClient};
use nile_stl::node::TimerSource;
use nile_stl::{CallError, CallResult, Start, Stl, service};

/// Timers that are looked at before a choice is given up: other nodes have some, too.
const MOST_TRIED: usize = 16;

/// The core's timers are its state.
pub struct Timer {
    stl: Stl,
}

impl Start for Timer {
    fn start(stl: &Stl) -> Timer {
        Timer { stl: stl.clone() }
    }
}

#[service(on = every, keywords(timer = 5, tolerance = 3, deadline = 2))]
impl TimerKernel for Timer {
    fn counts(&self) -> CallResult<TimerCounts> {
        let timers = self.stl.node()?.timers(0);
        Ok(TimerCounts {
            armed: timers.armed,
            fired: timers.fired,
            coalesced: timers.coalesced,
            waiting: timers.waiting,
            interrupts: timers.interrupts,
            wakes: timers.wakes,
        })
    }

    fn sources(&self) -> CallResult<Sources> {
        let (sources, used) = self.stl.node()?.timer_sources();
        let missing = || CallError::new(Status::NotFound, "the machine names no timer");
        let used = sources.get(used).ok_or_else(missing)?.name.into();
        Ok(Sources { used, sources: sources.iter().map(SourceEntry::from).collect() })
    }

    async fn choose(&self, resolution_ns: u64, longest_ms: u64) -> CallResult<SourceEntry> {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let mut least_cost = 0;
        for _ in 0..MOST_TRIED {
            let wanted = Wanted::of(&timer_source::TYPE)
                .keyword(CHEAP)
                .at_most("resolution_ns", number(resolution_ns))
                .at_least("longest_ms", number(longest_ms))
                .at_least("cost", least_cost);
            let found: TimerSourceClient = match wanted.find(&self.stl).await {
                Err(error) if error.status == Status::NotFound => break,
                found => found?,
            };
            let found = found.describe().await?;
            // It may be another core's, or another node's.
            let does = |it: &TimerSource| {
                it.resolution_nanos() <= resolution_ns && it.longest_millis() >= longest_ms
            };
            if let Some(taken) = self.take_if(&found.name, does) {
                return taken;
            }
            least_cost = i64::from(found.cost) + 1;
        }
        let wanted = format!("is late by at most {resolution_ns} ns and waits for {longest_ms} ms");
        Err(self.without(&wanted))
    }

    fn take(&self, source: String) -> CallResult<SourceEntry> {
        let taken = self.take_if(&source, |_| true);
        taken.unwrap_or_else(|| Err(self.without(&format!("is {source}"))))
    }

    fn list(&self) -> CallResult<Vec<u64>> {
        let timers = self.stl.node()?.timers(MOST_LISTED);
        Ok(timers.ends.into_iter().map(Instant::as_nanos).collect())
    }
}

impl Timer {
    /// Takes the timer of this name, if this core has it and it will do.
    fn take_if(
        &self,
        name: &str,
        does: impl Fn(&TimerSource) -> bool,
    ) -> Option<CallResult<SourceEntry>> {
        let node = match self.stl.node() {
            Ok(node) => node,
            Err(error) => return Some(Err(error)),
        };
        let sources = node.timer_sources().0;
        let place = sources.iter().position(|it| it.name == name && does(it))?;
        let refused = |status| CallError::new(status, format!("the machine refuses {name}"));
        let taken = node.take_timer_source(place).map_err(refused);
        Some(taken.map(|()| SourceEntry::from(&sources[place])))
    }

    /// What to say if none will do.
    fn without(&self, wanted: &str) -> CallError {
        let sources = self.stl.node().map(|node| node.timer_sources().0).unwrap_or_default();
        let names: Vec<&str> = sources.iter().map(|it| it.name).collect();
        let (core, names) = (self.stl.host().core(), names.join(", "));
        let message = format!("{core} has no timer that {wanted}; it has {names}");
        CallError::new(Status::NotFound, message)
    }
}
