//! User mode of a hosted core: a package runs in its worker's process, between calls, on a stack
//! of its own. User memory is the node's, mapped once more at the addresses that the kernel gives
//! it. The package shares the address space of its kernel, whose memory it could write: as for
//! workers, isolation here keeps mistakes in. Of the packages that a core has only the one that
//! runs has its memory open: what another one has there is a page fault.

use std::cell::RefCell;
use std::ptr;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use nile_abi::call::{Answer, USER_BASE, UserSlot};
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
    (USER_BASE..UserSlot::END).contains(&(address as u64))
}

/// The slots of this process that have a [`HostedUser`], and what it has in them. A worker is one
/// thread, so there is no other.
#[derive(Default)]
struct Slots {
    /// The pieces of each one's memory, sorted by address; none of a slot that is free.
    memory: [Option<Vec<Piece>>; UserSlot::COUNT],
    /// The one whose memory may be used. That of all others is closed to the process.
    open: Option<UserSlot>,
    /// What ends turns, once one was to be ended, and the end that it is set for.
    timer: Option<Timer>,
    end: Option<Instant>,
}

thread_local! {
    static SLOTS: RefCell<Slots> = RefCell::default();
}

impl Slots {
    fn is_empty(&self) -> bool {
        self.memory.iter().all(Option::is_none)
    }

    fn pieces(&self, slot: UserSlot) -> &[Piece] {
        self.memory[slot.index()].as_deref().unwrap_or_default()
    }

    /// Opens a slot's memory, and closes the other one's.
    fn open(&mut self, node: &Node, slot: UserSlot) {
        if self.open == Some(slot) {
            return;
        }
        if let Some(other) = self.open.replace(slot) {
            for run in runs(self.pieces(other)) {
                node.arena.protect_user(VirtAddr(run.at), run.bytes, None);
            }
        }
        for run in runs(self.pieces(slot)) {
            node.arena.protect_user(VirtAddr(run.at), run.bytes, Some(run.access));
        }
    }

    /// Has the package that runs interrupted then. Where Linux refuses a timer turns end by signals
    /// alone.
    fn set_end(&mut self, node: &Node, core: CoreId, end: Option<Instant>) {
        if end == self.end {
            return;
        }
        self.end = end;
        if self.timer.is_none() {
            self.timer = Timer::new(libc::CLOCK_MONOTONIC, libc::SIGURG, core).ok();
        }
        let Some(timer) = &self.timer else { return };
        let now = node.record.clock.now();
        // Zero would stop it.
        let span = end.map_or(Duration::ZERO, |end| end.since(now).max(Duration::from_nanos(1)));
        let _ = timer.set(span, Duration::ZERO);
    }
}

/// A slot of a worker core.
pub struct HostedUser {
    node: &'static Node,
    core: CoreId,
    slot: UserSlot,
    /// Gone before what it uses is.
    package: Option<Package>,
}

/// A piece of user memory.
#[derive(Clone, Copy)]
struct Piece {
    at: u64,
    bytes: u64,
    access: Access,
}

impl Piece {
    fn end(&self) -> u64 {
        self.at + self.bytes
    }
}

/// The same memory in the fewest pieces.
fn runs(pieces: &[Piece]) -> impl Iterator<Item = Piece> {
    let parts = pieces.chunk_by(|one, next| one.end() == next.at && one.access == next.access);
    parts.map(|part| Piece { bytes: part[part.len() - 1].end() - part[0].at, ..part[0] })
}

