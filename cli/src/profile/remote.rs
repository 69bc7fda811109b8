//! Samples of cores that take them by themselves, in memory of theirs: the service `sampler` of
//! each tells them, some at a time.

use std::collections::HashSet;
use std::time::Duration;

use nile_abi::NodeId;
use nile_interfaces::sampler::{Sampled, SamplerClient};
use nile_platform_hosted::samples::{Frame, Mode};
use nile_stl::{CallResult, Client, all};

use super::samples::{Collected, Stack};
use crate::cluster::args::Which;
use crate::cluster::session::Session;
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::known::{self, Target};

const SERVICE: &str = SamplerClient::INTERFACE.name;

/// How long a core may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Cores that are sampled, until [`Cores::end`].
pub struct Cores {
    session: Session,
    /// Each core, and the number of its next sample.
    all: Vec<(Target, u64)>,
}

impl Cores {
    /// Has all cores of some nodes sampled from now on.
    pub fn begin(which: &Which, nodes: &[NodeId], hertz: u32) -> Result<Cores, Failure> {
        let session = Session::open(which, PATIENCE)?;
        let instances = known::instances(session.peer.known());
        let is_one = |target: &Target, name: &str| nodes.contains(&target.node) && name == SERVICE;
        let all: Vec<(Target, u64)> = instances
            .iter()
            .filter(|(target, it)| is_one(target, &it.name))
            .map(|(target, _)| (*target, 1))
            .collect();
        let mut cores = Cores { session, all };
        let with = cores.all.iter().map(|(core, _)| core.node).collect::<HashSet<_>>();
        if cores.all.is_empty() || with.len() != nodes.len() {
            return Err(Failure::failed("there are nodes without the service sampler"));
        }
        let targets: Vec<Target> = cores.all.iter().map(|(core, _)| *core).collect();
        let checked = cores.session.peer.check::<SamplerClient>(&targets, PATIENCE)?;
        for (core, checked) in targets.iter().zip(checked) {
            checked.map_err(|why| failed(core, &why))?;
        }
        // What is there from before is somebody else's.
        cores.take_all(&mut Collected::default())?;
        cores.set_rate(hertz)?;
        Ok(cores)
    }

    /// Adds what has come since to `all`.
    pub fn take_all(&mut self, all: &mut Collected) -> Result<(), Failure> {
        loop {
            let mut more = false;
            let replies =
                self.ask(async |sampler: SamplerClient, next| sampler.take(next).await)?;
            for ((core, next), reply) in self.all.iter_mut().zip(replies) {
                let Sampled { next: until, lost, words } = reply;
                let words = words.0;
                all.lost = all.lost.saturating_add(lost);
                more |= !words.is_empty();
                add(all, core, &words);
                *next = until;
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Has no core sampled any more, whether Ctrl-C was pressed or not.
    pub fn end(&mut self) -> Result<(), Failure> {
        self.session.peer.insist();
        self.set_rate(0)
    }

    fn set_rate(&mut self, hertz: u32) -> Result<(), Failure> {
        self.ask(async |sampler, _| sampler.sample(hertz).await).map(drop)
    }

    /// Asks all cores at once something about the samples from the next one on.
    fn ask<T>(
        &mut self,
        question: impl AsyncFn(SamplerClient, u64) -> CallResult<T>,
    ) -> Result<Vec<T>, Failure> {
        let Cores { session, all: cores } = self;
        let ends = session.peer.work(PATIENCE, async |clients| {
            all(cores.iter().map(|(core, next)| question(clients.at(*core), *next))).await
        })?;
        let reply = |((core, _), end): (&(Target, u64), CallResult<T>)| {
            end.map_err(|error| failed(core, &error.into()))
        };
        cores.iter().zip(ends).map(reply).collect()
    }
}

fn failed(core: &Target, why: &CallFailed) -> Failure {
    Failure::failed(format!("{SERVICE} on {}: {why}", core.place()))
}

/// Adds the samples in `words` to `all`. What is cut off is left out.
fn add(all: &mut Collected, core: &Target, words: &[u8]) {
    let (words, _) = words.as_chunks();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    while let Some(head) = words.next() {
        let (count, mode) = (head as u32 as usize, Mode::of(head >> 32));
        let frames: Vec<Frame> = words.by_ref().take(count).map(Frame::of).collect();
        if frames.len() == count {
            let stack = Stack { node: core.node, core: core.core, mode, frames };
            *all.stacks.entry(stack).or_default() += 1;
            all.samples += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use nile_abi::{CoreId, Generation};

    use super::*;

    #[test]
    fn samples_are_read_as_they_are_told() {
        let (node, core) = (NodeId(3), CoreId(2));
        let target = Target { node, generation: Generation(1), core, number: 9 };
        let frames = [Frame::Package(-7), Frame::Package(5)];
        let mut words = vec![Mode::Package.word() << 32 | 2];
        words.extend(frames.map(Frame::word));
        words.extend([1, Frame::Program(u64::MAX << 8 >> 8).word(), 1]);
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        let mut all = Collected::default();
        add(&mut all, &target, &bytes);
        add(&mut all, &target, &bytes[..3 * 8]);
        assert_eq!((all.samples, all.stacks.len()), (3, 2), "what is cut off is no sample");
        let stack = Stack { node, core, mode: Mode::Package, frames: frames.to_vec() };
        assert_eq!(all.stacks[&stack], 2);
    }
}
