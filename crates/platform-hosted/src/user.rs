//! User mode of a hosted core: a package runs in its worker's process, between calls, on a stack
//! of its own. User memory is the node's, mapped once more at the addresses that the kernel gives
//! it. The package shares the address space of its kernel, whose memory it could write: as for
//! workers, isolation here keeps mistakes in.

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use nile_abi::call::{Answer, POOL_BASE, USER_BASE, USER_BYTES};
use nile_abi::{CoreId, Instant, Status, VirtAddr};
use nile_platform::user::{Access, BadAddress, Exit, Gateway, Start};
use nile_platform::{AttachError, Fault, Grant, User};

use crate::layout::end;
use crate::node::Node;
use crate::package::{self, LEAST_STACK, Package};
use crate::timer::Timer;
use crate::{context, dispatch, handlers};

/// Whether there may be a package's code or data at an address of this process.
pub(crate) fn is_user_memory(address: usize) -> bool {
    (USER_BASE..USER_BASE + USER_BYTES).contains(&(address as u64))
}

/// Whether there is a [`HostedUser`] in this process.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The user half of a worker core.
pub struct HostedUser {
    node: &'static Node,
    core: CoreId,
    /// Gone before what it uses is.
    package: Option<Package>,
    /// Sorted by address.
    memory: Vec<UserMemory>,
    /// What ends its turns, once one was to be ended, and the end that it is set for.
    timer: Option<Timer>,
    end: Option<Instant>,
}

/// A piece of user memory.
#[derive(Clone, Copy)]
struct UserMemory {
    at: u64,
    bytes: u64,
    access: Access,
}

impl UserMemory {
    fn end(&self) -> u64 {
        self.at + self.bytes
    }
}

impl HostedUser {
    /// The user half of `core`, which is this process: it has one thread, the calling one.
    pub(crate) fn new(node: &'static Node, core: CoreId) -> Result<HostedUser, Status> {
        if !context::CAN_LEAVE {
            return Err(Status::Denied);
        }
        handlers::prepare().map_err(|_| Status::NoMemory)?;
        if TAKEN.swap(true, Ordering::SeqCst) {
            return Err(Status::Exists);
        }
        package::handle_interruptions();
        package::forget_signal();
        // Where Linux cannot, packages run with less isolation: the boot report says so.
        dispatch::begin();
        node.set_package_process(core, std::process::id());
        // Who signals this core looks for the process after it has published what it signals
        // for; this core looks for what was published after it has named its process.
        fence(Ordering::SeqCst);
        Ok(HostedUser { node, core, package: None, memory: Vec::new(), timer: None, end: None })
    }

    /// Has the package interrupted then. Where Linux refuses a timer its turns end by signals
    /// alone.
    fn set_end(&mut self, end: Option<Instant>) {
        if end == self.end {
            return;
        }
        self.end = end;
        if self.timer.is_none() {
            self.timer = Timer::new(libc::CLOCK_MONOTONIC, libc::SIGURG, self.core).ok();
        }
        let Some(timer) = &self.timer else { return };
        let now = self.node.record.clock.now();
        // Zero would stop it.
        let span = end.map_or(Duration::ZERO, |end| end.since(now).max(Duration::from_nanos(1)));
        let _ = timer.set(span, Duration::ZERO);
    }

    /// Maps a part of the node's memory for the package.
    fn show(&mut self, memory: Grant, at: VirtAddr, access: Access) -> Result<(), AttachError> {
        self.node.arena.map_user(memory, at, access)?;
        let place = self.memory.partition_point(|piece| piece.at < at.0);
        self.memory.insert(place, UserMemory { at: at.0, bytes: memory.bytes, access });
        Ok(())
    }

    /// Whether all of the range is user memory for which `allows` holds.
    fn check(
        &self,
        from: VirtAddr,
        bytes: usize,
        allows: impl Fn(Access) -> bool,
    ) -> Result<(), BadAddress> {
        let last = from.0.checked_add(bytes as u64).ok_or(BadAddress)?;
        let mut next = from.0;
        while next < last {
            let piece = self.piece_of(next).filter(|piece| allows(piece.access));
            next = piece.ok_or(BadAddress)?.end();
        }
        Ok(())
    }

    /// The piece in which an address lies.
    fn piece_of(&self, address: u64) -> Option<&UserMemory> {
        let behind = self.memory.partition_point(|piece| piece.at <= address);
        self.memory[..behind].last().filter(|piece| address < piece.end())
    }

    /// Where the stack that ends at `stack` begins, if it is one.
    fn lowest_of_stack(&self, stack: VirtAddr) -> Option<VirtAddr> {
        let mut lowest = stack.0;
        while let Some(piece) = self.piece_of(lowest.checked_sub(1)?) {
            if piece.access != Access::Write {
                return None;
            }
            lowest = piece.at;
        }
        let sound = stack.0.is_multiple_of(16) && stack.0 - lowest >= LEAST_STACK;
        sound.then_some(VirtAddr(lowest))
    }
}

