//! Samples of cores that take them by themselves, in memory of theirs: the service `sampler` of
//! each tells them, some at a time.

use std::collections::HashSet;
use std::time::Duration;

use nile_abi::NodeId;
use nile_bosml::{Blob, Decode, Encode, Reader, Writer, discovery};
use nile_platform_hosted::samples::{Frame, Mode};

use super::samples::{Collected, Stack};
use crate::cluster::args::Which;
use crate::cluster::services;
use crate::cluster::session::Session;
use crate::failure::Failure;
use crate::peer::call::{CallFailed, Request};
use crate::peer::known::{self, Target};

const SERVICE: &str = "sampler";

/// How long a core may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Cores that are sampled, until [`Cores::end`].
pub struct Cores {
    session: Session,
    /// Each core, and the number of its next sample.
    all: Vec<(Target, u64)>,
    /// The numbers of the methods `sample` and `take`.
    sample: u16,
    take: u16,
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
        let mut cores = Cores { session, all, sample: 0, take: 0 };
        let with = cores.all.iter().map(|(core, _)| core.node).collect::<HashSet<_>>();
        let Some((first, _)) = cores.all.first().filter(|_| with.len() == nodes.len()) else {
            return Err(Failure::failed("there are nodes without the service sampler"));
        };
        let wrong = |why: String| Failure::failed(format!("{SERVICE}: {why}"));
        let schema = services::schema(&mut cores.session, *first)?;
        let schema = schema.map_err(|failed| wrong(failed.to_string()))?;
        let schema = discovery::parse(&schema).map_err(|it| wrong(it.to_string()))?;
        let method = |name: &str| {
            let found = schema.methods.iter().position(|method| method.name == name);
            found
                .map(|at| at as u16)
                .ok_or_else(|| wrong("the nodes are of another version".into()))
        };
        (cores.sample, cores.take) = (method("sample")?, method("take")?);
        // What is there from before is somebody else's.
        cores.take_all(&mut Collected::default())?;
        cores.set_rate(hertz)?;
        Ok(cores)
    }

    /// Adds what has come since to `all`.
    pub fn take_all(&mut self, all: &mut Collected) -> Result<(), Failure> {
        loop {
            let mut more = false;
            let replies = self.ask(self.take, |next| encoded(&next))?;
            for ((core, next), reply) in self.all.iter_mut().zip(replies) {
                let wrong = |_| Failure::failed(format!("{}: no samples", core.place()));
                let reader = &mut Reader::new(&reply);
                let until = u64::decode(reader).map_err(wrong)?;
                let lost = u64::decode(reader).map_err(wrong)?;
                let words = Blob::decode(reader).map_err(wrong)?.0;
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
        self.ask(self.sample, |_| encoded(&hertz)).map(drop)
    }

    /// Calls a method of all cores, with arguments that tell the number of the next sample.
    fn ask(
        &mut self,
        method: u16,
        arguments: impl Fn(u64) -> Vec<u8>,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let request = |(target, next): &(Target, u64)| Request {
            target: *target,
            method,
            arguments: arguments(*next),
        };
        let requests: Vec<Request> = self.all.iter().map(request).collect();
        let ends = self.session.peer.requests(&requests, PATIENCE)?;
        let reply = |((core, _), end): (&(Target, u64), Result<Vec<u8>, CallFailed>)| {
            end.map_err(|why| Failure::failed(format!("{SERVICE} on {}: {why}", core.place())))
        };
        self.all.iter().zip(ends).map(reply).collect()
    }
}

fn encoded(value: &impl Encode) -> Vec<u8> {
    let mut arguments = Writer::new();
    value.encode(&mut arguments);
    arguments.into_bytes().expect("a number fits")
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
