//! Everything that reads bytes from outside, each as one function that takes any bytes at all,
//! checks what must hold of the answer, and says whether the bytes were accepted. It panics on a
//! defect and on nothing else.
//!
//! | function         | reads                                                                    |
//! | ---------------- | ------------------------------------------------------------------------ |
//! | [`config()`]     | `nile.toml`, from a file or a boot module                                |
//! | [`bootinfo()`]   | what a loader left: PVH's start info, Multiboot2's tags                  |
//! | [`acpi()`]       | the tables of the firmware                                               |
//! | [`memory_map()`] | claims on memory, in any order, however they overlap                     |
//! | [`channel()`]    | a ring, doorbells and a map of receivers that a hostile peer writes to   |
//! | [`handle()`]     | names that a peer made up: of buffers, of requests                       |
//! | [`said()`]       | what a machine says on its serial line                                   |
//!
//! Two things drive them. `cargo +nightly fuzz run NAME` searches for new inputs, guided by what
//! each reaches; the test `bytes` changes those in `corpus/NAME` at random, on any toolchain. An
//! input that found a defect stays in `corpus/NAME` as a regression.
#![forbid(unsafe_code)]

mod acpi;
mod channel;
mod config;
mod handle;
mod input;
mod loader;
mod said;

pub use acpi::acpi;
pub use channel::channel;
pub use config::config;
pub use handle::handle;
pub use loader::{bootinfo, memory_map};
pub use said::said;

/// Takes any bytes; says whether they were accepted.
pub type Entry = fn(&[u8]) -> bool;

/// Every function of this crate with its name, which is also that of its fuzz target and of its
/// folder in `corpus`.
pub const ENTRIES: [(&str, Entry); 7] = [
    ("config", config),
    ("bootinfo", bootinfo),
    ("acpi", acpi),
    ("memory_map", memory_map),
    ("channel", channel),
    ("handle", handle),
    ("said", said),
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
