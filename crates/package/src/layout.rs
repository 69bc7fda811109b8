//! A package's file as a plan that a loader follows: which bytes go where, with which access, and
//! which words get the address of the image added.
//!
//! Section headers are not looked at: what is in memory is described by segments alone.

use core::ops::Range;

use alloc::vec::Vec;

use elf::abi;
use elf::dynamic::DynamicTable;
use elf::endian::LittleEndian;
use elf::file::Class;
use elf::note::Note;
use elf::relocation::RelaIterator;
use elf::segment::ProgramHeader;
use elf::{ElfBytes, ParseError};
use nile_abi::PageSize;
use nile_platform::user::Access;

use crate::error::{ManifestError, PackageError};
use crate::manifest::{Manifest, NOTE_NAME, NOTE_TYPE};

/// The most bytes of memory that an image can span.
pub const MAX_IMAGE_BYTES: u64 = 512 << 20;

/// The most segments in memory that an image can have; a linker makes four or five.
pub const MAX_SEGMENTS: usize = 16;

/// Where a file says how many program headers it has.
const PROGRAM_HEADER_COUNT: Range<usize> = 56..58;

/// The most program headers that a file can have; a linker makes about ten. Each may have the
/// whole file looked through for notes.
pub const MAX_HEADERS: usize = 64;

/// Bytes of one relocation in the file, and of the word that it changes.
const RELOCATION_BYTES: usize = 24;
const WORD_BYTES: u64 = 8;

/// The tag of a compressed table of relative relocations, which the ELF crate does not name.
const DT_RELR: i64 = 36;

/// A package's file, checked. Addresses are bytes from where the image begins in memory.
#[derive(Clone, Debug)]
pub struct Package<'a> {
    segments: Vec<Segment<'a>>,
    entry: u64,
    relocations: &'a [u8],
    manifest: Manifest<'a>,
}

/// Consecutive pages of an image with one access. No two segments share a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment<'a> {
    /// The pages: both ends are multiples of 4 KiB.
    pub pages: Range<u64>,
    /// Where in the pages [`Segment::contents`] goes; everything else in them is zero.
    pub start: u64,
    /// What the file has of it.
    pub contents: &'a [u8],
    /// How the package may use it.
    pub access: Access,
    /// The end of what the file calls the segment's memory, in the last page.
    end: u64,
}

/// A word of a writable segment that is to hold the image's address plus an offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Relocation {
    /// Where the eight bytes are; they lie in one segment, at any alignment.
    pub place: u64,
    /// What is added to the image's address; at most [`Package::bytes`].
    pub addend: u64,
}

