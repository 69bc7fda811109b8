//! Kernel images that workers run in place of the node's own (NileOS paper, IV: a core "may even
//! get a different kernel image"). A worker is a process, so it can run another program: its core
//! ends as planned, and its next incarnation is begun from a file that was handed to the node.
//!
//! All programs of a node share its memory. Each says in a section of its file by which ABI it
//! does, and the boot record says it again to whoever joins the node.
//!
//! An image is on trial for its first ten seconds on a core: if it fails in these, the core has the
//! former one again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use elf::ElfStream;
use elf::endian::AnyEndian;
use nile_abi::{CoreId, ImageRefused};
use rapidhash::v3::{DEFAULT_RAPID_SECRETS, RapidStreamHasherV3};

/// How long an image is on trial.
const TRIAL: Duration = Duration::from_secs(10);

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
#[derive(Clone)]
pub(crate) struct Image {
    /// A digest of its bytes, not zero.
    name: u64,
    file: Arc<File>,
}

impl Image {
    /// What is in a file. All of it is read.
    pub fn of(file: Arc<File>) -> Result<Image, ImageRefused> {
        let note = section(&file, ".nile.abi").ok_or(ImageRefused::NotAnImage)?;
        match note.as_chunks::<8>().0 {
            [magic, said] if *magic == NOTE[0] && u64::from_le_bytes(*said) == abi() => {}
            [magic, _] if *magic == NOTE[0] => return Err(ImageRefused::OtherAbi),
            _ => return Err(ImageRefused::NotAnImage),
        }
        let name = digest(&file).map_err(|_| ImageRefused::NotAnImage)?;
        Ok(Image { name, file })
    }
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

/// Which core runs which image.
#[derive(Default)]
pub(crate) struct Images(Mutex<BTreeMap<CoreId, Choice>>);

/// What a core runs: no image is the node's own.
#[derive(Default)]
struct Choice {
    now: Option<Image>,
    /// What it ran before, and since when it does not, while its image is on trial.
    before: Option<(Option<Image>, Option<Instant>)>,
}

impl Images {
    fn choices(&self) -> MutexGuard<'_, BTreeMap<CoreId, Choice>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of a core's image; zero for the node's own.
    pub fn name(&self, core: CoreId) -> u64 {
        let choices = self.choices();
        choices.get(&core).and_then(|it| it.now.as_ref()).map_or(0, |image| image.name)
    }

    /// Has a core run an image from its next incarnation on. Gives the image's name.
    pub fn load(&self, core: CoreId, image: Image) -> u64 {
        let name = image.name;
        let mut choices = self.choices();
        let choice = choices.entry(core).or_default();
        choice.before = Some((choice.now.replace(image), None));
        name
    }

    /// An incarnation of a core is about to begin: what it runs, if that is not the node's own.
    pub fn begin(&self, core: CoreId) -> Option<Arc<File>> {
        let mut choices = self.choices();
        let choice = choices.get_mut(&core)?;
        if let Some((_, since)) = &mut choice.before {
            since.get_or_insert_with(Instant::now);
        }
        choice.now.as_ref().map(|image| image.file.clone())
    }

    /// Has a core run what it ran before, if its image is on trial. Gives the name of the image
    /// that it does not run any more.
    pub fn take_back(&self, core: CoreId) -> Option<u64> {
        let mut choices = self.choices();
        let choice = choices.get_mut(&core)?;
        let (before, since) = choice.before.take()?;
        if since.is_some_and(|since| since.elapsed() >= TRIAL) {
            return None;
        }
        let failed = std::mem::replace(&mut choice.now, before);
        failed.map(|image| image.name)
    }
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
        Image::of(file(bytes)).err().expect("no image for this node")
    }

    #[test]
    fn a_program_of_the_same_abi_is_an_image() {
        let mut bytes = own();
        let image = Image::of(file(&bytes)).expect("this program has the ABI that it has");
        bytes.push(0);
        let other = Image::of(file(&bytes)).expect("what follows changes nothing");
        assert_ne!(image.name, other.name);
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

    #[test]
    fn an_image_that_fails_on_trial_is_taken_back() {
        let (images, core) = (Images::default(), CoreId(2));
        let image = |name| Image { name, file: file(b"") };
        assert_eq!((images.name(core), images.take_back(core)), (0, None));
        images.load(core, image(7));
        assert!(images.begin(core).is_some());
        images.load(core, image(8));
        assert_eq!(images.name(core), 8);
        assert!(images.begin(core).is_some() && images.begin(CoreId(1)).is_none());
        assert_eq!(images.take_back(core), Some(8));
        assert_eq!(images.name(core), 7);
        assert_eq!(images.take_back(core), None, "what it ran before is on trial no more");
    }
}
