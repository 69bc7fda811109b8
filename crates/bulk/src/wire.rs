//! The frames, byte for byte: docs/bulk.md has the tables. [`Frame`] is a view of bytes whose
//! every field has been checked; [`Header`] can hold valid values only and writes itself. Nothing
//! here panics, whatever the bytes are.

use core::fmt;

use nile_abi::ethernet::{self, HEADER_BYTES};
use nile_abi::{CoreId, Generation, MacAddress, NodeId, Status};
use nile_ipioe::Checksum;

use crate::shown::Shown;

/// The version of the protocol.
pub const VERSION: u8 = 1;

/// Bytes of what all headers begin with, destination included.
const COMMON_BYTES: usize = 32;

/// Bytes of the headers of each sort, without the extension of sealed frames.
const ANNOUNCE_BYTES: usize = COMMON_BYTES + 48;
const CREDIT_BYTES: usize = COMMON_BYTES + 20;
const CANCEL_BYTES: usize = COMMON_BYTES + 4;
/// Bytes of a data frame's header, without the extension.
pub const DATA_BYTES: usize = COMMON_BYTES + 12;

/// Bytes of the extension that sealed frames have at the end of the header: a sequence number.
pub const SEAL_BYTES: usize = 8;

/// Bytes of the tag after the data of a sealed frame.
pub const TAG_BYTES: usize = nile_ipioe::wire::TAG_BYTES;

/// The most blocks that a receiver keeps track of beyond the first that is missing.
pub const WINDOW_BLOCKS: u32 = 4096;

/// Bytes of the longest bitmap in a credit frame.
pub const BITMAP_BYTES: usize = WINDOW_BLOCKS as usize / 8;

/// Frames shorter than this are padded on the wire.
const SHORTEST_FRAME: usize = 60;

/// The total that says "not known yet".
const UNKNOWN: u64 = u64::MAX;

const FLAG_SEALED: u16 = 1;
const FLAG_LAST: u16 = 2;
const FLAG_COMPLETE: u16 = 4;

const CRC_AT: usize = 12;

/// The part of a frame that tells what it is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The transfer's number, given by its sender.
    pub transfer: u32,
    /// Who sends the frame.
    pub source: NodeId,
    /// Its incarnation; never zero.
    pub source_generation: Generation,
    /// For whom the frame is.
    pub destination: NodeId,
    /// For which incarnation; zero for any, in announcements only.
    pub destination_generation: Generation,
    /// The rest.
    pub body: Body,
}

/// The sorts of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Body {
    /// Sender to receiver: there is a transfer, and how much of it is ready. Its data says where
    /// that lies, if anything.
    Announce(Announce),
    /// Receiver to sender: what has arrived, and what may be sent. Its data is a bitmap.
    Credit(Credit),
    /// A block.
    Data(Data),
    /// The transfer is over, for this reason.
    Cancel {
        /// Why; never [`Status::Ok`].
        status: Status,
        /// Whether the frame comes from the transfer's sender.
        by_sender: bool,
    },
}

/// See [`Body::Announce`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Announce {
    /// The core that sends.
    pub source_core: CoreId,
    /// The core that is to receive.
    pub core: CoreId,
    /// The most bytes of data that the sender can put into a frame; never zero.
    pub block: u16,
    /// What the two cores know the transfer by.
    pub tag: u64,
    /// What they know of it besides.
    pub label: u64,
    /// Bytes in all, if that is known.
    pub total: Option<u64>,
    /// Bytes that are ready to be sent; not more than the total.
    pub ready: u64,
    /// Transfers of this sender with lower numbers are over at their sender.
    pub oldest: u32,
    /// Data frames before this one have come, or will not.
    pub next: u32,
}

/// See [`Body::Credit`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credit {
    /// Bytes of data in each frame but the last; the same in all credit of a transfer.
    pub block: u16,
    /// Whether all of the transfer has arrived.
    pub complete: bool,
    /// The first block that is missing. Bit i of the bitmap is the block `base + 1 + i`.
    pub base: u32,
    /// The frame after the last one that has come, in the order in which the sender sent them.
    pub next: u32,
    /// Frames before this one may be sent.
    pub limit: u32,
    /// Blocks before this one may be sent.
    pub end: u32,
}

