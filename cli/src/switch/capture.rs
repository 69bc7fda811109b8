//! The capture of a running network: every frame as it enters the switch, in a file that
//! Wireshark reads (pcap with nanoseconds).

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use nile_switch::frame::MAX_FRAME;

use super::control::CaptureStatus;

/// What a file begins with, as 32-bit words, least significant byte first: that moments have
/// nanoseconds, the format's version (2.4 as two halves of a word), two words that nobody uses, the
/// longest frame, and that frames are those of Ethernet. The format is too small for the libraries
/// that write it: they bring parser generators or an executor.
const HEADER: [u32; 6] = [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, MAX_FRAME as u32, 1];

/// Bytes that are written at once while frames keep coming.
const BATCH: usize = 256 << 10;

/// A capture. A file that cannot be written ends it and nothing else.
pub struct Capture {
    file: Option<File>,
    /// What is not yet in the file.
    pending: Vec<u8>,
    status: CaptureStatus,
}

impl Capture {
    /// Creates the file, with its header.
    pub fn create(path: PathBuf) -> io::Result<Capture> {
        let mut file = File::create(&path)?;
        file.write_all(&bytes_of(&HEADER))?;
        let status = CaptureStatus { file: path, frames: 0, error: None };
        Ok(Capture { file: Some(file), pending: Vec::new(), status })
    }

    /// Notes a frame that enters the switch now.
    pub fn note(&mut self, frame: &[u8]) {
        if self.file.is_none() {
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let length = frame.len() as u32;
        self.pending.extend(bytes_of(&[now.as_secs() as u32, now.subsec_nanos(), length, length]));
        self.pending.extend_from_slice(frame);
        self.status.frames += 1;
        if self.pending.len() >= BATCH {
            self.flush();
        }
    }

    /// Brings everything noted into the file.
    pub fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let Some(file) = &mut self.file else { return };
        let written = file.write_all(&self.pending);
        self.pending.clear();
        if let Err(error) = written {
            self.fail(&error);
        }
    }

    /// Ends the capture.
    pub fn end(&mut self) {
        self.flush();
        self.file = None;
    }

    /// What became of it so far.
    pub fn status(&self) -> CaptureStatus {
        self.status.clone()
    }

    /// Lets what follows go to another file.
    #[cfg(test)]
    pub fn redirect(&mut self, file: File) {
        self.file = Some(file);
    }

    fn fail(&mut self, error: &io::Error) {
        eprintln!("nile: the capture {} ends here: {error}", self.status.file.display());
        self.status.error = Some(error.to_string());
        self.file = None;
        self.pending = Vec::new();
    }
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
