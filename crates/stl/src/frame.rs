//! How a call crosses from core to core over a channel: a header and its data in a row of cells.
//! Sans-IO: cells go in, frames come out.
//!
//! | offset | size | first cell                                                               |
//! | ------ | ---- | ------------------------------------------------------------------------ |
//! | 0      | 1    | what it is: 1 request, 2 reply, 3 cancel                                 |
//! | 1      | 1    | who asks: 0 a kernel, 1 a package, 2 another node                        |
//! | 2      | 2    | service number                                                           |
//! | 4      | 2    | method number; in a reply, the status                                    |
//! | 6      | 2    | zero                                                                     |
//! | 8      | 8    | call id                                                                  |
//! | 16     | 8    | deadline, nanoseconds since the node's start                             |
//! | 24     | 4    | generation of the callee's core; in a reply, of the caller's             |
//! | 28     | 4    | generation of the caller's core                                          |
//! | 32     | 4    | bytes of data                                                            |
//! | 36     | 20   | the first bytes of data                                                  |
//!
//! Further cells have nothing but data. Little-endian; decoding is total.

use alloc::vec::Vec;
use core::fmt;

use nile_abi::{Generation, Instant, Status};
use nile_ring::{Message, PAYLOAD_BYTES};

use crate::Origin;

/// Data of one frame, at most: one message of the language.
pub const MAX_DATA: usize = nile_bosml::MAX_MESSAGE;

/// Kind of a frame's first cell.
const FIRST: u8 = 1;
/// Kind of the cells that follow.
const MORE: u8 = 2;

const HEADER_BYTES: usize = 36;

/// Which service of a core; never used again within the core's incarnation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServiceNumber(pub u16);

/// Which method of a service: its place in the schema.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MethodNumber(pub u16);

impl MethodNumber {
    /// Every service answers it: its schema as a discovery document.
    pub const DISCOVER: MethodNumber = MethodNumber(u16::MAX);
}

/// A call's name at its caller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CallId(pub u64);

/// What a frame says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// Do this.
    Request {
        /// The call.
        id: CallId,
        /// Who is called.
        service: ServiceNumber,
        /// The incarnation of the callee's core that is meant.
        generation: Generation,
        /// The incarnation of the caller's core.
        caller: Generation,
        /// Which method.
        method: MethodNumber,
        /// When the caller stops waiting.
        deadline: Instant,
        /// Who asks.
        origin: Origin,
    },
    /// It ended so. Data is the reply, or a text about the failure.
    Reply {
        /// The call.
        id: CallId,
        /// The incarnation of the caller's core that made it.
        caller: Generation,
        /// How it ended.
        status: Status,
    },
    /// The caller does not wait any more.
    Cancel {
        /// The call.
        id: CallId,
        /// The incarnation of the caller's core that made it.
        caller: Generation,
    },
}

/// A row of cells that is no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// Data without a header.
    NoHeader,
    /// A header before the last frame's data was complete.
    CutShort,
    /// A header that makes no sense.
    BadHeader,
    /// More data than a frame may have, or than its header announced.
    TooLong,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformed::NoHeader => "data without a header",
            Malformed::CutShort => "a frame was cut short",
            Malformed::BadHeader => "a header that makes no sense",
            Malformed::TooLong => "more data than announced or allowed",
        })
    }
}

impl core::error::Error for Malformed {}

impl Header {
    fn encode(&self, length: u32) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let (kind, id) = match *self {
            Header::Request { id, service, generation, caller, method, deadline, origin } => {
                bytes[1] = origin as u8;
                bytes[2..4].copy_from_slice(&service.0.to_le_bytes());
                bytes[4..6].copy_from_slice(&method.0.to_le_bytes());
                bytes[16..24].copy_from_slice(&deadline.as_nanos().to_le_bytes());
                bytes[24..28].copy_from_slice(&generation.0.to_le_bytes());
                bytes[28..32].copy_from_slice(&caller.0.to_le_bytes());
                (1, id)
            }
            Header::Reply { id, caller, status } => {
                bytes[4..6].copy_from_slice(&status.code().to_le_bytes());
                bytes[24..28].copy_from_slice(&caller.0.to_le_bytes());
                (2, id)
            }
            Header::Cancel { id, caller } => {
                bytes[28..32].copy_from_slice(&caller.0.to_le_bytes());
                (3, id)
            }
        };
        bytes[0] = kind;
        bytes[8..16].copy_from_slice(&id.0.to_le_bytes());
        bytes[32..36].copy_from_slice(&length.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<(Header, usize)> {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from(half(at)) | u32::from(half(at + 2)) << 16;
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let (id, generation) = (CallId(long(8)), Generation(word(24)));
        let header = match bytes[0] {
            1 => Header::Request {
                id,
                service: ServiceNumber(half(2)),
                generation,
                caller: Generation(word(28)),
                method: MethodNumber(half(4)),
                deadline: Instant::from_nanos(long(16)),
                origin: Origin::from_number(bytes[1])?,
            },
            2 => Header::Reply { id, caller: generation, status: Status::from_code(half(4))? },
            3 => Header::Cancel { id, caller: Generation(word(28)) },
            _ => return None,
        };
        Some((header, word(32) as usize))
    }
}

/// The cells of a frame, in order. `data` is at most [`MAX_DATA`] long.
pub fn cells<'a>(header: &Header, data: &'a [u8]) -> impl Iterator<Item = Message> + use<'a> {
    const WHY: &str = "what was put together is at most a cell's payload";
    let (now, later) = data.split_at(data.len().min(PAYLOAD_BYTES - HEADER_BYTES));
    let mut first = [0; PAYLOAD_BYTES];
    first[..HEADER_BYTES].copy_from_slice(&header.encode(data.len() as u32));
    first[HEADER_BYTES..HEADER_BYTES + now.len()].copy_from_slice(now);
    let first = Message::new(FIRST, &first[..HEADER_BYTES + now.len()]).expect(WHY);
    let more = |part| Message::new(MORE, part).expect(WHY);
    core::iter::once(first).chain(later.chunks(PAYLOAD_BYTES).map(more))
}

