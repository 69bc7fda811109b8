//! What is printed about a fault: where and why, every register, the calls that led there.
//!
//! Lines of the form `  #N 0xADDRESS` are addresses of code; the launcher adds the names from the
//! image's symbols.

use core::array;
use core::fmt::{self, Write};
use core::ops::Range;

use nile_abi::{CoreId, VirtAddr};
use nile_platform::Fault;

use super::backtrace::Backtrace;
use crate::interrupts::Frame;
use crate::layout;
use crate::local::Local;
use crate::serial::Console;
use crate::vector::Vector;

/// Prints the report as one block. `message` is a panic's text.
pub fn print(local: &Local, frame: &Frame, fault: &Fault, message: &str) {
    let mut console = Console::lock();
    // The console takes everything; there is nobody left to tell if it did not.
    let _ = write(&mut console, local, frame, fault, message);
}

fn write(
    out: &mut Console,
    local: &Local,
    frame: &Frame,
    fault: &Fault,
    message: &str,
) -> fmt::Result {
    out.write_prefix()?;
    let generation = local.generation;
    match frame.vector() {
        Vector::PANIC => writeln!(out, "fault: panic in {generation} at {message}")?,
        Vector::PAGE_FAULT => writeln!(
            out,
            "fault: {} in {generation} at {:#x}: {} {:#x}, {}",
            Vector::PAGE_FAULT.name(),
            frame.rip,
            access(frame.error),
            fault.address,
            refusal(frame.error),
        )?,
        vector => writeln!(
            out,
            "fault: {} in {generation} at {:#x}, error {:#x}",
            vector.name(),
            frame.rip,
            frame.error,
        )?,
    }
    registers(out, frame, fault)?;
    backtrace(out, local.core, frame)
}

/// What was tried, from a page fault's error code (Intel SDM volume 3, 4.7).
fn access(error: u64) -> &'static str {
    match error {
        fetch if fetch & 1 << 4 != 0 => "execution of",
        write if write & 1 << 1 != 0 => "write to",
        _ => "read of",
    }
}

/// Why it was not allowed.
fn refusal(error: u64) -> &'static str {
    match error {
        damaged if damaged & 1 << 3 != 0 => "damaged tables",
        absent if absent & 1 == 0 => "not mapped",
        _ => "not allowed",
    }
}

fn registers(out: &mut Console, frame: &Frame, fault: &Fault) -> fmt::Result {
    let rows = [
        [("rax", frame.rax), ("rbx", frame.rbx), ("rcx", frame.rcx), ("rdx", frame.rdx)],
        [("rsi", frame.rsi), ("rdi", frame.rdi), ("rbp", frame.rbp), ("rsp", frame.rsp)],
        [("r8 ", frame.r8), ("r9 ", frame.r9), ("r10", frame.r10), ("r11", frame.r11)],
        [("r12", frame.r12), ("r13", frame.r13), ("r14", frame.r14), ("r15", frame.r15)],
        [("rip", frame.rip), ("flg", frame.rflags), ("cr2", fault.address), ("err", frame.error)],
    ];
    for row in rows {
        for (name, value) in row {
            write!(out, "  {name} {value:016x}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn backtrace(out: &mut Console, core: CoreId, frame: &Frame) -> fmt::Result {
    writeln!(out, "  #0 {:#018x}", frame.rip)?;
    let stacks: [Range<VirtAddr>; layout::IST_STACKS + 1] = array::from_fn(|index| match index {
        0 => layout::stack(core),
        interrupt => layout::ist(core, interrupt - 1),
    });
    let code = layout::image::text();
    // SAFETY: the walk asks for aligned words in this core's own stacks, which are mapped.
    let read = |at: VirtAddr| unsafe { (at.0 as *const u64).read_volatile() };
    let callers = Backtrace::new(VirtAddr(frame.rbp), code, &stacks, read);
    for (number, address) in callers.enumerate() {
        writeln!(out, "  #{} {:#018x}", number + 1, address.0)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_fault_says_what_was_tried_and_why_not() {
        assert_eq!((access(0x0), refusal(0x0)), ("read of", "not mapped"));
        assert_eq!((access(0x2), refusal(0x2)), ("write to", "not mapped"));
        assert_eq!((access(0x3), refusal(0x3)), ("write to", "not allowed"));
        assert_eq!((access(0x11), refusal(0x11)), ("execution of", "not allowed"));
        assert_eq!(refusal(0x9), "damaged tables");
    }
}
