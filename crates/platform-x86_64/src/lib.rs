//! The x86_64 machine: from the loader's first instruction to a kernel loop on every core, and
//! all that the kernel asks of a machine from then on.
//!
//! # Boot order
//!
//! The *boot path* is what runs on the first core before any kernel loop. It sees memory where it
//! is, builds everything, and leaves nothing behind but what it built.
//!
//! 1. [`entry`]: 32-bit entry by PVH or Multiboot2; the pristine private data is put aside; boot
//!    tables; long mode.
//! 2. [`start`]: the boot order from here on, one line a step:
//!    what the loader says ([`bootinfo`]), cores and controllers ([`acpi`]), interrupts silenced
//!    ([`apic`]), time measured ([`clock`]), roles from the configuration.
//! 3. [`assemble`]: takes memory and builds in it the [`node`], every core's [`space`] with the
//!    whole pool of last-level tables, and the records of all other frames.
//! 4. [`smp`]: the other cores are started; each enters its own space by itself.
//! 5. The first core enters its own space, too: the boot path has ended.
//! 6. Every core: segments, interrupt table, packages' way in, heap, interrupt controller, then
//!    the kernel's loop (`core_start` in [`start`]).
//!
//! Step 6 is also how a core begins again after a fault or a panic ([`fault`], [`restart`]): it
//! enters its space anew, with pristine data and an empty stack. So a core's first incarnation and
//! its tenth begin alike, and core 0 is a core like the others, but for what it manages.
//!
//! # Memory
//!
//! [`layout`] has the map of virtual addresses, [`space`] the table of who has what mapped how.
//! Every writable static is private: each core has its own copy at the same address ([`private`]).
//! What all cores must share without being given it is in the section `.shared`: the lock of the
//! console.
//!
//! # Modules, in reading order
//!
//! * The way up: [`entry`], [`bootinfo`], [`start`], [`assemble`], [`smp`].
//! * Parts of the machine that are nodes of their own: [`domain`]; what keeps each to its part:
//!   [`guard`].
//! * A core's own: [`layout`], [`space`], [`node`], [`heap`], [`private`], [`local`].
//! * The end of an incarnation: [`fault`], [`restart`], [`ledger`]; another image for the next one:
//!   [`images`].
//! * What the kernel sees: [`machine`].
//! * Devices of the board: [`acpi`], [`apic`], [`clock`], [`timer`], [`calendar`], [`serial`],
//!   [`power`]; [`cpu`] for what the processor can do, [`entropy`] and
//!   [`checksum`].
//! * Devices on its buses: [`pci`], [`network`]; [`iommu`], which memory some of them reach.
//! * Interrupts: [`gdt`], [`idt`], [`interrupts`], [`vector`]; `lines`, those of devices.
//! * Packages: [`user`].
//! * Where the machine itself is touched: [`privileged`], [`tables`], [`mmio`]. Privileged
//!   instructions stand in the first of them, stores to page tables in the second, and nowhere
//!   else but on the assembly paths into long mode, into a core's space, and back from interrupts
//!   and into user mode.
//!
//! An image binds a kernel to this platform with one static, [`Image`], and brings what a
//! freestanding binary needs; the linker script that it needs is described in [`layout`].
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod acpi;
pub mod apic;
pub mod assemble;
mod attacks;
pub mod bootinfo;
pub mod calendar;
pub mod checksum;
pub mod clock;
pub mod cpu;
pub mod devices;
pub mod disk;
pub mod domain;
pub mod entropy;
pub mod entry;
pub mod fault;
pub mod gdt;
pub mod guard;
pub mod heap;
pub mod idt;
pub mod images;
pub mod interrupts;
pub mod iommu;
pub mod layout;
pub mod ledger;
mod lines;
pub mod local;
pub mod machine;
pub mod mmio;
pub mod network;
pub mod node;
pub mod pci;
pub mod power;
pub mod private;
pub mod privileged;
pub mod restart;
mod samples;
pub mod serial;
pub mod smp;
pub mod space;
pub mod start;
pub mod tables;
pub mod timer;
pub mod user;
pub mod vector;
pub mod virtio;

pub use machine::Core;
pub use start::{Image, Keeps, Plan};
