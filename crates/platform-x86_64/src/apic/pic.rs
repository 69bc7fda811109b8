//! The two 8259 interrupt controllers. Every PC has them or pretends to, firmware leaves the timer
//! line open on a vector that means "double fault", so they are silenced before interrupts are
//! first let in.

use crate::privileged;
use crate::vector::Vector;

const COMMAND: [u16; 2] = [0x20, 0xa0];
const DATA: [u16; 2] = [0x21, 0xa1];

/// "Initialization follows, four words".
const INITIALIZE: u8 = 0x11;
/// The line of the first that the second hangs on, as each of them is told.
const CASCADE: [u8; 2] = [1 << 2, 2];
const MODE_8086: u8 = 0x01;
const ALL_LINES: u8 = 0xff;
const LINES: u8 = 8;

/// Masks every line, and moves the vectors to where a glitch cannot be taken for an exception.
pub fn silence() {
    for chip in 0..2 {
        let base = Vector::PIC_BASE.0 + LINES * chip as u8;
        write(DATA[chip], ALL_LINES);
        write(COMMAND[chip], INITIALIZE);
        for word in [base, CASCADE[chip], MODE_8086, ALL_LINES] {
            write(DATA[chip], word);
        }
    }
}

fn write(port: u16, value: u8) {
    // SAFETY: these are the PICs' ports on every PC; nobody else drives them, and masking lines
    // touches no memory.
    unsafe { privileged::out8(port, value) }
}
