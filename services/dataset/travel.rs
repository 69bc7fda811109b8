//! What the store has as calls carry it.

use alloc::format;
use alloc::string::ToString;

use nile_abi::Status;
use nile_interfaces::dataset::records::{Decider, Listed};
use nile_stl::CallError;
use nile_store::{Dataset, Error, Owner, State};

/// Who decides on a dataset; none is the node that has it.
pub fn owner(decider: Decider) -> Option<Owner> {
    Some(match decider {
        Decider::Here => return None,
        Decider::Node { node, generation } => Owner::Node { node, generation },
        Decider::Job { keepers } => Owner::Job { keepers },
        Decider::Name => Owner::Name,
    })
}

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
        owner: match manifest.owner {
            Owner::Node { node, generation } => Decider::Node { node, generation },
            Owner::Job { keepers } => Decider::Job { keepers },
            Owner::Name => Decider::Name,
        },
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
