//! What the store has as calls carry it.

use alloc::format;
use alloc::string::ToString;

use nile_abi::Status;
use nile_interfaces::dataset::records::Listed;
use nile_stl::CallError;
use nile_store::{Dataset, Error, State};

/// The entry of a dataset.
pub fn listed(dataset: &Dataset) -> Listed {
    let manifest = &dataset.manifest;
    Listed {
        name: manifest.name.to_string(),
        epoch: manifest.version.epoch.0,
        attempt: manifest.version.attempt.0,
        committed: dataset.state == State::Committed,
        bytes: manifest.bytes(),
        blocks: manifest.blocks().len() as u32,
        here: dataset.blocks_here() as u32,
        copies: manifest.copies(),
        owner: manifest.owner.node.0,
        owner_generation: manifest.owner.generation.0,
    }
}

/// A store's error as a call's; `name` is the dataset's.
pub fn refused(error: Error, name: &str) -> CallError {
    let status = match error {
        Error::NotFound | Error::NoDraft => Status::NotFound,
        Error::Exists | Error::Fenced { .. } => Status::Exists,
        Error::Full { .. } | Error::CatalogueFull { .. } => Status::NoMemory,
        Error::BadBlock | Error::BadCopies | Error::LongNote { .. } | Error::Mismatch { .. } => {
            Status::Invalid
        }
        Error::Disk(_) => Status::Failed,
    };
    CallError::new(status, format!("{name}: {error}"))
}
