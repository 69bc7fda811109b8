//! The bare image of the tests: the same kernel, with the scenarios.
#![no_std]
#![no_main]

use nile_bare::image;
use nile_platform_x86_64::Image;
use nile_scenarios::Scenarios;

/// What the platform calls, found by its name.
#[unsafe(no_mangle)]
static NILE_IMAGE: Image = image::<Scenarios>();
