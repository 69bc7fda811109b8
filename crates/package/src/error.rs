//! What can be wrong with a package's file, and where.

use core::fmt;

/// Why a file is no package that this system runs. Addresses are those in the file: bytes from
/// where the image begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PackageError {
    /// It does not begin as an ELF file does.
    NotElf,
    /// It is not of the 64-bit class.
    NotWide,
    /// Its numbers are not little-endian.
    NotLittleEndian,
    /// It is for the machine of this number, not for x86_64 (62).
    Machine(u16),
    /// It is of this type, not a position-independent program (3).
    Type(u16),
    /// A header or table of this name lies outside the file or contradicts itself.
    Damaged(&'static str),
    /// It has more than [`MAX_SEGMENTS`](crate::MAX_SEGMENTS) segments in memory.
    TooManySegments,
    /// It has more than [`MAX_HEADERS`](crate::MAX_HEADERS) program headers.
    TooManyHeaders,
    /// It has nothing in memory.
    Empty,
    /// The segment of this number has contents outside the file, or more than its memory.
    Contents(usize),
    /// The segment of this number reaches further than
    /// [`MAX_IMAGE_BYTES`](crate::MAX_IMAGE_BYTES).
    TooLarge(usize),
    /// The segment of this number shares a page with one before it.
    Overlap(usize),
    /// The segment of this number is writable and executable.
    WritableCode(usize),
    /// The segment of this number cannot be read.
    Unreadable(usize),
    /// The entry point, at this address, is not in code.
    Entry(u64),
    /// It names an interpreter.
    Interpreter,
    /// It has thread-local storage.
    ThreadLocal,
    /// It needs a library.
    Library,
    /// It has code that would have to run before its entry point or after its end.
    Constructors,
    /// Its relocations are in a table of a sort that is not supported.
    RelocationTable,
    /// The relocation of this number is of this kind, not `R_X86_64_RELATIVE` (8).
    RelocationKind(usize, u32),
    /// The relocation of this number is at this address, which is not in writable memory.
    RelocationPlace(usize, u64),
    /// The relocation of this number points to this offset, which is outside the image.
    RelocationTarget(usize, i64),
    /// It has no manifest: it was not built as a package.
    NoManifest,
    /// Its manifest is wrong.
    Manifest(ManifestError),
}

/// What is wrong with a manifest. Lines are counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ManifestError {
    /// It is not UTF-8 text.
    NotText,
    /// This line is none of `name NAME`, `publishes TYPE`, `uses pool`, `uses region NAME`,
    /// `keeps NAME BYTES`.
    Line(usize),
    /// The name on this line is empty, longer than 64 bytes, or has a character besides ASCII
    /// letters, digits, `-`, `_` and `.`.
    Name(usize),
    /// It gives no name.
    Nameless,
    /// This line gives a second name.
    SecondName(usize),
    /// It publishes more than [`MAX_PUBLISHED`](crate::MAX_PUBLISHED) types, or keeps more than
    /// [`MAX_KEEPS`](crate::MAX_KEEPS) pieces of memory.
    TooMany,
    /// The file has two.
    Second,
}

impl From<ManifestError> for PackageError {
    fn from(error: ManifestError) -> PackageError {
        PackageError::Manifest(error)
    }
}

impl fmt::Display for PackageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PackageError::*;
        match *self {
            NotElf => f.write_str("not an ELF file"),
            NotWide => f.write_str("not a 64-bit ELF file"),
            NotLittleEndian => f.write_str("not a little-endian ELF file"),
            Machine(number) => write!(f, "built for machine {number}, not for x86_64 (62)"),
            Type(number) => write!(f, "of ELF type {number}, not a static PIE (3)"),
            Damaged(what) => write!(f, "damaged: the {what} is outside the file or wrong"),
            TooManySegments => write!(f, "more than {} segments", crate::MAX_SEGMENTS),
            TooManyHeaders => write!(f, "more than {} program headers", crate::MAX_HEADERS),
            Empty => f.write_str("nothing in it belongs in memory"),
            Contents(at) => write!(f, "segment {at}: contents outside the file or its memory"),
            TooLarge(at) => {
                write!(f, "segment {at}: beyond {} MiB", crate::MAX_IMAGE_BYTES >> 20)
            }
            Overlap(at) => write!(f, "segment {at}: shares a page with another"),
            WritableCode(at) => write!(f, "segment {at}: writable and executable"),
            Unreadable(at) => write!(f, "segment {at}: not readable"),
            Entry(at) => write!(f, "the entry point {at:#x} is not in code"),
            Interpreter => f.write_str("it wants an interpreter; link it with -static-pie"),
            ThreadLocal => f.write_str("it has thread-local storage"),
            Library => f.write_str("it needs a library; link it with -static-pie"),
            Constructors => f.write_str("it has constructors, which nothing would run"),
            RelocationTable => f.write_str("relocations in a table other than DT_RELA"),
            RelocationKind(index, kind) => {
                write!(f, "relocation {index}: kind {kind}, not R_X86_64_RELATIVE (8)")
            }
            RelocationPlace(index, at) => {
                write!(f, "relocation {index}: {at:#x} is not in writable memory")
            }
            RelocationTarget(index, to) => {
                write!(f, "relocation {index}: {to:#x} is outside the image")
            }
            NoManifest => f.write_str("no manifest; build it with nile_user::package!"),
            Manifest(error) => write!(f, "manifest: {error}"),
        }
    }
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ManifestError::*;
        match *self {
            NotText => f.write_str("not UTF-8 text"),
            Line(line) => write!(
                f,
                "line {line}: none of `name NAME`, `publishes TYPE`, `uses pool`, `uses region \
                 NAME`, `keeps NAME BYTES`"
            ),
            Name(line) => {
                write!(f, "line {line}: a name is 1 to 64 ASCII letters, digits, `-`, `_` and `.`")
            }
            Nameless => f.write_str("no line `name NAME`"),
            SecondName(line) => write!(f, "line {line}: a second name"),
            TooMany => {
                let (types, keeps) = (crate::MAX_PUBLISHED, crate::MAX_KEEPS);
                write!(f, "more than {types} types to publish, or more than {keeps} keeps")
            }
            Second => f.write_str("the file has two"),
        }
    }
}

impl core::error::Error for PackageError {}
impl core::error::Error for ManifestError {}
