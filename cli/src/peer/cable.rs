//! A cable of the virtual switch: a socket on which every packet is a frame.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};

use crate::switch::sockets::SWITCH;

/// What peers are called on the switch; there may be many.
const NAME: &str = "peer";

/// Frames that are taken at a time.
const BATCH: usize = 256;

/// One end of a cable.
pub struct Cable {
    socket: OwnedFd,
    received: Box<[u8]>,
    sent: Box<[u8]>,
}

impl Cable {
    /// Plugs in to the switch in `folder`, for frames of at most so many bytes.
    pub fn plug_in(folder: &Path, max_frame: usize) -> io::Result<Cable> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(folder.join(SWITCH))?)?;
        send(&socket, NAME.as_bytes(), SendFlags::NOSIGNAL)?;
        // One byte more: a longer frame is seen to be one.
        let (received, sent) = (vec![0; max_frame + 1].into(), vec![0; max_frame].into());
        Ok(Cable { socket, received, sent })
    }

    /// Gives `take` the frames that have come, at most a batch; whether there were any. Fails when
    /// the switch has gone.
    pub fn receive(&mut self, mut take: impl FnMut(&[u8])) -> io::Result<bool> {
        for count in 0..BATCH {
            match recv(&self.socket, &mut *self.received, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(io::ErrorKind::ConnectionAborted.into()),
                Ok((bytes, _)) => take(&self.received[..bytes]),
                Err(Errno::AGAIN) => return Ok(count > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// Where the next frame is written.
    pub fn frame(&mut self) -> &mut [u8] {
        &mut self.sent
    }

    /// Sends the first `length` bytes of it; if there is no room, it is lost, as on any network.
    pub fn send(&mut self, length: usize) -> io::Result<()> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        match send(&self.socket, &self.sent[..length], flags) {
            Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until a frame has come, or so long.
    pub fn wait(&self, patience: Duration) {
        let timeout = Timespec::try_from(patience).ok();
        let mut socket = [PollFd::new(&self.socket, PollFlags::IN)];
        // Whatever ends it, the next look says what it was.
        let _ = poll(&mut socket, timeout.as_ref());
    }
}
