//! A package that measures what packages do with each other and with their kernel, and logs what it
//! found: the benchmarks of domains run it.
//!
//! ```text
//! trips WAY PEER lead|follow   round trips of 56 bytes with the same package elsewhere
//! stream WAY PEER lead|follow  bytes a second to it
//! rate CALLS SECONDS CORE      calls a second to the kernel of the package's core, CORE
//! ```
//!
//! WAY is `post` (messages, FICM), `packets` (RFcom), both over the region `rf`, or `channel`, of
//! one node; PEER is the other's number as a member, the port, or the other's core. Both poll all
//! the time. Whoever leads ends the other one, too.
//!
//! CALLS are `channels`, which are opened and closed, so that the managing core allocates, maps and
//! frees memory; or `empty`, which the package's core answers alone.
//!
//! * [`ways`]: how two packages talk; [`between`]: what is measured between them; [`calls`]: what
//!   is measured of the kernel.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod between;
mod calls;
mod ways;

use core::time::Duration;

use nile_abi::call::{System, SystemCall};
use nile_abi::{CoreId, Instant, Status};
use nile_user::{Runtime, log};

/// The exit code if the argument is none.
pub const WRONG: u64 = 1;
/// That if the region is too small, or there are too many members.
pub const NO_ROOM: u64 = 2;
/// That if what came is not what was sent.
pub const OTHER: u64 = 3;
/// That if the other one has said nothing for too long.
pub const SILENT: u64 = 4;
/// That if the kernel has refused something, plus the status.
pub const REFUSED: u64 = 1000;

/// How long the other one may take to begin, or to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// `Err` is the exit code.
type Measured<T = ()> = Result<T, u64>;

/// The package, and its kernel.
struct Context<'s> {
    system: &'s dyn System,
    runtime: Runtime<'s>,
}

impl Context<'_> {
    fn now(&self) -> Measured<Instant> {
        let now = self.system.call(SystemCall::Now, 0, &[], &mut []).result();
        now.map(Instant::from_nanos).map_err(refused)
    }
}

fn refused(status: Status) -> u64 {
    REFUSED + u64::from(status.code())
}

/// What is to be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Task {
    Between { what: between::What, kind: between::Kind, peer: u16, leads: bool },
    Calls { kind: calls::Kind, seconds: u32, core: CoreId },
}

impl Task {
    fn parse(argument: &[u8]) -> Option<Task> {
        let mut words = core::str::from_utf8(argument).ok()?.split_ascii_whitespace();
        let task = match words.next()? {
            "trips" => Task::between(between::What::Trips, &mut words),
            "stream" => Task::between(between::What::Stream, &mut words),
            "rate" => Task::calls(&mut words),
            _ => None,
        };
        task.filter(|_| words.next().is_none())
    }

    fn between<'a>(what: between::What, words: &mut impl Iterator<Item = &'a str>) -> Option<Task> {
        let kind = match words.next()? {
            "post" => between::Kind::Post,
            "packets" => between::Kind::Packets,
            "channel" => between::Kind::Channel,
            _ => return None,
        };
        let peer = words.next()?.parse().ok()?;
        let leads = match words.next()? {
            "lead" => true,
            "follow" => false,
            _ => return None,
        };
        Some(Task::Between { what, kind, peer, leads })
    }

    fn calls<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Task> {
        let kind = match words.next()? {
            "channels" => calls::Kind::Channels,
            "empty" => calls::Kind::Empty,
            _ => return None,
        };
        let seconds = words.next()?.parse().ok().filter(|it| (1..=60).contains(it))?;
        let core = CoreId(words.next()?.parse().ok()?);
        Some(Task::Calls { kind, seconds, core })
    }
}

/// Measures what the argument says, and logs it; zero if nothing went wrong.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    let Some(task) = Task::parse(argument) else {
        let _ = log!(
            system,
            "the argument is `trips|stream post|packets|channel PEER lead|follow`, or `rate \
             channels|empty SECONDS CORE`"
        );
        return WRONG;
    };
    let context = Context { system, runtime: Runtime::new(system) };
    let measured = match task {
        Task::Between { what, kind, peer, leads } => {
            between::run(&context, what, kind, peer, leads)
        }
        Task::Calls { kind, seconds, core } => calls::rate(&context, kind, seconds, core),
    };
    measured.err().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read() {
        let parse = |text: &str| Task::parse(text.as_bytes());
        let (what, kind) = (between::What::Trips, between::Kind::Post);
        let trips = Task::Between { what, kind, peer: 2, leads: true };
        assert_eq!(parse("trips post 2 lead"), Some(trips));
        let kind = calls::Kind::Channels;
        let rate = Task::Calls { kind, seconds: 3, core: CoreId(1) };
        assert_eq!(parse("rate channels 3 1"), Some(rate));
        for wrong in ["", "trips", "trips post 2", "trips post x lead", "trips post 2 lead 3"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        for wrong in ["rate channels 3", "rate none 3 1", "rate empty 0 1", "rate empty 61 1"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