/// Puts frames together again.
#[derive(Default, Debug)]
pub struct Assembler {
    header: Option<Header>,
    expected: usize,
    data: Vec<u8>,
}

impl Assembler {
    /// Takes the next cell. `Some` if it completes a frame, whose data is in [`Assembler::data`]
    /// until the next cell. After an error the next header begins anew.
    pub fn push(&mut self, message: &Message) -> Result<Option<Header>, Malformed> {
        let payload = message.payload();
        let data = if message.kind() == FIRST {
            let cut_short = self.header.take().is_some();
            let (header, data) = payload.split_first_chunk().ok_or(Malformed::BadHeader)?;
            let (header, length) = Header::decode(header).ok_or(Malformed::BadHeader)?;
            if length > MAX_DATA {
                return Err(Malformed::TooLong);
            }
            self.header = Some(header);
            self.expected = length;
            self.data.clear();
            if cut_short {
                self.header = None;
                return Err(Malformed::CutShort);
            }
            data
        } else {
            payload
        };
        if self.header.is_none() {
            return Err(Malformed::NoHeader);
        }
        if self.data.len() + data.len() > self.expected {
            self.header = None;
            return Err(Malformed::TooLong);
        }
        self.data.extend_from_slice(data);
        if self.data.len() < self.expected {
            return Ok(None);
        }
        Ok(self.header.take())
    }

    /// The data of the frame that was just completed.
    pub fn data(&self) -> &[u8] {
        &self.data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Header = Header::Request {
        id: CallId(u64::MAX - 1),
        service: ServiceNumber(513),
        generation: Generation(7),
        caller: Generation(u32::MAX),
        method: MethodNumber(3),
        deadline: Instant::from_nanos(1 << 60),
        origin: Origin::PeersPackage,
    };

    fn through(header: Header, data: &[u8]) -> usize {
        let mut assembler = Assembler::default();
        let cells: Vec<Message> = cells(&header, data).collect();
        for (place, cell) in cells.iter().enumerate() {
            let frame = assembler.push(cell).unwrap();
            assert_eq!(frame.is_some(), place + 1 == cells.len(), "cell {place}");
            if let Some(frame) = frame {
                assert_eq!((frame, assembler.data()), (header, data));
            }
        }
        cells.len()
    }

    #[test]
    fn frames_survive_their_cells() {
        let bytes: Vec<u8> = (0..MAX_DATA).map(|place| place as u8).collect();
        for (length, cells) in [(0, 1), (20, 1), (21, 2), (64, 2), (76, 2), (77, 3)] {
            assert_eq!(through(REQUEST, &bytes[..length]), cells);
        }
        through(REQUEST, &bytes);
        through(Header::Cancel { id: CallId(1), caller: Generation(3) }, &[]);
        through(
            Header::Reply { id: CallId(0), caller: Generation(2), status: Status::Panicked },
            b"why",
        );
    }

    #[test]
    fn a_broken_row_is_told_and_the_next_frame_is_whole() {
        let long = [0; 100];
        let row: Vec<Message> = cells(&REQUEST, &long).collect();
        let mut assembler = Assembler::default();
        assert_eq!(assembler.push(&row[1]), Err(Malformed::NoHeader));
        assert_eq!(assembler.push(&row[0]), Ok(None));
        assert_eq!(assembler.push(&row[0]), Err(Malformed::CutShort));
        assert_eq!(assembler.push(&row[1]), Err(Malformed::NoHeader));
        let mut bytes = row[0].payload().to_vec();
        bytes[32] = 30;
        let short = Message::new(1, &bytes).unwrap();
        assert_eq!(assembler.push(&short), Ok(None));
        assert_eq!(assembler.push(&row[1]), Err(Malformed::TooLong));
        bytes[35] = 1;
        assert_eq!(assembler.push(&Message::new(1, &bytes).unwrap()), Err(Malformed::TooLong));
        bytes[0] = 9;
        assert_eq!(assembler.push(&Message::new(1, &bytes).unwrap()), Err(Malformed::BadHeader));
        assert_eq!(assembler.push(&Message::new(1, &[1]).unwrap()), Err(Malformed::BadHeader));
        for cell in &row {
            assembler.push(cell).unwrap();
        }
        assert_eq!(assembler.data(), long);
    }
}
