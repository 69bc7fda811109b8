//! The kernel and the project's packages bound to the simulator. Packages are the same code that
//! runs on machines, linked in; what `unruly` does there, the simulator does here.
//!
//! The kernel with all scenarios is compiled for the simulator here, once for all programs that
//! simulate nodes.
#![forbid(unsafe_code)]

mod domains;
mod machines;
mod shifting;

use nile_abi::call::{Answer, System};
use nile_abi::{Status, VirtAddr};
use nile_kernel::{Config, Core};
use nile_node::Programs;
use nile_package::Store;
use nile_platform::Loop;
use nile_platform::user::Ask;
use nile_platform_sim::options::Program;
use nile_platform_sim::{Misbehaviour, SimMachine, compute, misbehave, raw_call};
use nile_scenarios::Scenarios;
use nile_unruly::{AT_BYTES, Act, Acts, NOT_STOPPED, Span};

pub use domains::Nodes;
pub use machines::{Counts, Misdeed, Tried, machines};
pub use shifting::{Control, shifting};

/// Every package of the project: what `Options::packages` takes.
pub const PACKAGES: [(&str, Program); 22] = [
    ("buffers", nile_buffers::main),
    ("numbers", |system, _| nile_numbers::run(system, compute)),
    ("pairs", nile_pairs::main),
    ("echo", nile_echo::main),
    ("relay", nile_relay::main),
    ("memcached", nile_memcached::main),
    ("fetch", nile_fetch::main),
    ("iperf", nile_iperf::main),
    ("net", nile_net_server::main),
    ("hello", nile_hello::main),
    ("keeper", nile_keeper::main),
    ("primes", nile_primes::main),
    ("rf", nile_rf::main),
    ("gauge", nile_gauge::main),
    ("threads", nile_threads::main),
    ("unruly", unruly),
    ("caller", nile_caller::main),
    ("channels", nile_channels::main),
    ("syscalls", nile_syscalls::main),
    ("tera", nile_tera::main),
    ("web", nile_web::main),
    ("wordcount", nile_wordcount::main),
];

/// The same packages as a kernel finds them.
pub const STORE: Store = Store::Linked(&[
    "buffers",
    "echo",
    "relay",
    "memcached",
    "fetch",
    "iperf",
    "net",
    "hello",
    "keeper",
    "primes",
    "rf",
    "gauge",
    "threads",
    "unruly",
    "caller",
    "channels",
    "syscalls",
    "tera",
    "web",
    "wordcount",
    "numbers",
    "pairs",
]);

/// The loop of one core of a node that runs the scenario `command`: what `simulate` begins with.
pub fn scenario(machine: SimMachine, config: &Config, command: &str) -> Box<dyn Loop> {
    Box::new(Core::start(machine, config, |core| Scenarios::start(core, command)))
}

fn unruly(system: &dyn System, argument: &[u8]) -> u64 {
    nile_unruly::run(argument, &Simulated(system))
}

/// What a machine would make of an act.
struct Simulated<'s>(&'s dyn System);

impl Acts for Simulated<'_> {
    fn perform(&self, act: Act) -> u64 {
        let how = match act {
            Act::Loop => Misbehaviour::Loop,
            Act::MaskInterrupts | Act::Halt | Act::Output | Act::Divide => {
                Misbehaviour::BadInstruction
            }
            Act::WriteNull
            | Act::ReadKernel
            | Act::ReadPool
            | Act::WriteCode
            | Act::RunData
            | Act::Jump
            | Act::Overflow => Misbehaviour::StrayAccess(VirtAddr(8)),
            // The runtime of packages ends these itself.
            Act::Panic => return u64::from(Status::Panicked.code()),
            Act::Exhaust => return u64::from(Status::NoMemory.code()),
            Act::ReadAt(at) | Act::WriteAt(at) => {
                let at = VirtAddr(at);
                if self.0.memory(at, AT_BYTES).is_some() {
                    return NOT_STOPPED;
                }
                Misbehaviour::StrayAccess(at)
            }
        };
        misbehave(self.0, how)
    }

    fn call(&self, number: u64, word: u64, input: Span, output: Span) -> Option<Answer> {
        Some(raw_call(self.0, Ask { number, word, input, output }))
    }
}
