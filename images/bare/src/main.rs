//! The bare image: the one place that sees both the kernel and the x86_64 platform.
#![no_std]
#![no_main]

extern crate alloc;

mod image;
mod runtime;

use alloc::format;
use alloc::string::String;

use image::{Programs, image};
use nile_platform_x86_64::{Core, Image};

/// What the platform calls, found by its name.
#[unsafe(no_mangle)]
static NILE_IMAGE: Image = image::<Node>();

/// A node with its services.
struct Node;

impl Programs for Node {
    fn check(program: &str) -> Result<(), String> {
        match program {
            "boot" | "serve" => Ok(()),
            other => Err(format!("no program {other}: this image boots a node or lets it serve")),
        }
    }

    fn start(core: &nile_kernel::Core<Core>, program: &str) {
        let node = core.clone();
        core.spawn(async move {
            let (stl, roles) = (node.stl(), node.roles());
            nile_services::deploy_offered(&stl, roles, |name| node.offers(name)).await;
        });
        match program {
            "serve" => core.boot_and_serve(),
            _ => core.boot_and_report(),
        }
    }
}
