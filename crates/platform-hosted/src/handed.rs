//! Open files that other programs of this machine hand to the node, so that it reads and writes
//! them itself and nothing of their bytes goes by the network (docs/files.md).
//!
//! A program connects to a socket of the node's, sends `NILEFILE` with one open file, and is told
//! by which name the node has it: 8 bytes, little-endian, drawn by chance. The node has the file
//! until the connection ends.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::rand::GetRandomFlags;

use crate::node::Node;

const MAGIC: [u8; 8] = *b"NILEFILE";

/// The most programs at a time. What comes beyond is refused: its connection ends.
const MOST: usize = 64;

/// How long a connection that cannot be taken, as the process has too many files, is left alone.
const PAUSE: Duration = Duration::from_millis(50);

/// The files that programs have handed to this node, by their names.
#[derive(Default)]
pub(crate) struct Handed(Mutex<BTreeMap<u64, Arc<File>>>);

/// A program that is connected, and by which name its file is known.
struct Program {
    socket: UnixStream,
    name: Option<u64>,
}

impl Handed {
    /// Takes files at the socket `path`, in a thread of its own, until the process ends.
    pub fn listen(path: &Path) -> io::Result<Arc<Handed>> {
        // One that was left by a node that was killed.
        let _ = fs::remove_file(path);
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let handed = Arc::new(Handed::default());
        let own = handed.clone();
        let serve = move || {
            let mut programs = Vec::new();
            loop {
                own.look(&listener, &mut programs);
            }
        };
        thread::Builder::new().name("files".into()).spawn(serve)?;
        Ok(handed)
    }

    /// The file of this name.
    pub fn find(&self, name: u64) -> Option<Arc<File>> {
        self.files().get(&name).cloned()
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<File>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something has come, and takes it.
    fn look(&self, listener: &UnixListener, programs: &mut Vec<Program>) {
        let mut waits = vec![PollFd::new(listener, PollFlags::IN)];
        waits.extend(programs.iter().map(|it| PollFd::new(&it.socket, PollFlags::IN)));
        // Whatever ends it, the next look says what it was.
        let _ = poll(&mut waits, None);
        let mut ready = waits.iter().map(|it| !it.revents().is_empty()).collect::<Vec<_>>();
        drop(waits);
        let is_new = ready.remove(0);
        let mut ready = ready.into_iter();
        programs.retain_mut(|program| {
            let goes_on = ready.next() != Some(true) || self.hear(program).unwrap_or(false);
            if !goes_on && let Some(name) = program.name {
                self.files().remove(&name);
                forget();
            }
            goes_on
        });
        if is_new {
            accept(listener, programs);
        }
    }

    /// Takes what a program says; whether it may say more.
    fn hear(&self, program: &mut Program) -> io::Result<bool> {
        let mut greeting = [0; MAGIC.len()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut greeting)];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let message = recvmsg(&program.socket, &mut parts, &mut control, flags)?;
        let rights = control.drain().filter_map(|it| match it {
            RecvAncillaryMessage::ScmRights(files) => Some(files),
            _ => None,
        });
        let file = rights.flatten().map(File::from).next();
        let is_whole = message.bytes == MAGIC.len() && greeting == MAGIC && program.name.is_none();
        let Some(file) = file.filter(|_| is_whole) else { return Ok(false) };
        // Others have no places for bytes, or can be waited for without end.
        if !file.metadata()?.is_file() {
            return Ok(false);
        }
        let mut name = [0; 8];
        rustix::rand::getrandom(&mut name, GetRandomFlags::empty())?;
        self.files().insert(u64::from_le_bytes(name), Arc::new(file));
        program.name = Some(u64::from_le_bytes(name));
        program.socket.write_all(&name)?;
        Ok(true)
    }
}

/// Takes those who connect.
fn accept(listener: &UnixListener, programs: &mut Vec<Program>) {
    loop {
        match listener.accept() {
            Ok((socket, _)) if programs.len() < MOST => {
                programs.push(Program { socket, name: None });
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => return thread::sleep(PAUSE),
        }
    }
}

/// Has every core close what it has opened of a file that is not here any more.
fn forget() {
    if let Some(node) = Node::get() {
        node.board.core_ids().for_each(|core| node.wake(core));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Read};
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;
    use std::time::Instant;

    use rustix::fs::MemfdFlags;
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    /// A program that says this, with these files.
    fn hand(path: &Path, text: &[u8], files: &[&File]) -> UnixStream {
        let socket = UnixStream::connect(path).expect("it listens");
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        }
        sendmsg(&socket, &[IoSlice::new(text)], &mut control, SendFlags::NOSIGNAL).expect("sent");
        socket
    }

    fn answer(mut socket: &UnixStream) -> Option<u64> {
        let mut name = [0; 8];
        socket.read_exact(&mut name).ok().map(|()| u64::from_le_bytes(name))
    }

    #[test]
    fn a_file_is_here_as_long_as_its_program() {
        let path = std::env::temp_dir().join(format!("nile-handed-{}", std::process::id()));
        let handed = Handed::listen(&path).expect("a socket");
        let file: File =
            rustix::fs::memfd_create("file", MemfdFlags::CLOEXEC).expect("a file").into();
        file.write_all_at(b"hello", 3).expect("room");
        let program = hand(&path, &MAGIC, &[&file]);
        let other = hand(&path, &MAGIC, &[&file]);
        let name = answer(&program).expect("it has it");
        assert_ne!(Some(name), answer(&other));
        let mut bytes = [0; 5];
        handed.find(name).expect("it is here").read_exact_at(&mut bytes, 3).expect("the bytes");
        assert_eq!(&bytes, b"hello");
        // What is no file, no word, or a second word, ends the connection.
        let null = File::open("/dev/null").expect("a device");
        assert_eq!(answer(&hand(&path, &MAGIC, &[&null])), None);
        assert_eq!(answer(&hand(&path, &MAGIC, &[])), None);
        assert_eq!(answer(&hand(&path, b"NILELINK", &[&file])), None);
        drop(program);
        let begun = Instant::now();
        while handed.find(name).is_some() {
            assert!(begun.elapsed() < Duration::from_secs(20), "it is still here");
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(handed.files().len(), 1);
        fs::remove_file(&path).expect("the socket");
    }
}
