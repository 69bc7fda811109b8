//! The capture of a running network: every frame as it enters the switch, in a file that
//! Wireshark reads (pcap with nanoseconds). A thread of its own writes the file, so that the
//! network never waits for a disk or for who reads a FIFO: what finds no room is left out, and
//! counted.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nile_switch::frame::MAX_FRAME;

use super::control::CaptureStatus;

/// What a file begins with, as 32-bit words, least significant byte first: that moments have
/// nanoseconds, the format's version (2.4 as two halves of a word), two words that nobody uses, the
/// longest frame, and that frames are those of Ethernet. The format is too small for the libraries
/// that write it: they bring parser generators or an executor.
const HEADER: [u32; 6] = [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, MAX_FRAME as u32, 1];

/// Bytes that are handed over at once while frames keep coming.
const BATCH: usize = 256 << 10;

/// Bytes that may wait for the file.
const WAITING: usize = 16 << 20;

/// How long the end of a capture waits for the file.
const PATIENCE: Duration = Duration::from_secs(1);

/// A capture. A file that cannot be written ends it and nothing else.
pub struct Capture {
    path: PathBuf,
    /// Where batches go; none once it is over.
    writer: Option<Sender<Batch>>,
    /// Ends with the thread that writes.
    written: Receiver<()>,
    /// What has not been handed over.
    pending: Batch,
    /// Frames that found no room.
    left_out: u64,
    shared: Arc<Shared>,
}

/// Frames as they stand in the file.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    frames: u64,
}

/// What the thread that writes has done.
#[derive(Default)]
struct Shared {
    /// Bytes that were handed over and are not written.
    waiting: AtomicUsize,
    /// Frames that were, and those of them that are.
    taken: AtomicU64,
    written: AtomicU64,
    /// Why it ended.
    error: OnceLock<String>,
}

impl Capture {
    /// Creates the file, with its header. A FIFO is opened once somebody reads it.
    pub fn create(path: PathBuf) -> io::Result<Capture> {
        let is_fifo = fs::metadata(&path).is_ok_and(|file| file.file_type().is_fifo());
        match is_fifo {
            true => {
                let fifo = path.clone();
                Capture::start(path, move || begin(File::options().write(true).open(fifo)?))
            }
            false => {
                let file = begin(File::create(&path)?)?;
                Capture::start(path, || Ok(file))
            }
        }
    }

    fn start(
        path: PathBuf,
        open: impl FnOnce() -> io::Result<File> + Send + 'static,
    ) -> io::Result<Capture> {
        let (writer, batches) = mpsc::channel();
        let (ends, written) = mpsc::channel();
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name("capture".into()).spawn(move || {
            let done = open().and_then(|file| theirs.write(file, batches));
            if let Err(error) = done {
                let _ = theirs.error.set(error.to_string());
            }
            drop::<Sender<()>>(ends);
        })?;
        let (pending, left_out) = (Batch::default(), 0);
        Ok(Capture { path, writer: Some(writer), written, pending, left_out, shared })
    }

    /// Notes a frame that enters the switch now.
    pub fn note(&mut self, frame: &[u8]) {
        if self.writer.is_none() {
            return;
        }
        if self.shared.waiting.load(Ordering::Relaxed) + self.pending.bytes.len() > WAITING {
            self.left_out += 1;
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let length = frame.len() as u32;
        let head = bytes_of(&[now.as_secs() as u32, now.subsec_nanos(), length, length]);
        self.pending.bytes.extend(head);
        self.pending.bytes.extend_from_slice(frame);
        self.pending.frames += 1;
        if self.pending.bytes.len() >= BATCH {
            self.flush();
        }
    }

    /// Hands over everything that was noted. Never waits.
    pub fn flush(&mut self) {
        let Some(writer) = &self.writer else { return };
        if self.pending.frames > 0 {
            let batch = std::mem::take(&mut self.pending);
            self.shared.waiting.fetch_add(batch.bytes.len(), Ordering::Relaxed);
            self.shared.taken.fetch_add(batch.frames, Ordering::Relaxed);
            // It fails if the thread has ended, which is seen next.
            let _ = writer.send(batch);
        }
        if self.shared.error.get().is_some() {
            self.close();
        }
    }

    /// Ends the capture, and waits a little for the file. What is not in it by then is left out.
    pub fn end(&mut self) {
        self.flush();
        self.close();
    }

    fn close(&mut self) {
        if self.writer.take().is_none() {
            return;
        }
        // It ends at once with the thread.
        let _ = self.written.recv_timeout(PATIENCE);
        let taken = self.shared.taken.load(Ordering::Relaxed);
        self.left_out += taken - self.shared.written.load(Ordering::Relaxed);
        let (path, left_out) = (self.path.display(), self.left_out);
        if let Some(error) = self.shared.error.get() {
            crate::say(format_args!(
                "nile: the capture {path} ends here, {left_out} frames short: {error}"
            ));
        } else if left_out > 0 {
            crate::say(format_args!(
                "nile: the capture {path} lacks {left_out} frames: it was written too slowly"
            ));
        }
    }

    /// What became of it so far.
    pub fn status(&self) -> CaptureStatus {
        CaptureStatus {
            file: self.path.clone(),
            frames: self.shared.written.load(Ordering::Relaxed),
            left_out: self.left_out,
            error: self.shared.error.get().cloned(),
        }
    }

    /// A capture that goes to a file that is open already, and has no header.
    #[cfg(test)]
    pub fn to(file: File) -> io::Result<Capture> {
        Capture::start("open".into(), || Ok(file))
    }
}

impl Shared {
    /// Writes what comes until nothing more does.
    fn write(&self, mut file: File, batches: Receiver<Batch>) -> io::Result<()> {
        for Batch { bytes, frames } in batches {
            file.write_all(&bytes)?;
            self.waiting.fetch_sub(bytes.len(), Ordering::Relaxed);
            self.written.fetch_add(frames, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// A file that begins as a capture does.
fn begin(mut file: File) -> io::Result<File> {
    file.write_all(&bytes_of(&HEADER))?;
    Ok(file)
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
