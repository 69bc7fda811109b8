//! The cells that both protocols travel in.

use core::fmt;

/// Bytes of a message: what a ring's cell carries.
pub const CELL: usize = 56;

/// These bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no message of this protocol")
    }
}

/// Fills a cell from its beginning; the rest stays zero.
pub(crate) struct Writer {
    cell: [u8; CELL],
    at: usize,
}

impl Writer {
    pub fn new(kind: u8) -> Writer {
        let mut writer = Writer { cell: [0; CELL], at: 0 };
        writer.put(&[kind]);
        writer
    }

    /// Appends bytes; no message has more than a cell takes.
    pub fn put(&mut self, bytes: &[u8]) -> &mut Writer {
        let end = self.at + bytes.len();
        self.cell[self.at..end].copy_from_slice(bytes);
        self.at = end;
        self
    }

    pub fn u8(&mut self, value: u8) -> &mut Writer {
        self.put(&[value])
    }

    pub fn u16(&mut self, value: u16) -> &mut Writer {
        self.put(&value.to_le_bytes())
    }

    pub fn u32(&mut self, value: u32) -> &mut Writer {
        self.put(&value.to_le_bytes())
    }

    pub fn cell(&self) -> [u8; CELL] {
        self.cell
    }
}

/// Reads a cell from its beginning.
pub(crate) struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    /// The reader of a whole cell.
    pub fn new(cell: &'a [u8]) -> Result<Reader<'a>, Malformed> {
        if cell.len() == CELL { Ok(Reader { left: cell }) } else { Err(Malformed) }
    }

    pub fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (bytes, left) = self.left.split_first_chunk().ok_or(Malformed)?;
        self.left = left;
        Ok(*bytes)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.bytes().map(u8::from_le_bytes)
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.bytes().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.bytes().map(u32::from_le_bytes)
    }

    pub fn bool(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// What was read, if nothing but zeros follows: each message has one form.
    pub fn end<T>(self, read: T) -> Result<T, Malformed> {
        if self.left.iter().all(|byte| *byte == 0) { Ok(read) } else { Err(Malformed) }
    }
}
