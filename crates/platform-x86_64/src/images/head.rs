//! What an image says about itself: words at the beginning of its first page, see `space.s`. The
//! image's file as it comes to a node is that page, then text and constants as they are linked,
//! then the initial values of its statics.

use alloc::vec::Vec;

use nile_abi::{IMAGE_HEAD, ImageRefused, PageSize, PhysAddr, VirtAddr};
use nile_memory::Permissions;
use nile_memory::paging::Mapping;

use super::ABI;
use crate::layout::{self, KERNEL_BASE, Span};
use crate::node::Frames;

/// Words that it has.
pub const WORDS: usize = 18;

const MAGIC: u64 = u64::from_le_bytes(*b"NILEKERN");

const PAGE: u64 = PageSize::Small.bytes();
const LARGE: u64 = PageSize::Large.bytes();

/// Pieces of 2 MiB that a core's image may take.
pub const MOST_PIECES: usize = 8;

/// The first address behind the way in, which is at the same place in all images.
const FIRST: VirtAddr = VirtAddr(KERNEL_BASE.0 + (1 << 20) + PAGE);

unsafe extern "C" {
    static gate_words: [u64; WORDS];
}

/// What an image says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// Its ABI.
    pub abi: u64,
    /// Where a core begins.
    pub begin: VirtAddr,
    /// Code.
    pub text: Span,
    /// Constants.
    pub constants: Span,
    /// By what a core is judged.
    pub guard: Span,
    /// What all cores share.
    pub shared: Span,
    /// Segments, gates, task state.
    pub descriptors: Span,
    /// Statics with initial values.
    pub data: Span,
    /// All statics; they begin with those.
    pub private: Span,
    /// The initial values, as cores see them.
    pub pristine: Span,
}

impl Head {
    /// That of the image that runs this.
    pub fn own() -> Head {
        // SAFETY: the way in is mapped in every space; the linker has written the words. On the
        // managing core it is that of the image that runs there.
        Head::from_words(unsafe { &gate_words })
    }

    /// What the words at the beginning of a file say.
    pub fn read(file: &[u8]) -> Result<Head, ImageRefused> {
        let words = file.first_chunk::<{ WORDS * 8 }>().ok_or(ImageRefused::NotAnImage)?;
        let words = words.as_chunks::<8>().0;
        let words: [u64; WORDS] = core::array::from_fn(|at| u64::from_le_bytes(words[at]));
        match words[0] == MAGIC {
            true => Ok(Head::from_words(&words)),
            false => Err(ImageRefused::NotAnImage),
        }
    }

    /// The same of words that were kept.
    pub fn from_words(words: &[u64; WORDS]) -> Head {
        let span = |at: usize| VirtAddr(words[at])..VirtAddr(words[at + 1]);
        let pristine = |at: usize| VirtAddr(KERNEL_BASE.0.wrapping_add(words[at]));
        Head {
            abi: words[1],
            begin: VirtAddr(words[2]),
            text: span(3),
            constants: span(5),
            guard: span(7),
            shared: span(9),
            descriptors: span(11),
            data: span(13),
            private: VirtAddr(words[13])..VirtAddr(words[15]),
            pristine: pristine(16)..pristine(17),
        }
    }

    /// The words.
    pub fn words(&self) -> [u64; WORDS] {
        let low = |at: VirtAddr| at.0.wrapping_sub(KERNEL_BASE.0);
        [
            MAGIC,
            self.abi,
            self.begin.0,
            self.text.start.0,
            self.text.end.0,
            self.constants.start.0,
            self.constants.end.0,
            self.guard.start.0,
            self.guard.end.0,
            self.shared.start.0,
            self.shared.end.0,
            self.descriptors.start.0,
            self.descriptors.end.0,
            self.data.start.0,
            self.data.end.0,
            self.private.end.0,
            low(self.pristine.start),
            low(self.pristine.end),
        ]
    }

