//! The records of a split. A dataset is records from its beginning to its end; blocks and splits
//! may cut them. A record belongs to the split in which it begins.

use alloc::format;
use alloc::vec::Vec;

use nile_sort::{Layout, Tera};
use nile_tasks::{Block, Halt, Outcome, Task};

/// Bytes of a record.
pub const LENGTH: usize = Tera::LENGTH;

/// The benchmark's records on a node's cores, which can be asked to bring what is read soon.
pub struct Records;

impl Layout for Records {
    const LENGTH: usize = Tera::LENGTH;
    const KEY_AT: usize = Tera::KEY_AT;
    const KEY_LENGTH: usize = Tera::KEY_LENGTH;

    #[inline(always)]
    fn prefetch(byte: &u8) {
        nile_user::prefetch(byte);
    }
}

/// How many bytes at a block's beginning belong to a record that begins before it.
pub fn skipped(at: u64) -> usize {
    (LENGTH - (at % LENGTH as u64) as usize) % LENGTH
}

/// Bytes of the whole records that fit a buffer of so many. It fails if there are none.
pub fn whole(buffer: usize) -> Outcome<usize> {
    match buffer / LENGTH * LENGTH {
        0 => Err(Halt::space(format!("a buffer of {buffer} bytes has no room for a record"))),
        bytes => Ok(bytes),
    }
}

/// Calls `take` with all blocks of the split, one after the other.
pub fn blocks<'s>(task: &Task<'s>, mut take: impl FnMut(Block<'s>) -> Outcome) -> Outcome {
    for index in 0.. {
        let block = task.block(index)?;
        let more = block.more;
        take(block)?;
        task.pause()?;
        if !more {
            break;
        }
    }
    Ok(())
}

/// The rest of a record of which `begun` is the beginning, at the end of the task's split.
pub fn rest(task: &Task<'_>, begun: usize) -> Outcome<Vec<u8>> {
    let mut rest = Vec::new();
    while begun + rest.len() < LENGTH {
        let missing = (LENGTH - begun - rest.len()) as u32;
        let bytes = task.beyond(rest.len() as u64, missing)?;
        if bytes.is_empty() {
            return Err(Halt::code(format!(
                "the input ends with {} bytes of a record: it is no whole number of records of \
                 {LENGTH} bytes",
                begun + rest.len()
            )));
        }
        rest.extend_from_slice(&bytes);
    }
    Ok(rest)
}