impl<'a> Package<'a> {
    /// Checks the bytes of a file. Allocates for [`MAX_SEGMENTS`] segments at most; takes time in
    /// proportion to the file.
    pub fn parse(file: &'a [u8]) -> Result<Package<'a>, PackageError> {
        check_identity(file)?;
        // The number that stands for a larger one, which is elsewhere.
        if file.get(PROGRAM_HEADER_COUNT).is_some_and(|it| it == abi::PN_XNUM.to_le_bytes()) {
            return Err(PackageError::TooManyHeaders);
        }
        let elf = ElfBytes::<LittleEndian>::minimal_parse(file).map_err(damaged("header"))?;
        match (elf.ehdr.e_machine, elf.ehdr.e_type) {
            (abi::EM_X86_64, abi::ET_DYN) => {}
            (abi::EM_X86_64, other) => return Err(PackageError::Type(other)),
            (other, _) => return Err(PackageError::Machine(other)),
        }
        let mut segments: Vec<Segment<'a>> = Vec::new();
        let (mut dynamic, mut manifest) = (None, None);
        for (index, header) in elf.segments().ok_or(PackageError::Empty)?.iter().enumerate() {
            if index == MAX_HEADERS {
                return Err(PackageError::TooManyHeaders);
            }
            match header.p_type {
                abi::PT_LOAD if header.p_memsz > 0 => {
                    if segments.len() == MAX_SEGMENTS {
                        return Err(PackageError::TooManySegments);
                    }
                    let segment = Segment::new(index, &header, file)?;
                    if segments.iter().any(|other| segment.overlaps(other)) {
                        return Err(PackageError::Overlap(index));
                    }
                    segments.push(segment);
                }
                abi::PT_INTERP => return Err(PackageError::Interpreter),
                abi::PT_TLS => return Err(PackageError::ThreadLocal),
                abi::PT_DYNAMIC => {
                    let bytes = elf.segment_data(&header).map_err(damaged("dynamic segment"))?;
                    dynamic = Some(DynamicTable::new(LittleEndian, Class::ELF64, bytes));
                }
                abi::PT_NOTE => {
                    let notes = elf.segment_data_as_notes(&header).map_err(damaged("note"))?;
                    for note in notes {
                        match manifest_in(note)? {
                            Some(_) if manifest.is_some() => {
                                return Err(ManifestError::Second.into());
                            }
                            Some(found) => manifest = Some(found),
                            None => {}
                        }
                    }
                }
                _ => {}
            }
        }
        nile_order::sort_by_key(&mut segments, |segment| segment.start);
        let relocations = dynamic.map(|table| find_relocations(&table, &segments));
        let package = Package {
            relocations: relocations.transpose()?.unwrap_or_default(),
            entry: elf.ehdr.e_entry,
            manifest: manifest.ok_or(PackageError::NoManifest)?,
            segments,
        };
        package.check_entry()?;
        package.check_relocations()?;
        Ok(package)
    }

    /// Its segments in the order of their addresses; there is at least one.
    pub fn segments(&self) -> &[Segment<'a>] {
        &self.segments
    }

    /// Bytes of addresses from the image's beginning to its end: a multiple of 4 KiB, at most
    /// [`MAX_IMAGE_BYTES`].
    pub fn bytes(&self) -> u64 {
        self.segments.last().map_or(0, |segment| segment.pages.end)
    }

    /// Where its first instruction is.
    pub fn entry(&self) -> u64 {
        self.entry
    }

    /// The words to change once the segments' contents are in place.
    pub fn relocations(&self) -> impl Iterator<Item = Relocation> + use<'a> {
        let all = RelaIterator::new(LittleEndian, Class::ELF64, self.relocations);
        all.map(|entry| Relocation { place: entry.r_offset, addend: entry.r_addend as u64 })
    }

    /// What it says of itself.
    pub fn manifest(&self) -> Manifest<'a> {
        self.manifest
    }

    fn check_entry(&self) -> Result<(), PackageError> {
        let in_code = self.segments.iter().any(|segment| {
            segment.access == Access::Execute && segment.file_range().contains(&self.entry)
        });
        if in_code { Ok(()) } else { Err(PackageError::Entry(self.entry)) }
    }

    fn check_relocations(&self) -> Result<(), PackageError> {
        let all = RelaIterator::new(LittleEndian, Class::ELF64, self.relocations);
        for (index, entry) in all.enumerate() {
            if (entry.r_type, entry.r_sym) != (abi::R_X86_64_RELATIVE, 0) {
                return Err(PackageError::RelocationKind(index, entry.r_type));
            }
            let end = entry.r_offset.checked_add(WORD_BYTES);
            let writable = self.segments.iter().any(|segment| {
                segment.access == Access::Write
                    && segment.start <= entry.r_offset
                    && end.is_some_and(|end| end <= segment.end)
            });
            if !writable {
                return Err(PackageError::RelocationPlace(index, entry.r_offset));
            }
            if !u64::try_from(entry.r_addend).is_ok_and(|addend| addend <= self.bytes()) {
                return Err(PackageError::RelocationTarget(index, entry.r_addend));
            }
        }
        Ok(())
    }
}

