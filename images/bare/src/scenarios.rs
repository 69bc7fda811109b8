//! The bare image of the tests: the same kernel, with the scenarios.
#![no_std]
#![no_main]

extern crate alloc;

mod image;
mod runtime;

use alloc::string::{String, ToString};

use image::{Programs, image};
use nile_platform_x86_64::{Core, Image};

/// What the platform calls, found by its name.
#[unsafe(no_mangle)]
static NILE_IMAGE: Image = image::<Scenarios>();

/// A node that is started for a scenario.
struct Scenarios;

impl Programs for Scenarios {
    fn check(program: &str) -> Result<(), String> {
        nile_scenarios::check(program).map_err(|error| error.to_string())
    }

    fn start(core: &nile_kernel::Core<Core>, program: &str) {
        nile_scenarios::start(core, program);
    }
}
