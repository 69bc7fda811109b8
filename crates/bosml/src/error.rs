//! What is wrong with a document or a message, and where.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::schema::{Fingerprint, Range};

/// The most characters of the input that an error repeats.
const MOST_REPEATED: usize = 40;

/// What is wrong, at which byte, and in which parameter. One pointer wide, because every step of a
/// decoder can return it and nearly none does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Error(Box<Report>);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Report {
    kind: ErrorKind,
    offset: usize,
    /// Line and column; a binary message has none.
    line: Option<(usize, usize)>,
    /// From the inside out.
    path: Vec<String>,
}

/// What is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The input ends where something should stand.
    Truncated,
    /// The input goes on after its last value.
    Trailing,
    /// More than [`MAX_MESSAGE`](crate::MAX_MESSAGE) bytes.
    TooLarge,
    /// A type nested deeper than [`MAX_DEPTH`](crate::MAX_DEPTH).
    TooDeep,
    /// Not well-formed.
    Syntax {
        /// What may stand here.
        expected: &'static str,
    },
    /// A part of XML that BOSML does not have.
    Refused {
        /// The part.
        what: &'static str,
    },
    /// A character that has no place in a string of the text form.
    NoText {
        /// The character.
        found: char,
    },
    /// The document is another one.
    WrongElement {
        /// The name of the element that should stand here.
        expected: String,
        /// The one that does.
        found: String,
    },
    /// A value that the schema does not have.
    UnknownParameter {
        /// Its name; attributes begin with `@`.
        name: String,
        /// The names that there are, with commas between.
        known: String,
    },
    /// A value that the schema has and the document does not.
    MissingParameter {
        /// Its name.
        name: String,
    },
    /// A value given twice.
    DuplicateParameter {
        /// Its name.
        name: String,
    },
    /// A value of another type.
    WrongType {
        /// The type that the schema says.
        expected: &'static str,
        /// The beginning of what stands there.
        found: String,
    },
    /// A case that the schema does not have.
    UnknownCase {
        /// Its name or its number.
        found: String,
        /// The names that there are, with commas between.
        known: String,
    },
    /// A message of another version of the program, which has other fields or cases.
    OtherVersion {
        /// The type of the message that is understood.
        expected: Fingerprint,
        /// That of the one that came.
        found: Fingerprint,
    },
    /// A value beyond its type or its range, or a list, string or bytes of a wrong length.
    OutOfRange {
        /// What it must be within.
        range: Range,
        /// The number, or the length.
        found: String,
    },
    /// A schema that no service may have.
    Schema {
        /// What is wrong with it.
        what: &'static str,
    },
}

impl Error {
    /// An error of this kind at this byte of the input, counted from zero.
    #[cold]
    pub fn new(kind: ErrorKind, offset: usize) -> Error {
        Error(Box::new(Report { kind, offset, line: None, path: Vec::new() }))
    }

    /// The same error seen from outside: it is in the part called `name`.
    #[cold]
    #[must_use]
    pub fn within(mut self, name: &str) -> Error {
        self.0.path.push(name.to_owned());
        self
    }

    /// The same error, within the element of a list, counted from zero.
    #[cold]
    pub(crate) fn within_item(mut self, index: usize) -> Error {
        self.0.path.push(alloc::format!("{index}"));
        self
    }

    /// None of these cases.
    #[cold]
    pub(crate) fn unknown_case(found: &str, cases: &[impl AsRef<str>], offset: usize) -> Error {
        let (found, known) = (excerpt(found), names(cases));
        Error::new(ErrorKind::UnknownCase { found, known }, offset)
    }

    /// Finds the line in the text that was read.
    #[cold]
    pub(crate) fn in_text(mut self, text: &str) -> Error {
        let before = &text.as_bytes()[..self.0.offset.min(text.len())];
        let lines = before.iter().filter(|byte| **byte == b'\n').count();
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        // Continuation bytes of UTF-8 begin no character.
        let columns = before[start..].iter().filter(|byte| **byte & 0xc0 != 0x80).count();
        self.0.line = Some((lines + 1, columns + 1));
        self
    }

    /// What is wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The byte of the input, counted from zero.
    pub fn offset(&self) -> usize {
        self.0.offset
    }

    /// Line and column, in characters, counted from one; `None` for a binary message.
    pub fn line(&self) -> Option<(usize, usize)> {
        self.0.line
    }

    /// The names from the outermost to the innermost with `/` between, such as `compute/m`; the
    /// elements of a list are counted from zero.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for name in self.0.path.iter().rev() {
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(name);
        }
        path
    }
}

/// What fields or cases are called, for an error.
pub(crate) fn names(named: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = named.iter().map(AsRef::as_ref).collect();
    names.join(", ")
}

/// The beginning of `text`, short enough to be repeated in an error.
pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(MOST_REPEATED) {
        Some((end, _)) => alloc::format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.path.is_empty() {
            write!(f, "{}, ", self.path())?;
        }
        match self.0.line {
            Some((line, column)) => write!(f, "line {line}, column {column}: ")?,
            None => write!(f, "byte {}: ", self.0.offset)?,
        }
        self.0.kind.fmt(f)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::Truncated => f.write_str("the input ends too early"),
            ErrorKind::Trailing => f.write_str("the input goes on after its end"),
            ErrorKind::TooLarge => {
                write!(f, "more than {} bytes; send it in parts", crate::MAX_MESSAGE)
            }
            ErrorKind::TooDeep => {
                write!(f, "nested more than {} deep; flatten the type", crate::MAX_DEPTH)
            }
            ErrorKind::Syntax { expected } => write!(f, "expected {expected}"),
            ErrorKind::Refused { what } => write!(f, "BOSML has no {what}; leave it out"),
            ErrorKind::NoText { found } => {
                write!(f, "a text cannot carry {found:?}; make the parameter `bytes`")
            }
            ErrorKind::WrongElement { expected, found } => {
                write!(f, "expected the element `{expected}`, found `{found}`")
            }
            ErrorKind::UnknownParameter { name, known } if known.is_empty() => {
                write!(f, "unknown parameter `{name}`; expected none")
            }
            ErrorKind::UnknownParameter { name, known } => {
                write!(f, "unknown parameter `{name}`; expected one of {known}")
            }
            ErrorKind::MissingParameter { name } => write!(f, "parameter `{name}` is missing"),
            ErrorKind::DuplicateParameter { name } => {
                write!(f, "parameter `{name}` is given twice; expected once")
            }
            ErrorKind::WrongType { expected, found } => {
                write!(f, "expected {expected}, found `{found}`")
            }
            ErrorKind::UnknownCase { found, known } => {
                write!(f, "unknown case `{found}`; expected one of {known}")
            }
            ErrorKind::OtherVersion { expected, found } => write!(
                f,
                "a message of another version of NileOS (its type is {found}, here {expected}); \
                 run one version on all nodes"
            ),
            ErrorKind::OutOfRange { range, found } => {
                write!(f, "expected {} to {}, found {found}", range.least, range.most)
            }
            ErrorKind::Schema { what } => write!(f, "a schema is wrong: {what}"),
        }
    }
}

impl core::error::Error for Error {}