impl Drop for HostedUser {
    fn drop(&mut self) {
        self.package = None;
        self.timer = None;
        self.node.set_package_process(self.core, 0);
        for piece in &self.memory {
            self.node.arena.unmap_user(VirtAddr(piece.at), piece.bytes);
        }
        dispatch::end();
        package::forget_signal();
        TAKEN.store(false, Ordering::SeqCst);
    }
}

impl User for HostedUser {
    fn gateway(&self) -> Gateway {
        Gateway::At(package::gate_address())
    }

    /// Fails with the error number EEXIST if something is mapped there.
    fn map(&mut self, grant: Grant, at: VirtAddr, access: Access) -> Result<(), AttachError> {
        let user_end = USER_BASE + USER_BYTES;
        let fits =
            at.0 >= USER_BASE && at.0.checked_add(grant.bytes).is_some_and(|last| last <= user_end);
        if !fits || grant.start < end(self.node.record.layout.reserved()) {
            return Err(AttachError::OutOfRange);
        }
        self.show(grant, at, access)
    }

    fn map_pool(&mut self) -> Result<(), AttachError> {
        match self.node.record.layout.buffers() {
            Grant { bytes: 0, .. } => Err(AttachError::OutOfRange),
            buffers => self.show(buffers, VirtAddr(POOL_BASE), Access::Write),
        }
    }

    fn read(&self, from: VirtAddr, into: &mut [u8]) -> Result<(), BadAddress> {
        self.check(from, into.len(), |_| true)?;
        // SAFETY: the whole range is mapped and can be read.
        unsafe { copy_out(ptr::with_exposed_provenance(from.0 as usize), into) };
        Ok(())
    }

    fn write(&mut self, to: VirtAddr, from: &[u8]) -> Result<(), BadAddress> {
        self.check(to, from.len(), |access| access == Access::Write)?;
        // SAFETY: the whole range is mapped and can be written; no Rust object lies there.
        unsafe { copy_in(ptr::with_exposed_provenance_mut(to.0 as usize), from) };
        Ok(())
    }

    /// `Invalid` for a stack that is not at least 4 KiB that can be written, with nothing else
    /// below that is mapped, or for an entry that cannot be executed; `Exists` after the first
    /// start.
    fn start(&mut self, start: Start) -> Result<(), Status> {
        let Start::At { entry, stack, argument } = start else { return Err(Status::NotFound) };
        if self.package.is_some() {
            return Err(Status::Exists);
        }
        let lowest = self.lowest_of_stack(stack).ok_or(Status::Invalid)?;
        if self.piece_of(entry.0).is_none_or(|piece| piece.access != Access::Execute) {
            return Err(Status::Invalid);
        }
        // SAFETY: the stack was just checked, and stays mapped until this is dropped, after the
        // package. Only worker processes have a HostedUser, and one at a time.
        let package = unsafe { Package::new(entry, argument, (lowest, stack)) };
        self.package = Some(package.ok_or(Status::Invalid)?);
        Ok(())
    }

    /// A package that was not started has done what it may not.
    fn run(&mut self, answer: Answer, until: Option<Instant>) -> Exit {
        self.set_end(until);
        let nothing = Fault { kind: Fault::EXCEPTION, code: 0, at: 0, address: 0 };
        self.package.as_mut().map_or(Exit::Fault(nothing), |package| package.run(answer))
    }
}

/// Bytes of the words in which user memory is copied where it is aligned for them.
const WORD: usize = size_of::<u64>();

/// Copies from memory that a package, or another core, may be writing.
///
/// # Safety
///
/// The bytes from `from` on are mapped and can be read.
unsafe fn copy_out(from: *const u8, into: &mut [u8]) {
    let head = from.align_offset(WORD).min(into.len());
    let (first, rest) = into.split_at_mut(head);
    let (words, last) = rest.as_chunks_mut::<WORD>();
    // SAFETY: every access lies in the range that the caller vouches for; volatile, because the
    // memory is not Rust's alone.
    unsafe {
        let mut at = from;
        for byte in first {
            *byte = at.read_volatile();
            at = at.add(1);
        }
        for word in words {
            *word = at.cast::<u64>().read_volatile().to_ne_bytes();
            at = at.add(WORD);
        }
        for byte in last {
            *byte = at.read_volatile();
            at = at.add(1);
        }
    }
}

/// Copies to memory that a package, or another core, may be reading.
///
/// # Safety
///
/// The bytes from `to` on are mapped and can be written.
unsafe fn copy_in(to: *mut u8, from: &[u8]) {
    let head = to.align_offset(WORD).min(from.len());
    let (first, rest) = from.split_at(head);
    let (words, last) = rest.as_chunks::<WORD>();
    // SAFETY: as in `copy_out`.
    unsafe {
        let mut at = to;
        for byte in first {
            at.write_volatile(*byte);
            at = at.add(1);
        }
        for word in words {
            at.cast::<u64>().write_volatile(u64::from_ne_bytes(*word));
            at = at.add(WORD);
        }
        for byte in last {
            at.write_volatile(*byte);
            at = at.add(1);
        }
    }
}
