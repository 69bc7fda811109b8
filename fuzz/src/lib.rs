//! Everything that reads bytes from outside, each as one function that takes any bytes at all,
//! checks what must hold of the answer, and says whether the bytes were accepted. It panics on a
//! defect and on nothing else.
//!
//! | function           | reads                                                                  |
//! | ------------------ | ---------------------------------------------------------------------- |
//! | [`config()`]       | `nile.toml`, from a file or a boot module                              |
//! | [`bootinfo()`]     | what a loader left: PVH's start info, Multiboot2's tags                |
//! | [`acpi()`]         | the tables of the firmware                                             |
//! | [`memory_map()`]   | claims on memory, in any order, however they overlap                   |
//! | [`channel()`]      | a ring, doorbells and a map of receivers that a hostile peer writes to |
//! | [`handle()`]       | names that a peer made up: of buffers, of requests                     |
//! | [`package()`]      | packages' files, and the archives that carry them                      |
//! | [`said()`]         | what a machine says on its serial line                                 |
//! | [`bosml_text()`]   | requests as text                                                       |
//! | [`bosml_binary()`] | requests in the binary form                                            |
//! | [`bosml_schema()`] | what services say of themselves                                        |
//! | [`dispatch()`]     | arguments, of every method of every service                            |
//! | [`frame()`]        | what other cores send: cells, calls, ends of calls                     |
//! | [`ipioe()`]        | what other nodes send of calls                                         |
//! | [`bulk()`]         | what other nodes send of bulk transfers                                |
//! | [`switch()`]       | what is plugged into the virtual switch                                |
//! | [`network()`]      | IPv4 and TCP of anybody, and memory of connections that was written to |
//! | [`gossip()`]       | what other nodes send of themselves and of others                      |
//! | [`store()`]        | what a disk has where datasets are expected                            |
//! | [`relay()`]        | what packages and their kernel tell each other                         |
//! | [`system_calls()`] | system calls of a package, in a simulated node                         |
//!
//! Two things drive them. `cargo +nightly fuzz run NAME` searches for new inputs, guided by what
//! each reaches; the test `bytes` changes those in `corpus/NAME` at random, on any toolchain. An
//! input that found a defect stays in `corpus/NAME` as a regression.
#![forbid(unsafe_code)]

mod acpi;
mod bosml;
mod bulk;
mod channel;
mod config;
mod dispatch;
mod frame;
mod gossip;
mod handle;
mod input;
mod ipioe;
mod loader;
mod names;
mod network;
mod node;
mod package;
mod relay;
mod said;
mod store;
mod switch;
mod system_calls;

pub use acpi::acpi;
pub use bosml::{bosml_binary, bosml_schema, bosml_text};
pub use bulk::bulk;
pub use channel::channel;
pub use config::config;
pub use dispatch::dispatch;
pub use frame::frame;
pub use gossip::gossip;
pub use handle::handle;
pub use ipioe::ipioe;
pub use loader::{bootinfo, memory_map};
pub use names::names;
pub use network::network;
pub use package::package;
pub use relay::relay;
pub use said::said;
pub use store::store;
pub use switch::switch;
pub use system_calls::system_calls;

/// Takes any bytes; says whether they were accepted.
pub type Entry = fn(&[u8]) -> bool;

/// Every function of this crate with its name, which is also that of its fuzz target and of its
/// folder in `corpus`.
pub const ENTRIES: [(&str, Entry); 22] = [
    ("config", config),
    ("bootinfo", bootinfo),
    ("acpi", acpi),
    ("memory_map", memory_map),
    ("channel", channel),
    ("handle", handle),
    ("package", package),
    ("said", said),
    ("bosml_text", bosml_text),
    ("bosml_binary", bosml_binary),
    ("bosml_schema", bosml_schema),
    ("dispatch", dispatch),
    ("frame", frame),
    ("ipioe", ipioe),
    ("bulk", bulk),
    ("switch", switch),
    ("gossip", gossip),
    ("names", names),
    ("network", network),
    ("store", store),
    ("relay", relay),
    ("system_calls", system_calls),
];

/// What a fuzz target consists of. Without the fuzzing engine it is a program that feeds the
/// files named on its command line to the function, which replays what the engine has found.
#[macro_export]
macro_rules! target {
    ($entry:path) => {
        #[cfg(fuzzing)]
        $crate::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
            $entry(bytes);
        });

        #[cfg(not(fuzzing))]
        fn main() -> std::io::Result<()> {
            for path in std::env::args_os().skip(1) {
                let accepted = $entry(&std::fs::read(&path)?);
                println!("{}: {}", path.display(), if accepted { "accepted" } else { "refused" });
            }
            Ok(())
        }
    };
}

#[cfg(fuzzing)]
pub use libfuzzer_sys;