impl<'a> Segment<'a> {
    fn new(
        index: usize,
        header: &ProgramHeader,
        file: &'a [u8],
    ) -> Result<Segment<'a>, PackageError> {
        let access = match header.p_flags & (abi::PF_R | abi::PF_W | abi::PF_X) {
            flags if flags & abi::PF_R == 0 => return Err(PackageError::Unreadable(index)),
            flags if flags & abi::PF_W == 0 && flags & abi::PF_X == 0 => Access::Read,
            flags if flags & abi::PF_X == 0 => Access::Write,
            flags if flags & abi::PF_W == 0 => Access::Execute,
            _ => return Err(PackageError::WritableCode(index)),
        };
        let start = header.p_vaddr;
        let end = start
            .checked_add(header.p_memsz)
            .filter(|end| *end <= MAX_IMAGE_BYTES)
            .ok_or(PackageError::TooLarge(index))?;
        let contents = header
            .p_offset
            .checked_add(header.p_filesz)
            .filter(|_| header.p_filesz <= header.p_memsz)
            .and_then(|to| Some(usize::try_from(header.p_offset).ok()?..usize::try_from(to).ok()?))
            .and_then(|range| file.get(range))
            .ok_or(PackageError::Contents(index))?;
        let page = PageSize::Small.bytes();
        let pages = start / page * page..end.next_multiple_of(page);
        Ok(Segment { pages, start, contents, access, end })
    }

    /// Whether `bytes`, which begin at `at`, are what its pages are to have there.
    pub fn is(&self, at: u64, bytes: &[u8]) -> bool {
        let contents = self.file_range();
        let inside = |address: u64| address.clamp(at, at + bytes.len() as u64);
        let (from, to) = (inside(contents.start), inside(contents.end));
        let (before, rest) = bytes.split_at((from - at) as usize);
        let (shared, after) = rest.split_at((to - from) as usize);
        let zero = |byte: &u8| *byte == 0;
        before.iter().all(zero)
            && after.iter().all(zero)
            && (shared.is_empty()
                || self.contents[(from - contents.start) as usize..].starts_with(shared))
    }

    /// The addresses that have contents from the file.
    fn file_range(&self) -> Range<u64> {
        self.start..self.start + self.contents.len() as u64
    }

    fn overlaps(&self, other: &Segment<'_>) -> bool {
        self.pages.start < other.pages.end && other.pages.start < self.pages.end
    }
}

/// The first bytes of a file, which say what all the others mean.
fn check_identity(file: &[u8]) -> Result<(), PackageError> {
    let identity = file.get(..abi::EI_NIDENT).ok_or(PackageError::NotElf)?;
    if !identity.starts_with(&abi::ELFMAGIC) {
        return Err(PackageError::NotElf);
    }
    if identity[abi::EI_CLASS] != abi::ELFCLASS64 {
        return Err(PackageError::NotWide);
    }
    if identity[abi::EI_DATA] != abi::ELFDATA2LSB {
        return Err(PackageError::NotLittleEndian);
    }
    Ok(())
}

fn damaged(what: &'static str) -> impl FnOnce(ParseError) -> PackageError {
    move |_| PackageError::Damaged(what)
}

fn manifest_in(note: Note<'_>) -> Result<Option<Manifest<'_>>, ManifestError> {
    match note {
        Note::Unknown(note) if note.name == NOTE_NAME && note.n_type == NOTE_TYPE => {
            Manifest::parse(note.desc).map(Some)
        }
        _ => Ok(None),
    }
}

/// The bytes of the one relocation table that a package may have.
fn find_relocations<'a>(
    dynamic: &DynamicTable<'a, LittleEndian>,
    segments: &[Segment<'a>],
) -> Result<&'a [u8], PackageError> {
    let (mut at, mut bytes) = (0, 0);
    for entry in dynamic.iter().take_while(|entry| entry.d_tag != abi::DT_NULL) {
        match (entry.d_tag, entry.d_val()) {
            (abi::DT_NEEDED, _) => return Err(PackageError::Library),
            (abi::DT_INIT | abi::DT_FINI, _) => return Err(PackageError::Constructors),
            (abi::DT_INIT_ARRAYSZ | abi::DT_FINI_ARRAYSZ | abi::DT_PREINIT_ARRAYSZ, 1..) => {
                return Err(PackageError::Constructors);
            }
            (abi::DT_REL | DT_RELR, _) | (abi::DT_PLTRELSZ, 1..) => {
                return Err(PackageError::RelocationTable);
            }
            (abi::DT_RELAENT, size) if size != RELOCATION_BYTES as u64 => {
                return Err(PackageError::RelocationTable);
            }
            (abi::DT_RELA, address) => at = address,
            (abi::DT_RELASZ, size) => bytes = size,
            _ => {}
        }
    }
    if bytes == 0 {
        return Ok(&[]);
    }
    let bytes = usize::try_from(bytes).ok().filter(|size| size.is_multiple_of(RELOCATION_BYTES));
    let table = bytes.and_then(|bytes| {
        let segment = segments.iter().find(|segment| segment.file_range().contains(&at))?;
        let from = usize::try_from(at - segment.start).ok()?;
        segment.contents.get(from..from.checked_add(bytes)?)
    });
    table.ok_or(PackageError::Damaged("relocation table"))
}
