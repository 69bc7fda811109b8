//! How nodes of one machine find each other for direct links: each listens on a socket that is
//! named as it is, in a folder they share, and the one with the greater name connects. It brings
//! the link's memory; the socket stays open for as long as both live.
//!
//! A greeting is 16 bytes: `NILELINK`, the largest frame (2, little-endian), the sender's address
//! (6).

use std::fs;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nile_abi::{CoreId, MacAddress};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::direct::Direct;
use crate::node::{Node, log};

/// How often a node looks for others.
const LOOK: Duration = Duration::from_millis(50);

/// How long a greeting may take.
const GREETING: Duration = Duration::from_secs(2);

const MAGIC: [u8; 8] = *b"NILELINK";
const SUFFIX: &str = ".direct";

/// The direct links of a node.
pub(crate) struct Mesh {
    links: Mutex<Vec<Arc<Direct>>>,
    /// How often they have changed.
    changes: AtomicU64,
}

/// What the thread that keeps the links has.
struct Keeper {
    mesh: Arc<Mesh>,
    node: &'static Node,
    core: CoreId,
    folder: PathBuf,
    name: String,
    greeting: [u8; 16],
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
        let mesh = Arc::new(Mesh { links: Mutex::default(), changes: AtomicU64::new(0) });
        let mut greeting = [0; 16];
        greeting[..8].copy_from_slice(&MAGIC);
        greeting[8..10].copy_from_slice(&(max_frame as u16).to_le_bytes());
        greeting[10..].copy_from_slice(&address.0);
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
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors = [std::os::fd::AsFd::as_fd(&memory)];
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let greeting = [IoSlice::new(&self.greeting)];
        sendmsg(&socket, &greeting, &mut control, SendFlags::NOSIGNAL)?;
        let mut answer = [0; 16];
        (&socket).read_exact(&mut answer)?;
        let peer = self.understand(&answer)?;
        socket.set_nonblocking(true)?;
        Ok((socket, name, Direct::map(&memory, self.max_frame, true, peer)?))
    }

    fn accept(&self, socket: UnixStream) -> io::Result<(UnixStream, String, Direct)> {
        socket.set_read_timeout(Some(GREETING))?;
        let mut offer = [0; 16];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut offer)];
        let message = recvmsg(&socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        if message.bytes != offer.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let files = control.drain().filter_map(|it| match it {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        });
        let memory: Option<OwnedFd> = files.flatten().next();
        let memory = memory.ok_or(io::ErrorKind::InvalidData)?.into();
        let peer = self.understand(&offer)?;
        let direct = Direct::map(&memory, self.max_frame, false, peer)?;
        sendmsg(
            &socket,
            &[IoSlice::new(&self.greeting)],
            &mut SendAncillaryBuffer::default(),
            SendFlags::NOSIGNAL,
        )?;
        socket.set_nonblocking(true)?;
        Ok((socket, String::new(), direct))
    }

    fn understand(&self, greeting: &[u8; 16]) -> io::Result<MacAddress> {
        if greeting[..10] != self.greeting[..10] {
            let message = "the other end has other frames, or is no node";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let mut address = [0; 6];
        address.copy_from_slice(&greeting[10..]);
        Ok(MacAddress(address))
    }
}
