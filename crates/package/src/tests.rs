//! Files made by hand: a good one, every way to spoil it, cut short at every byte, and with every
//! byte changed.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use elf::abi;
use nile_platform::user::Access;

use crate::archive::{self, ArchiveError, BootModule};
use crate::{
    Image, MAX_HEADERS, MAX_IMAGE_BYTES, ManifestError, Package, PackageError, Relocation, Store,
};

/// Where the file's parts are; each segment has a page of the file.
const PROGRAM_HEADERS: usize = 64;
const NOTE: usize = 0x400;
const RELOCATIONS: usize = 0x500;
const TEXT: usize = 0x1000;
const DATA: usize = 0x2000;
const DYNAMIC: usize = 0x2100;
const END: usize = 0x2200;

/// A program header: kind, flags, offset, bytes in the file, bytes in memory.
type Header = (u32, u32, usize, u64, u64);

const READ: Header = (abi::PT_LOAD, abi::PF_R, 0, 0x1000, 0x1000);
const CODE: Header = (abi::PT_LOAD, abi::PF_R | abi::PF_X, TEXT, 0x10, 0x10);
const WRITE: Header = (abi::PT_LOAD, abi::PF_R | abi::PF_W, DATA, 0x200, 0x3000);
const TABLE: Header = (abi::PT_DYNAMIC, abi::PF_R, DYNAMIC, 0x100, 0x100);
const MANIFEST: Header = (abi::PT_NOTE, abi::PF_R, NOTE, 0x100, 0x100);
const GOOD: [Header; 5] = [READ, CODE, WRITE, TABLE, MANIFEST];

fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

fn put_header(file: &mut [u8], index: usize, (kind, flags, at, bytes, memory): Header) {
    let start = PROGRAM_HEADERS + index * 56;
    put(file, start, &kind.to_le_bytes());
    put(file, start + 4, &flags.to_le_bytes());
    let words = [at as u64, at as u64, at as u64, bytes, memory, 4];
    for (place, word) in words.into_iter().enumerate() {
        put(file, start + 8 + place * 8, &word.to_le_bytes());
    }
}

fn put_note(file: &mut [u8], at: usize, text: &str) {
    for (place, word) in [7, text.len() as u32, 1].into_iter().enumerate() {
        put(file, at + place * 4, &word.to_le_bytes());
    }
    put(file, at + 12, b"NileOS\0\0");
    put(file, at + 20, text.as_bytes());
}

fn put_relocation(file: &mut [u8], index: usize, place: u64, kind: u32, addend: i64) {
    let at = RELOCATIONS + index * 24;
    put(file, at, &place.to_le_bytes());
    put(file, at + 8, &u64::from(kind).to_le_bytes());
    put(file, at + 16, &addend.to_le_bytes());
}

fn put_dynamic(file: &mut [u8], entries: &[(i64, u64)]) {
    for (place, (tag, value)) in entries.iter().chain(&[(0, 0)]).enumerate() {
        put(file, DYNAMIC + place * 16, &tag.to_le_bytes());
        put(file, DYNAMIC + place * 16 + 8, &value.to_le_bytes());
    }
}

const RELATIVE: [(i64, u64); 3] =
    [(abi::DT_RELA, RELOCATIONS as u64), (abi::DT_RELASZ, 48), (abi::DT_RELAENT, 24)];

