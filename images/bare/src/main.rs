//! The bare image: a node with its services, and nothing else.
#![no_std]
#![no_main]

use nile_bare::image;
use nile_node::Node;
use nile_platform_x86_64::Image;

/// What the platform calls, found by its name.
#[unsafe(no_mangle)]
static NILE_IMAGE: Image = image::<Node>();
