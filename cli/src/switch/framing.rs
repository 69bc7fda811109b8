//! Frames in a stream, as QEMU's `-netdev stream` sends them: four bytes of length, the most
//! significant first, then the frame.

use std::io;
use std::os::fd::AsFd;

use nile_switch::frame::MAX_FRAME;
use rustix::net::{RecvFlags, recv};

/// Bytes before a frame.
const PREFIX: usize = 4;

/// What has come in a stream and was not yet taken as frames.
pub struct Framing {
    bytes: Box<[u8]>,
    taken: usize,
    filled: usize,
}

/// The stream says that a frame is longer than any can be: it is not what we take it for.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

impl Framing {
    /// Nothing has come.
    pub fn new() -> Framing {
        Framing { bytes: vec![0; 2 * (PREFIX + MAX_FRAME)].into(), taken: 0, filled: 0 }
    }

    /// Reads once what `stream` has, without blocking, and says how many bytes that were: none is
    /// its end. Frames that came before must have been taken.
    pub fn read(&mut self, stream: impl AsFd) -> io::Result<usize> {
        self.bytes.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.taken = 0;
        let (count, _) = recv(stream, &mut self.bytes[self.filled..], RecvFlags::DONTWAIT)?;
        self.filled += count;
        Ok(count)
    }

    /// The next frame that has come wholly.
    pub fn next(&mut self) -> Result<Option<&[u8]>, TooLong> {
        let bytes = &self.bytes[self.taken..self.filled];
        let Some((length, rest)) = bytes.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > MAX_FRAME {
            return Err(TooLong);
        }
        let Some(frame) = rest.get(..length) else { return Ok(None) };
        self.taken += PREFIX + length;
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn frames_come_out_however_the_stream_was_cut() {
        let frames: Vec<Vec<u8>> = [0, 1, 60, 1514, MAX_FRAME].map(|n| vec![n as u8; n]).into();
        let piece = |frame: &Vec<u8>| [&(frame.len() as u32).to_be_bytes(), &frame[..]].concat();
        let sent: Vec<u8> = frames.iter().flat_map(piece).collect();
        for cut in [1, 3, 7, 1000, 50_000] {
            let (mut theirs, ours) = UnixStream::pair().unwrap();
            let mut framing = Framing::new();
            let mut got = Vec::new();
            for part in sent.chunks(cut) {
                theirs.write_all(part).unwrap();
                assert!(framing.read(&ours).unwrap() > 0);
                while let Some(frame) = framing.next().unwrap() {
                    got.push(frame.to_vec());
                }
            }
            assert_eq!(got, frames, "cut into {cut}");
        }
    }

    #[test]
    fn a_length_that_no_frame_has_is_refused() {
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        let mut framing = Framing::new();
        theirs.write_all(&(MAX_FRAME as u32 + 1).to_be_bytes()).unwrap();
        framing.read(&ours).unwrap();
        assert_eq!(framing.next(), Err(TooLong));
        drop(theirs);
        assert_eq!(framing.read(&ours).unwrap(), 0);
    }
}
