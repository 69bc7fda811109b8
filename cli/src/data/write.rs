//! The bytes of a file into drafts, the same into each. Nodes of this machine read the file by
//! themselves; to others it goes in calls. What is no regular file they read out of a window in
//! memory, in which this command puts some of it at a time. A store that fails loses its draft; the
//! others go on.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use nile_abi::Status;
use nile_bosml::Bytes;
use nile_interfaces::dataset::records::{Draft, InFile};
use nile_interfaces::dataset::{DatasetClient, MOST_BYTES};

use super::flow::Asked;
use super::hand::{Handed, window};
use super::progress::Progress;
use super::stores::{Stores, failed};
use crate::failure::Failure;
use crate::peer::call::CallFailed;
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
    /// Those whose stores have failed, and why.
    pub lost: &'a Lost,
    /// Bytes of each of their blocks.
    pub block_bytes: u32,
    pub progress: &'a mut Progress,
}

/// The stores that do not get a dataset any more which was to be there, and why.
pub struct Lost {
    /// What it is called, and how many were to have it.
    name: String,
    wanted: usize,
    all: RefCell<Vec<(Target, CallFailed)>>,
}

impl Lost {
    /// None of so many has failed.
    pub fn of(name: &str, wanted: usize) -> Lost {
        Lost { name: name.into(), wanted, all: RefCell::default() }
    }

    /// Whether one is lost.
    pub fn has(&self, target: &Target) -> bool {
        self.all.borrow().iter().any(|(it, _)| it == target)
    }

    /// One has failed: fails as well if none is left, or no other would do better.
    pub fn add(&self, target: Target, error: CallFailed) -> Result<(), Failure> {
        let lost = &mut *self.all.borrow_mut();
        let (failure, is_for_all) = match error.status {
            // A later version may have been committed there since this began.
            Status::Exists => (beaten(&self.name), true),
            status => {
                let is_for_all = matches!(status, Status::Invalid | Status::NoMemory);
                (failed(&target, &error), is_for_all)
            }
        };
        if lost.iter().all(|(it, _)| *it != target) {
            lost.push((target, error));
        }
        match is_for_all || lost.len() >= self.wanted {
            true => Err(failure),
            false => Ok(()),
        }
    }

    /// All of them.
    pub fn into_all(self) -> Vec<(Target, CallFailed)> {
        self.all.into_inner()
    }
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
    target: Target,
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
        let Some(window) = self.hand(&memory) else { return self.call(path, file) };
        let block = u64::from(self.block_bytes);
        // It may have become longer meanwhile: what does not fill a block is read until its end.
        let whole = total.unwrap_or(0) / block * block;
        let straight = match whole {
            0 => None,
            _ => self.hand(file),
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

    /// Hands a file to all nodes, if all take it.
    fn hand(&self, file: &File) -> Option<Handed> {
        let nodes = || self.all.iter().map(|(target, _)| target).filter(|it| !self.lost.has(it));
        let handed = Handed::to(&self.stores.session, nodes().map(|it| it.node), file);
        nodes().all(|it| handed.has(it.node)).then_some(handed)
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
        let (drafts, first, lost) = (self.all, bytes.start, self.lost);
        let patience = self.stores.session.patience;
        let starts = bytes.clone().step_by(step as usize);
        let ranges = starts.flat_map(|start| {
            let end = (start + step).min(bytes.end);
            let from = from + (start - first);
            let drafts = drafts.iter().filter(|(target, _)| !lost.has(target));
            drafts.map(move |(target, draft)| Range {
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
            |it| Asked::for_long(it.target, patience),
            ask,
            |range, end| {
                let Range { target, draft, start, end: last, from } = range;
                let taken = match end {
                    Ok(taken) => taken.min(last - start),
                    Err(error) => {
                        look(from, last - start)?;
                        lost.add(target, error)?;
                        return Ok(None);
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
        let mut buffer = vec![0; WINDOW as usize / MOST_BYTES * MOST_BYTES];
        let (drafts, lost) = (self.all, self.lost);
        let patience = self.stores.session.patience;
        loop {
            let bytes = fill(file, &mut buffer).map_err(|error| unreadable(path, &error))?;
            if bytes == 0 {
                return Ok(at);
            }
            let places = (at..).step_by(MOST_BYTES).zip(buffer[..bytes].chunks(MOST_BYTES));
            let to_each = |(at, bytes)| {
                let all = drafts.iter().filter(|(target, _)| !lost.has(target));
                all.map(move |(target, draft)| Piece {
                    target: *target,
                    draft: draft.draft,
                    at,
                    bytes,
                })
            };
            let write = async |store: &DatasetClient, piece: &Piece<'_>| {
                store.write(piece.draft, piece.at, Bytes::from(piece.bytes)).await
            };
            self.stores.flow(
                places.flat_map(to_each),
                |piece| Asked::for_long(piece.target, patience),
                write,
                |piece, end| match end {
                    Ok(_) => Ok(None),
                    Err(error) => lost.add(piece.target, error).map(|()| None),
                },
            )?;
            at += bytes as u64;
            self.progress.show(at);
        }
    }
}

/// That a name has a later version.
pub fn beaten(name: &str) -> Failure {
    Failure::failed(format!("`{name}` was put by somebody else meanwhile"))
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