impl HostedUser {
    /// A slot of `core`, which is this process: it has one thread, the calling one.
    pub(crate) fn new(
        node: &'static Node,
        core: CoreId,
        slot: UserSlot,
    ) -> Result<HostedUser, Status> {
        if !context::CAN_LEAVE {
            return Err(Status::Denied);
        }
        handlers::prepare().map_err(|_| Status::NoMemory)?;
        SLOTS.with_borrow_mut(|slots| {
            if slots.memory[slot.index()].is_some() {
                return Err(Status::Exists);
            }
            if slots.is_empty() {
                package::handle_interruptions();
                package::forget_signal();
                // Where Linux cannot, packages run with less isolation: the boot report says so.
                dispatch::begin();
                node.set_package_process(core, std::process::id());
                // Who signals this core looks for the process after it has published what it
                // signals for; this core looks for what was published after it has named its
                // process.
                fence(Ordering::SeqCst);
            }
            slots.memory[slot.index()] = Some(Vec::new());
            Ok(HostedUser { node, core, slot, package: None })
        })
    }

    /// Maps a part of the node's memory for the package.
    fn show(&mut self, memory: Grant, at: VirtAddr, access: Access) -> Result<(), AttachError> {
        SLOTS.with_borrow_mut(|slots| {
            slots.open(self.node, self.slot);
            self.node.arena.map_user(memory, at, access)?;
            let pieces = slots.memory[self.slot.index()].get_or_insert_default();
            let place = pieces.partition_point(|piece| piece.at < at.0);
            pieces.insert(place, Piece { at: at.0, bytes: memory.bytes, access });
            Ok(())
        })
    }

    /// Opens the memory, if all of the range is user memory for which `allows` holds.
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
        SLOTS.with_borrow_mut(|slots| slots.open(self.node, self.slot));
        Ok(())
    }

    /// The piece in which an address lies.
    fn piece_of(&self, address: u64) -> Option<Piece> {
        SLOTS.with_borrow(|slots| {
            let pieces = slots.pieces(self.slot);
            let behind = pieces.partition_point(|piece| piece.at <= address);
            pieces[..behind].last().filter(|piece| address < piece.end()).copied()
        })
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
        SLOTS.with_borrow_mut(|slots| {
            slots.open.take_if(|open| *open == self.slot);
            for piece in slots.memory[self.slot.index()].take().into_iter().flatten() {
                self.node.arena.unmap_user(VirtAddr(piece.at), piece.bytes);
            }
            if slots.is_empty() {
                (slots.timer, slots.end) = (None, None);
                self.node.set_package_process(self.core, 0);
                dispatch::end();
                package::forget_signal();
            }
        });
    }
}

impl User for HostedUser {
    fn gateway(&self) -> Gateway {
        Gateway::At(package::gate_address())
    }

    /// Fails with the error number EEXIST if something is mapped there.
    fn map(&mut self, grant: Grant, at: VirtAddr, access: Access) -> Result<(), AttachError> {
        let fits = UserSlot::of(at, grant.bytes) == Some(self.slot);
        if !fits || grant.start < end(self.node.record.layout.reserved()) {
            return Err(AttachError::OutOfRange);
        }
        self.show(grant, at, access)
    }

    fn unmap(&mut self, at: VirtAddr) {
        SLOTS.with_borrow_mut(|slots| {
            let pieces = slots.memory[self.slot.index()].get_or_insert_default();
            if let Ok(place) = pieces.binary_search_by_key(&at.0, |piece| piece.at) {
                let piece = pieces.remove(place);
                self.node.arena.unmap_user(at, piece.bytes);
            }
        });
    }

    fn map_pool(&mut self) -> Result<(), AttachError> {
        match self.node.record.layout.buffers() {
            Grant { bytes: 0, .. } => Err(AttachError::OutOfRange),
            buffers => self.show(buffers, self.slot.pool(), Access::Write),
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
        // package; each turn opens it. Only worker processes have a HostedUser.
        let package = unsafe { Package::new(entry, argument, (lowest, stack)) };
        self.package = Some(package.ok_or(Status::Invalid)?);
        Ok(())
    }

    /// A package that was not started has done what it may not.
    fn run(&mut self, answer: Answer, until: Option<Instant>) -> Exit {
        SLOTS.with_borrow_mut(|slots| {
            slots.open(self.node, self.slot);
            slots.set_end(self.node, self.core, until);
        });
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
