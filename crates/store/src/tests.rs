//! Tests of the whole crate.

mod catalogue;
mod crash;
mod damage;
mod disk;
mod format;
mod label;
mod model;
mod notes;
mod packed;
mod store;
mod world;

use alloc::vec::Vec;

use nile_abi::{Generation, NodeId};

use crate::{Action, DiskFailed, Error, Extent, MountError, Name, Owner, Recovery, Store, Ticket};
use disk::Disk;

const NODE: NodeId = NodeId(1);
const OWNER: Owner = Owner::Node { node: NODE, generation: Generation::FIRST };

fn name(name: &str) -> Name {
    Name::new(name).expect("a good name")
}

/// A small extent, whose log is soon full.
fn small(log_units: u64, data_units: u64) -> Extent {
    let (start, log_bytes) = (crate::label::LABEL_BYTES, log_units * crate::UNIT);
    let bytes = 2 * log_bytes + data_units * crate::UNIT;
    Extent { start, bytes, log_bytes, identity: 77 }.checked().expect("it fits")
}

/// A disk with an empty store in `extent`.
fn formatted(extent: &Extent) -> Disk {
    let mut disk = Disk::new(extent.start + extent.bytes);
    let mut log = crate::log::Log::begin(extent, 1, crc32c::crc32c_append);
    disk.step(&log.append(crate::record::Kind::Sealed, &[]));
    disk.flush();
    disk
}

fn mount(disk: &Disk, extent: &Extent) -> Result<Store, MountError> {
    let mut recovery = Recovery::new(NODE, *extent, crc32c::crc32c_append);
    while let Some(range) = recovery.next() {
        recovery.take(&disk.read(range.at, range.bytes as usize));
    }
    recovery.finish()
}

/// Does what the store wants until it wants nothing more.
fn settle(store: &mut Store, disk: &mut Disk) -> Vec<(Ticket, Result<(), Error>)> {
    let mut ended = Vec::new();
    while let Some(action) = store.poll() {
        match action {
            Action::Disk(step) => {
                let result = disk.step(&step);
                store.completed(if result { Ok(()) } else { Err(DiskFailed) });
            }
            Action::Done(ticket, result) => ended.push((ticket, result)),
        }
    }
    ended
}
