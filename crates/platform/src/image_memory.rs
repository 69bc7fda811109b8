//! Kernel images that lie in the node's memory, where a machine has page tables of its own: each
//! core sees its image at the addresses that it is linked at, over frames of its own. Memory and
//! tables are the kernel's to give and to change; the machine says what has to be where.

use alloc::vec::Vec;

use nile_abi::{CoreId, ImageRefused, Status};
use nile_memory::paging::Mapping;

use crate::Grant;

/// What a core's tables have of its image, and what they are to have instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// What goes.
    pub from: Vec<Mapping>,
    /// What comes in its place.
    pub to: Vec<Mapping>,
}

/// Which image a core gets in place of the one that it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Other {
    /// The one that was loaded for it.
    Loaded,
    /// The one that it ran before, while its present one is on trial.
    Former,
}

/// The images of a node's cores, on the core that manages it. All of it outlives an incarnation of
/// that core but images that have not come whole.
pub trait ImageMemory {
    /// Bytes of memory that a core takes for the image whose file has `bytes` bytes, of which the
    /// first [`IMAGE_HEAD`](nile_abi::IMAGE_HEAD) are `head`; what is behind them begins that
    /// memory.
    fn needs(&self, core: CoreId, head: &[u8], bytes: u64) -> Result<u64, ImageRefused>;

    /// A core's image is on trial no more: it does not go back to the former one.
    fn settle(&self, core: CoreId);

    /// An image is coming into this memory, of 2 MiB each, which is the core's until
    /// [`unused`](ImageMemory::unused) gives it back. The core has no other one but that which it
    /// runs.
    fn stage(&self, core: CoreId, head: &[u8], memory: &[Grant]);

    /// What changes in a core's tables so that it has another image; `None` if there is none.
    fn change(&self, core: CoreId, to: Other) -> Option<Change>;

    /// That was changed: the core begins with it when it is called back, on trial if it was loaded.
    fn changed(&self, core: CoreId, to: Other);

    /// Makes tables for the image that was loaded for this core, which manages the node, beside
    /// those that it runs on: it begins on them, on trial, once it has left. Does nothing if none
    /// was loaded. `NoTables`: the image is in more places than there are tables for.
    fn prepare(&self) -> Result<(), Status>;

    /// Whether a core's image is on trial.
    fn is_on_trial(&self, core: CoreId) -> bool;

    /// Takes a core from whatever it does; it [is gone](crate::Manager::is_gone) a moment later.
    /// Waits for less than a millisecond.
    fn take_away(&self, core: CoreId);

    /// All memory of images.
    fn memory(&self) -> Vec<Grant>;

    /// Memory of images that no core runs, is to run or goes back to: nobody's from now on.
    fn unused(&self) -> Vec<Grant>;
}
