//! Files that this command hands to nodes of this machine, which then read and write them by
//! themselves: no byte of them goes by the network (docs/files.md).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nile_abi::NodeId;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::cluster::args::Kind;
use crate::cluster::folder::Node;
use crate::cluster::node;
use crate::cluster::session::Session;
use crate::failure::Failure;

/// What a node is told with a file.
const MAGIC: &[u8; 8] = b"NILEFILE";

/// How long a node may take to say that it has a file.
const PATIENCE: Duration = Duration::from_secs(2);

/// A regular file that nodes have as long as this is there.
pub struct Handed {
    /// By which name each node has it, and what ends that.
    nodes: BTreeMap<NodeId, (u64, UnixStream)>,
}

impl Handed {
    /// Hands a file to those of these nodes that take it: not to those that are in machines of
    /// their own, or elsewhere. One that has failed this command is tried only if no other does.
    pub fn to(session: &Session, nodes: impl IntoIterator<Item = NodeId>, file: &File) -> Handed {
        let mut handed = Handed { nodes: BTreeMap::new() };
        let nodes: BTreeSet<NodeId> = nodes.into_iter().collect();
        let doubts = &session.doubts;
        let (doubted, others): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|it| doubts.has(*it));
        for id in others.into_iter().chain(doubted) {
            let is_hosted = |it: &Node| it.node() == id && it.machine == Kind::Hosted;
            let is_here = session.record.nodes.iter().any(is_hosted);
            if !is_here || doubts.has(id) && !handed.nodes.is_empty() {
                continue;
            }
            let socket = session.folder.file(&node::files(id));
            match hand(&socket, file) {
                Ok(name) => drop(handed.nodes.insert(id, name)),
                Err(_) => doubts.add(id),
            }
        }
        handed
    }

    /// Whether a node has it.
    pub fn has(&self, node: NodeId) -> bool {
        self.nodes.contains_key(&node)
    }

    /// By which name a node has it; no file has the name 0.
    pub fn name(&self, node: NodeId) -> u64 {
        self.nodes.get(&node).map_or(0, |(name, _)| *name)
    }
}

fn hand(socket: &Path, file: &File) -> io::Result<(u64, UnixStream)> {
    let mut socket = UnixStream::connect(socket)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(&socket, &[IoSlice::new(MAGIC)], &mut control, SendFlags::NOSIGNAL)?;
    let mut name = [0; 8];
    socket.read_exact(&mut name)?;
    Ok((u64::from_le_bytes(name), socket))
}

/// A file in memory, for what goes to or comes from something that is no regular file.
pub fn window() -> Result<File, Failure> {
    let made = memfd_create("nile-window", MemfdFlags::CLOEXEC);
    made.map(File::from).map_err(|error| Failure::failed(format!("no memory for a file: {error}")))
}
