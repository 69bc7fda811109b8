//! The smallest file that is a package: a manifest, and an instruction that faults. A simulation
//! has the programs of packages linked in; what it ships from node to node is such a file, by whose
//! name the program is found.

use alloc::vec::Vec;

use elf::abi;

use crate::manifest::{NOTE_NAME, NOTE_TYPE};

/// Bytes of the file's header, and of a program header.
const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;

/// Where the manifest's note begins, and how long what stands before its text is.
const NOTE: usize = HEADER + 2 * PROGRAM_HEADER;
const NOTE_HEAD: usize = 12 + NOTE_NAME.len().next_multiple_of(4);

/// What is executed if somebody starts it: the instruction that is none.
const CODE: [u8; 2] = [0x0f, 0x0b];

/// The file of a package whose manifest is `manifest`, whatever that says.
pub fn file(manifest: &str) -> Vec<u8> {
    let text = manifest.len();
    let code = (NOTE + NOTE_HEAD + text).next_multiple_of(16);
    let mut file = Vec::with_capacity(code + CODE.len());
    file.extend(abi::ELFMAGIC);
    file.extend([abi::ELFCLASS64, abi::ELFDATA2LSB, 1]);
    file.resize(abi::EI_NIDENT, 0);
    halves(&mut file, &[abi::ET_DYN, abi::EM_X86_64, 1, 0]);
    words(&mut file, &[code as u64, HEADER as u64, 0]);
    halves(&mut file, &[0, 0, HEADER as u16, PROGRAM_HEADER as u16, 2, 0, 0, 0]);
    // All of the file is in memory, where it is in the file.
    let whole = (code + CODE.len()) as u64;
    program_header(&mut file, abi::PT_LOAD, abi::PF_R | abi::PF_X, [0, whole, 4096]);
    program_header(
        &mut file,
        abi::PT_NOTE,
        abi::PF_R,
        [NOTE, NOTE_HEAD + text, 4].map(|n| n as u64),
    );
    for number in [NOTE_NAME.len() as u32, text as u32, NOTE_TYPE as u32] {
        file.extend(number.to_le_bytes());
    }
    file.extend(NOTE_NAME);
    file.resize(NOTE + NOTE_HEAD, 0);
    file.extend(manifest.as_bytes());
    file.resize(code, 0);
    file.extend(CODE);
    file
}

fn halves(file: &mut Vec<u8>, halves: &[u16]) {
    halves.iter().for_each(|half| file.extend(half.to_le_bytes()));
}

fn words(file: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| file.extend(word.to_le_bytes()));
}

fn program_header(file: &mut Vec<u8>, kind: u32, flags: u32, [at, bytes, align]: [u64; 3]) {
    file.extend(kind.to_le_bytes());
    file.extend(flags.to_le_bytes());
    words(file, &[at, at, at, bytes, bytes, align]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Package;
    use nile_platform::user::Access;

    #[test]
    fn a_stub_is_a_package_of_its_name() {
        for manifest in ["name a", "name b-2\npublishes test.b\nuses pool\n"] {
            let file = file(manifest);
            let package = Package::parse(&file).expect("it is a package");
            assert_eq!(package.manifest().text(), manifest);
            let [segment] = package.segments() else { panic!("{package:?} is not one segment") };
            assert_eq!((segment.access, segment.contents), (Access::Execute, &*file));
            assert_eq!(file[package.entry() as usize..], CODE);
            assert_eq!(package.relocations().count(), 0);
        }
    }
}
