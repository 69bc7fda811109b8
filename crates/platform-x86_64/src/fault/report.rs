//! What is printed about a fault: where and why, every register, the calls that led there.
//!
//! Lines of the form `  #N 0xADDRESS` are addresses of code; the launcher adds the names from the
//! image's symbols. Lines of a core that runs another image end in that image's name, as it has
//! other symbols ([`crate::images`]).

use core::array;
use core::fmt::{self, Write};
use core::ops::Range;

use nile_abi::VirtAddr;
use nile_platform::Fault;

use super::backtrace::Backtrace;
use crate::images;
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
    backtrace(out, local, frame)
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

fn backtrace(out: &mut Console, local: &Local, frame: &Frame) -> fmt::Result {
    let core = local.core;
    let of = Of(images::name(local.node, core));
    writeln!(out, "  #0 {:#018x}{of}", frame.rip)?;
    let stacks: [Range<VirtAddr>; layout::IST_STACKS + 1] = array::from_fn(|index| match index {
        0 => layout::stack(core),
        interrupt => layout::ist(core, interrupt - 1),
    });
    let code = layout::image::text();
    // SAFETY: the walk asks for aligned words in this core's own stacks, which are mapped.
    let read = |at: VirtAddr| unsafe { (at.0 as *const u64).read_volatile() };
    let callers = Backtrace::new(VirtAddr(frame.rbp), code, &stacks, read);
    for (number, address) in callers.enumerate() {
        writeln!(out, "  #{} {:#018x}{of}", number + 1, address.0)?;
    }
    Ok(())
}

/// Which image an address is of, if not of the machine's.
struct Of(u64);

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            image => write!(f, " of image {image:016x}"),
        }
    }
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

    #[test]
    fn an_address_of_another_image_says_so() {
        use alloc::string::ToString;
        assert_eq!(Of(0).to_string(), "");
        assert_eq!(Of(0xab).to_string(), " of image 00000000000000ab");
    }
}
