//! The boot module that a node is started with: either the text of `nile.toml`, or a `tar` archive
//! (ustar) of that file and of packages.
//!
//! ```text
//! nile.toml
//! packages/hello.elf        the package `hello`
//! packages/threads.elf      the package `threads`
//! ```
//!
//! An archive is a sequence of files: a header block, then the contents, filled up with zeros to
//! whole blocks of 512 bytes; two blocks of zeros end it. Numbers are octal text.
//!
//! | offset | size | header   |   | offset | size | header                          |
//! | ------ | ---- | -------- | - | ------ | ---- | ------------------------------- |
//! | 0      | 100  | name     |   | 156    | 1    | kind: `0` or zero, a plain file |
//! | 124    | 12   | size     |   | 257    | 5    | `ustar`                         |
//! | 148    | 8    | checksum |   | 345    | 155  | folder before the name          |
//!
//! This is read here because the crate that does it without the standard library panics on an
//! archive that ends too early.

use core::fmt;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::store::Store;

const BLOCK: usize = 512;
const MAGIC: &[u8] = b"ustar";

/// What a boot module says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BootModule {
    /// The text of `nile.toml`, empty without one.
    pub config: &'static str,
    /// The packages.
    pub packages: Store,
}

/// What is wrong with a boot module. Offsets are bytes from its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArchiveError {
    /// `nile.toml` is not UTF-8 text.
    NotText,
    /// The header at this offset is damaged.
    Header(usize),
    /// The archive ends within the file whose header is at this offset, or before its last block.
    Cut(usize),
    /// The file whose header is at this offset is neither `nile.toml` nor `packages/NAME.elf`.
    Stranger(usize),
    /// The file whose header is at this offset has the name of one before it.
    Twice(usize),
}

impl BootModule {
    /// Reads a module. The list of its packages is never given back: a kernel reads one module in
    /// its life.
    pub fn parse(module: &'static [u8]) -> Result<BootModule, ArchiveError> {
        if !is_archive(module) {
            return Ok(BootModule { config: text(module)?, packages: Store::Empty });
        }
        let mut config = None;
        let mut packages: Vec<(&'static str, &'static [u8])> = Vec::new();
        for file in files(module) {
            let file = file?;
            match package_name(file.name) {
                Some(name) if packages.iter().all(|(other, _)| *other != name) => {
                    packages.push((name, file.contents));
                }
                None if file.name == "nile.toml" && config.is_none() => {
                    config = Some(text(file.contents)?);
                }
                None if file.name != "nile.toml" => return Err(ArchiveError::Stranger(file.at)),
                _ => return Err(ArchiveError::Twice(file.at)),
            }
        }
        let packages = match packages.is_empty() {
            true => Store::Empty,
            false => Store::Files(Box::leak(packages.into_boxed_slice())),
        };
        Ok(BootModule { config: config.unwrap_or_default(), packages })
    }
}

/// A file of an archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct File<'a> {
    /// Where its header is, in bytes from the archive's beginning.
    pub at: usize,
    /// Its name with its folders.
    pub name: &'a str,
    /// Its contents.
    pub contents: &'a [u8],
}

/// Whether `module` is an archive and no text.
pub fn is_archive(module: &[u8]) -> bool {
    module.get(257..).is_some_and(|rest| rest.starts_with(MAGIC))
}

/// The plain files of an archive in its order, folders left out. Ends at the first error.
pub fn files(archive: &[u8]) -> impl Iterator<Item = Result<File<'_>, ArchiveError>> {
    let mut next = Some(0);
    core::iter::from_fn(move || {
        loop {
            let at = next.take()?;
            match read_header(archive, at) {
                Ok(None) => return None,
                Ok(Some((file, after))) => {
                    next = Some(after);
                    if let Some(file) = file {
                        return Some(Ok(file));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    })
}

/// What the header at `at` describes, nothing for a folder, and where the next header is; `None`
/// at the end.
fn read_header(
    archive: &[u8],
    at: usize,
) -> Result<Option<(Option<File<'_>>, usize)>, ArchiveError> {
    let header = archive.get(at..at + BLOCK).ok_or(ArchiveError::Cut(at))?;
    if header.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let damaged = || ArchiveError::Header(at);
    // The sum counts its own field as spaces.
    let plain = header[..148].iter().chain(&header[156..]);
    let sum = plain.map(|byte| u64::from(*byte)).sum::<u64>() + 8 * u64::from(b' ');
    let is_whole = header[257..].starts_with(MAGIC) && octal(&header[148..156]) == Some(sum);
    let name = core::str::from_utf8(until_zero(&header[..100])).ok().filter(|name| {
        // Names that need the second field are longer than any that a node reads.
        is_whole && !name.is_empty() && header[345] == 0
    });
    let name = name.ok_or_else(damaged)?;
    let size = octal(&header[124..136]).and_then(|size| usize::try_from(size).ok());
    let size = size.ok_or_else(damaged)?;
    let start = at + BLOCK;
    let contents = start.checked_add(size).and_then(|end| archive.get(start..end));
    let contents = contents.ok_or(ArchiveError::Cut(at))?;
    let after = start + size.next_multiple_of(BLOCK);
    match header[156] {
        b'0' | 0 => Ok(Some((Some(File { at, name, contents }), after))),
        b'5' if size == 0 => Ok(Some((None, after))),
        _ => Err(ArchiveError::Stranger(at)),
    }
}

/// The number in a field of octal digits, which a space or zero ends.
fn octal(field: &[u8]) -> Option<u64> {
    let field = field.trim_ascii_start();
    let end = field.iter().position(|byte| matches!(byte, 0 | b' ')).unwrap_or(field.len());
    // Twelve digits fit easily.
    field[..end].iter().try_fold(0, |value, byte| match byte {
        b'0'..=b'7' => Some(value << 3 | u64::from(byte - b'0')),
        _ => None,
    })
}

fn until_zero(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    &field[..end]
}

/// `hello` for `packages/hello.elf`.
fn package_name(path: &str) -> Option<&str> {
    let name = path.strip_prefix("packages/")?.strip_suffix(".elf")?;
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

fn text(bytes: &[u8]) -> Result<&str, ArchiveError> {
    core::str::from_utf8(bytes).map_err(|_| ArchiveError::NotText)
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArchiveError::NotText => f.write_str("nile.toml is not UTF-8 text"),
            ArchiveError::Header(at) => write!(
                f,
                "the boot module's header at byte {at} is damaged; \
                 archives are made with: tar --format=ustar"
            ),
            ArchiveError::Cut(at) => {
                write!(f, "the boot module ends within the file at byte {at}")
            }
            ArchiveError::Stranger(at) => write!(
                f,
                "the boot module's file at byte {at} is neither nile.toml nor packages/NAME.elf"
            ),
            ArchiveError::Twice(at) => {
                write!(f, "the boot module has the file at byte {at} twice")
            }
        }
    }
}

impl core::error::Error for ArchiveError {}