/// See [`Body::Data`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// Which block of the transfer.
    pub index: u32,
    /// Which data frame of the transfer, repetitions included.
    pub sequence: u32,
    /// Blocks that are ready to be sent.
    pub ready: u32,
    /// Whether this is the transfer's last block.
    pub last: bool,
}

/// Why bytes are not a frame of this protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// Shorter than the header, or than the header says.
    Truncated,
    /// The Ethernet type is another protocol's, or the sender's address is a group's.
    Ethernet,
    /// A version that this code does not know.
    Version,
    /// An opcode that this code does not know.
    Opcode,
    /// A header or data whose length does not fit the opcode.
    Length,
    /// A reserved field or flag that is not zero.
    Reserved,
    /// A field with a value that it cannot have.
    Value,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Malformed::Truncated => "the frame is shorter than it says",
            Malformed::Ethernet => "the Ethernet header is not that of a bulk frame",
            Malformed::Version => "the frame has another version",
            Malformed::Opcode => "the frame has an unknown opcode",
            Malformed::Length => "a length does not fit the opcode",
            Malformed::Reserved => "a reserved field is not zero",
            Malformed::Value => "a field has an impossible value",
        })
    }
}

impl core::error::Error for Malformed {}

/// A frame that is well-formed; whether it is what its sender sent, [`Frame::checksum_holds`]
/// and a [`Sealer`](crate::Sealer) know.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The address of the interface that it came from.
    pub from: MacAddress,
    /// What it says of itself.
    pub header: Header,
    /// Whether its data is encrypted and has a tag.
    pub sealed: bool,
    /// Its CRC field.
    pub checksum: u32,
    /// Bytes of the header, extension included.
    pub header_bytes: usize,
    /// The frame without Ethernet header and padding.
    pub bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads an Ethernet frame without its check sequence. Padding of frames that were too short
    /// for the wire is cut off.
    pub fn parse(frame: &'a [u8]) -> Result<Frame<'a>, Malformed> {
        let (from, packet) = ethernet(frame)?;
        let mut fields = Fields(packet);
        let [version, header_bytes, opcode, reserved] = fields.take()?;
        let header_bytes = usize::from(header_bytes);
        let flags = fields.u16()?;
        let data_bytes = usize::from(fields.u16()?);
        let transfer = fields.u32()?;
        let checksum = fields.u32()?;
        let source = NodeId(fields.u32()?);
        let source_generation = Generation(fields.u32()?);
        let destination = NodeId(fields.u32()?);
        let destination_generation = Generation(fields.u32()?);
        if version != VERSION {
            return Err(Malformed::Version);
        }
        if reserved != 0 {
            return Err(Malformed::Reserved);
        }
        let (body, own_bytes) = body(opcode, flags, &mut fields)?;
        let sealed = flags & FLAG_SEALED != 0;
        let (extension, tag) = if sealed { (SEAL_BYTES, TAG_BYTES) } else { (0, 0) };
        if header_bytes != own_bytes + extension || !fits(&body, data_bytes) {
            return Err(Malformed::Length);
        }
        let any = destination_generation.0 == 0 && !matches!(body, Body::Announce(_));
        if any || source_generation.0 == 0 {
            return Err(Malformed::Value);
        }
        let all = header_bytes + data_bytes + tag;
        if packet.len() < all {
            return Err(Malformed::Truncated);
        }
        if packet.len() > all && frame.len() > SHORTEST_FRAME {
            return Err(Malformed::Length);
        }
        let header = Header {
            transfer,
            source,
            source_generation,
            destination,
            destination_generation,
            body,
        };
        let bytes = &packet[..all];
        Ok(Frame { from, header, sealed, checksum, header_bytes, bytes })
    }

    /// The data, encrypted if the frame is sealed.
    pub fn data(&self) -> &'a [u8] {
        let tag = if self.sealed { TAG_BYTES } else { 0 };
        &self.bytes[self.header_bytes..self.bytes.len() - tag]
    }

    /// Whether the CRC field is that of the frame. It covers everything after the Ethernet
    /// header, the field itself as zero.
    pub fn checksum_holds(&self, checksum: Checksum) -> bool {
        let (before, rest) = self.bytes.split_at(CRC_AT);
        let start = checksum(checksum(0, before), &[0; 4]);
        checksum(start, &rest[4..]) == self.checksum
    }
}

