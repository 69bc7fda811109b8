//! The bytes of a file into drafts, the same into each. Nodes of this machine read the file by
//! themselves; to others it goes in calls. What is no regular file they read out of a window in
//! memory, in which this command puts some of it at a time.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use nile_bosml::Bytes;
use nile_interfaces::dataset::records::{Draft, InFile};
use nile_interfaces::dataset::{DatasetClient, MOST_BYTES};

use super::hand::{Handed, window};
use super::progress::Progress;
use super::stores::{PIECES, Stores, failed};
use crate::failure::Failure;
use crate::peer::known::Target;

/// Bytes that a node is asked to take at once, about.
const AT_ONCE: u64 = 2 << 20;

/// Bytes of a window, about.
const WINDOW: u64 = 8 << 20;

/// Where the bytes of a file go.
pub struct Drafts<'a> {
    pub stores: &'a mut Stores,
    /// Each with its store.
    pub all: &'a [(Target, Draft)],
    /// Bytes of each of their blocks.
    pub block_bytes: u32,
    pub progress: &'a mut Progress,
}

/// Bytes of a draft that lie in a file.
struct Range {
    target: Target,
    draft: u64,
    /// Where they begin and end in the dataset, and where they begin in the file.
    start: u64,
    end: u64,
    from: u64,
}

/// Bytes of a draft that go in a call.
struct Piece<'b> {
    draft: u64,
    at: u64,
    bytes: &'b [u8],
}

impl Drafts<'_> {
    /// Writes all of a file, which has `total` bytes if it is a regular one; how many there were.
    pub fn write(
        &mut self,
        path: &Path,
        file: &mut File,
        total: Option<u64>,
    ) -> Result<u64, Failure> {
        let memory = window()?;
        let nodes = || self.all.iter().map(|(target, _)| target.node);
        let Some(window) = Handed::to(self.stores, nodes(), &memory) else {
            return self.call(path, file);
        };
        let block = u64::from(self.block_bytes);
        // It may have become longer meanwhile: what does not fill a block is read until its end.
        let whole = total.unwrap_or(0) / block * block;
        let straight = match whole {
            0 => None,
            _ => Handed::to(self.stores, nodes(), file),
        };
        let mut at = 0;
        if let Some(handed) = straight {
            at = whole;
            self.take(&handed, 0..whole, 0, |at, bytes| is_there(path, file, at, bytes))?;
            file.seek(SeekFrom::Start(at)).map_err(|error| unreadable(path, &error))?;
        }
        let mut buffer = vec![0; (WINDOW / block).max(1) as usize * block as usize];
        loop {
            let bytes = fill(file, &mut buffer).map_err(|error| unreadable(path, &error))?;
            if bytes == 0 {
                return Ok(at);
            }
            memory
                .write_all_at(&buffer[..bytes], 0)
                .map_err(|error| Failure::failed(format!("no memory for what is read: {error}")))?;
            self.take(&window, at..at + bytes as u64, 0, |_, _| Ok(()))?;
            at += bytes as u64;
        }
    }

    /// Has every store take these bytes of its draft out of the file, where they begin at `from`.
    /// What cannot be taken `look` is asked for: it may know why.
    fn take(
        &mut self,
        file: &Handed,
        bytes: std::ops::Range<u64>,
        from: u64,
        look: impl Fn(u64, u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let block = u64::from(self.block_bytes);
        let step = (AT_ONCE / block).max(1) * block;
        let (drafts, first) = (self.all, bytes.start);
        let starts = bytes.clone().step_by(step as usize);
        let ranges = starts.flat_map(|start| {
            let end = (start + step).min(bytes.end);
            let from = from + (start - first);
            drafts.iter().map(move |(target, draft)| Range {
                target: *target,
                draft: draft.draft,
                start,
                end,
                from,
            })
        });
        let ask = async |store: &DatasetClient, it: &Range| {
            let from = InFile { file: file.name(it.target.node), at: it.from };
            store.write_from(it.draft, it.start, (it.end - it.start) as u32, from).await
        };
        let (progress, copies) = (&mut *self.progress, drafts.len() as u64);
        let mut all_taken = 0;
        self.stores.flow(
            ranges,
            |it| it.target,
            ask,
            |range, end| {
                let Range { target, draft, start, end: last, from } = range;
                let taken = match end {
                    Ok(taken) => taken.clamp(0, last - start),
                    Err(error) => {
                        look(from, last - start)?;
                        return Err(failed(&target, &error));
                    }
                };
                all_taken += taken;
                progress.show(first + all_taken / copies);
                let (start, from) = (start + taken, from + taken);
                Ok((start < last).then_some(Range { target, draft, start, end: last, from }))
            },
        )
    }

    /// The same by calls.
    fn call(&mut self, path: &Path, file: &mut File) -> Result<u64, Failure> {
        let mut at = 0_u64;
        let mut buffer = vec![0; PIECES * MOST_BYTES];
        loop {
            let bytes = fill(file, &mut buffer).map_err(|error| unreadable(path, &error))?;
            if bytes == 0 {
                return Ok(at);
            }
            let places = (at..).step_by(MOST_BYTES).zip(buffer[..bytes].chunks(MOST_BYTES));
            let to_each = |(at, bytes)| {
                let piece = move |(target, draft): &(Target, Draft)| {
                    (*target, Piece { draft: draft.draft, at, bytes })
                };
                self.all.iter().map(piece)
            };
            let asked: Vec<(Target, Piece<'_>)> = places.flat_map(to_each).collect();
            let ends = self.stores.ask_each(&asked, async |store, piece| {
                store.write(piece.draft, piece.at, Bytes::from(piece.bytes)).await
            })?;
            for ((target, _), end) in asked.iter().zip(ends) {
                end.map_err(|error| failed(target, &error))?;
            }
            at += bytes as u64;
            self.progress.show(at);
        }
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("cannot read {}: {error}", path.display()))
}

/// Says what is wrong with a part of a file that a node could not read, if this command cannot
/// read it either.
fn is_there(path: &Path, file: &File, at: u64, bytes: u64) -> Result<(), Failure> {
    let mut part = vec![0; bytes as usize];
    file.read_exact_at(&mut part, at).map_err(|error| unreadable(path, &error))
}

/// Reads until the piece is full or the file ends; how many bytes.
fn fill(file: &mut impl Read, piece: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < piece.len() {
        match file.read(&mut piece[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_filled_from_short_reads() {
        struct Slow(u8);
        impl Read for Slow {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                if self.0 == 0 || buffer.is_empty() {
                    return Ok(0);
                }
                self.0 -= 1;
                buffer[0] = self.0;
                Ok(1)
            }
        }
        let mut piece = [9; 4];
        let mut slow = Slow(6);
        assert_eq!(fill(&mut slow, &mut piece).unwrap(), 4);
        assert_eq!(piece, [5, 4, 3, 2]);
        assert_eq!(fill(&mut slow, &mut piece).unwrap(), 2);
        assert_eq!(fill(&mut slow, &mut piece).unwrap(), 0);
    }
}
