//! Text that waits for its package: the parts of a shipped image that are not written stay in their
//! slot of the core's user half when the package has ended. If the next package there is the same,
//! as it is when jobs of one file follow each other, then no memory is asked for, cleared and
//! filled for them, and a processor that is emulated has not to translate their code again. Any
//! other package has them given back first.
//!
//! What is there is compared with the file, byte by byte, so that nobody need be believed who says
//! that two files are the same. Only where the file is the very one in memory that the text came
//! from is there nothing to compare: it cannot have changed, and text cannot be written.

use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;

use nile_abi::{Status, VirtAddr};
use nile_package::{Package as Plan, Segment};
use nile_platform::user::Access;
use nile_platform::{Grant, Machine, User};

use super::layout::IMAGE;
use super::space::piece_places;
use super::{LoadError, Package};

/// Bytes that are compared at once.
const PART: u64 = 64 << 10;

/// What the last package has left: where, which memory, and how it may be used.
type Left = Vec<(VirtAddr, Grant, Access)>;

impl<M: Machine> Package<M> {
    /// Takes its slot of the user half. Whether the text of `plan`, which is `file`'s, is in it; if
    /// not, nothing is.
    pub(super) async fn open(
        &self,
        plan: Option<&Plan<'_>>,
        file: Option<&Rc<[u8]>>,
    ) -> Result<bool, LoadError> {
        let space = &self.0.space;
        let former = self.text().take();
        let both = file.zip(former.as_ref());
        let is_same_file = both.is_some_and(|(file, former)| Rc::ptr_eq(file, former));
        let left = self.0.core.user_grants(space.slot());
        space.open()?;
        if left.is_empty() {
            return Ok(false);
        }
        if let Some(plan) = plan
            && self.is_text(plan, &left, is_same_file)?
        {
            self.0.found_text.set(true);
            space.reserve(left.iter().map(|(_, grant, _)| grant.bytes).sum())?;
            return Ok(true);
        }
        space.clear(|_, _| false).await;
        space.open()?;
        Ok(false)
    }

    /// The file whose text waits in its slot.
    fn text(&self) -> &Cell<Option<Rc<[u8]>>> {
        &self.0.core.texts[self.0.space.slot().index()]
    }

    /// The text of this file's package stays.
    pub(super) fn leave_text(&self, file: Rc<[u8]>) {
        self.text().set(Some(file));
    }

    /// Whether what is left is the text of `plan`: all of it and nothing else. What it says is not
    /// looked at where it `is_same_file`.
    fn is_text(&self, plan: &Plan<'_>, left: &Left, is_same_file: bool) -> Result<bool, Status> {
        let image = self.0.space.at(IMAGE);
        let places = left.iter().map(|(at, grant, access)| (*at, grant.bytes, *access));
        if !places.eq(text_of(plan).flat_map(|segment| places_of(segment, image))) {
            return Ok(false);
        }
        for (at, grant, access) in left {
            self.0.space.with_user(|user| user.map(*grant, *at, *access))??;
        }
        if is_same_file {
            return Ok(true);
        }
        let mut seen = vec![0; PART as usize];
        for segment in text_of(plan) {
            for at in segment.pages.clone().step_by(PART as usize) {
                let seen = &mut seen[..PART.min(segment.pages.end - at) as usize];
                let read = |user: &mut M::User| user.read(VirtAddr(image.0 + at), seen);
                self.0.space.with_user(read)?.map_err(|_| Status::Invalid)?;
                if !segment.is(at, seen) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// The segments that are as the file has them: addresses are put into others only.
fn text_of<'p, 'f>(plan: &'p Plan<'f>) -> impl Iterator<Item = &'p Segment<'f>> {
    plan.segments().iter().filter(|segment| segment.access != Access::Write)
}

/// The pieces of memory that a segment is in, of an image that begins at `image`.
fn places_of(
    segment: &Segment<'_>,
    image: VirtAddr,
) -> impl Iterator<Item = (VirtAddr, u64, Access)> + use<> {
    let (at, bytes) = (segment.pages.start, segment.pages.end - segment.pages.start);
    let access = segment.access;
    piece_places(VirtAddr(image.0 + at), bytes).map(move |(at, bytes)| (at, bytes, access))
}