fn with_headers(headers: &[Header]) -> Vec<u8> {
    let mut file = vec![0; END];
    put(&mut file, 0, &[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    put(&mut file, 16, &abi::ET_DYN.to_le_bytes());
    put(&mut file, 18, &abi::EM_X86_64.to_le_bytes());
    put(&mut file, 20, &1u32.to_le_bytes());
    put(&mut file, 24, &(TEXT as u64).to_le_bytes());
    put(&mut file, 32, &(PROGRAM_HEADERS as u64).to_le_bytes());
    put(&mut file, 52, &64u16.to_le_bytes());
    put(&mut file, 54, &56u16.to_le_bytes());
    put(&mut file, 56, &(headers.len() as u16).to_le_bytes());
    for (index, header) in headers.iter().enumerate() {
        put_header(&mut file, index, *header);
    }
    put_note(&mut file, NOTE, "name tiny\npublishes test.tiny");
    put(&mut file, TEXT, &[0xc3; 16]);
    put_relocation(&mut file, 0, DATA as u64, 8, TEXT as i64);
    put_relocation(&mut file, 1, DATA as u64 + 0x2ff8, 8, 0x5000);
    put_dynamic(&mut file, &RELATIVE);
    file
}

fn good() -> Vec<u8> {
    with_headers(&GOOD)
}

/// Why the good file is refused after `spoil`.
#[track_caller]
fn refused(spoil: impl FnOnce(&mut Vec<u8>)) -> PackageError {
    let mut file = good();
    spoil(&mut file);
    Package::parse(&file).expect_err("it was spoiled")
}

#[test]
fn a_good_file_is_a_plan() {
    let file = good();
    let package = Package::parse(&file).unwrap();
    assert_eq!((package.entry(), package.bytes()), (0x1000, 0x5000));
    let segments: Vec<_> = package
        .segments()
        .iter()
        .map(|it| (it.pages.clone(), it.start, it.contents.len(), it.access))
        .collect();
    assert_eq!(
        segments,
        [
            (0..0x1000, 0, 0x1000, Access::Read),
            (0x1000..0x2000, 0x1000, 0x10, Access::Execute),
            (0x2000..0x5000, 0x2000, 0x200, Access::Write),
        ]
    );
    let relocations: Vec<_> = package.relocations().collect();
    let expected = [(0x2000, 0x1000), (0x4ff8, 0x5000)];
    assert_eq!(relocations, expected.map(|(place, addend)| Relocation { place, addend }));
    assert_eq!(package.manifest().name(), "tiny");
    assert!(package.manifest().may_publish("test.tiny"));
}

#[test]
fn the_wrong_sort_of_file_is_told_apart() {
    assert_eq!(Package::parse(b"").unwrap_err(), PackageError::NotElf);
    assert_eq!(Package::parse(&[0; 100]).unwrap_err(), PackageError::NotElf);
    assert_eq!(refused(|file| file[4] = 1), PackageError::NotWide);
    assert_eq!(refused(|file| file[5] = 2), PackageError::NotLittleEndian);
    assert_eq!(refused(|file| file[18] = 183), PackageError::Machine(183));
    assert_eq!(refused(|file| file[16] = 2), PackageError::Type(2));
    assert_eq!(refused(|file| file.truncate(60)), PackageError::Damaged("header"));
    assert_eq!(refused(|file| file[56] = 255), PackageError::Damaged("header"));
    assert_eq!(refused(|file| file[32] = 0), PackageError::Empty);
}

#[test]
fn segments_are_checked() {
    let with = |index: usize, header| refused(|file| put_header(file, index, header));
    let (r, w, x) = (abi::PF_R, abi::PF_W, abi::PF_X);
    assert_eq!(with(1, (1, r | w | x, TEXT, 16, 16)), PackageError::WritableCode(1));
    assert_eq!(with(1, (1, x, TEXT, 16, 16)), PackageError::Unreadable(1));
    assert_eq!(with(1, (1, r | x, TEXT, 17, 16)), PackageError::Contents(1));
    assert_eq!(with(1, (1, r | x, END, 1, 1)), PackageError::Contents(1));
    assert_eq!(with(1, (1, r | x, usize::MAX, 1, 1)), PackageError::TooLarge(1));
    assert_eq!(with(2, (1, r | w, DATA, 1, MAX_IMAGE_BYTES)), PackageError::TooLarge(2));
    assert_eq!(with(2, (1, r | w, DATA, 1, u64::MAX)), PackageError::TooLarge(2));
    assert_eq!(with(2, (1, r | w, 0x1ff0, 8, 8)), PackageError::Overlap(2));
    assert_eq!(with(1, (1, r, TEXT, 16, 16)), PackageError::Entry(0x1000));
    assert_eq!(with(3, (abi::PT_INTERP, r, 0, 1, 1)), PackageError::Interpreter);
    assert_eq!(with(3, (abi::PT_TLS, r, 0, 1, 1)), PackageError::ThreadLocal);
    assert_eq!(
        with(3, (abi::PT_DYNAMIC, r, END, 16, 16)),
        PackageError::Damaged("dynamic segment")
    );
    let entry = |at: u64| refused(|file| put(file, 24, &at.to_le_bytes()));
    assert_eq!(entry(0x1010), PackageError::Entry(0x1010), "behind the contents");
    assert_eq!(entry(u64::MAX), PackageError::Entry(u64::MAX));
    assert_eq!(
        Package::parse(&with_headers(&[MANIFEST])).unwrap_err(),
        PackageError::Entry(TEXT as u64)
    );
    let many: Vec<Header> = (0..17).map(|i| (1, r, i * 0x1000, 0, 1)).collect();
    let mut file = with_headers(&many);
    file.resize(17 * 0x1000, 0);
    assert_eq!(Package::parse(&file).unwrap_err(), PackageError::TooManySegments);
}

/// Each note may be as long as the file: the time must not be that of their product.
#[test]
fn a_segment_knows_its_bytes_in_memory() {
    let file = good();
    let package = Package::parse(&file).unwrap();
    for segment in package.segments() {
        let mut memory = vec![0; (segment.pages.end - segment.pages.start) as usize];
        let at = (segment.start - segment.pages.start) as usize;
        put(&mut memory, at, segment.contents);
        for part in [1, 7, 4096, memory.len()] {
            let parts = memory.chunks(part).zip((segment.pages.start..).step_by(part));
            assert!(parts.into_iter().all(|(bytes, at)| segment.is(at, bytes)));
        }
        for place in 0..memory.len() {
            memory[place] ^= 1;
            assert!(!segment.is(segment.pages.start, &memory), "byte {place}");
            memory[place] ^= 1;
        }
    }
}

#[test]
fn the_file_is_looked_through_so_often_and_no_more() {
    let with = |count: usize| {
        let mut file = good();
        file.resize(END + count * 56, 0);
        let notes = vec![(abi::PT_NOTE, abi::PF_R, NOTE + 0x80, 0x40, 0); count - GOOD.len()];
        let table: Vec<Header> = GOOD.into_iter().chain(notes).collect();
        put(&mut file, 32, &(END as u64).to_le_bytes());
        put(&mut file, 56, &(count as u16).to_le_bytes());
        for (index, header) in table.into_iter().enumerate() {
            put_header(&mut file[END - PROGRAM_HEADERS..], index, header);
        }
        Package::parse(&file).map(|package| package.bytes())
    };
    assert_eq!(with(MAX_HEADERS), Ok(0x5000));
    assert_eq!(with(MAX_HEADERS + 1), Err(PackageError::TooManyHeaders));
    assert_eq!(with(65_000), Err(PackageError::TooManyHeaders));
    assert_eq!(with(65_535), Err(PackageError::TooManyHeaders));
}

#[test]
fn dynamic_linking_is_refused() {
    let with = |tag, value| refused(|file| put_dynamic(file, &[(tag, value)]));
    assert_eq!(with(abi::DT_NEEDED, 1), PackageError::Library);
    assert_eq!(with(abi::DT_INIT, 0x1000), PackageError::Constructors);
    assert_eq!(with(abi::DT_INIT_ARRAYSZ, 8), PackageError::Constructors);
    assert_eq!(with(abi::DT_REL, 0x1000), PackageError::RelocationTable);
    assert_eq!(with(36, 0x1000), PackageError::RelocationTable);
    assert_eq!(with(abi::DT_PLTRELSZ, 24), PackageError::RelocationTable);
    assert_eq!(with(abi::DT_RELAENT, 16), PackageError::RelocationTable);
    for (at, bytes) in [(0x500, 25), (0x9000, 24), (0xff0, 24), (0x500, u64::MAX - 15)] {
        let table = [(abi::DT_RELA, at), (abi::DT_RELASZ, bytes)];
        let error = refused(|file| put_dynamic(file, &table));
        assert_eq!(error, PackageError::Damaged("relocation table"), "{at:#x} {bytes}");
    }
}

#[test]
fn relocations_are_checked() {
    let with = |place, kind, addend| refused(|file| put_relocation(file, 1, place, kind, addend));
    assert_eq!(with(0x2000, 6, 0), PackageError::RelocationKind(1, 6));
    assert_eq!(with(0x1000, 8, 0), PackageError::RelocationPlace(1, 0x1000), "code");
    assert_eq!(with(0, 8, 0), PackageError::RelocationPlace(1, 0), "constants");
    assert_eq!(with(0x4ff9, 8, 0), PackageError::RelocationPlace(1, 0x4ff9), "over the end");
    assert_eq!(with(u64::MAX, 8, 0), PackageError::RelocationPlace(1, u64::MAX));
    assert_eq!(with(0x2000, 8, -1), PackageError::RelocationTarget(1, -1));
    assert_eq!(with(0x2000, 8, 0x5001), PackageError::RelocationTarget(1, 0x5001));
}

#[test]
fn a_manifest_is_needed_and_only_one() {
    let without = with_headers(&GOOD[..4]);
    assert_eq!(Package::parse(&without).unwrap_err(), PackageError::NoManifest);
    assert_eq!(refused(|file| file[NOTE + 12] = b'n'), PackageError::NoManifest);
    let wrong = refused(|file| put_note(file, NOTE, "name one two"));
    assert_eq!(wrong, ManifestError::Name(1).into());
    let two = with_headers(&[READ, CODE, WRITE, MANIFEST, MANIFEST]);
    assert_eq!(Package::parse(&two).unwrap_err(), ManifestError::Second.into());
}

/// What a loader relies on.
fn check(package: &Package<'_>) {
    let mut end = 0;
    for segment in package.segments() {
        assert!(segment.pages.start >= end && segment.pages.start < segment.pages.end);
        assert!(segment.pages.start % 4096 == 0 && segment.pages.end % 4096 == 0);
        assert!(segment.pages.start <= segment.start);
        assert!(segment.start + segment.contents.len() as u64 <= segment.pages.end);
        end = segment.pages.end;
    }
    assert_eq!(end, package.bytes());
    for relocation in package.relocations() {
        assert!(package.segments().iter().any(|it| {
            it.access == Access::Write
                && it.pages.start <= relocation.place
                && relocation.place + 8 <= it.pages.end
        }));
    }
}

#[test]
fn cut_or_changed_bytes_never_panic() {
    let whole = good();
    let cut = (0..whole.len()).filter(|end| Package::parse(&whole[..*end]).is_err()).count();
    assert_eq!(cut, whole.len(), "every byte is part of a segment");
    let mut accepted = 0;
    let interesting = (0..0x600).chain(DYNAMIC..END);
    for at in interesting {
        for value in [0x00, 0x01, 0x07, 0x7f, 0x80, 0xff] {
            let mut changed = whole.clone();
            changed[at] = value;
            if let Ok(package) = Package::parse(&changed) {
                accepted += 1;
                check(&package);
            }
        }
    }
    assert!(accepted > 100, "only {accepted}");
}

#[test]
fn every_error_says_something_of_its_own() {
    let errors = [
        PackageError::NotElf,
        PackageError::Machine(40),
        PackageError::Contents(1),
        PackageError::RelocationKind(3, 6),
        PackageError::Manifest(ManifestError::Line(2)),
        PackageError::Manifest(ManifestError::Nameless),
    ];
    let said: Vec<String> = errors.iter().map(|error| format!("{error}")).collect();
    for (place, text) in said.iter().enumerate() {
        assert!(!text.is_empty() && !said[..place].contains(text), "{text}");
    }
    assert_eq!(said[3], "relocation 3: kind 6, not R_X86_64_RELATIVE (8)");
    assert_eq!(
        said[4],
        "manifest: line 2: none of `name NAME`, `publishes TYPE`, `uses pool`, `uses region NAME`, \
         `keeps NAME BYTES`"
    );
}

fn add_file(archive: &mut Vec<u8>, kind: u8, name: &str, contents: &[u8]) {
    let mut header = [0; 512];
    put(&mut header, 0, name.as_bytes());
    put(&mut header, 124, format!("{:011o}", contents.len()).as_bytes());
    header[156] = kind;
    put(&mut header, 257, b"ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum::<u32>() + 8 * 32;
    put(&mut header, 148, format!("{sum:06o}\0 ").as_bytes());
    archive.extend(header);
    archive.extend(contents);
    archive.resize(archive.len().next_multiple_of(512), 0);
}

fn archive(files: &[(u8, &str, &[u8])]) -> &'static [u8] {
    let mut archive = Vec::new();
    files.iter().for_each(|(kind, name, contents)| add_file(&mut archive, *kind, name, contents));
    archive.resize(archive.len() + 1024, 0);
    Box::leak(archive.into_boxed_slice())
}

#[test]
fn a_boot_module_is_a_text_or_an_archive() {
    let text = BootModule::parse(b"[roles]\n").unwrap();
    assert_eq!((text.config, text.packages), ("[roles]\n", Store::Empty));
    assert_eq!(BootModule::parse(b""), Ok(BootModule::default()));
    assert_eq!(BootModule::parse(b"\xff"), Err(ArchiveError::NotText));

    let module = BootModule::parse(archive(&[
        (b'5', "packages/", b""),
        (b'0', "packages/a.elf", b"AAAA"),
        (b'0', "nile.toml", b"[timer]"),
        (b'0', "packages/b.elf", &[7; 513]),
    ]))
    .unwrap();
    assert_eq!(module.config, "[timer]");
    assert_eq!(module.packages.find("a"), Some(Image::Elf(b"AAAA")));
    assert_eq!(module.packages.find("b"), Some(Image::Elf(&[7; 513])));
    assert_eq!(module.packages.find("c"), None);
    assert_eq!(Store::Empty.find("a"), None);
    let linked = Store::Linked(&["a", "b"]);
    assert_eq!((linked.find("b"), linked.find("c")), (Some(Image::Linked("b")), None));
}

#[test]
fn a_wrong_archive_is_refused_with_its_place() {
    let refused = |files: &[_]| BootModule::parse(archive(files)).unwrap_err();
    let a: (u8, &str, &[u8]) = (b'0', "packages/a.elf", b"A");
    assert_eq!(refused(&[a, a]), ArchiveError::Twice(1024));
    assert_eq!(refused(&[a, (b'0', "packages/x/y.elf", b"")]), ArchiveError::Stranger(1024));
    assert_eq!(refused(&[(b'0', "readme", b"")]), ArchiveError::Stranger(0));
    assert_eq!(refused(&[(b'2', "nile.toml", b"")]), ArchiveError::Stranger(0));
    assert_eq!(refused(&[(b'0', "nile.toml", b"\xff")]), ArchiveError::NotText);
    let whole = archive(&[a]);
    assert_eq!(BootModule::parse(&whole[..512]), Err(ArchiveError::Cut(0)));
    assert_eq!(BootModule::parse(&whole[..1024]), Err(ArchiveError::Cut(1024)));
    let spoiled = |at: usize| {
        let mut module = whole.to_vec();
        module[at] = b'9';
        let found: Result<Vec<_>, _> = archive::files(&module).collect();
        found.err()
    };
    for at in [0, 130, 150, 300, 400] {
        assert_eq!(spoiled(at), Some(ArchiveError::Header(0)), "byte {at}");
    }
    assert_eq!(spoiled(512), None, "contents are anything");
}
