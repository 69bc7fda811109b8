//! Steps through a ring of io_uring: little that is in the page cache is copied at once, data by
//! threads of Linux's beside the core's, and the rest when it has come. While the core is about to
//! sleep an eventfd is told of the next end, and a thread that waits for it wakes the core: it
//! plays the part of the device's interrupt.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::{Builder, JoinHandle};

use io_uring::{IoUring, opcode, squeue, types};
use rustix::event::{EventfdFlags, eventfd};

use super::{DEPTH, Ended, Engine, HOLE, Step, Wake};

/// What an entry has instead of a slot if nobody waits for its end.
const NOBODY: u64 = u64::MAX;

/// Whether Linux lets this process use rings.
pub fn is_allowed() -> bool {
    IoUring::new(2).is_ok()
}

/// A ring and the file that it is for.
pub struct Ring {
    ring: IoUring,
    file: File,
    /// Whether there are steps that Linux was not told of.
    untold: bool,
    _waker: Waker,
}

/// The thread that waits for the ring.
struct Waker {
    event: Arc<OwnedFd>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Waker {
    fn start(wake: Wake) -> io::Result<Waker> {
        let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let over = Arc::new(AtomicBool::new(false));
        let (seen, ends) = (event.clone(), over.clone());
        let thread = Builder::new().name("disk".into()).spawn(move || {
            // It fails for no reason but an interruption.
            while !ends.load(Ordering::Acquire) {
                if rustix::io::read(&*seen, &mut [0; 8]).is_ok() {
                    wake();
                }
            }
        })?;
        Ok(Waker { event, over, thread: Some(thread) })
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // The counter is far from full, so that there is room for one more.
        let _ = rustix::io::write(&*self.event, &1u64.to_ne_bytes());
        // It does nothing that could panic.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Ring {
    /// A ring for this file, which has the core look around by `wake`.
    pub fn new(file: File, wake: Wake) -> io::Result<Ring> {
        // Each step is one entry, or up to three.
        let mut ring = IoUring::new(3 * DEPTH as u32)?;
        let waker = Waker::start(wake)?;
        ring.submitter().register_eventfd(waker.event.as_raw_fd())?;
        ring.completion().disable_eventfd();
        Ok(Ring { ring, file, untold: false, _waker: waker })
    }

    fn entry(&self, slot: u32, step: &Step) -> squeue::Entry {
        let file = types::Fd(self.file.as_raw_fd());
        let entry = match step {
            &Step::Read { at, memory, pieces, beside, .. } => {
                let flags = if beside { squeue::Flags::ASYNC } else { squeue::Flags::empty() };
                opcode::Readv::new(file, memory, pieces).offset(at).build().flags(flags)
            }
            &Step::Write { at, memory, pieces, .. } => {
                opcode::Writev::new(file, memory, pieces).offset(at).build()
            }
            Step::Flush => opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build(),
            &Step::Discard { at, bytes } => {
                opcode::Fallocate::new(file, bytes).offset(at).mode(HOLE).build()
            }
        };
        entry.user_data(slot.into())
    }

    /// What follows a write: the pages go to the device from then on.
    fn write_out(&self, at: u64, bytes: u64) -> squeue::Entry {
        let file = types::Fd(self.file.as_raw_fd());
        let all = u32::try_from(bytes).unwrap_or(u32::MAX);
        opcode::SyncFileRange::new(file, all)
            .offset(at)
            .flags(libc::SYNC_FILE_RANGE_WRITE)
            .build()
            .user_data(NOBODY)
    }

    /// What comes before a write that needs room: Linux does not keep these pages.
    fn forget(&self, at: u64, bytes: u64) -> squeue::Entry {
        let file = types::Fd(self.file.as_raw_fd());
        let all = u32::try_from(bytes).unwrap_or(u32::MAX);
        opcode::Fadvise::new(file, all as _, libc::POSIX_FADV_DONTNEED)
            .offset(at)
            .build()
            .user_data(NOBODY)
    }
}

impl Engine for Ring {
    fn begin(&mut self, slot: u32, step: Step) {
        let entry = self.entry(slot, &step);
        let (before, entry, then) = match step {
            Step::Write { at, bytes, at_once, forget, .. } => {
                let before = forget.map(|(at, bytes)| self.forget(at, bytes));
                let flags = if at_once { squeue::Flags::IO_LINK } else { squeue::Flags::empty() };
                let then = at_once.then(|| self.write_out(at, bytes));
                (before, entry.flags(flags), then)
            }
            _ => (None, entry, None),
        };
        for entry in [before, Some(entry), then].into_iter().flatten() {
            // SAFETY: the memory of a step stays until it has ended, which is this trait's
            // contract; the file stays as long as the ring.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            debug_assert!(pushed.is_ok(), "there is room for three entries a slot");
        }
        self.untold = true;
    }

    fn tell(&mut self) {
        if self.untold {
            // Linux has no memory for it just now, or was interrupted: it is told again.
            self.untold = self.ring.submit().is_err();
        }
    }

    fn take(&mut self) -> Option<Ended> {
        let mut completion = self.ring.completion();
        completion.disable_eventfd();
        completion.find(|entry| entry.user_data() != NOBODY).map(|entry| Ended {
            slot: entry.user_data() as u32,
            said: entry.result(),
            hash: None,
        })
    }

    fn arm(&mut self) -> bool {
        if self.untold {
            return false;
        }
        let mut completion = self.ring.completion();
        if !completion.is_empty() {
            return false;
        }
        completion.enable_eventfd();
        // Either Linux sees this, or what it has ended before is seen now.
        fence(Ordering::SeqCst);
        completion.sync();
        let armed = completion.is_empty();
        if !armed {
            completion.disable_eventfd();
        }
        armed
    }

    fn wait(&mut self) {
        // Whatever ends it, the caller looks.
        let _ = self.ring.submit_and_wait(1);
    }
}
