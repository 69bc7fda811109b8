//! The cluster's datasets as this node's services give them.

use alloc::string::String;
use alloc::vec::Vec;

use nile_interfaces::dataset::DatasetClient;
use nile_interfaces::dataset::MOST_BYTES;
use nile_interfaces::name::NameClient;
use nile_interfaces::name::records::{Meaning, NameAnswer, NamePage, NamedEntry};
use nile_stl::{CallError, CallResult, Stl};

use crate::answer::Piece;

/// What a name means.
pub enum Named {
    /// A dataset of so many bytes.
    Dataset {
        /// Its version.
        epoch: u64,
        /// Its version.
        attempt: u32,
        /// All its bytes.
        bytes: u64,
    },
    /// An output, in so many parts.
    Parts(u32),
    /// Nothing, or nothing yet.
    Nothing,
}

/// The services.
pub struct Data {
    stl: Stl,
}

impl Data {
    /// The datasets that `stl` leads to.
    pub fn new(stl: &Stl) -> Data {
        Data { stl: stl.clone() }
    }

    /// The way to the services.
    pub fn stl(&self) -> &Stl {
        &self.stl
    }

    /// What a name means. An error if that is not to be had now.
    pub async fn look(&self, name: &str) -> CallResult<Named> {
        let names = NameClient::find(&self.stl).await?;
        let entry = match names.look(name).await? {
            NameAnswer::Done(entry) | NameAnswer::Refused(entry) => entry,
            NameAnswer::NoMajority(_) | NameAnswer::Unknown(_) => return Err(no_majority()),
        };
        Ok(match entry.meaning {
            Meaning::Dataset { epoch, attempt, facts } => {
                Named::Dataset { epoch, attempt, bytes: facts.bytes }
            }
            Meaning::Output { parts, .. } => Named::Parts(parts),
            Meaning::Absent | Meaning::Making { .. } => Named::Nothing,
        })
    }

    /// The names behind `after`, and the last that was looked at if there are more.
    pub async fn list(&self, after: &str) -> CallResult<(Vec<NamedEntry>, Option<String>)> {
        match NameClient::find(&self.stl).await?.list(after).await? {
            NamePage::Names { names, more_behind } => Ok((names, more_behind)),
            NamePage::NoMajority(_) => Err(no_majority()),
        }
    }

    /// Bytes of a piece from its `at`th on, as many as one call carries, at least one.
    pub async fn read(&self, piece: &Piece, at: u64) -> CallResult<Vec<u8>> {
        let datasets = DatasetClient::find(&self.stl).await?;
        let left = usize::try_from(piece.bytes - at).unwrap_or(usize::MAX);
        let length = left.min(MOST_BYTES) as u32;
        let Piece { name, epoch, attempt, first, .. } = piece;
        let read = datasets.read_anywhere(name, *epoch, *attempt, first + at, length).await?;
        let bytes = read.bytes.0;
        match bytes.len() {
            0 => Err(CallError::new(nile_abi::Status::Failed, "it ends too early")),
            found if found > length as usize => {
                Err(CallError::new(nile_abi::Status::Failed, "more than was asked for"))
            }
            _ => Ok(bytes),
        }
    }
}

fn no_majority() -> CallError {
    CallError::new(nile_abi::Status::Timeout, "most keepers of names do not answer")
}