/// The sender's address and what follows the Ethernet header.
fn ethernet(frame: &[u8]) -> Result<(MacAddress, &[u8]), Malformed> {
    let (header, packet) = frame.split_first_chunk::<HEADER_BYTES>().ok_or(Malformed::Truncated)?;
    let [_, _, _, _, _, _, a, b, c, d, e, f, high, low] = *header;
    let from = MacAddress([a, b, c, d, e, f]);
    if u16::from_be_bytes([high, low]) != ethernet::BULK || from.is_group() {
        return Err(Malformed::Ethernet);
    }
    Ok((from, packet))
}

/// What the header says after its common part, and bytes of a header of that sort.
fn body(opcode: u8, flags: u16, fields: &mut Fields<'_>) -> Result<(Body, usize), Malformed> {
    let (body, bytes, own_flag) = match opcode {
        1 => (Body::Announce(announce(fields)?), ANNOUNCE_BYTES, 0),
        2 => {
            let block = fields.u16()?;
            fields.zero::<2>()?;
            let complete = flags & FLAG_COMPLETE != 0;
            let [base, next, limit, end] =
                [fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?];
            let credit = Credit { block, complete, base, next, limit, end };
            if block == 0 {
                return Err(Malformed::Value);
            }
            (Body::Credit(credit), CREDIT_BYTES, FLAG_COMPLETE)
        }
        3 => {
            let [index, sequence, ready] = [fields.u32()?, fields.u32()?, fields.u32()?];
            let last = flags & FLAG_LAST != 0;
            if index >= ready {
                return Err(Malformed::Value);
            }
            (Body::Data(Data { index, sequence, ready, last }), DATA_BYTES, FLAG_LAST)
        }
        4 => {
            let status = Status::from_code(fields.u16()?).filter(|it| *it != Status::Ok);
            let status = status.ok_or(Malformed::Value)?;
            let by_sender = match fields.u16()? {
                1 => true,
                2 => false,
                _ => return Err(Malformed::Value),
            };
            (Body::Cancel { status, by_sender }, CANCEL_BYTES, 0)
        }
        _ => return Err(Malformed::Opcode),
    };
    if flags & !(FLAG_SEALED | own_flag) != 0 {
        return Err(Malformed::Reserved);
    }
    Ok((body, bytes))
}

fn announce(fields: &mut Fields<'_>) -> Result<Announce, Malformed> {
    let source_core = CoreId(fields.u16()?);
    let core = CoreId(fields.u16()?);
    let block = fields.u16()?;
    fields.zero::<2>()?;
    let [tag, label] = [fields.u64()?, fields.u64()?];
    let [total, ready] = [fields.u64()?, fields.u64()?];
    let [oldest, next] = [fields.u32()?, fields.u32()?];
    let total = (total != UNKNOWN).then_some(total);
    if block == 0 || ready > total.unwrap_or(UNKNOWN - 1) {
        return Err(Malformed::Value);
    }
    Ok(Announce { source_core, core, block, tag, label, total, ready, oldest, next })
}

/// Whether a frame of this sort can have so many bytes of data.
fn fits(body: &Body, data_bytes: usize) -> bool {
    match body {
        Body::Announce(_) => Shown::fits(data_bytes),
        Body::Cancel { .. } => data_bytes == 0,
        Body::Credit(_) => data_bytes <= BITMAP_BYTES,
        Body::Data(_) => data_bytes > 0,
    }
}

impl Header {
    /// Bytes of the header of this sort of frame.
    pub fn bytes(&self, sealed: bool) -> usize {
        let own = match self.body {
            Body::Announce(_) => ANNOUNCE_BYTES,
            Body::Credit(_) => CREDIT_BYTES,
            Body::Data(_) => DATA_BYTES,
            Body::Cancel { .. } => CANCEL_BYTES,
        };
        if sealed { own + SEAL_BYTES } else { own }
    }

