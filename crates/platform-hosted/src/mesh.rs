//! How nodes of one machine find each other for direct links: each listens on a socket that is
//! named as it is, in a folder they share, and the one with the greater name connects. It brings
//! the link's memory; the socket stays open for as long as both live.
//!
//! A greeting has 32 bytes, numbers little-endian: `NILELINK`, the largest frame (2), the sender's
//! address (6), the name by which it shows its pool (8), bytes of that (8). With it come files: the
//! link's memory, from whoever connects, and the pool's, if that has bytes.

use std::array;
use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use std::vec;

use nile_abi::{CoreId, MacAddress};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::rand::GetRandomFlags;

use crate::direct::Direct;
use crate::node::{Node, log};
use crate::peer_pool::PeerPool;

/// How often a node looks for others.
const LOOK: Duration = Duration::from_millis(50);

/// How long a greeting may take.
const GREETING: Duration = Duration::from_secs(2);

const MAGIC: [u8; 8] = *b"NILELINK";
const SUFFIX: &str = ".direct";

/// The most files that come with a greeting.
const MOST_FILES: usize = 2;

/// The direct links of a node.
pub(crate) struct Mesh {
    links: Mutex<Vec<Arc<Direct>>>,
    /// How often they have changed.
    changes: AtomicU64,
    /// By which name this node's pool is shown to the others.
    shows: Option<u64>,
}

/// What the thread that keeps the links has.
struct Keeper {
    mesh: Arc<Mesh>,
    node: &'static Node,
    core: CoreId,
    folder: PathBuf,
    name: String,
    greeting: Greeting,
    max_frame: usize,
    /// Each link with its socket and the other end's name.
    kept: Vec<(UnixStream, String, Arc<Direct>)>,
}

impl Mesh {
    /// Begins to make links with all nodes that use the same folder, for the core that drives
    /// them, in a thread of its own.
    pub fn start(
        node: &'static Node,
        core: CoreId,
        folder: PathBuf,
        name: String,
        address: MacAddress,
        max_frame: usize,
    ) -> io::Result<Arc<Mesh>> {
        let path = folder.join(format!("{name}{SUFFIX}"));
        // One that was left by a node that was killed.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        let pool = node.arena.own_file_of_pool();
        let name_of_pool = pool.map(|_| random()).transpose()?;
        let pool = name_of_pool.zip(pool.map(|(_, bytes)| bytes)).unwrap_or_default();
        let greeting = Greeting { max_frame, address, pool };
        let mesh =
            Mesh { links: Mutex::default(), changes: AtomicU64::new(0), shows: name_of_pool };
        let mesh = Arc::new(mesh);
        let mut keeper = Keeper {
            mesh: mesh.clone(),
            node,
            core,
            folder,
            name,
            greeting,
            max_frame,
            kept: Vec::new(),
        };
        thread::Builder::new().name("links".into()).spawn(move || {
            loop {
                keeper.look(&listener);
                let mut waits = vec![PollFd::new(&listener, PollFlags::IN)];
                waits.extend(keeper.kept.iter().map(|(it, ..)| PollFd::new(it, PollFlags::IN)));
                let span =
                    rustix::event::Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
                // Looking more often than needed does no harm.
                let _ = poll(&mut waits, Some(&span));
            }
        })?;
        Ok(mesh)
    }

    /// By which name this node's pool is shown to the others.
    pub fn shows_pool(&self) -> Option<u64> {
        self.shows
    }

