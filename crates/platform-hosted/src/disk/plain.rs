//! Steps by plain calls of threads beside the core's, which can take the hash of what they move,
//! and encrypt it.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use rustix::fs::{Advice, fadvise};

use super::inline::Memory;
use super::{Ended, Engine, HOLE, Step, Wake};
use crate::placement;

/// Threads of a disk, at least and at most: one can copy while another waits, and on large machines
/// many workers want to read.
const THREADS: RangeInclusive<usize> = 2..=8;

/// Threads that may be at a write at least, of those: one takes the hash of a piece while the other
/// writes. Of many it is half, since others want to read.
const WRITERS: usize = 2;

/// Threads that do the steps of one disk.
pub struct Plain {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    file: File,
    wake: Wake,
    /// How many threads may be at a write.
    writers: usize,
    /// Whose turn it is to write. Linux would have others wait that write to the same file, and
    /// they would spin.
    turn: Mutex<()>,
    state: Mutex<State>,
    /// There is something to do.
    begun: Condvar,
    /// Something was done.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    to_do: VecDeque<(u32, Step)>,
    done: VecDeque<Ended>,
    /// Whether the next end is to wake the core.
    armed: bool,
    /// How many threads are at a write.
    writers: usize,
    over: bool,
}

impl State {
    /// Takes a step that can be done now: a write, if there is one. So the thread that has ended
    /// one goes on with the next, for which nobody else has to be woken.
    fn next(&mut self, writers: usize) -> Option<(u32, Step)> {
        let is_write = |(_, step): &(u32, Step)| matches!(step, Step::Write { .. });
        let write = self.to_do.iter().position(is_write).filter(|_| self.writers < writers);
        self.writers += usize::from(write.is_some());
        let next = write.or_else(|| self.to_do.iter().position(|step| !is_write(step)));
        next.and_then(|at| self.to_do.remove(at))
    }
}

// SAFETY: what a step points at is there until the step has ended, whichever thread does it, and
// nobody else changes the list meanwhile (`Engine::begin`).
unsafe impl Send for Step {}

impl Plain {
    /// Threads for this file, which have the core look around by `wake`.
    pub fn new(file: File, wake: Wake) -> io::Result<Plain> {
        let (begun, ended) = (Condvar::new(), Condvar::new());
        let (least, most) = THREADS.into_inner();
        let threads = placement::of_process().len().clamp(least, most);
        let (turn, state) = (Mutex::default(), Mutex::default());
        let writers = (threads / 2).max(WRITERS);
        let shared = Arc::new(Shared { file, wake, writers, turn, state, begun, ended });
        let mut plain = Plain { shared, threads: Vec::new() };
        for _ in 0..threads {
            let shared = plain.shared.clone();
            let work = move || {
                placement::unpin();
                shared.work();
            };
            plain.threads.push(Builder::new().name("disk".into()).spawn(work)?);
        }
        Ok(plain)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.state();
        while !state.over {
            let Some((slot, step)) = state.next(self.writers) else {
                state = self.begun.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let ended = self.perform(slot, &step);
            state = self.state();
            state.done.push_back(ended);
            state.writers -= usize::from(matches!(step, Step::Write { .. }));
            let wakes = std::mem::take(&mut state.armed);
            drop(state);
            self.ended.notify_all();
            if wakes {
                (self.wake)();
            }
            state = self.state();
        }
    }

    fn perform(&self, slot: u32, step: &Step) -> Ended {
        if let Step::Write { forget: Some((at, bytes)), .. } = step {
            // It is a hint.
            let _ = fadvise(&self.file, *at, NonZero::new(*bytes), Advice::DontNeed);
        }
        let (said, hash) = match step {
            Step::Read { at, memory, pieces, inline: Some(inline), .. } => {
                // SAFETY: a step's memory is there, and nobody else's, until it has ended.
                said(unsafe { Memory::new(*memory, *pieces) }.read(&self.file, *at, inline))
            }
            Step::Write { at, memory, pieces, inline: Some(inline), .. } => {
                // SAFETY: as above.
                said(unsafe { Memory::new(*memory, *pieces) }.write(*at, inline, |piece, at| {
                    let _turn = self.turn();
                    self.file.write_all_at(piece, at)
                }))
            }
            _ => (self.call(step), None),
        };
        if let (Step::Write { at, bytes, at_once: true, .. }, 0..) = (step, said) {
            let (at, all) = (*at as libc::off_t, *bytes as libc::off_t);
            // SAFETY: the file is open. What comes of it is told by the next flush.
            unsafe {
                let file = self.file.as_raw_fd();
                libc::sync_file_range(file, at, all, libc::SYNC_FILE_RANGE_WRITE);
            }
        }
        Ended { slot, said, hash }
    }

    /// A step as one call.
    fn call(&self, step: &Step) -> i32 {
        let file = self.file.as_raw_fd();
        // SAFETY: the file is open, and what a step points at is there until it has ended.
        let said = unsafe {
            match step {
                Step::Read { at, memory, pieces, .. } => {
                    libc::preadv(file, *memory, *pieces as i32, *at as libc::off_t)
                }
                Step::Write { at, memory, pieces, .. } => {
                    let _turn = self.turn();
                    libc::pwritev(file, *memory, *pieces as i32, *at as libc::off_t)
                }
                Step::Flush => libc::fdatasync(file) as isize,
                Step::Discard { at, bytes } => {
                    let _turn = self.turn();
                    let (at, bytes) = (*at as libc::off_t, *bytes as libc::off_t);
                    libc::fallocate(file, HOLE, at, bytes) as isize
                }
            }
        };
        match i32::try_from(said) {
            Ok(said @ 0..) => said,
            _ => -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

/// What Linux said of a transfer that moves all or fails, and its hash.
fn said(moved: io::Result<(usize, Option<u64>)>) -> (i32, Option<u64>) {
    match moved {
        // A request has at most a few mebibytes.
        Ok((bytes, hash)) => (bytes as i32, hash),
        // Of a file that was cut Linux gives no bytes, and no error.
        Err(error) => (error.raw_os_error().map_or(0, |error| -error), None),
    }
}

impl Engine for Plain {
    fn begin(&mut self, slot: u32, step: Step) {
        self.shared.state().to_do.push_back((slot, step));
        self.shared.begun.notify_one();
    }

    fn tell(&mut self) {}

    fn take(&mut self) -> Option<Ended> {
        self.shared.state().done.pop_front()
    }

    fn arm(&mut self) -> bool {
        let mut state = self.shared.state();
        state.armed = state.done.is_empty();
        state.armed
    }

    fn wait(&mut self) {
        let state = self.shared.state();
        let nothing = |state: &mut State| state.done.is_empty();
        drop(self.shared.ended.wait_while(state, nothing));
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        self.shared.state().over = true;
        self.shared.begun.notify_all();
        for thread in self.threads.drain(..) {
            // It does nothing that could panic.
            let _ = thread.join();
        }
    }
}
