//! Packets by the batch: from a socket, many of them come with one call of Linux.

use std::iter;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::io::Errno;

/// The most packets that come at once.
const BATCH: usize = 32;

/// Memory for a batch, and what came last.
pub struct Packets {
    bytes: Vec<u8>,
    /// Bytes of the longest packet.
    longest: usize,
    /// How long each packet was, which may be longer than the longest that fits.
    lengths: Vec<usize>,
}

impl Packets {
    /// Memory for packets of up to `longest` bytes.
    pub fn new(longest: usize) -> Packets {
        Packets { bytes: vec![0; BATCH * longest], longest, lengths: Vec::new() }
    }

    /// Takes what has come to `socket`, at most `limit` packets. Whether that may not be all. Fails
    /// with `AGAIN` if nothing has come. After its end a socket gives packets of no bytes.
    pub fn receive(&mut self, socket: BorrowedFd<'_>, limit: usize) -> Result<bool, Errno> {
        let most = limit.min(BATCH);
        let mut parts: [libc::iovec; BATCH] =
            [libc::iovec { iov_base: ptr::null_mut(), iov_len: self.longest }; BATCH];
        for (part, memory) in iter::zip(&mut parts, self.bytes.chunks_exact_mut(self.longest)) {
            part.iov_base = memory.as_mut_ptr().cast();
        }
        let mut headers = parts.each_mut().map(|part| {
            // SAFETY: a message of zeros is one with nothing in it.
            let mut header: libc::mmsghdr = unsafe { core::mem::zeroed() };
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            header
        });
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: the first `most` headers name one part each, and each part a piece of this
        // value's memory that nobody else has; all of them live through the call.
        let came = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                most as libc::c_uint,
                flags,
                ptr::null_mut(),
            )
        };
        self.lengths.clear();
        let Ok(came) = usize::try_from(came) else {
            return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
        };
        self.lengths.extend(headers[..came].iter().map(|header| header.msg_len as usize));
        Ok(came == most)
    }

    /// The same for a file that gives a packet each time that it is read.
    pub fn read(&mut self, file: BorrowedFd<'_>, limit: usize) -> Result<bool, Errno> {
        let most = limit.min(BATCH);
        self.lengths.clear();
        for memory in self.bytes.chunks_exact_mut(self.longest).take(most) {
            match rustix::io::read(file, memory) {
                Ok(length) => self.lengths.push(length),
                Err(error) if self.lengths.is_empty() => return Err(error),
                // Another error comes again.
                Err(error) => return Ok(error != Errno::AGAIN),
            }
        }
        Ok(true)
    }

    /// What came last, in order; `None` is a packet that was too long.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let packet = |(memory, length): (_, &usize)| <[u8]>::get(memory, ..*length);
        iter::zip(self.bytes.chunks_exact(self.longest), &self.lengths).map(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
    use std::os::fd::{AsFd, OwnedFd};

    fn pair() -> (OwnedFd, OwnedFd) {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        socketpair(family, kind, SocketFlags::NONBLOCK, None).expect("two sockets")
    }

    fn came(packets: &Packets) -> Vec<Option<Vec<u8>>> {
        packets.iter().map(|it| it.map(<[u8]>::to_vec)).collect()
    }

    #[test]
    fn packets_come_by_the_batch_and_in_order() {
        let (ours, theirs) = pair();
        let mut packets = Packets::new(100);
        assert_eq!(packets.receive(ours.as_fd(), 9), Err(Errno::AGAIN));
        assert!(came(&packets).is_empty());
        for number in 0..50 {
            send(&theirs, &[number; 50][..usize::from(number) + 1], SendFlags::empty()).unwrap();
        }
        let mut all = Vec::new();
        for (limit, count, full) in [(9, 9, true), (99, BATCH, true), (99, 41 - BATCH, false)] {
            let more = packets.receive(ours.as_fd(), limit);
            assert_eq!((more, packets.iter().count()), (Ok(full), count));
            all.extend(came(&packets));
        }
        let expected = (0..50).map(|number| Some(vec![number; usize::from(number) + 1]));
        assert_eq!(all, expected.collect::<Vec<_>>());
    }

    #[test]
    fn what_is_too_long_and_the_end_are_seen() {
        let (ours, theirs) = pair();
        let mut packets = Packets::new(100);
        for bytes in [100, 101, 1] {
            send(&theirs, &vec![7; bytes], SendFlags::empty()).unwrap();
        }
        drop(theirs);
        packets.receive(ours.as_fd(), 4).unwrap();
        assert_eq!(came(&packets), [Some(vec![7; 100]), None, Some(vec![7]), Some(vec![])]);
    }
}
