//! Virtio devices on PCI, as far as they are alike (virtio 1.1, 2.6 and 4.1).
//!
//! The boot path finds the devices ([`device`]), takes memory for what they share with their core
//! and says which core drives which; it maps registers and memory on that core alone. From then on
//! nobody but that core touches the device: every incarnation of it resets it and begins anew,
//! with the same memory. The device interrupts that core alone, by a message that names it.
//!
//! * [`device`]: what the boot path finds out.
//! * [`registers`]: a device's registers, as its core sees them.
//! * [`memory`]: the memory that core and device share.
//! * [`ring`]: a queue, and when the device may interrupt.

pub mod device;
pub mod memory;
pub mod registers;
pub mod ring;

pub use device::{Device, Kind, NoDevice};
pub use registers::DeviceRegisters;
