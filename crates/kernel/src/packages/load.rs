//! Loading: every part of a package is made ready in memory of the kernel's, then moves to user
//! memory. A file is followed only as far as `nile-package` has checked it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use nile_abi::call::EntryTable;
use nile_abi::{Status, VirtAddr};
use nile_package::{Image, Package as Plan, Segment, Store};
use nile_platform::user::{Access, Gateway, Start};
use nile_platform::{Machine, User};

use super::layout::{self, ARGUMENT, GATE, IMAGE, MOST_STACK, PAGE, STACK, TABLE};
use super::space::{Piece, fill};
use super::{LoadError, MAX_ARGUMENT_BYTES, Package, PackageLimits};

impl<M: Machine> Package<M> {
    /// Brings the package to where its first turn begins.
    pub(super) async fn load(
        &self,
        image: Image,
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
        let file = match &image {
            Image::Elf(file) => Some(*file),
            Image::Shipped(file) => Some(&**file),
            Image::Linked(_) => None,
        };
        let plan = file.map(Plan::parse).transpose()?;
        if let Some(plan) = &plan {
            // There is no other: a package is loaded once.
            let _ = self.0.manifest.set(Box::from(plan.manifest().text()));
        }
        let linked = self.linked(&image, plan.as_ref())?;
        let has_text = self.open(plan.as_ref()).await?;
        let gateway = space.with_user(|user| user.gateway())?;
        let (gate, code) = match gateway {
            Gateway::Code(code) => (GATE, code),
            Gateway::At(address) => (address, &[][..]),
        };
        let mut all = self.filled(GATE, code, Access::Execute).await?;
        let arena = if limits.arena_bytes > 0 {
            let (at, bytes) = space.begin_to_grow(limits.arena_bytes)?;
            let pieces = space.allocate(at, bytes, Access::Write).await;
            space.has_grown();
            all.extend(pieces?);
            [at.0, bytes]
        } else {
            [0, 0]
        };
        let table = EntryTable {
            magic: EntryTable::MAGIC,
            bytes: size_of::<EntryTable>() as u64,
            core: self.0.core.id(),
            generation: self.0.core.machine().generation(),
            gate: gate.0,
            arena,
            argument: [ARGUMENT.0, argument.len() as u64],
            stack: [STACK.0, stack_bytes],
        };
        all.extend(self.filled(TABLE, &layout::encode(&table), Access::Read).await?);
        all.extend(self.filled(ARGUMENT, argument, Access::Read).await?);
        all.extend(space.allocate(STACK, stack_bytes, Access::Write).await?);
        let start = match (linked, &plan) {
            (Some(name), _) => Start::Linked(name),
            (None, Some(plan)) => {
                all.extend(self.image(plan, has_text).await?);
                Start::At {
                    entry: VirtAddr(IMAGE.0 + plan.entry()),
                    stack: VirtAddr(STACK.0 + stack_bytes),
                    argument: TABLE,
                }
            }
            // What is not linked is a file, and has a plan.
            (None, None) => return Err(LoadError::Refused(Status::NotFound)),
        };
        space.enter(all).await?;
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

    /// Memory that holds `bytes`, and zeros up to the page's end; none for no bytes.
    async fn filled(
        &self,
        at: VirtAddr,
        bytes: &[u8],
        access: Access,
    ) -> Result<Vec<Piece<M>>, LoadError> {
        let pieces = self.0.space.allocate(at, bytes.len() as u64, access).await?;
        fill(&pieces, at, bytes);
        Ok(pieces)
    }

    /// The image, its relocations applied; without its text if that is there already.
    async fn image(&self, plan: &Plan<'_>, has_text: bool) -> Result<Vec<Piece<M>>, LoadError> {
        let mut pieces = Vec::new();
        let wanted = |segment: &&Segment<'_>| !has_text || segment.access == Access::Write;
        for segment in plan.segments().iter().filter(wanted) {
            let at = VirtAddr(IMAGE.0 + segment.pages.start);
            let bytes = segment.pages.end - segment.pages.start;
            pieces.extend(self.0.space.allocate(at, bytes, segment.access).await?);
            fill(&pieces, VirtAddr(IMAGE.0 + segment.start), segment.contents);
        }
        for relocation in plan.relocations() {
            let value = IMAGE.0 + relocation.addend;
            fill(&pieces, VirtAddr(IMAGE.0 + relocation.place), &value.to_le_bytes());
        }
        Ok(pieces)
    }
}
