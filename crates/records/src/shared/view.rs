//! A table as of one moment.

use alloc::vec::Vec;

use nile_sync::mvrlu::{Member, Refused, Snapshot};

use super::ENTRIES;
use super::bytes::Object;
use crate::operation::Record;

/// All records of a table as they were at one moment, while others write it.
#[derive(Debug)]
pub struct View {
    snapshot: Snapshot,
    buckets: u32,
}

/// Records with their keys, in no order.
pub type Bucket = Vec<(Vec<u8>, Record)>;

/// How far a view was read: the bucket that comes next. The default is the beginning.
pub type Scan = u32;

impl View {
    pub(super) fn new(member: Member, buckets: u32) -> View {
        View { snapshot: member.snapshot(), buckets }
    }

    /// The records of the next bucket, and where it goes on; `None` at the end. A bucket has some
    /// 16 records, in no order.
    pub fn next(&self, from: Scan) -> Option<(Bucket, Scan)> {
        if from >= self.buckets {
            return None;
        }
        // What nonsense in shared words leaves of a bucket is left out.
        Some((self.bucket(from).unwrap_or_default(), from + 1))
    }

    fn bucket(&self, mut bucket: u32) -> Result<Bucket, Refused> {
        let mut records = Vec::new();
        loop {
            let count = self.snapshot.word(bucket, 0)?;
            for entry in 0..ENTRIES.min(count as usize) {
                records.push(self.snapshot.record(self.snapshot.word(bucket, 2 + entry)? as u32)?);
            }
            match self.snapshot.word(bucket, 1)? as u32 {
                0 => return Ok(records),
                next => bucket = next,
            }
        }
    }
}
