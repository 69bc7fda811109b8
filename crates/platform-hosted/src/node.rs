//! The node as one of its processes sees it: the same value in the process of the system cores,
//! which maps all memory, and in each worker process, which maps the board and what it is
//! granted. A process belongs to one node for its whole life.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use nile_abi::{CoreId, Role};
use nile_platform::user::Access;
use nile_platform::{AttachError, Board, Cause, Line, NodePhase, Outcome};
use nile_ring::{LINE_BYTES, Region, Signal};
use rustix::process::{Pid, kill_process};
use rustix::thread::futex;

use crate::arena::Arena;
use crate::boot::BootRecord;
use crate::disk::Opened;
use crate::handed::Handed;
use crate::images::Images;
use crate::layout::PACKAGE_BYTES;
use crate::machine::is_isolated;
use crate::network::Link;
use crate::samples::Samples;
use crate::shared::SharedMemory;
use crate::signals;

static NODE: OnceLock<Node> = OnceLock::new();

/// A process's view of its node.
pub(crate) struct Node {
    pub record: BootRecord,
    pub arena: Arena,
    pub board: Board,
    /// The node's network interfaces, which its own process has.
    pub links: Vec<Link>,
    /// Its disks, which its own process has, too.
    pub disks: Vec<Opened>,
    /// Files that other programs have handed to it, if it takes any; its own process alone does.
    pub handed: Option<Arc<Handed>>,
    /// What its workers run in place of its own program; of use in the node's own process alone.
    images: Mutex<Images>,
    /// Which pages the pool has, for the boot report; of use in the node's own process alone.
    pub pool_pages: Option<String>,
    /// Where samples of its cores go, if they are taken.
    pub samples: Option<Samples>,
    /// A bit for each line of a device that is masked; of use in the node's own process alone.
    masked: AtomicU32,
    bells: Region,
    /// Which process runs a package, a page for each core.
    packages: Region,
    /// How the node ends, once its manager has said so. Of use in the node's own process alone.
    outcome: OnceLock<Outcome>,
}

impl Node {
    /// A new node, its memory zero and all of it mapped here.
    pub fn create(
        mut record: BootRecord,
        links: Vec<Link>,
        disks: Vec<Opened>,
        samples: Option<Samples>,
        shared: Option<SharedMemory>,
    ) -> io::Result<Node> {
        let mut arena = Arena::create(record.layout.all())?;
        arena.map(record.layout.all(), Access::Write).map_err(io_error)?;
        let pool = record.layout.buffers();
        let pool_pages = (pool.bytes > 0).then(|| match arena.use_large_pages(pool) {
            Ok(()) => "pool: 2 MiB pages".into(),
            Err(why) => format!("pool: pages like the arena's ({why})"),
        });
        record.pool_file = arena.large_file();
        record.shared_file = shared.as_ref().map(SharedMemory::number);
        shared.into_iter().for_each(|shared| arena.share(shared));
        record.samples = samples.as_ref().map(Samples::number);
        record.write(arena.file())?;
        let node = Node::assemble(record, arena, links, disks)?;
        Ok(Node { pool_pages, samples, ..node })
    }

    /// The node that started this process as the worker `core`. Mapped are its control rings,
    /// the node's pool and the board, with just the rights that the board's table gives a worker.
    pub fn join(file: File, core: CoreId) -> io::Result<Node> {
        let record = BootRecord::read(&file)?;
        let layout = record.layout;
        if core.index() >= layout.cores {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut arena = Arena::inherited(file, layout.all())?;
        if let Some(number) = record.pool_file {
            arena.inherit_large(layout.buffers(), number)?;
        }
        if let Some(number) = record.shared_file {
            arena.share(SharedMemory::inherit(number)?);
        }
        for (range, access) in [
            (layout.bells(), Access::Write),
            (layout.receivers(), Access::Read),
            (layout.records(), Access::Read),
            (layout.record(core), Access::Write),
            (layout.node(), Access::Read),
            (layout.packages(), Access::Read),
            (layout.package(core), Access::Write),
            (layout.control(core), Access::Write),
        ] {
            arena.map(range, access).map_err(io_error)?;
        }
        if layout.pool > 0 {
            arena.map(layout.buffers(), Access::Write).map_err(io_error)?;
        }
        let samples = record.samples.map(Samples::inherit).transpose()?;
        let node = Node::assemble(record, arena, Vec::new(), Vec::new())?;
        Ok(Node { samples, ..node })
    }

    fn assemble(
        record: BootRecord,
        arena: Arena,
        links: Vec<Link>,
        disks: Vec<Opened>,
    ) -> io::Result<Node> {
        let layout = record.layout;
        let region = |range| arena.region(range).map_err(io_error);
        let bells = region(layout.bells())?;
        let board = Board::attach(
            bells.clone(),
            region(layout.receivers())?,
            region(layout.records())?,
            region(layout.node())?,
            layout.cores,
        )
        .ok_or(io::ErrorKind::InvalidData)?;
        let packages = region(layout.packages())?;
        let (pool_pages, samples, outcome) = (None, None, OnceLock::new());
        Ok(Node {
            record,
            arena,
            board,
            links,
            disks,
            handed: None,
            images: Mutex::default(),
            pool_pages,
            samples,
            masked: AtomicU32::new(0),
            bells,
            packages,
            outcome,
        })
    }

    /// What workers run in place of the node's own program.
    pub fn images(&self) -> MutexGuard<'_, Images> {
        self.images.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes this the node of the process. `None` if the process belongs to one already.
    pub fn install(self) -> Option<&'static Node> {
        NODE.set(self).ok()?;
        NODE.get()
    }

