//! The binary form: values one after the other with nothing between. Numbers have the width of
//! their type, least significant byte first; strings, bytes and lists begin with their length in
//! two bytes, of which a message of 64 KiB needs no more. A case is its number in one byte, and its
//! value.
//!
//! Fixed widths instead of varints: a number is one comparison and one load.

use alloc::vec::Vec;

use crate::MAX_MESSAGE;
use crate::error::{Error, ErrorKind};

/// Takes values off the front of a message.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    total: usize,
}

impl<'a> Reader<'a> {
    /// At the first byte of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes, total: bytes.len() }
    }

    /// The next byte's place in the message, counted from zero.
    #[inline]
    pub fn offset(&self) -> usize {
        self.total - self.rest.len()
    }

    /// How many bytes are left.
    #[inline]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next `N` bytes. Fails with [`ErrorKind::Truncated`].
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        match self.rest.split_first_chunk() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => Err(self.error(ErrorKind::Truncated)),
        }
    }

    /// The next `count` bytes. Fails with [`ErrorKind::Truncated`].
    #[inline]
    pub fn slice(&mut self, count: usize) -> Result<&'a [u8], Error> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.error(ErrorKind::Truncated)),
        }
    }

    /// The length of a string or of bytes. Fails with [`ErrorKind::Truncated`].
    #[inline]
    pub fn length(&mut self) -> Result<usize, Error> {
        Ok(usize::from(u16::from_le_bytes(self.array()?)))
    }

    /// The number of a list's elements, which take at least `least` bytes each, and not less than
    /// one: whoever makes room for that many makes room for what is there. Fails with
    /// [`ErrorKind::Truncated`] if the message is too short for them.
    #[inline]
    pub fn count(&mut self, least: usize) -> Result<usize, Error> {
        let count = self.length()?;
        if count * least.max(1) > self.rest.len() {
            return Err(self.error(ErrorKind::Truncated));
        }
        Ok(count)
    }

    /// The number of one of these cases. Fails with [`ErrorKind::UnknownCase`].
    #[inline]
    pub fn case(&mut self, cases: &[impl AsRef<str>]) -> Result<u8, Error> {
        let at = self.offset();
        let [number] = self.array()?;
        if usize::from(number) < cases.len() {
            return Ok(number);
        }
        Err(Error::unknown_case(&alloc::format!("{number}"), cases, at))
    }

    /// Fails with [`ErrorKind::Trailing`] unless every byte has been taken.
    #[inline]
    pub fn finish(&self) -> Result<(), Error> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.error(ErrorKind::Trailing)) }
    }

    /// An error at the next byte.
    #[cold]
    pub fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, self.offset())
    }
}

/// Puts values at the end of a message. What cannot be said, [`Writer::into_bytes`] tells.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    failure: Option<Error>,
}

impl Writer {
    /// An empty message.
    #[inline]
    pub fn new() -> Writer {
        Writer::default()
    }

    /// An empty message with room for so many bytes.
    #[inline]
    pub fn with_capacity(bytes: usize) -> Writer {
        Writer { bytes: Vec::with_capacity(bytes), failure: None }
    }

    /// How many bytes there are.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a message without parameters is nothing odd")]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Puts these bytes and nothing else.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Puts the length of what follows.
    #[inline]
    pub fn length(&mut self, length: usize) {
        match u16::try_from(length) {
            Ok(length) => self.put(&length.to_le_bytes()),
            Err(_) => self.fail(ErrorKind::TooLarge),
        }
    }

    /// Puts bytes with their length before them.
    #[inline]
    pub fn slice(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.put(bytes);
    }

    /// Puts a list of `count` elements, which `put` puts.
    #[inline]
    pub fn list(&mut self, count: usize, put: impl FnOnce(&mut Writer)) {
        self.length(count);
        let start = self.len();
        put(self);
        self.check_list(count, start);
    }

    /// A list of nothing could say that it has 65,535 elements, and its reader would have to
    /// believe it.
    #[inline]
    fn check_list(&mut self, count: usize, start: usize) {
        if self.len() - start < count {
            self.fail(ErrorKind::Schema { what: "the elements of a list take no bytes" });
        }
    }

    /// Puts something whose length is known when it is there.
    pub(crate) fn measured<T>(
        &mut self,
        put: impl FnOnce(&mut Vec<u8>) -> Result<T, Error>,
    ) -> Result<usize, Error> {
        let start = self.open();
        put(&mut self.bytes)?;
        let length = self.len() - start;
        self.close(start, length);
        Ok(length)
    }

    /// Leaves room for a length, and gives where what it measures begins.
    pub(crate) fn open(&mut self) -> usize {
        self.put(&[0; 2]);
        self.len()
    }

    /// Fills in the length of what begins at `start`.
    pub(crate) fn close(&mut self, start: usize, length: usize) {
        match u16::try_from(length) {
            Ok(length) => self.bytes[start - 2..start].copy_from_slice(&length.to_le_bytes()),
            Err(_) => self.fail(ErrorKind::TooLarge),
        }
    }

    /// The same for a list of `count` elements.
    pub(crate) fn close_list(&mut self, start: usize, count: usize) {
        self.close(start, count);
        self.check_list(count, start);
    }

    /// Puts what begins at each of `parts`, the last of which reaches to the end, in the order in
    /// which they are given; `start` is the least of them.
    pub(crate) fn reorder(&mut self, start: usize, parts: impl Iterator<Item = (usize, usize)>) {
        let tail = self.bytes.split_off(start);
        for (from, to) in parts {
            self.put(&tail[from - start..to - start]);
        }
    }

    #[cold]
    fn fail(&mut self, kind: ErrorKind) {
        let at = self.len();
        self.failure.get_or_insert_with(|| Error::new(kind, at));
    }

    /// The message. Fails with [`ErrorKind::TooLarge`] beyond [`MAX_MESSAGE`] bytes, and with
    /// [`ErrorKind::Schema`] if it has a list whose elements take no bytes.
    #[inline]
    pub fn into_bytes(self) -> Result<Vec<u8>, Error> {
        match self.failure {
            Some(failure) => Err(failure),
            None if self.bytes.len() > MAX_MESSAGE => {
                Err(Error::new(ErrorKind::TooLarge, MAX_MESSAGE))
            }
            None => Ok(self.bytes),
        }
    }
}
