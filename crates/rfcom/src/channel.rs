//! One end of a channel.

use core::fmt;

use crate::line::{Full, Line, NotTaken};
use crate::port::{End, Rfcom};

/// Why a packet was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteError {
    /// There is no room for it now.
    Full,
    /// Nobody is to read it: the other end is closed.
    Closed,
    /// A packet of this channel has so many bytes at most.
    TooLong(usize),
}

/// Why no packet was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// There is none now.
    Empty,
    /// There is none any more: the other end is closed.
    Closed,
    /// The next one has so many bytes, more than there is room for. It stays.
    TooLong(usize),
    /// What is there was written by nobody who keeps to the protocol.
    Broken,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Full => f.write_str("the channel has no room now"),
            WriteError::Closed => f.write_str("the other end of the channel is closed"),
            WriteError::TooLong(most) => write!(f, "a packet has {most} bytes at most"),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Empty => f.write_str("there is no packet now"),
            ReadError::Closed => f.write_str("the other end of the channel is closed"),
            ReadError::TooLong(bytes) => write!(f, "the next packet has {bytes} bytes"),
            ReadError::Broken => f.write_str("what the other end wrote is no packet"),
        }
    }
}

impl core::error::Error for WriteError {}
impl core::error::Error for ReadError {}

/// One end of a channel: it sends packets and receives the other's, each once and in their order.
/// Dropped, it is closed.
#[derive(Debug)]
pub struct Channel {
    rfcom: Rfcom,
    port: usize,
    end: usize,
    out: Line,
    incoming: Line,
}

impl Channel {
    pub(crate) fn new(rfcom: Rfcom, port: usize, end: usize, out: Line, incoming: Line) -> Channel {
        Channel { rfcom, port, end, out, incoming }
    }

    /// Its port.
    pub fn port(&self) -> usize {
        self.port
    }

    /// The most bytes of a packet.
    pub fn most_bytes(&self) -> usize {
        self.out.most()
    }

    /// Sends a packet, which may be empty.
    #[inline]
    pub fn write(&self, packet: &[u8]) -> Result<(), WriteError> {
        if packet.len() > self.out.most() {
            return Err(WriteError::TooLong(self.out.most()));
        }
        if self.is_alone() {
            return Err(WriteError::Closed);
        }
        self.out.write(packet).map_err(|Full| WriteError::Full)
    }

    /// Receives the next packet; its length. What was sent before the other end was closed comes
    /// first.
    #[inline]
    pub fn read(&self, into: &mut [u8]) -> Result<usize, ReadError> {
        match self.incoming.read(into) {
            Ok(length) => Ok(length),
            Err(NotTaken::Longer(bytes)) => Err(ReadError::TooLong(bytes)),
            Err(NotTaken::Broken) => Err(ReadError::Broken),
            // It may have sent something between the two looks.
            Err(NotTaken::Empty) => match self.is_alone() && !self.incoming.has_any() {
                true => Err(ReadError::Closed),
                false => Err(ReadError::Empty),
            },
        }
    }

    /// Whether the other end was closed, or who had it is gone.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.rfcom.end(self.port, 1 - self.end) == End::Closed
    }

    /// Closes it. Who has the other end reads what was sent, and hears of it.
    pub fn close(self) {}
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.rfcom.close(self.port, self.end, self.rfcom.seat());
    }
}
