//! SATA disks behind an AHCI controller, by DMA (AHCI 1.3.1, ATA8-ACS): what the paper has.
//!
//! All disks of a controller are driven by one core. Each port has 32 commands, which the
//! controller takes one after the other; queues in the disks (NCQ) are not used.
//!
//! * [`controller`]: what the boot path finds out.
//! * [`port`]: a port's registers and memory, and how it is brought up.
//! * [`command`]: what a command looks like in memory, and what a disk says of itself.
//! * [`disk`]: what the kernel is given.

pub mod command;
pub mod controller;
pub mod disk;
pub mod port;
#[cfg(test)]
mod tests;

pub use controller::Ahci;
pub use disk::AhciDisk;
