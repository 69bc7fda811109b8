//! The node's pool of buffers in the user halves of cores' tables, for packages that may use it.
//!
//! It is no grant: every core's kernel has it from the start, and it is nobody's to give back. Its
//! addresses lie behind those of packages' own memory, so that a sweep of these never meets it.

use nile_abi::call::UserSlot;
use nile_abi::{CoreId, PageSize, Status};
use nile_memory::paging::{MapError, Mapping, Permissions, TableMemory};
use nile_platform::Grant;

use super::{Memory, take_out};

/// The pages that show a pool to a package. A pool consists of whole large pages, which need no
/// last-level table.
fn mappings(pool: Grant, slot: UserSlot) -> impl Iterator<Item = Mapping> {
    let permissions = Permissions::READ_WRITE.for_user();
    Mapping::cover(slot.pool(), pool.start, pool.bytes, PageSize::Large, permissions)
}

impl<T: TableMemory> Memory<T> {
    /// Enters the pool in a slot of a core's tables, all of it or nothing. Done twice it is as done
    /// once.
    pub fn show_pool(&mut self, pool: Grant, core: CoreId, slot: UserSlot) -> Result<(), Status> {
        let space = self.tables.spaces.get_mut(core.index()).ok_or(Status::NotFound)?;
        for mapping in mappings(pool, slot) {
            match space.map(&mut self.tables.memory, &mut self.tables.pool, mapping) {
                Ok(()) | Err(MapError::AlreadyMapped) => {}
                Err(error) => {
                    self.hide_pool(pool, core, slot);
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Takes the pool out of a slot of a core's tables, if it is there. The core forgets its
    /// translations itself, before another package has the slot: nobody else uses its tables.
    pub fn hide_pool(&mut self, pool: Grant, core: CoreId, slot: UserSlot) {
        let retired = take_out(&mut self.tables, core, mappings(pool, slot));
        self.tables.retired.extend(retired);
    }
}
