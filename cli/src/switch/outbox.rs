//! What a stream has not yet taken, so that a slow reader never holds up the switch.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

/// Bytes that wait for a stream's reader.
#[derive(Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    /// How many of them are written already.
    written: usize,
}

/// Why a message was not taken.
#[derive(Debug)]
pub enum NotSent {
    /// Too much waits already; the message as a whole is dropped.
    Full,
    /// The stream has failed.
    Broken,
}

impl Outbox {
    /// Sends `head` and `body` as one piece: what the stream does not take at once waits here, if
    /// it and what waits come to at most `limit` bytes. Never blocks.
    pub fn send(
        &mut self,
        stream: impl AsFd,
        head: &[u8],
        body: &[u8],
        limit: usize,
    ) -> Result<(), NotSent> {
        let mut written = 0;
        if self.is_empty() {
            let parts = [IoSlice::new(head), IoSlice::new(body)];
            written = write(stream, &parts).map_err(|_| NotSent::Broken)?;
        } else if self.bytes.len() - self.written + head.len() + body.len() > limit {
            return Err(NotSent::Full);
        }
        // The rest of what was begun waits whatever the limit is: half of it is out.
        self.bytes.extend_from_slice(head.get(written..).unwrap_or_default());
        let of_body = written.saturating_sub(head.len());
        self.bytes.extend_from_slice(&body[of_body..]);
        Ok(())
    }

    /// Writes as much of what waits as the stream takes.
    pub fn flush(&mut self, stream: impl AsFd) -> io::Result<()> {
        self.written += write(stream, &[IoSlice::new(&self.bytes[self.written..])])?;
        if self.is_empty() {
            self.bytes.clear();
            self.written = 0;
        } else if self.written > self.bytes.len() / 2 {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
        Ok(())
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.written == self.bytes.len()
    }
}

/// Writes what the stream takes now, which may be nothing.
fn write(stream: impl AsFd, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    loop {
        match sendmsg(stream.as_fd(), parts, &mut SendAncillaryBuffer::default(), flags) {
            Ok(count) => return Ok(count),
            Err(Errno::AGAIN) => return Ok(0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_slow_reader_gets_whole_messages_or_none() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut outbox = Outbox::default();
        let body = vec![7; 50_000];
        let mut sent = 0u32;
        let limit = 200_000;
        let full = loop {
            match outbox.send(&ours, &sent.to_be_bytes(), &body, limit) {
                Ok(()) => sent += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(full, NotSent::Full));
        assert!(!outbox.is_empty() && outbox.bytes.len() <= limit);
        // The reader wakes up.
        for number in 0..sent {
            let mut message = vec![0; 4 + body.len()];
            let mut read = 0;
            while read < message.len() {
                outbox.flush(&ours).unwrap();
                read += theirs.read(&mut message[read..]).unwrap();
            }
            assert_eq!((&message[..4], &message[4..]), (&number.to_be_bytes()[..], &body[..]));
        }
        outbox.flush(&ours).unwrap();
        assert!(outbox.is_empty() && outbox.bytes.is_empty());
        drop(theirs);
        let gone = outbox.send(&ours, b"head", b"body", limit);
        assert!(matches!(gone, Err(NotSent::Broken)));
    }
}
