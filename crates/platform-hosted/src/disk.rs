//! The disks of a hosted node: files, or block devices, that one node at a time has. Linux copies
//! between them and the node's memory, through a ring of io_uring ([`ring`]), or by plain calls of
//! threads beside the core's ([`plain`]), where it forbids that, and where more is to be done with
//! what is moved, a hash or a cipher: who copies it has it in its caches. What was read stays in
//! Linux's page cache, unless that has no room for all of the disk, and what is written needs it
//! ([`cache`]).

mod cache;
mod file;
mod inline;
mod plain;
mod ring;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;

use libc::iovec;
use nile_abi::CoreId;
use nile_platform::disk::{Completion, Description, DiskError, Inline, Request};
use nile_platform::{Disk, Line};

use crate::node::{Node, log};
use cache::Cache;
use plain::Plain;
use ring::Ring;

pub use file::{DiskFile, Opened};

/// Requests that a disk has room for.
const DEPTH: usize = 64;

/// A step of a request as Linux does it. What it points at is there until it has ended.
#[derive(Clone)]
enum Step {
    /// By a thread of Linux's `beside` the core's, or by that if there is nothing to wait for. If
    /// anything is done with the bytes as they pass, it moves all or fails.
    Read {
        at: u64,
        memory: *const iovec,
        pieces: u32,
        beside: bool,
        inline: Option<Inline>,
    },
    /// Of this many bytes, which go to the device `at_once` or when Linux likes. The page cache is
    /// to `forget` a range in their favour: where it begins, and its bytes. `inline` as above.
    Write {
        at: u64,
        memory: *const iovec,
        pieces: u32,
        bytes: u64,
        at_once: bool,
        forget: Option<(u64, u64)>,
        inline: Option<Inline>,
    },
    Flush,
    /// Makes a hole of these bytes.
    Discard {
        at: u64,
        bytes: u64,
    },
}

/// What is moved in pieces so large is data. Several are read side by side. Nobody writes them
/// again soon: Linux is told to begin with them at once, so that the device has done most when a
/// flush waits for it.
const LARGE: u64 = 256 << 10;

/// What Linux is asked for to make a hole: the file stays as long as it is.
const HOLE: libc::c_int = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;

/// Bytes of a file's sector.
const A_BYTE: u32 = 1;

/// A step that has ended.
struct Ended {
    slot: u32,
    /// What Linux gave: bytes, or a negated error.
    said: i32,
    /// The hash, if it was wanted.
    hash: Option<u64>,
}

/// What calls Linux.
trait Engine {
    /// Begins a step for the request in this slot; there is room for one a slot.
    fn begin(&mut self, slot: u32, step: Step);

    /// Tells Linux of the steps that were begun.
    fn tell(&mut self);

    /// The next step that has ended.
    fn take(&mut self) -> Option<Ended>;

    /// Has the next end wake the core; `false`, and it does not, if there is one already.
    fn arm(&mut self) -> bool;

    /// Waits until a step has ended; one is under way.
    fn wait(&mut self);
}

/// A request that is under way.
struct Slot {
    tag: u32,
    request: Request,
    /// What is left of its memory.
    memory: Vec<iovec>,
    /// Bytes that were moved.
    moved: u64,
    /// What is done with the bytes as they pass, and the hash, if that was wanted.
    inline: Inline,
    hash: Option<u64>,
    /// Whether its step is under way by plain calls.
    is_plain: bool,
}

struct Work {
    /// Whether flushes end at once: [`DiskFile::passing`].
    passing: bool,
    cache: Cache,
    /// One for all steps, and one that can also take hashes; it may be the same.
    ring: Option<Ring>,
    plain: Plain,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    ended: VecDeque<Completion>,
}

/// A disk as the core that drives it has it.
pub(crate) struct HostedDisk {
    description: Description,
    line: Option<Line>,
    work: RefCell<Work>,
}

/// Has a core look around when a disk of its has done something.
type Wake = Arc<dyn Fn() + Send + Sync>;

impl HostedDisk {
    /// The disk for the calling thread, which is `core`; it interrupts by `line`.
    pub fn new(
        node: &'static Node,
        core: CoreId,
        opened: &Opened,
        line: Option<Line>,
    ) -> io::Result<HostedDisk> {
        let wake = waking(node, core, line);
        let disk = HostedDisk::with(opened, opened.by_ring, wake.clone());
        let mut disk = disk.or_else(|error| {
            let name = &opened.description.name;
            log(&core.to_string(), format_args!("{name}: no io_uring: {error}"));
            HostedDisk::with(opened, false, wake)
        })?;
        disk.line = line;
        Ok(disk)
    }

