//! Where a core is, noted time and again while it computes, for whoever draws where its time goes.

use nile_bosml::Blob;
use nile_stl::{CallResult, Record, service};

/// Some samples.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Sampled {
    /// The number of the one behind the last of them.
    pub next: u64,
    /// Those that were written over before they were asked for.
    pub lost: u64,
    /// For each a word with how many frames it has, in the lower half, and what was interrupted
    /// (0 the kernel, 2 a package), in the upper; then its frames, innermost first: how far behind
    /// the start of the code in 56 bits, and above that which code (1 the kernel, 2 the package, 0
    /// none of them). All little-endian.
    pub words: Blob,
}

/// What a core does, seen from its tick.
#[service(subsystem = "core", capability = "sampling", layer = low)]
pub trait Sampler {
    /// Has this core note where it is, so many times in a second that it does not sleep through; 0
    /// ends that. `invalid` above 1000; `denied` on machines that cannot, and to packages.
    #[stl_k(allow(operator, peer))]
    async fn sample(&self, hertz: u32) -> CallResult<()>;

    /// The samples from the number `from` on, which begin at 1: some at a time, and none if all
    /// have been told. `denied` to packages, which need not know where the kernel is.
    #[stl_k(reply = "sampled", allow(operator, peer))]
    fn take(&self, from: u64) -> CallResult<Sampled>;
}
