//! The tags, attributes and texts of a document, one after the other.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use crate::error::{Error, ErrorKind, excerpt};
use crate::schema::is_name_byte;

use super::escape::{before, is_special, is_text, noncharacter};

/// A place in a document.
#[derive(Clone)]
pub(crate) struct Scanner<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
}

/// The beginning of an element, up to its name; or the end of one, all of it.
pub(crate) enum Tag<'t> {
    Open(&'t str),
    Close(&'t str),
}

/// What comes after a tag that opens an element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// Its content, and a tag that closes it.
    Inside,
    /// Nothing that belongs to it.
    Empty,
}

impl<'t> Scanner<'t> {
    pub fn new(text: &'t str) -> Scanner<'t> {
        Scanner { text, bytes: text.as_bytes(), at: 0 }
    }

    /// The next byte's place, counted from zero.
    #[inline]
    pub fn offset(&self) -> usize {
        self.at
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[cold]
    fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, self.at)
    }

    /// Something else was expected here; or nothing is here at all.
    #[cold]
    pub fn expected(&self, expected: &'static str) -> Error {
        match self.peek() {
            None => self.error(ErrorKind::Truncated),
            Some(_) => self.error(ErrorKind::Syntax { expected }),
        }
    }

    #[inline]
    pub fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Takes `<name>`, if that is what comes.
    #[inline]
    pub fn opens(&mut self, name: &str) -> bool {
        self.takes(b"<", name)
    }

    /// Takes the tag that closes the element `name`.
    #[inline]
    pub fn closes(&mut self, name: &str) -> Result<(), Error> {
        if self.takes(b"</", name) { Ok(()) } else { self.closes_slowly(name) }
    }

    #[inline]
    fn takes(&mut self, start: &[u8], name: &str) -> bool {
        let name_at = self.at + start.len();
        let end = name_at + name.len();
        let is_it = self.bytes.get(end) == Some(&b'>')
            && &self.bytes[self.at..name_at] == start
            && &self.bytes[name_at..end] == name.as_bytes();
        if is_it {
            self.at = end + 1;
        }
        is_it
    }

    #[cold]
    fn closes_slowly(&mut self, name: &str) -> Result<(), Error> {
        self.space();
        let at = self.at;
        match self.tag()? {
            Tag::Close(found) if found == name => Ok(()),
            Tag::Close(found) => Err(mismatch(name, found, at)),
            Tag::Open(_) => {
                Err(Error::new(ErrorKind::Syntax { expected: "the element's end" }, at))
            }
        }
    }