    /// A file that another program has handed to the node, in the same way.
    pub fn of_file(node: &'static Node, core: CoreId, file: &File) -> io::Result<HostedDisk> {
        let (by_ring, passing) = (false, false);
        let description = of_file();
        let opened = Opened { file: file.try_clone()?, description, by_ring, passing };
        HostedDisk::with(&opened, by_ring, waking(node, core, None))
    }

    fn with(opened: &Opened, by_ring: bool, wake: Wake) -> io::Result<HostedDisk> {
        let file: File = opened.file.try_clone()?;
        let plain = Plain::new(file.try_clone()?, wake.clone())?;
        let ring = if by_ring { Some(Ring::new(file, wake)?) } else { None };
        let work = Work {
            passing: opened.passing,
            cache: Cache::new(opened.file.try_clone()?, opened.description.bytes)?,
            ring,
            plain,
            slots: (0..DEPTH).map(|_| None).collect(),
            free: (0..DEPTH as u32).collect(),
            ended: VecDeque::new(),
        };
        let description = opened.description.clone();
        Ok(HostedDisk { description, line: None, work: RefCell::new(work) })
    }
}

/// What a file of another program's is, which has no end.
fn of_file() -> Description {
    Description {
        name: "a file of another program".into(),
        serial: String::new(),
        bytes: i64::MAX as u64,
        sector_bytes: A_BYTE,
    }
}

fn waking(node: &'static Node, core: CoreId, line: Option<Line>) -> Wake {
    Arc::new(move || node.interrupt(core, line))
}

impl Work {
    /// Begins the next step of the request in this slot.
    fn step(&mut self, slot: u32) {
        let Some(it) = &mut self.slots[slot as usize] else { return };
        let (memory, pieces) = (it.memory.as_ptr(), it.memory.len() as u32);
        let bytes = it.request.bytes() - it.moved;
        let is_large = bytes >= LARGE;
        let inline = &it.inline;
        let has_work = is_large && (inline.hashed > 0 || inline.cipher.is_some());
        let inline = has_work.then(|| inline.clone());
        let step = match it.request {
            Request::Read { at, .. } => {
                let at = at + it.moved;
                Step::Read { at, memory, pieces, beside: is_large, inline }
            }
            Request::Write { at, .. } => {
                let at = at + it.moved;
                self.cache.writes(at, bytes);
                let forget = is_large.then(|| self.cache.victim()).flatten();
                let at_once = is_large && !self.passing;
                Step::Write { at, memory, pieces, bytes, at_once, forget, inline }
            }
            Request::Flush if self.passing => return self.finish(slot, Ok(())),
            Request::Flush => Step::Flush,
            Request::Discard { at, bytes } => {
                self.cache.writes(at, bytes);
                Step::Discard { at, bytes }
            }
        };
        match &mut self.ring {
            Some(ring) if !has_work => {
                it.is_plain = false;
                ring.begin(slot, step);
            }
            _ => {
                it.is_plain = true;
                self.plain.begin(slot, step);
            }
        }
    }

    /// Takes what Linux has done.
    fn collect(&mut self) {
        let mut again = false;
        while let Some(Ended { slot: at, said, hash }) = self.take() {
            let Some(slot) = self.slots.get_mut(at as usize).and_then(Option::as_mut) else {
                continue;
            };
            slot.hash = hash;
            match slot.advance(said) {
                None => {
                    self.step(at);
                    again = true;
                }
                Some(result) => self.finish(at, result),
            }
        }
        if again {
            self.tell();
        }
    }

    fn engines(&mut self) -> impl Iterator<Item = &mut dyn Engine> {
        let ring = self.ring.as_mut().map(|ring| ring as &mut dyn Engine);
        ring.into_iter().chain([&mut self.plain as &mut dyn Engine])
    }

    fn tell(&mut self) {
        self.engines().for_each(Engine::tell);
    }

    fn take(&mut self) -> Option<Ended> {
        self.engines().find_map(Engine::take)
    }

