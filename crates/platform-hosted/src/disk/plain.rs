//! Steps by plain calls, where Linux forbids rings: threads beside the core's wait for them.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use super::{Engine, Step, Wake};

/// Threads of a disk: one can copy while another waits.
const THREADS: usize = 2;

/// Threads that do the steps of one disk.
pub struct Plain {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    file: File,
    wake: Wake,
    state: Mutex<State>,
    /// There is something to do.
    begun: Condvar,
    /// Something was done.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    to_do: VecDeque<(u32, Step)>,
    done: VecDeque<(u32, i32)>,
    /// Whether the next end is to wake the core.
    armed: bool,
    over: bool,
}

// SAFETY: what a step points at is there until the step has ended, whichever thread does it, and
// nobody else changes the list meanwhile (`Engine::begin`).
unsafe impl Send for Step {}

impl Plain {
    /// Threads for this file, which have the core look around by `wake`.
    pub fn new(file: File, wake: Wake) -> io::Result<Plain> {
        let (begun, ended) = (Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { file, wake, state: Mutex::default(), begun, ended });
        let mut plain = Plain { shared, threads: Vec::new() };
        for _ in 0..THREADS {
            let shared = plain.shared.clone();
            plain.threads.push(Builder::new().name("disk".into()).spawn(move || shared.work())?);
        }
        Ok(plain)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.state();
        while !state.over {
            let Some((slot, step)) = state.to_do.pop_front() else {
                state = self.begun.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(state);
            let said = self.perform(step);
            state = self.state();
            state.done.push_back((slot, said));
            let wakes = std::mem::take(&mut state.armed);
            drop(state);
            self.ended.notify_all();
            if wakes {
                (self.wake)();
            }
            state = self.state();
        }
    }

    fn perform(&self, step: Step) -> i32 {
        let file = self.file.as_raw_fd();
        // SAFETY: the file is open, and what a step points at is there until it has ended.
        let said = unsafe {
            match step {
                Step::Read { at, memory, pieces, .. } => {
                    libc::preadv(file, memory, pieces as i32, at as libc::off_t)
                }
                Step::Write { at, memory, pieces, bytes, at_once, forget } => {
                    if let Some((at, bytes)) = forget {
                        let (at, all) = (at as libc::off_t, bytes as libc::off_t);
                        libc::posix_fadvise(file, at, all, libc::POSIX_FADV_DONTNEED);
                    }
                    let said = libc::pwritev(file, memory, pieces as i32, at as libc::off_t);
                    // Not after a failure, whose reason is still to be read.
                    if at_once && said >= 0 {
                        // What comes of it is told by the next flush.
                        let (at, all) = (at as libc::off_t, bytes as libc::off_t);
                        libc::sync_file_range(file, at, all, libc::SYNC_FILE_RANGE_WRITE);
                    }
                    said
                }
                Step::Flush => libc::fdatasync(file) as isize,
            }
        };
        match i32::try_from(said) {
            Ok(said @ 0..) => said,
            _ => -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

impl Engine for Plain {
    fn begin(&mut self, slot: u32, step: Step) {
        self.shared.state().to_do.push_back((slot, step));
        self.shared.begun.notify_one();
    }

    fn tell(&mut self) {}

    fn take(&mut self) -> Option<(u32, i32)> {
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
