//! The node's console: the first serial port, 115200 baud, 8 bits, no parity, one stop bit.
//!
//! Two things go out on it: log lines, and the machine-readable report, which is one line that
//! begins with a byte that no log line contains. Lines of cores never mix: a lock in the memory
//! that all cores share is held for a whole line, or for the several lines of a fault report.
//!
//! The lock cannot stop a core for ever. A core that faults while it holds the lock takes it
//! again; a core that has held it for many seconds is taken for dead, and loses it.

use core::fmt::{self, Write};
use core::hint;
use core::sync::atomic::{AtomicU64, Ordering};

use uart_16550::backend::Backend;
use uart_16550::spec::registers::LSR;
use uart_16550::{BaudRate, Config, Uart16550};

use crate::clock::read_tsc;
use crate::cpu;
use crate::local;
use crate::privileged;

/// The record separator of RFC 7464, before each machine-readable document.
const RECORD_SEPARATOR: u8 = 0x1e;

/// The port is polled this often for room before what should go out is dropped.
const MAX_POLLS: u32 = 1 << 20;

/// Time-stamp counter ticks after which a writer is taken for dead: some ten seconds.
const WRITER_PATIENCE: u64 = 1 << 35;

/// Who writes, one word for all cores: in the low half zero, or a core's [`mark`]; in the high
/// half how often the console was taken, so that a waiting core sees others' turns go by.
#[unsafe(link_section = ".shared")]
static WRITER: AtomicU64 = AtomicU64::new(0);

/// The first serial port.
struct Com1;

impl Backend for Com1 {
    unsafe fn read(&mut self, register: u8) -> u8 {
        // SAFETY: this port is a serial port or nothing on every PC, and only this module reads
        // it; the lock keeps cores apart.
        unsafe { privileged::in8(0x3f8 + u16::from(register)) }
    }

    unsafe fn write(&mut self, register: u8, value: u8) {
        // SAFETY: as in `read`; the port touches no memory.
        unsafe { privileged::out8(0x3f8 + u16::from(register), value) }
    }
}

/// The port's state is in the port, so each use may make its own value.
fn port() -> Uart16550<Com1> {
    // SAFETY: the backend is valid at all times.
    unsafe { Uart16550::new_with_backend(Com1) }
}

/// Programs the port, once, before the first line. Without one, what is written goes nowhere.
pub fn init() {
    let config = Config { baud_rate: BaudRate::Baud115200, ..Config::default() };
    // The only failures are a wrong configuration, which this is not, and an absent port.
    let _ = port().init(config);
}

/// Writes one line to the log, with the time and this core's name before it.
pub fn log(line: fmt::Arguments<'_>) {
    let mut console = Console::lock();
    // Writing to the console cannot fail, and a value that cannot be formatted ends the line.
    let _ = console.write_prefix();
    let _ = console.write_fmt(line);
    console.raw(b"\n");
}

/// Writes one machine-readable document, which must be a single line.
pub fn report(document: &str) {
    let mut console = Console::lock();
    console.raw(&[RECORD_SEPARATOR]);
    console.raw(document.as_bytes());
    console.raw(b"\n");
}

/// Waits until the port has sent all that was written; not for ever.
pub fn flush() {
    let mut port = port();
    let _ = (0..MAX_POLLS).find(|_| port.lsr().contains(LSR::TRANSMITTER_EMPTY));
}

/// The console while this core alone writes to it.
pub struct Console {
    port: Uart16550<Com1>,
    /// What this core has put into [`WRITER`].
    taken: u64,
}

impl Console {
    /// Waits until no other core writes; not for ever, see the module's description.
    pub fn lock() -> Console {
        let mark = mark();
        let mut seen = WRITER.load(Ordering::Relaxed);
        let mut since = read_tsc();
        loop {
            let now = WRITER.load(Ordering::Relaxed);
            if now != seen {
                (seen, since) = (now, read_tsc());
            }
            if writer(now) == mark {
                // A fault in the middle of this core's own line: that line ends here.
                let mut console = Console { port: port(), taken: now };
                console.raw(b"\n");
                return console;
            }
            let free = writer(now) == 0 || read_tsc().wrapping_sub(since) > WRITER_PATIENCE;
            let taken = next_turn(now, mark);
            if free
                && WRITER.compare_exchange(now, taken, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return Console { port: port(), taken };
            }
            hint::spin_loop();
        }
    }

    /// What stands before each log line: `[seconds.micros] core `, where a domain's cores have the
    /// domain's name before their own.
    pub fn write_prefix(&mut self) -> fmt::Result {
        match local::get() {
            Some(local) => match local.node.domain {
                Some(domain) => {
                    let (slot, generation) = (domain.slot, domain.generation.0);
                    write!(self, "[{}] d{slot}.g{generation}.{} ", local.clock.now(), local.core)
                }
                None => write!(self, "[{}] {} ", local.clock.now(), local.core),
            },
            None => write!(self, "[start] {} ", cpu::apic_id()),
        }
    }

    /// Writes the bytes as they are. What a port that stands does not take is dropped.
    fn raw(&mut self, mut bytes: &[u8]) {
        let mut polls = 0;
        while !bytes.is_empty() && polls < MAX_POLLS {
            match self.port.send_bytes(bytes) {
                0 => polls += 1,
                sent => {
                    bytes = &bytes[sent..];
                    polls = 0;
                }
            }
        }
    }
}

impl Write for Console {
    /// Control characters could pass for a report's beginning; they go out as `?`.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while let Some(at) = rest.iter().position(|byte| is_control(*byte)) {
            self.raw(&rest[..at]);
            self.raw(b"?");
            rest = &rest[at + 1..];
        }
        self.raw(rest);
        Ok(())
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // This turn alone is ended: another core may have lost its patience.
        let free = next_turn(self.taken, 0);
        let _ = WRITER.compare_exchange(self.taken, free, Ordering::Release, Ordering::Relaxed);
    }
}

fn is_control(byte: u8) -> bool {
    byte < b' ' && byte != b'\n' && byte != b'\t'
}

/// This core's mark in the lock: its number, or before it has one its APIC id, never zero.
fn mark() -> u32 {
    match local::get() {
        Some(local) => u32::from(local.core.0) + 1,
        None => cpu::apic_id().0 | 1 << 31,
    }
}

fn writer(word: u64) -> u32 {
    word as u32
}

fn next_turn(word: u64, mark: u32) -> u64 {
    let turn = (word >> 32).wrapping_add(1);
    turn << 32 | u64::from(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_turn_of_the_console_is_a_new_word() {
        let taken = next_turn(0, 7);
        let free = next_turn(taken, 0);
        assert_eq!((writer(taken), writer(free)), (7, 0));
        assert!(free != 0 && next_turn(free, 7) != taken);
        assert_eq!(writer(next_turn(u64::MAX, 9)), 9);
    }

    #[test]
    fn no_log_text_can_begin_a_report() {
        assert!(is_control(RECORD_SEPARATOR));
        assert!(is_control(0) && !is_control(b'\n') && !is_control(b'~'));
    }
}
