//! The lines of a split. Blocks and splits end anywhere: a line belongs to the split in which it
//! begins. One that begins exactly where a split does belongs to the split before, because that
//! one cannot know that its last line has ended there; the first split of a dataset has all.

use alloc::format;
use alloc::vec::Vec;

use crate::outcome::{Halt, Outcome};
use crate::task::Task;

/// The most bytes of a line: it is in the package's heap.
const MOST_LINE: usize = 16 << 20;

/// Bytes that are asked for behind a split at a time.
const STEP: u32 = 4 << 10;

/// Calls `take` with each line of the task's split, without its end.
pub(crate) fn lines(task: &Task<'_>, mut take: impl FnMut(&[u8]) -> Outcome) -> Outcome {
    let mut line = Line::default();
    for index in 0.. {
        let block = task.block(index)?;
        if index == 0 && block.at > 0 {
            line.is_another = true;
        }
        line.read(&block.buffer[..block.bytes], &mut take)?;
        task.breathe()?;
        if !block.more {
            break;
        }
    }
    if line.is_another {
        // Not one line begins here but that of the split before.
        return Ok(());
    }
    // What follows up to the end of the line that has begun, or begins just here.
    let mut beyond = 0;
    loop {
        let bytes = task.beyond(beyond, STEP)?;
        beyond += bytes.len() as u64;
        match memchr::memchr(b'\n', &bytes) {
            Some(end) => {
                line.add(&bytes[..end])?;
                return take(&line.begun);
            }
            None if !bytes.is_empty() => line.add(&bytes)?,
            None if line.begun.is_empty() => return Ok(()),
            None => return take(&line.begun),
        }
    }
}

/// The line that has begun in the blocks so far.
#[derive(Default)]
struct Line {
    begun: Vec<u8>,
    /// It is another split's.
    is_another: bool,
}

impl Line {
    fn read(&mut self, bytes: &[u8], take: &mut impl FnMut(&[u8]) -> Outcome) -> Outcome {
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', bytes) {
            let line = &bytes[start..end];
            start = end + 1;
            if core::mem::take(&mut self.is_another) {
                continue;
            }
            if self.begun.is_empty() {
                take(line)?;
            } else {
                self.add(line)?;
                take(&self.begun)?;
                self.begun.clear();
            }
        }
        if self.is_another { Ok(()) } else { self.add(&bytes[start..]) }
    }

    fn add(&mut self, bytes: &[u8]) -> Outcome {
        if bytes.len() > MOST_LINE - self.begun.len() {
            let text = format!("the input has a line of more than {MOST_LINE} bytes");
            return Err(Halt::code(text));
        }
        self.begun.extend_from_slice(bytes);
        Ok(())
    }
}
