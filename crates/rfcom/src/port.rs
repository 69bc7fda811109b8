//! Ports: who has which end of which channel.
//!
//! ```text
//! a line a port   word 0   first end: seat 16, state 8 | second end: seat 16, state 8 | 0 16
//! then            of each port two rings: from the first end to the second, and back
//! ```
//!
//! One word says all, so whoever opens, closes or dies does it by one exchange.

use core::fmt;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use nile_ring::{LINE_BYTES, Region, Word};

use crate::channel::Channel;
use crate::line::Line;

/// Why a port was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// There is no such port.
    NoPort,
    /// Both of its ends are somebody's, or have been and the other still is.
    Busy,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OpenError::NoPort => "the region has no such port",
            OpenError::Busy => "both ends of the port are taken: wait, or take another one",
        })
    }
}

impl core::error::Error for OpenError {}

/// What an end of a port is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// Nobody has it.
    Free,
    /// Somebody has it.
    Open,
    /// Who had it has closed it, or is gone.
    Closed,
    /// Who closed the last one empties both rings.
    Clearing,
}

impl End {
    fn of(bits: u64) -> End {
        match bits & 0xff {
            0 => End::Free,
            1 => End::Open,
            2 => End::Closed,
            _ => End::Clearing,
        }
    }
}

/// The word of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ends([(End, u16); 2]);

impl Ends {
    const FREE: Ends = Ends([(End::Free, 0); 2]);

    fn of(word: u64) -> Ends {
        let end = |bits: u64| (End::of(bits), (bits >> 8) as u16);
        Ends([end(word), end(word >> 24)])
    }

    fn word(self) -> u64 {
        let bits = |(end, seat): (End, u16)| u64::from(seat) << 8 | end as u64;
        bits(self.0[0]) | bits(self.0[1]) << 24
    }

    fn with(mut self, end: usize, state: End, seat: u16) -> Ends {
        self.0[end] = (state, seat);
        self
    }
}

/// Ports in a region that several share, each by a seat of his own. Clones name the same.
#[derive(Clone, Debug)]
pub struct Rfcom {
    region: Region,
    ports: usize,
    seat: u16,
}

impl Rfcom {
    /// So many ports, in a region of zeros or one that has as many ports already, for whoever has
    /// this seat. What an earlier life of the seat has left open is closed. `None` if the region is
    /// too small for any packet.
    pub fn attach(region: Region, ports: usize, seat: u16) -> Option<Rfcom> {
        let rfcom = Rfcom { region, ports, seat };
        rfcom.ring(0, 0)?;
        rfcom.clear(seat);
        Some(rfcom)
    }

    /// How many ports there are.
    pub fn ports(&self) -> usize {
        self.ports
    }

    /// Opens one end of a port, whichever nobody has: the first, and packets wait for who comes
    /// second.
    pub fn open(&self, port: usize) -> Result<Channel, OpenError> {
        if port >= self.ports {
            return Err(OpenError::NoPort);
        }
        let word = self.word(port);
        let mut old = word.load(Acquire);
        loop {
            let ends = Ends::of(old);
            let end = match ends.0 {
                [(End::Free, _), (End::Free, _)] => 0,
                [(End::Open | End::Closed, _), (End::Free, _)] => 1,
                _ => return Err(OpenError::Busy),
            };
            let new = ends.with(end, End::Open, self.seat).word();
            match word.compare_exchange(old, new, AcqRel, Acquire) {
                Ok(_) => {
                    let lines = [self.ring(port, end), self.ring(port, 1 - end)];
                    let [Some(out), Some(incoming)] = lines else { return Err(OpenError::NoPort) };
                    return Ok(Channel::new(self.clone(), port, end, out, incoming));
                }
                Err(now) => old = now,
            }
        }
    }

    /// Closes all ends that a seat has: who had it is gone.
    pub fn clear(&self, seat: u16) {
        for port in 0..self.ports {
            for end in [0, 1] {
                self.close(port, end, seat);
            }
        }
    }

    /// Closes an end that a seat has. When both are closed, or nobody has come to the other, the
    /// port is free again.
    pub(crate) fn close(&self, port: usize, end: usize, seat: u16) {
        let word = self.word(port);
        let mut old = word.load(Acquire);
        loop {
            let ends = Ends::of(old);
            let is_last = match ends.0[end] {
                // Whoever emptied it is gone: it is to be done anew.
                (End::Clearing, its) if its == seat => true,
                (End::Open, its) if its == seat => ends.0[1 - end].0 != End::Open,
                _ => return,
            };
            let state = if is_last { End::Clearing } else { End::Closed };
            let new = ends.with(end, state, seat).word();
            if let Err(now) = word.compare_exchange(old, new, AcqRel, Acquire) {
                old = now;
                continue;
            }
            if is_last {
                let rings = [0, 1].into_iter().filter_map(|end| self.ring(port, end));
                rings.for_each(|ring| ring.clear());
                word.store(Ends::FREE.word(), Release);
            }
            return;
        }
    }

    /// What an end is now.
    #[inline]
    pub(crate) fn end(&self, port: usize, end: usize) -> End {
        Ends::of(self.word(port).load(Acquire)).0[end].0
    }

    pub(crate) fn seat(&self) -> u16 {
        self.seat
    }

    fn word(&self, port: usize) -> &Word {
        &self.region.lines()[port][0]
    }

    /// The ring by which an end of a port sends.
    fn ring(&self, port: usize, end: usize) -> Option<Line> {
        let head = self.ports.checked_mul(LINE_BYTES)?;
        let room = self.region.len().checked_sub(head)? / (2 * self.ports).max(1);
        let room = room / LINE_BYTES * LINE_BYTES;
        Line::attach(&self.region.slice(head + (2 * port + end) * room, room)?)
    }
}
