//! What the kernel of a domain may do to the machine (RainForest 4.2). Its processor lets it do
//! everything; so what could reach beyond the domain goes through a gate of the platform, which
//! asks here first, and this says yes or why not. Nothing is done here, and nothing is known here
//! but what a [`Description`] says, which the domain can read and not write.
//!
//! * [`entry`], [`clear`]: changes of page tables. No table ever names memory that is not the
//!   domain's, or that the guard itself stands on.
//! * [`memory`]: memory that the gate is to zero.
//! * [`interrupt`], [`port`], [`register`], [`descriptors`]: what a core tells its interrupt
//!   controller, the machine's devices and its processor.
#![no_std]
#![forbid(unsafe_code)]

mod interrupts;
mod tables;
mod violation;

pub use interrupts::{Cores, descriptors, interrupt, port, register};
pub use tables::{Description, Table, clear, entry, memory};
pub use violation::Violation;

#[cfg(test)]
mod tests;