    /// Whether a core of a node whose own image says `own` can run an image that says this and has
    /// a file of `bytes` bytes.
    pub fn judge(&self, own: &Head, bytes: u64) -> Result<(), ImageRefused> {
        if self.abi != ABI {
            return Err(ImageRefused::OtherAbi);
        }
        if !self.is_sound() || !self.shares(own) || bytes != self.file_bytes() {
            return Err(ImageRefused::NotAnImage);
        }
        match self.memory_bytes() <= MOST_PIECES as u64 * LARGE {
            true => Ok(()),
            false => Err(ImageRefused::TooLarge),
        }
    }

    /// Whether its parts are where parts of an image can be.
    fn is_sound(&self) -> bool {
        let parts = [
            &self.text,
            &self.constants,
            &self.guard,
            &self.shared,
            &self.descriptors,
            &self.private,
        ];
        let is_whole = |it: &Span| {
            it.start.is_aligned(PageSize::Small)
                && it.end.is_aligned(PageSize::Small)
                && it.start < it.end
        };
        let (data, pristine) = (&self.data, &self.pristine);
        let in_order = parts.windows(2).all(|pair| pair[0].end <= pair[1].start)
            && FIRST <= pristine.start
            && pristine.end <= self.text.start
            && self.text.end == self.constants.start
            && self.private.end.0 <= KERNEL_BASE.0 + PageSize::Huge.bytes();
        // Of what ends before it begins nobody asks how long it is.
        parts.into_iter().chain([pristine]).all(is_whole)
            && in_order
            && (data.start <= data.end && data.end <= self.private.end)
            && data.end.0.is_multiple_of(16)
            && layout::bytes(data) <= layout::bytes(pristine)
            && layout::bytes(&self.private) <= LARGE
            && self.text.contains(&self.begin)
    }

    /// Whether what cores share has as much room in it as in another.
    fn shares(&self, own: &Head) -> bool {
        let same = |one, other| layout::bytes(one) == layout::bytes(other);
        same(&self.guard, &own.guard)
            && same(&self.shared, &own.shared)
            && same(&self.descriptors, &own.descriptors)
    }

    /// Bytes of the file.
    fn file_bytes(&self) -> u64 {
        let code = layout::bytes(&self.text) + layout::bytes(&self.constants);
        IMAGE_HEAD as u64 + code + layout::bytes(&self.data)
    }

    /// Its parts that are a core's own, in the order in which they lie in its memory: first those
    /// that are in the file.
    fn parts(&self) -> [(&Span, Permissions); 5] {
        [
            (&self.text, Permissions::READ_EXECUTE),
            (&self.constants, Permissions::READ),
            (&self.pristine, Permissions::READ),
            (&self.descriptors, Permissions::READ_WRITE),
            (&self.private, Permissions::READ_WRITE),
        ]
    }

    /// Bytes of memory that a core needs for it.
    pub fn memory_bytes(&self) -> u64 {
        self.parts().iter().map(|(span, _)| layout::bytes(span)).sum()
    }

    /// What the tables of a core have of it that has this memory for it, in pieces of 2 MiB. `own`
    /// is the image whose shared parts all cores have.
    pub fn mappings(&self, memory: &[PhysAddr], own: &Head) -> Vec<Mapping> {
        let mut mappings = Vec::new();
        let mut offset = 0;
        for (span, permissions) in self.parts() {
            for virt in (span.start.0..span.end.0).step_by(PAGE as usize).map(VirtAddr) {
                // There are as many pieces as the image needs.
                let Some(piece) = memory.get((offset / LARGE) as usize) else { break };
                let phys = PhysAddr(piece.0 + offset % LARGE);
                mappings.push(Mapping { virt, phys, size: PageSize::Small, permissions });
                offset += PAGE;
            }
        }
        let shared = Permissions::READ_WRITE;
        for (span, theirs, permissions) in
            [(&self.guard, &own.guard, Permissions::READ), (&self.shared, &own.shared, shared)]
        {
            let Frames { start, bytes } = place(theirs);
            mappings.extend(Mapping::cover(span.start, start, bytes, PageSize::Small, permissions));
        }
        mappings
    }
}

/// Where the loader has put a part of the image that the machine was booted with.
fn place(span: &Span) -> Frames {
    Frames { start: layout::image::physical(span.start), bytes: layout::bytes(span) }
}

#[cfg(test)]
pub(crate) mod tests;