    /// The links, if they have changed since this was asked with the same counter.
    pub fn news(&self, seen: &mut u64) -> Option<Vec<Arc<Direct>>> {
        let changes = self.changes.load(Ordering::Acquire);
        if *seen == changes {
            return None;
        }
        *seen = changes;
        Some(self.links.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Keeper {
    /// Drops links whose other end is gone, takes new ones, and connects to nodes that are new.
    fn look(&mut self, listener: &UnixListener) {
        let before = self.kept.len();
        let mut changed = false;
        self.kept.retain(|(socket, _, direct)| {
            // The other end says nothing more: whatever can be read is its end.
            let lives = matches!((&*socket).read(&mut [0; 1]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock);
            direct.dead.store(!lives, Ordering::Release);
            lives
        });
        changed |= before != self.kept.len();
        while let Ok((socket, _)) = listener.accept() {
            changed |= self.keep(self.accept(socket), "a direct link was offered");
        }
        for name in self.others() {
            changed |= self.keep(self.connect(name), "a direct link could not be made");
        }
        if changed {
            let links = self.kept.iter().map(|(_, _, direct)| direct.clone()).collect();
            *self.mesh.links.lock().unwrap_or_else(PoisonError::into_inner) = links;
            self.mesh.changes.fetch_add(1, Ordering::Release);
            self.node.wake(self.core);
        }
    }

    fn keep(&mut self, made: io::Result<(UnixStream, String, Direct)>, what: &str) -> bool {
        match made {
            Ok((socket, name, direct)) => {
                self.kept.retain(|(_, known, _)| *known != name || name.is_empty());
                self.kept.push((socket, name, Arc::new(direct)));
                true
            }
            // It has just ended, or not begun.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => false,
            Err(error) => {
                log(&self.name, format_args!("{what}: {error}"));
                false
            }
        }
    }

    /// Nodes with lesser names that there is no link with.
    fn others(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let names = entries.filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            Some(name.strip_suffix(SUFFIX)?.to_owned())
        });
        let is_new = |name: &String| {
            *name < self.name && !self.kept.iter().any(|(_, known, _)| known == name)
        };
        names.filter(is_new).collect()
    }

    fn connect(&self, name: String) -> io::Result<(UnixStream, String, Direct)> {
        let socket = UnixStream::connect(self.folder.join(format!("{name}{SUFFIX}")))?;
        socket.set_read_timeout(Some(GREETING))?;
        let memory = Direct::memory(self.max_frame)?;
        self.greet(&socket, Some(memory.as_fd()))?;
        let (peer, files) = self.hear(&socket)?;
        let direct = Direct::map(&memory, self.max_frame, true, peer.address)?;
        self.finish(socket, name, direct, peer, files)
    }

    fn accept(&self, socket: UnixStream) -> io::Result<(UnixStream, String, Direct)> {
        socket.set_read_timeout(Some(GREETING))?;
        let (peer, mut files) = self.hear(&socket)?;
        let memory = files.next().ok_or(io::ErrorKind::InvalidData)?;
        let direct = Direct::map(&memory, self.max_frame, false, peer.address)?;
        self.greet(&socket, None)?;
        self.finish(socket, String::new(), direct, peer, files)
    }

    /// Says who this is, with the link's memory if it is for this end to bring.
    fn greet(&self, socket: &UnixStream, memory: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let pool = self.node.arena.own_file_of_pool().map(|(file, _)| file.as_fd());
        let files: Vec<BorrowedFd<'_>> = memory.into_iter().chain(pool).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&files));
        }
        let greeting = self.greeting.to_bytes();
        sendmsg(socket, &[IoSlice::new(&greeting)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Who the other end is, and the files that it has brought.
    fn hear(&self, socket: &UnixStream) -> io::Result<(Greeting, vec::IntoIter<File>)> {
        let mut greeting = [0; Greeting::BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut greeting)];
        let message = recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        if message.bytes != Greeting::BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let rights = control.drain().filter_map(|it| match it {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        });
        let files: Vec<File> = rights.flatten().map(File::from).collect();
        let peer = Greeting::from_bytes(&greeting).filter(|it| it.max_frame == self.max_frame);
        let strange = "the other end has other frames, or is no node";
        let peer = peer.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, strange))?;
        Ok((peer, files.into_iter()))
    }

    /// The link, with the other end's pool if that came with its greeting.
    fn finish(
        &self,
        socket: UnixStream,
        name: String,
        mut direct: Direct,
        peer: Greeting,
        mut files: vec::IntoIter<File>,
    ) -> io::Result<(UnixStream, String, Direct)> {
        let (name_of_pool, bytes) = peer.pool;
        if let Some(file) = files.next().filter(|_| bytes > 0) {
            match PeerPool::map(file, name_of_pool, bytes) {
                Ok(pool) => direct.pool = Some(pool),
                // What cannot be read there is sent from there.
                Err(error) => {
                    let pool = format_args!("the pool of {}", peer.address);
                    log(&self.name, format_args!("{pool} is not read: {error}"));
                }
            }
        }
        socket.set_nonblocking(true)?;
        Ok((socket, name, direct))
    }
}

/// What one end says of itself.
struct Greeting {
    max_frame: usize,
    address: MacAddress,
    /// By which name it shows its pool, and bytes of that; zero if it shows none.
    pool: (u64, u64),
}

impl Greeting {
    const BYTES: usize = 32;

    fn to_bytes(&self) -> [u8; Greeting::BYTES] {
        let mut bytes = [0; Greeting::BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&(self.max_frame as u16).to_le_bytes());
        bytes[10..16].copy_from_slice(&self.address.0);
        bytes[16..24].copy_from_slice(&self.pool.0.to_le_bytes());
        bytes[24..].copy_from_slice(&self.pool.1.to_le_bytes());
        bytes
    }

    /// `None` if it is no greeting.
    fn from_bytes(bytes: &[u8; Greeting::BYTES]) -> Option<Greeting> {
        fn at<const N: usize>(bytes: &[u8], place: usize) -> [u8; N] {
            array::from_fn(|byte| bytes[place + byte])
        }
        Some(Greeting {
            max_frame: u16::from_le_bytes(at(bytes, 8)).into(),
            address: MacAddress(at(bytes, 10)),
            pool: (u64::from_le_bytes(at(bytes, 16)), u64::from_le_bytes(at(bytes, 24))),
        })
        .filter(|_| bytes.starts_with(&MAGIC))
    }
}

/// A name that no pool of before has.
fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(bytes))
}