    /// The request in this slot has ended.
    fn finish(&mut self, at: u32, result: Result<(), DiskError>) {
        if let Some(slot) = self.slots[at as usize].take() {
            let bytes = slot.request.bytes();
            if let (Request::Read { at, .. }, Ok(()), LARGE..) = (&slot.request, result, bytes) {
                self.cache.has_read(*at, bytes);
            }
            self.ended.push_back(Completion { tag: slot.tag, result, hash: slot.hash });
            self.free.push(at);
        }
    }
}

/// Leaves of the memory its first bytes.
fn cut(memory: &mut Vec<iovec>, bytes: u64) {
    let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
    memory.retain_mut(|piece| {
        piece.iov_len = piece.iov_len.min(left);
        left -= piece.iov_len;
        piece.iov_len > 0
    });
}

impl Slot {
    fn is_discard(&self) -> bool {
        matches!(self.request, Request::Discard { .. })
    }

    /// What a step has come to: `None` if there is more to do.
    fn advance(&mut self, said: i32) -> Option<Result<(), DiskError>> {
        let (at, end) = self.request.range().unwrap_or_default();
        match said {
            _ if said == -libc::EINTR || said == -libc::EAGAIN => return None,
            // Not all file systems have holes.
            _ if said == -libc::EOPNOTSUPP && self.is_discard() => return Some(Ok(())),
            _ if said == -libc::EIO => return Some(Err(DiskError::Media { at, end })),
            _ if [-libc::ENOSPC, -libc::EDQUOT].contains(&said) => {
                return Some(Err(DiskError::NoSpace));
            }
            _ if [-libc::EBADF, -libc::EROFS, -libc::EPERM].contains(&said) => {
                return Some(Err(DiskError::ReadOnly));
            }
            ..0 => return Some(Err(DiskError::Failed)),
            _ => {}
        }
        if self.request.transfer().is_none() {
            return Some(Ok(()));
        }
        // A file that somebody has cut is no disk any more.
        if said == 0 {
            return Some(Err(DiskError::Failed));
        }
        self.moved += said as u64;
        let mut passed = said as usize;
        self.memory.retain_mut(|piece| {
            let part = passed.min(piece.iov_len);
            passed -= part;
            piece.iov_base = piece.iov_base.wrapping_byte_add(part);
            piece.iov_len -= part;
            piece.iov_len > 0
        });
        self.memory.is_empty().then_some(Ok(()))
    }
}

impl Disk for HostedDisk {
    fn description(&self) -> &Description {
        &self.description
    }

    fn line(&self) -> Option<Line> {
        self.line
    }

    fn submit(&self, tag: u32, request: &Request) -> bool {
        self.submit_inline(tag, request, &Inline::default())
    }

    fn ciphers(&self, bytes: u64) -> bool {
        bytes >= LARGE && self.description.sector_bytes != A_BYTE
    }

    fn submit_inline(&self, tag: u32, request: &Request, inline: &Inline) -> bool {
        let work = &mut *self.work.borrow_mut();
        let Some(slot) = work.free.pop() else { return false };
        let pieces = request.transfer().map_or(&[][..], |(_, pieces)| pieces);
        let memory = pieces.iter().map(|piece| iovec {
            iov_base: piece.region.words().as_ptr().cast_mut().cast(),
            iov_len: piece.region.len(),
        });
        let mut memory: Vec<iovec> = memory.collect();
        let mut inline = inline.clone();
        if self.description.sector_bytes == A_BYTE {
            cut(&mut memory, std::mem::take(&mut inline.hashed));
        }
        let request = request.clone();
        work.slots[slot as usize] =
            Some(Slot { tag, request, memory, moved: 0, inline, hash: None, is_plain: false });
        work.step(slot);
        true
    }

    fn tell(&self) {
        let work = &mut *self.work.borrow_mut();
        work.tell();
        work.collect();
    }

    fn is_ready(&self) -> bool {
        let work = &mut *self.work.borrow_mut();
        !work.ended.is_empty() || !work.engines().all(Engine::arm)
    }

    fn complete(&self) -> Option<Completion> {
        self.work.borrow_mut().ended.pop_front()
    }
}

impl Drop for HostedDisk {
    /// Linux uses the memory of requests that are under way: it is to be done with it.
    fn drop(&mut self) {
        let work = self.work.get_mut();
        work.tell();
        work.collect();
        while let Some(slot) = work.slots.iter().flatten().next() {
            match &mut work.ring {
                Some(ring) if !slot.is_plain => ring.wait(),
                _ => work.plain.wait(),
            }
            work.collect();
        }
    }
}
