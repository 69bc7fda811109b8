//! The end of an incarnation: a processor exception or a panic in the kernel.
//!
//! Both take one way. A panic keeps its message and raises an interrupt of its own, so that it
//! too is told on a fresh stack with every register as it was. The report goes out as one block,
//! the record says why, and the core starts anew ([`crate::restart`]); the node goes on.
//!
//! Telling must not fail: memory is read only where the core's own stacks are, everything is
//! bounded, and a fault on the way to telling one ends in one line and a stopped core. A double
//! fault stops its core too: what would restart it cannot be relied on. A node whose management
//! core is stopped so is switched off.
//!
//! * [`backtrace`]: the calls that led here, by frame pointers.
//! * [`report`]: what is printed.

pub mod backtrace;
mod report;

use core::fmt::{self, Write};
use core::panic::PanicInfo;

use nile_platform::{CorePhase, Fault};

use crate::interrupts::Frame;
use crate::local;
use crate::power::{self, Ending};
use crate::private::Private;
use crate::privileged;
use crate::restart;
use crate::serial::Console;
use crate::vector::Vector;

/// Set while a fault is told, so that one on the way is known for what it is.
static TELLING: Private<bool> = Private::new(false);

static PANIC_MESSAGE: Private<Message> = Private::new(Message::EMPTY);

/// The text of a panic, cut to what is kept.
#[derive(Clone, Copy)]
pub(crate) struct Message {
    bytes: [u8; Message::BYTES],
    used: usize,
}

impl Message {
    const BYTES: usize = 400;
    const EMPTY: Message = Message { bytes: [0; Message::BYTES], used: 0 };

    fn as_str(&self) -> &str {
        let bytes = &self.bytes[..self.used];
        // Only whole texts or texts cut in the middle of a letter are in it.
        str::from_utf8(bytes).unwrap_or_else(|error| {
            str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
        })
    }
}

impl Write for Message {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let free = &mut self.bytes[self.used..];
        let taken = text.len().min(free.len());
        free[..taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.used += taken;
        Ok(())
    }
}

/// Ends this core's incarnation because its code panicked. What an image's panic handler calls.
pub fn panic(info: &PanicInfo<'_>) -> ! {
    privileged::disable_interrupts();
    let mut message = Message::EMPTY;
    // Cutting the message short is not an error.
    let _ = match info.location() {
        Some(at) => write!(message, "{at}: {}", info.message()),
        None => write!(message, "{}", info.message()),
    };
    if local::get().is_none() {
        give_up(format_args!("panic before the core was up: {}", message.as_str()));
    }
    PANIC_MESSAGE.set(message);
    privileged::raise_panic()
}

/// Ends this core's incarnation because of an exception, or of a panic that was raised as one.
pub(crate) fn exception(frame: &Frame) -> ! {
    let vector = frame.vector();
    let Some(local) = local::get() else {
        give_up(format_args!(
            "{} before the core was up: error {:#x} at {:#x}, address {:#x}",
            vector.name(),
            frame.error,
            frame.rip,
            privileged::page_fault_address(),
        ));
    };
    if TELLING.get() || vector == Vector::DOUBLE_FAULT {
        local.record.set_fault(fault_of(frame));
        local.record.set_phase(CorePhase::Stopped);
        give_up(format_args!(
            "fault: {} in {}, error {:#x} at {:#x}, stack {:#x}: the core is stopped",
            vector.name(),
            local.generation,
            frame.error,
            frame.rip,
            frame.rsp,
        ));
    }
    TELLING.set(true);
    let fault = fault_of(frame);
    let message = PANIC_MESSAGE.get();
    report::print(&local, frame, &fault, message.as_str());
    power::last_words(format_args!(
        "{} in {} at {:#x}: {}",
        vector.name(),
        local.generation,
        frame.rip,
        message.as_str()
    ));
    local.record.set_fault(fault);
    restart::core(fault)
}

/// The fault as the record keeps it.
fn fault_of(frame: &Frame) -> Fault {
    let (kind, address) = match frame.vector() {
        Vector::PANIC => (Fault::PANIC, 0),
        Vector::PAGE_FAULT => (Fault::PAGE, privileged::page_fault_address()),
        _ => (Fault::EXCEPTION, 0),
    };
    Fault { kind, code: frame.error, at: frame.rip, address }
}

/// Says one last line and ends this core for good, and with it the node if it manages it.
fn give_up(line: fmt::Arguments<'_>) -> ! {
    let mut console = Console::lock();
    // There is nobody left to tell about a failure to tell.
    let _ = console.write_prefix();
    let _ = writeln!(console, "{line}");
    drop(console);
    power::off(Ending::Failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_at_a_whole_letter() {
        let mut message = Message::EMPTY;
        for _ in 0..Message::BYTES {
            message.write_str("xé").expect("it never fails");
        }
        assert_eq!(message.used, Message::BYTES);
        assert!(message.as_str().len() >= Message::BYTES - 1);
        assert!(message.as_str().starts_with("xéxé"));
    }
}
