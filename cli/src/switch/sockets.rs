//! The sockets of the switch in its folder, and how others are met there.
//!
//! * `switch`: a socket for packets (`SOCK_SEQPACKET`). Who connects sends its name in one packet
//!   and is plugged in under it; a connection that had the name before is cut. After that every
//!   packet, in both directions, is an Ethernet frame without its check sequence. An empty packet
//!   is the end. The name `peer` may be used by many at once.
//! * `NAME.qemu`: a machine listens here (QEMU with `-netdev stream,server=on`), the switch
//!   connects. The format is that of `framing`.
//! * `control`: requests to the switch, in the words of `control`.
//!
//! The switch removes `switch` and `control` when it ends.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
    sockopt,
};

use super::control::{self, Client};
use crate::failure::Failure;

/// The socket that nodes and peers connect to.
pub const SWITCH: &str = "switch";

/// What the names of sockets end with on which machines listen.
const MACHINE: &str = "qemu";

/// Bytes that may wait in the kernel for a receiver; Linux counts its own with them, a small frame
/// as 768. What waits longer waits in the switch, where senders do not stand in each other's way.
const QUEUE: usize = 256 << 10;

/// The two sockets that the switch listens on. Their files go with the value.
pub struct Sockets {
    pub links: OwnedFd,
    pub control: UnixListener,
    folder: PathBuf,
}

impl Sockets {
    /// Makes them in `folder`, in place of those that a switch left behind that was killed.
    pub fn listen(folder: &Path) -> Result<Sockets, Failure> {
        if Client::connect(folder, Duration::ZERO).is_ok() {
            let folder = folder.display();
            return Err(Failure::request(format!("a switch runs in {folder} already")));
        }
        let cannot = |name: &str, error: io::Error| {
            let path = folder.join(name);
            Failure::failed(format!("the switch cannot listen on {}: {error}", path.display()))
        };
        for name in [SWITCH, control::SOCKET] {
            let path = folder.join(name);
            if fs::symlink_metadata(&path).is_ok_and(|file| file.file_type().is_socket()) {
                fs::remove_file(&path).map_err(|error| cannot(name, error))?;
            }
        }
        let links =
            listen_for_packets(&folder.join(SWITCH)).map_err(|error| cannot(SWITCH, error))?;
        // From here on the files are removed whatever happens.
        let control = UnixListener::bind(folder.join(control::SOCKET));
        let control = control.and_then(|socket| {
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        match control {
            Ok(control) => Ok(Sockets { links, control, folder: folder.into() }),
            Err(error) => {
                let _ = fs::remove_file(folder.join(SWITCH));
                Err(cannot(control::SOCKET, error))
            }
        }
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        for name in [SWITCH, control::SOCKET] {
            // One that is gone already is what this is for.
            let _ = fs::remove_file(self.folder.join(name));
        }
    }
}

fn listen_for_packets(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, 128)?;
    Ok(socket)
}

/// Connects to the machine that listens on `NAME.qemu` in `folder`; an error if none does now.
pub fn dial(folder: &Path, name: &str) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(folder.join(format!("{name}.{MACHINE}")))?)?;
    Ok(socket)
}

/// Lets a few frames wait for the reader of `socket`.
pub fn limit(socket: impl AsFd) {
    // It takes less if that is too much, but does not fail.
    let _ = sockopt::set_socket_send_buffer_size(socket.as_fd(), QUEUE);
}
