//! Packages: position-independent programs, checked and laid out, and how they reach a node.
//!
//! A *package* is an ELF file for x86_64 that runs at whatever address it is put: a static PIE
//! whose only relocations are relative ones, without thread-local storage, interpreter or
//! libraries. Its *manifest*, a note in the file, gives its name and the service types that it may
//! publish. Nothing here trusts a file: any bytes give a plan that a loader can follow blindly, or
//! an error that says what is wrong and where.
//!
//! In reading order:
//!
//! * [`layout`]: a file as segments, entry and relocations.
//! * [`manifest`]: who the package is and what it may publish.
//! * [`error`]: what can be wrong with a file.
//! * [`store`]: the packages that a node was started with, by name.
//! * [`archive`]: the boot module that carries them.
//! * [`stub`]: a file with a manifest and no program, for simulations to ship.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod archive;
pub mod error;
pub mod layout;
pub mod manifest;
pub mod store;
pub mod stub;
#[cfg(test)]
mod tests;

pub use archive::{ArchiveError, BootModule};
pub use error::{ManifestError, PackageError};
pub use layout::{MAX_HEADERS, MAX_IMAGE_BYTES, MAX_SEGMENTS, Package, Relocation, Segment};
pub use manifest::{MAX_KEEPS, MAX_PUBLISHED, Manifest};
pub use store::{Image, Store};
