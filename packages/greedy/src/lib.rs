//! A package that takes all that it can get of one kind, gives nothing back and never ends: its
//! kernel has to. Its argument says what it takes, see [`Greed`]. As the package of a job, which
//! has no argument, it parks and never asks what there is to do; other packages of jobs call
//! [`Greed::act`] in the midst of a task.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::call::{ChannelCall, PoolCall, System, SystemCall};
use nile_abi::{CoreId, Instant};
use nile_bosml::Blob;
use nile_stl::relay::{self, Relayed};
use nile_user::Runtime;

/// What the package wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Greed {
    /// `park`: nothing, for ever.
    Park,
    /// `accept`: a channel that nobody opens.
    Accept,
    /// `hoard`: every buffer of the pool.
    Hoard,
    /// `log`: the log.
    Log,
    /// `call`: a service's time.
    Call,
    /// `write`: the log, by way of its service.
    Write,
    /// `memory`: memory, for threads that park.
    Memory,
    /// `channel`: channels to core 0.
    Channel,
}

/// Lines of one system call, or call.
const LINES: &str = "more\nmore\nmore\nmore\nmore\nmore\nmore\nmore\nmore\nmore\nmore\nmore\nmore";

/// Bytes of room for what a system call gives: the most that it may be told of.
const ROOM: usize = 68 << 10;

impl Greed {
    /// Every kind with what it is called.
    pub const ALL: [(&str, Greed); 8] = [
        ("park", Greed::Park),
        ("accept", Greed::Accept),
        ("hoard", Greed::Hoard),
        ("log", Greed::Log),
        ("call", Greed::Call),
        ("write", Greed::Write),
        ("memory", Greed::Memory),
        ("channel", Greed::Channel),
    ];

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Greed> {
        Greed::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, greed)| greed)
    }

    /// Takes what there is, for ever, and does `between` after each time. What is refused is asked
    /// for again.
    pub fn act(self, system: &dyn System, mut between: impl FnMut()) -> ! {
        let mut output = vec![0; ROOM];
        let patience = Duration::from_secs(3600).as_nanos() as u64;
        let (call, word, input) = match self {
            Greed::Park => (SystemCall::Wait, u64::MAX, Vec::new()),
            Greed::Accept => {
                let accept = ChannelCall::Accept { tag: 77, until: Instant::from_nanos(u64::MAX) };
                (SystemCall::Channel, 0, accept.encode().into())
            }
            Greed::Hoard => (SystemCall::Pool, 0, PoolCall::Take.encode().into()),
            Greed::Log => (SystemCall::Log, 0, LINES.into()),
            Greed::Call => (SystemCall::Invoke, patience, named("registry", "order", "fifo")),
            Greed::Write => (SystemCall::Invoke, patience, named("log", "write", LINES)),
            Greed::Channel => {
                let open = ChannelCall::Open { to: CoreId(0), tag: 77, cells: 1 << 14 };
                (SystemCall::Channel, 0, open.encode().into())
            }
            Greed::Memory => {
                let runtime = Runtime::new(system);
                loop {
                    drop(runtime.spawn(Runtime::park));
                    runtime.yield_now();
                    between();
                }
            }
        };
        loop {
            system.call(call, word, &input, &mut output);
            between();
        }
    }
}

/// A call of a method with one text.
fn named(service: &str, method: &str, text: &str) -> Vec<u8> {
    let arguments = Blob(relay::encode(&String::from(text)).unwrap_or_default());
    let call = Relayed { service: service.into(), method: method.into(), arguments };
    relay::encode(&call).unwrap_or_default()
}

/// Takes what the argument says.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    let name = core::str::from_utf8(argument).unwrap_or_default();
    Greed::named(name).unwrap_or(Greed::Park).act(system, || {})
}
