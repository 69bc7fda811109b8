//! The sampler: where a core is, noted time and again while it computes, for whoever draws where
//! its time goes. A core that nobody samples has no tick for it.

use nile_abi::Status;
use nile_stl::node::Samples;
use nile_stl::{CallError, CallResult, Start, Stl, service};

use nile_bosml::Blob;
use nile_interfaces::sampler::{Sampled, SamplerKernel};

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

#[service(on = every, keywords(profile = 5, sample = 5, tick = 3, flame = 1))]
impl SamplerKernel for Sampler {
    async fn sample(&self, hertz: u32) -> CallResult<()> {
        self.stl.node()?.sample(hertz).await.map_err(|status| match status {
            Status::Denied => CallError::new(status, "this machine samples no cores"),
            _ => status.into(),
        })
    }

    fn take(&self, from: u64) -> CallResult<Sampled> {
        let Samples { words, next, lost } = self.stl.node()?.samples(from, AT_ONCE);
        let words = words.into_iter().flat_map(u64::to_le_bytes).collect();
        Ok(Sampled { next, lost, words: Blob(words) })
    }
}
