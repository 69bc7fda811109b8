//! Loading: every part of a package is made ready in memory of the kernel's, then moves to user
//! memory. A file is followed only as far as `nile-package` has checked it.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use nile_abi::call::EntryTable;
use nile_abi::{Status, VirtAddr};
use nile_package::{Image, Package as Plan, Segment, Store};
use nile_platform::user::{Access, Gateway, Start};
use nile_platform::{Machine, User};
use nile_stl::all;

use super::layout::{self, ARGUMENT, GATE, IMAGE, MOST_STACK, PAGE, STACK, TABLE};
use super::space::{Piece, fill};
use super::{LoadError, MAX_ARGUMENT_BYTES, Package, PackageLimits};

impl<M: Machine> Package<M> {
    /// Brings the package to where its first turn begins.
    pub(super) async fn load(
        &self,
        image: &Image,
        argument: &[u8],
        limits: PackageLimits,
    ) -> Result<(), LoadError> {
        let space = &self.0.space;
        if argument.len() > MAX_ARGUMENT_BYTES {
            return Err(LoadError::Argument);
        }
        let stack_bytes = limits.stack_bytes.checked_next_multiple_of(PAGE);
        let stack_bytes = stack_bytes.filter(|bytes| (1..=MOST_STACK).contains(bytes));
        let stack_bytes = stack_bytes.ok_or(LoadError::Limits)?;
        let (file, shipped) = match image {
            Image::Elf(file) => (Some(*file), None),
            Image::Shipped(file) => (Some(&**file), Some(file)),
            Image::Linked(_) => (None, None),
        };
        let plan = file.map(Plan::parse).transpose()?;
        if let Some(plan) = &plan {
            // There is no other: a package is loaded once.
            let _ = self.0.manifest.set(Box::from(plan.manifest().text()));
        }
        let linked = self.linked(image, plan.as_ref())?;
        if let Some(name) = linked {
            let _ = self.0.linked.set(name);
        }
        let has_text = self.open(plan.as_ref(), shipped).await?;
        let gateway = space.with_user(|user| user.gateway())?;
        let (gate, code) = match gateway {
            Gateway::Code(code) => (space.at(GATE), code),
            Gateway::At(address) => (address, &[][..]),
        };
        let arena = match limits.arena_bytes {
            0 => None,
            bytes => Some(space.begin_to_grow(bytes)?),
        };
        let table = EntryTable {
            magic: EntryTable::MAGIC,
            bytes: size_of::<EntryTable>() as u64,
            core: self.0.core.id(),
            generation: self.0.core.machine().generation(),
            gate: gate.0,
            arena: arena.map_or([0, 0], |(at, bytes)| [at.0, bytes]),
            argument: [space.at(ARGUMENT).0, argument.len() as u64],
            stack: [space.at(STACK).0, stack_bytes],
        };
        let table = layout::encode(&table);
        let image = plan.as_ref().filter(|_| linked.is_none());
        let place = space.at(IMAGE);
        let mut parts = vec![
            Part::full(space.at(GATE), code, Access::Execute),
            Part::full(space.at(TABLE), &table, Access::Read),
            Part::full(space.at(ARGUMENT), argument, Access::Read),
            Part::zeroed(space.at(STACK), stack_bytes),
        ];
        parts.extend(arena.map(|(at, bytes)| Part::zeroed(at, bytes)));
        let wanted = |segment: &&Segment<'_>| !has_text || segment.access == Access::Write;
        let segments = image.map_or(&[][..], Plan::segments).iter().filter(wanted);
        parts.extend(segments.map(|segment| Part::segment(segment, place)));
        let pieces = self.filled(&parts).await;
        if arena.is_some() {
            space.has_grown();
        }
        let pieces = pieces?;
        for relocation in image.iter().flat_map(|plan| plan.relocations()) {
            let value = place.0 + relocation.addend;
            fill(&pieces, VirtAddr(place.0 + relocation.place), &value.to_le_bytes());
        }
        let start = match (linked, image) {
            (Some(name), _) => Start::Linked(name),
            (None, Some(plan)) => Start::At {
                entry: VirtAddr(place.0 + plan.entry()),
                stack: VirtAddr(space.at(STACK).0 + stack_bytes),
                argument: space.at(TABLE),
            },
            // What is not linked is a file, and has a plan.
            (None, None) => return Err(LoadError::Refused(Status::NotFound)),
        };
        space.enter(pieces).await?;
        // Linked programs say nothing of themselves: they have what there is.
        let pooled = match &plan {
            Some(plan) => plan.manifest().uses_pool(),
            None => self.0.core.pool().is_some(),
        };
        if pooled {
            space.enter_pool().await?;
        }
        space.with_user(|user| user.start(start))??;
        Ok(())
    }

    /// The program that runs in place of a file, where programs are linked in. `NotFound` if what
    /// was shipped is none of them.
    fn linked(
        &self,
        image: &Image,
        plan: Option<&Plan<'_>>,
    ) -> Result<Option<&'static str>, Status> {
        let store = &self.0.core.packages;
        match (image, plan, store) {
            (Image::Linked(name), ..) => Ok(Some(name)),
            (Image::Shipped(_), Some(plan), Store::Linked(_)) => {
                match store.find(plan.manifest().name()) {
                    Some(Image::Linked(name)) => Ok(Some(name)),
                    _ => Err(Status::NotFound),
                }
            }
            _ => Ok(None),
        }
    }

    /// Memory for all these parts, with what is in them, in the order of the addresses. It is asked
    /// for at once: one answer is waited for, not one after the other.
    async fn filled(&self, parts: &[Part<'_>]) -> Result<Vec<Piece<M>>, Status> {
        let asked = parts.iter().map(|it| self.0.space.allocate(it.at, it.bytes, it.access));
        let mut pieces = Vec::new();
        for some in all(asked).await {
            pieces.extend(some?);
        }
        nile_order::sort_by_key(&mut pieces, Piece::at);
        for Part { contents: (at, bytes), .. } in parts {
            fill(&pieces, *at, bytes);
        }
        Ok(pieces)
    }
}

/// Memory that a package begins with: zeros, and somewhere in it what it contains.
struct Part<'a> {
    at: VirtAddr,
    bytes: u64,
    access: Access,
    contents: (VirtAddr, &'a [u8]),
}

impl<'a> Part<'a> {
    /// These bytes, and zeros up to the page's end; nothing for no bytes.
    fn full(at: VirtAddr, contents: &'a [u8], access: Access) -> Part<'a> {
        Part { at, bytes: contents.len() as u64, access, contents: (at, contents) }
    }

    /// Nothing but zeros, to be written.
    fn zeroed(at: VirtAddr, bytes: u64) -> Part<'a> {
        Part { at, bytes, access: Access::Write, contents: (at, &[]) }
    }

    /// A segment of an image that begins at `image`, without its relocations.
    fn segment(segment: &Segment<'a>, image: VirtAddr) -> Part<'a> {
        let Range { start, end } = segment.pages;
        Part {
            at: VirtAddr(image.0 + start),
            bytes: end - start,
            access: segment.access,
            contents: (VirtAddr(image.0 + segment.start), segment.contents),
        }
    }
}
