//! Kernel images that workers run in place of the node's own (NileOS paper, IV: a core "may even
//! get a different kernel image"). A worker is a process, so it can run another program: its core
//! ends as planned, and its next incarnation is begun from a file that was handed to the node.
//!
//! All programs of a node share its memory. Each says in a section of its file by which ABI it
//! does, and the boot record says it again to whoever joins the node.
//!
//! Which core runs which, and for how long one is on trial, is [`nile_platform::images`]'s.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use elf::ElfStream;
use elf::endian::AnyEndian;
use nile_abi::ImageRefused;
use rapidhash::v3::{DEFAULT_RAPID_SECRETS, RapidStreamHasherV3};

/// A number for what the node's programs have to agree on: see `build.rs`.
pub(crate) fn abi() -> u64 {
    // It is read from where a program's file has it, so the linker keeps that.
    let [_, abi] = std::hint::black_box(&NOTE);
    u64::from_le_bytes(*abi)
}

/// What the file of a node's program says about itself.
#[used]
#[unsafe(link_section = ".nile.abi")]
static NOTE: [[u8; 8]; 2] = [*b"NILE-ABI", number(env!("NILE_ABI")).to_le_bytes()];

const fn number(text: &str) -> u64 {
    match u64::from_str_radix(text, 10) {
        Ok(number) => number,
        Err(_) => panic!("the build script gives a number"),
    }
}

/// A program for workers.
pub(crate) type Image = nile_platform::Image<Arc<File>>;

/// Which worker runs which program in place of the node's own.
pub(crate) type Images = nile_platform::Images<Arc<File>>;

/// The image in a file, all of which is read.
pub(crate) fn image(file: Arc<File>) -> Result<Image, ImageRefused> {
    let note = section(&file, ".nile.abi").ok_or(ImageRefused::NotAnImage)?;
    match note.as_chunks::<8>().0 {
        [magic, said] if *magic == NOTE[0] && u64::from_le_bytes(*said) == abi() => {}
        [magic, _] if *magic == NOTE[0] => return Err(ImageRefused::OtherAbi),
        _ => return Err(ImageRefused::NotAnImage),
    }
    let name = digest(&file).map_err(|_| ImageRefused::NotAnImage)?;
    Ok(Image { name, body: file })
}

fn digest(file: &File) -> io::Result<u64> {
    let mut hasher = RapidStreamHasherV3::new(&DEFAULT_RAPID_SECRETS);
    let (mut bytes, mut at) = (vec![0; 1 << 20], 0);
    loop {
        match file.read_at(&mut bytes, at)? {
            0 => return Ok(hasher.finish().max(1)),
            read => {
                hasher.write(&bytes[..read]);
                at += read as u64;
            }
        }
    }
}

/// The bytes of a section of an ELF file.
fn section(file: &File, name: &str) -> Option<Vec<u8>> {
    let mut elf = ElfStream::<AnyEndian, _>::open_stream(file).ok()?;
    let header = *elf.section_header_by_name(name).ok()??;
    elf.section_data(&header).ok().map(|(bytes, _)| bytes.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};

    fn file(bytes: &[u8]) -> Arc<File> {
        let file: File = memfd_create("image", MemfdFlags::CLOEXEC).expect("memory").into();
        file.write_all_at(bytes, 0).expect("room");
        Arc::new(file)
    }

    fn own() -> Vec<u8> {
        std::fs::read("/proc/self/exe").expect("this test's own program")
    }

    fn refused(bytes: &[u8]) -> ImageRefused {
        image(file(bytes)).expect_err("no image for this node")
    }

    #[test]
    fn a_program_of_the_same_abi_is_an_image() {
        let mut bytes = own();
        let first = image(file(&bytes)).expect("this program has the ABI that it has");
        bytes.push(0);
        let other = image(file(&bytes)).expect("what follows changes nothing");
        assert_ne!(first.name, other.name);
    }

    #[test]
    fn a_program_of_another_abi_is_refused_and_so_is_what_is_none() {
        let mut bytes = own();
        let note = NOTE.concat();
        let places = bytes.windows(note.len()).enumerate().filter(|(_, it)| *it == note);
        let places: Vec<usize> = places.map(|(at, _)| at).collect();
        places.into_iter().for_each(|at| bytes[at + 8] ^= 1);
        assert_eq!(refused(&bytes), ImageRefused::OtherAbi);
        let other = std::fs::read("/bin/true").expect("some program");
        for bytes in [&b""[..], b"#!/bin/sh\n", &bytes[..1000], &[0xff; 64], &other] {
            assert_eq!(refused(bytes), ImageRefused::NotAnImage);
        }
    }
}
