//! From the first instruction of a package to its exit code. [`package!`](crate::package!) makes a
//! binary that comes here.
//!
//! A package that panics writes what and where to the node's log, and exits with these words and
//! the number of [`Status::Panicked`]; one that runs out of memory exits with that of
//! [`Status::NoMemory`].

use core::fmt::{self, Write};
use core::hint;
use core::panic::PanicInfo;
use core::slice;
use core::sync::atomic::{AtomicU64, Ordering};

use nile_abi::call::{EntryTable, System, SystemCall};
use nile_abi::{Status, VirtAddr};

use crate::gate::Gate;
use crate::heap::Heap;

/// What a package consists of: takes the kernel and the argument, gives the exit code.
pub type Main = fn(&dyn System, &[u8]) -> u64;

/// The address of this package's gate, zero before it has started: a panic has no other way to
/// the kernel. A package is alone in its address space.
static GATE: AtomicU64 = AtomicU64::new(0);

/// The most bytes of a panic's message that reach the kernel.
const MESSAGE_BYTES: usize = 480;

/// Runs a package to its end.
///
/// # Safety
/// Called once, by the package's first instruction, with what the kernel has given it.
pub unsafe fn start(table: *const EntryTable, heap: &Heap, main: Main) -> ! {
    // SAFETY: whoever starts a package gives it a table, or an address that is none; reading that
    // ends the package.
    let table = unsafe { &*table };
    if table.magic != EntryTable::MAGIC || table.bytes < size_of::<EntryTable>() as u64 {
        // There is no kernel that could be told.
        stop();
    }
    GATE.store(table.gate, Ordering::Relaxed);
    // SAFETY: the kernel has made the table.
    let gate = unsafe { Gate::of(table) };
    let [arena, bytes] = table.arena;
    // SAFETY: the arena is the package's own, and this is the first use.
    unsafe { heap.claim(VirtAddr(arena), bytes) };
    heap.grow_by(crate::grow::grow);
    let argument = match table.argument {
        [_, 0] => &[][..],
        // SAFETY: the argument is there, and nobody writes to it.
        [at, bytes] => unsafe { slice::from_raw_parts(at as *const u8, bytes as usize) },
    };
    exit(&gate, main(&gate, argument), &[])
}

/// The gate of this package, for calls that a [`System`] would not make; nothing where packages
/// are linked in.
pub fn gate() -> Option<Gate> {
    let address = GATE.load(Ordering::Relaxed);
    // SAFETY: `start` has put the gate's address there, or nobody.
    (address != 0).then(|| unsafe { Gate::at(address) })
}

/// What a package's panic handler does: tells the log, and ends the package.
pub fn panicked(info: &PanicInfo<'_>, heap: &Heap) -> ! {
    let Some(gate) = gate() else { stop() };
    let mut line = Line { text: [0; MESSAGE_BYTES], length: 0 };
    // A message that does not fit is cut.
    let _ = match info.location() {
        Some(place) => write!(line, "panicked at {place}: {}", info.message()),
        None => write!(line, "panicked: {}", info.message()),
    };
    let text = &line.text[..line.length];
    gate.call(SystemCall::Log, 0, text, &mut []);
    // Rust's own handler of failed allocations panics like everyone else.
    let status = if heap.is_empty() { Status::NoMemory } else { Status::Panicked };
    exit(&gate, u64::from(status.code()), text)
}

fn exit(system: &dyn System, code: u64, words: &[u8]) -> ! {
    system.call(SystemCall::Exit, code, words, &mut []);
    stop()
}

/// The end of a package that has no kernel to tell.
fn stop() -> ! {
    loop {
        hint::spin_loop();
    }
}

/// Text of a bounded length, without memory from the heap. Never ends within a character.
struct Line {
    text: [u8; MESSAGE_BYTES],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MESSAGE_BYTES - self.length;
        let fits = text.floor_char_boundary(room);
        self.text[self.length..self.length + fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.length += fits;
        if fits == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let mut line = Line { text: [0; MESSAGE_BYTES], length: 0 };
        assert_eq!(write!(line, "{}", "a".repeat(MESSAGE_BYTES - 1)), Ok(()));
        assert_eq!(write!(line, "üb"), Err(fmt::Error));
        assert_eq!(line.length, MESSAGE_BYTES - 1);
        assert_eq!(write!(line, "b"), Ok(()));
        assert_eq!(line.text[MESSAGE_BYTES - 1], b'b');
    }
}
