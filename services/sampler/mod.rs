//! The sampler: where a core is, noted time and again while it computes, for whoever draws where
//! its time goes. A core that nobody samples has no tick for it.

use nile_abi::Status;
use nile_stl::node::Samples;
use nile_stl::{CallError, CallResult, Record, Start, Stl, service};

use nile_bosml::Blob;

/// The most samples that are told at once: those with all frames that fit a message.
const AT_ONCE: usize = 64;

/// Samples of this core.
pub struct Sampler {
    stl: Stl,
}

impl Start for Sampler {
    fn start(stl: &Stl) -> Sampler {
        Sampler { stl: stl.clone() }
    }
}

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

/// What this core does, seen from its tick.
#[service(
    subsystem = "core",
    capability = "sampling",
    layer = low,
    on = every,
    keywords(profile = 5, sample = 5, tick = 3, flame = 1)
)]
impl Sampler {
    /// Has this core note where it is, so many times in a second that it does not sleep through; 0
    /// ends that. `invalid` above 1000; `denied` on machines that cannot, and to packages.
    #[stl_k(allow(operator, peer))]
    async fn sample(&self, hertz: u32) -> CallResult<()> {
        self.stl.node()?.sample(hertz).await.map_err(|status| match status {
            Status::Denied => CallError::new(status, "this machine samples no cores"),
            _ => status.into(),
        })
    }

    /// The samples from the number `from` on, which begin at 1: some at a time, and none if all
    /// have been told. `denied` to packages, which need not know where the kernel is.
    #[stl_k(reply = "sampled", allow(operator, peer))]
    fn take(&self, from: u64) -> CallResult<Sampled> {
        let Samples { words, next, lost } = self.stl.node()?.samples(from, AT_ONCE);
        let words = words.into_iter().flat_map(u64::to_le_bytes).collect();
        Ok(Sampled { next, lost, words: Blob(words) })
    }
}
