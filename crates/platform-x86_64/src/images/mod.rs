//! Kernel images that cores run in place of the one that the machine was booted with (NileOS paper,
//! IV: a core "may even get a different kernel image").
//!
//! An image is one that a machine can be booted with. A core has its text, constants, pristine data
//! and statics at the addresses that they are linked at, over frames of its own, in place of the
//! frames that the loader filled. What cores share stays: the way into a space (`space.s`), the
//! shared page, the guard's page. So an image has to agree with the node's on what that is, which
//! its [`ABI`] says.
//!
//! The tables of a core are changed while it is parked (`smp.s`). Its image is on trial for its
//! first ten seconds: a core whose incarnation ends in that time is parked again, by itself or,
//! before it has handlers of its own, by those of the way in. Then the managing core enters what
//! the core had before, as it does for one that hangs before it runs, which it resets.
//!
//! * [`head`]: what an image says about itself.
//! * [`choice`]: which image each core has, in memory that the managing core's next incarnation
//!   finds again.
//! * `manager`: what the managing core does with that.
//! * [`own`]: the managing core's own image.

pub mod choice;
pub mod head;
mod manager;
pub mod own;

use nile_abi::{CoreId, Instant};

use crate::node::Node;
use choice::{Choice, Placed};
use own::Roots;

/// A number for what images have to agree on: see `build.rs`.
pub const ABI: u64 = number(env!("NILE_ABI"));

const fn number(text: &str) -> u64 {
    match u64::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("the build script gives a number"),
    }
}

/// The image that a core runs, by its name; zero: the one that the machine was booted with.
pub fn name(node: &Node, core: CoreId) -> u64 {
    Choice::of(node, core).name()
}

/// What a core runs on with an image, or with the machine's own.
pub fn roots(node: &Node, core: CoreId, image: Option<&Placed>) -> Roots {
    let entry = node.core(core);
    let own = image.filter(|_| core == CoreId::BOOT).and_then(|image| Roots::of(node, image));
    own.unwrap_or(Roots { root: entry.root, slots: entry.slots })
}

/// What a core runs on now.
pub fn present(node: &Node, core: CoreId) -> Roots {
    roots(node, core, Choice::of(node, core).now().as_ref())
}

/// Whether a core's image is on trial.
pub fn is_on_trial(node: &Node, core: CoreId, now: Instant) -> bool {
    Choice::of(node, core).is_on_trial(now)
}