    /// The node that the process belongs to. May be called in a signal handler.
    pub fn get() -> Option<&'static Node> {
        NODE.get()
    }

    /// Makes `core` look around, wherever it sleeps.
    pub fn wake(&self, core: CoreId) {
        self.board.notifier().doorbells().wake(core, self);
    }

    /// A device interrupts its core by its line, if it has one, unless that is masked. May be
    /// called in a signal handler.
    pub fn interrupt(&self, core: CoreId, line: Option<Line>) {
        if line.is_none_or(|line| !self.is_masked(line)) {
            self.count_device(core, line);
            self.wake(core);
        }
    }

    /// Counts an interrupt by a device.
    pub fn count_device(&self, core: CoreId, line: Option<Line>) {
        let record = self.board.record(core);
        record.count_interrupt(Cause::Device);
        line.into_iter().for_each(|line| record.count_line(line));
    }

    /// Whether a line is masked.
    pub fn is_masked(&self, line: Line) -> bool {
        self.masked.load(Ordering::Acquire) & 1 << line.index() != 0
    }

    /// Masks a line, or opens it.
    pub fn mask(&self, line: Line, is_masked: bool) {
        let bit = 1 << line.index();
        match is_masked {
            true => self.masked.fetch_or(bit, Ordering::AcqRel),
            false => self.masked.fetch_and(!bit, Ordering::AcqRel),
        };
    }

    /// Says which process runs a package on `core`; zero if none does. The core itself says so,
    /// or whoever looks after it once it has ended.
    pub fn set_package_process(&self, core: CoreId, process: u32) {
        self.package_word(core).store(process.into(), Ordering::SeqCst);
    }

    /// The process that runs a package on `core`.
    fn package_process(&self, core: CoreId) -> Option<Pid> {
        let number = self.package_word(core).load(Ordering::SeqCst);
        i32::try_from(number).ok().and_then(Pid::from_raw)
    }

    /// Ends a worker that does not return from a policy. A core that is a thread goes on: Linux
    /// ends none alone.
    fn end_process(&self, core: CoreId) {
        let record = self.board.record(core);
        let process = i32::try_from(record.hardware_id()).ok().and_then(Pid::from_raw);
        if let Some(process) = process.filter(|_| is_isolated(record.roles())) {
            let _ = kill_process(process, rustix::process::Signal::KILL);
        }
    }

    fn package_word(&self, core: CoreId) -> &AtomicU64 {
        &self.packages.words()[core.index() * (PACKAGE_BYTES / size_of::<u64>())]
    }

    /// Makes every management core but `core` look around: something is new in its record.
    pub fn wake_managers_of(&self, core: CoreId) {
        for manager in self.board.core_ids().filter(|other| *other != core) {
            if self.board.record(manager).roles().contains(Role::Management) {
                self.wake(manager);
            }
        }
    }

    /// Ends every core's loop; the node's own process only.
    pub fn stop(&self) {
        self.board.set_phase(NodePhase::Stopping);
        for core in self.board.core_ids() {
            self.wake(core);
        }
        signals::tell_main_thread();
    }

    /// Ends the node with `outcome`, unless it is ending with another already.
    pub fn finish(&self, outcome: Outcome) {
        // A second outcome comes from a core that ends because of the first.
        let _ = self.outcome.set(outcome);
        self.stop();
    }

    /// How the node ends, if its manager has said so.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome.get().copied()
    }
}

impl Signal for Node {
    /// Wakes the core's futex: the state in its doorbell's line, which ring has changed already.
    /// A core that has a package may be running it: it gets a signal of Linux's, which ends the
    /// wait for a futex, too.
    fn signal(&self, core: CoreId) {
        if core.index() >= self.board.cores() {
            return;
        }
        let record = self.board.record(core);
        if self.board.record(CoreId::BOOT).is_endless(core, record.generation()) {
            self.end_process(core);
        }
        if let Some(process) = self.package_process(core) {
            // It fails if the process has just ended; then nobody waits.
            let _ = kill_process(process, rustix::process::Signal::URG);
            return;
        }
        let line = core.index() * LINE_BYTES;
        let Some(bell) = self.bells.slice(line, LINE_BYTES) else { return };
        let low_half = if cfg!(target_endian = "little") { 0 } else { 1 };
        let state = &raw const bell.words()[0];
        // SAFETY: the half lies inside the live 8-byte word, is aligned for 4 bytes, and the word
        // is an atomic, which may be shared and changed at any time.
        let state = unsafe { &*state.cast::<AtomicU32>().add(low_half) };
        // Nobody waiting is no error, and the address is mapped: it cannot fail.
        let _ = futex::wake(state, futex::Flags::empty(), 1);
    }
}

/// Writes one line to the node's log, which is standard error: the time, who says it, what.
pub(crate) fn log(who: &str, line: fmt::Arguments<'_>) {
    let now = Node::get().map(|node| node.record.clock.now()).unwrap_or_default();
    // One write a line, so that lines of several processes do not mix. A log that cannot be
    // written has no better place to say so.
    let _ = io::stderr().write_all(format!("[{now}] {who} {line}\n").as_bytes());
}

fn io_error(error: AttachError) -> io::Error {
    match error {
        AttachError::OutOfRange => io::ErrorKind::InvalidData.into(),
        AttachError::Refused(number) => io::Error::from_raw_os_error(number),
    }
}