    /// Takes `<name`, or `</name>`.
    pub fn tag(&mut self) -> Result<Tag<'t>, Error> {
        match self.bytes.get(self.at + 1) {
            _ if self.peek() != Some(b'<') => Err(self.expected("a tag")),
            Some(b'/') => {
                self.at += 2;
                let name = self.name()?;
                self.space();
                match self.peek() {
                    Some(b'>') => self.at += 1,
                    _ => return Err(self.expected("`>`")),
                }
                Ok(Tag::Close(name))
            }
            Some(b'!') => Err(self.refused()),
            Some(b'?') => Err(self.error(ErrorKind::Refused { what: "processing instructions" })),
            _ => {
                self.at += 1;
                Ok(Tag::Open(self.name()?))
            }
        }
    }

    #[cold]
    fn refused(&self) -> Error {
        let rest = &self.bytes[self.at..];
        let what = if rest.starts_with(b"<!--") {
            "comments"
        } else if rest.starts_with(b"<![CDATA[") {
            "CDATA sections"
        } else {
            "document types"
        };
        self.error(ErrorKind::Refused { what })
    }

    fn name(&mut self) -> Result<&'t str, Error> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|it| !is_name_byte(*it)).unwrap_or(rest.len());
        let name = &self.text[self.at..self.at + end];
        if !name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
            return Err(self.expected("a name"));
        }
        self.at += end;
        Ok(name)
    }

    /// Takes an attribute, with its value, unless the tag ends here.
    pub fn attribute(&mut self) -> Result<Option<(&'t str, Cow<'t, str>)>, Error> {
        let before = self.at;
        self.space();
        if matches!(self.peek(), Some(b'>' | b'/')) {
            return Ok(None);
        }
        if self.at == before {
            return Err(self.expected("white space, `>` or `/>`"));
        }
        let name = self.name()?;
        self.space();
        if self.peek() != Some(b'=') {
            return Err(self.expected("`=`"));
        }
        self.at += 1;
        self.space();
        let Some(quote @ (b'"' | b'\'')) = self.peek() else {
            return Err(self.expected("a quoted value"));
        };
        self.at += 1;
        let rest = &self.text[self.at..];
        let end = rest.find(char::from(quote)).unwrap_or(rest.len());
        let plain =
            |it: char| it != '&' && it != '<' && it != '>' && !it.is_control() && is_text(it);
        if end < rest.len() && rest[..end].chars().all(plain) {
            self.at += end + 1;
            return Ok(Some((name, Cow::Borrowed(&rest[..end]))));
        }
        let mut value = Vec::new();
        while self.peek() != Some(quote) {
            match self.peek() {
                Some(b'\t' | b'\n' | b'\r') => {
                    value.push(b' ');
                    self.at += 1;
                }
                Some(b'<') => return Err(self.expected("`&lt;`")),
                _ => self.character(&mut value)?,
            }
        }
        self.at += 1;
        let value = String::from_utf8(value).map_err(|_| self.expected("UTF-8"))?;
        Ok(Some((name, Cow::Owned(value))))
    }

    /// Takes the end of a tag that opens an element.
    pub fn end_of_tag(&mut self) -> Result<Content, Error> {
        self.space();
        let (content, length) = match (self.peek(), self.bytes.get(self.at + 1)) {
            (Some(b'>'), _) => (Content::Inside, 1),
            (Some(b'/'), Some(b'>')) => (Content::Empty, 2),
            (Some(b'/'), _) => {
                self.at += 1;
                return Err(self.expected("`>`"));
            }
            _ => return Err(self.expected("`>` or `/>`")),
        };
        self.at += length;
        Ok(content)
    }

    /// Takes what comes before the next tag, without white space around it and as it is, with
    /// the place where it begins.
    #[inline]
    pub fn word(&mut self) -> Result<(&'t str, usize), Error> {
        let start = self.at;
        let rest = &self.bytes[start..];
        let end = before(rest, |byte| byte == b'<');
        match end < rest.len() {
            true => {
                self.at += end;
                let word = &self.text[start..self.at];
                // Almost never is there anything to trim.
                match word.as_bytes() {
                    [b'!'..=b'~', .., b'!'..=b'~'] | [b'!'..=b'~'] => Ok((word, start)),
                    _ => {
                        let trimmed = word.trim_ascii_start();
                        Ok((trimmed.trim_ascii_end(), self.at - trimmed.len()))
                    }
                }
            }
            false => {
                self.at = self.text.len();
                Err(self.expected("the element's end"))
            }
        }
    }

    /// Takes the string before the next tag, and puts it into `out` without its escapes.
    pub fn string(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let start = self.at;
        loop {
            let rest = &self.bytes[self.at..];
            let length = before(rest, is_special);
            out.extend_from_slice(&rest[..length]);
            self.at += length;
            if self.peek() == Some(b'<') {
                break;
            }
            self.character(out)?;
        }
        match noncharacter(&self.bytes[start..self.at]) {
            None => Ok(()),
            Some(place) => {
                self.at = start + place;
                self.character(out)
            }
        }
    }

    /// Takes one character, which may be escaped.
    fn character(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let rest = &self.text[self.at..];
        let Some(first) = rest.chars().next() else {
            return Err(self.expected("the end"));
        };
        let length = match first {
            '&' => {
                let (byte, length) = self.entity(rest)?;
                out.push(byte);
                length
            }
            '>' if self.bytes[..self.at].ends_with(b"]]") => {
                return Err(self.expected("`&gt;` after `]]`"));
            }
            _ if is_text(first) => {
                let length = first.len_utf8();
                out.extend_from_slice(&rest.as_bytes()[..length]);
                length
            }
            _ => return Err(self.error(ErrorKind::NoText { found: first })),
        };
        self.at += length;
        Ok(())
    }

    /// The byte that the entity at the beginning of `rest` stands for, and the entity's length.
    fn entity(&self, rest: &str) -> Result<(u8, usize), Error> {
        const FIVE: [(&str, u8); 5] =
            [("&lt;", b'<'), ("&gt;", b'>'), ("&amp;", b'&'), ("&quot;", b'"'), ("&apos;", b'\'')];
        let found = FIVE.iter().find(|(entity, _)| rest.starts_with(entity));
        match found {
            Some((entity, byte)) => Ok((*byte, entity.len())),
            None if rest.starts_with("&#") => {
                Err(self.error(ErrorKind::Refused { what: "character references" }))
            }
            None => Err(self.expected("`&lt;`, `&gt;`, `&amp;`, `&quot;` or `&apos;`")),
        }
    }

    /// Nothing but white space is left.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.error(ErrorKind::Trailing)),
        }
    }
}

/// The element that closes here is not the one that is open.
#[cold]
pub(crate) fn mismatch(expected: &str, found: &str, at: usize) -> Error {
    Error::new(ErrorKind::WrongElement { expected: excerpt(expected), found: excerpt(found) }, at)
}