    /// Writes the Ethernet header and this one for `data_bytes` bytes of data, its CRC field and
    /// its sequence number zero, to the start of `out`; gives where the data begins. `None` if
    /// `out` has no room for all of the frame.
    pub fn write(
        &self,
        [to, from]: [MacAddress; 2],
        sealed: bool,
        data_bytes: usize,
        out: &mut [u8],
    ) -> Option<usize> {
        let header_bytes = self.bytes(sealed);
        let start = HEADER_BYTES + header_bytes;
        let tag = if sealed { TAG_BYTES } else { 0 };
        if out.len() < start + data_bytes + tag {
            return None;
        }
        let (opcode, own_flag) = match self.body {
            Body::Announce(_) => (1, 0),
            Body::Credit(it) => (2, if it.complete { FLAG_COMPLETE } else { 0 }),
            Body::Data(it) => (3, if it.last { FLAG_LAST } else { 0 }),
            Body::Cancel { .. } => (4, 0),
        };
        let flags = own_flag | if sealed { FLAG_SEALED } else { 0 };
        let mut writer = Writer { out, at: 0 };
        writer.put(to.0);
        writer.put(from.0);
        writer.put(ethernet::BULK.to_be_bytes());
        writer.put([VERSION, header_bytes as u8, opcode, 0]);
        writer.put(flags.to_be_bytes());
        writer.put(u16::try_from(data_bytes).ok()?.to_be_bytes());
        writer.put(self.transfer.to_be_bytes());
        writer.put([0; 4]);
        for word in [
            self.source.0,
            self.source_generation.0,
            self.destination.0,
            self.destination_generation.0,
        ] {
            writer.put(word.to_be_bytes());
        }
        self.body.write(&mut writer);
        if sealed {
            writer.put([0; SEAL_BYTES]);
        }
        debug_assert_eq!(writer.at, start);
        Some(start)
    }
}

impl Body {
    fn write(&self, writer: &mut Writer<'_>) {
        match *self {
            Body::Announce(it) => {
                writer.put(it.source_core.0.to_be_bytes());
                writer.put(it.core.0.to_be_bytes());
                writer.put(it.block.to_be_bytes());
                writer.put([0; 2]);
                writer.put(it.tag.to_be_bytes());
                writer.put(it.label.to_be_bytes());
                writer.put(it.total.unwrap_or(UNKNOWN).to_be_bytes());
                writer.put(it.ready.to_be_bytes());
                writer.put(it.oldest.to_be_bytes());
                writer.put(it.next.to_be_bytes());
            }
            Body::Credit(it) => {
                writer.put(it.block.to_be_bytes());
                writer.put([0; 2]);
                for word in [it.base, it.next, it.limit, it.end] {
                    writer.put(word.to_be_bytes());
                }
            }
            Body::Data(it) => {
                for word in [it.index, it.sequence, it.ready] {
                    writer.put(word.to_be_bytes());
                }
            }
            Body::Cancel { status, by_sender } => {
                writer.put(status.code().to_be_bytes());
                writer.put(if by_sender { 1_u16 } else { 2 }.to_be_bytes());
            }
        }
    }
}

/// Fills in the CRC field of a whole frame.
pub fn write_checksum(frame: &mut [u8], checksum: Checksum) {
    let Some(packet) = frame.get_mut(HEADER_BYTES..) else { return };
    let crc = checksum(0, packet);
    if let Some(field) = packet.get_mut(CRC_AT..CRC_AT + 4) {
        field.copy_from_slice(&crc.to_be_bytes());
    }
}

/// Makes the CRC field of a copy of a frame's bytes zero, as it was when the frame was sealed.
pub fn clear_checksum(bytes: &mut [u8]) {
    if let Some(field) = bytes.get_mut(CRC_AT..CRC_AT + 4) {
        field.fill(0);
    }
}

/// Reads one field after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(*field)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.take().map(u64::from_be_bytes)
    }

    fn zero<const N: usize>(&mut self) -> Result<(), Malformed> {
        match self.take()? == [0; N] {
            true => Ok(()),
            false => Err(Malformed::Reserved),
        }
    }
}

/// Writes one field after the other to where there is room for all of them.
struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put<const N: usize>(&mut self, field: [u8; N]) {
        if let Some(place) = self.out.get_mut(self.at..self.at + N) {
            place.copy_from_slice(&field);
        }
        self.at += N;
    }
}
