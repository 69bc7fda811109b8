//! Somebody who has requests, as the switch sees them. It never waits for them.

use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use super::control::{Answer, LINE, Request};
use super::outbox::Outbox;

/// Bytes of answers that may wait for a client.
const WAITING: usize = 2 * LINE;

/// A connection with requests.
pub struct ControlClient {
    stream: UnixStream,
    /// The line that has not ended yet.
    line: Vec<u8>,
    outbox: Outbox,
}

impl ControlClient {
    /// A client that has said nothing yet.
    pub fn new(stream: UnixStream) -> ControlClient {
        ControlClient { stream, line: Vec::new(), outbox: Outbox::default() }
    }

    /// Lets `execute` answer the requests that have come, as far as they have. Says whether the
    /// connection stays.
    pub fn serve(&mut self, mut execute: impl FnMut(Request) -> Answer) -> bool {
        if !self.outbox.is_empty() && self.outbox.flush(&self.stream).is_err() {
            return false;
        }
        if self.stream.set_nonblocking(true).is_err() {
            return false;
        }
        let mut bytes = [0; 16 << 10];
        let count = match self.stream.read(&mut bytes) {
            Ok(0) => return false,
            Ok(count) => count,
            Err(error) => {
                return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
            }
        };
        for part in bytes[..count].split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.len() > LINE {
                return false;
            }
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                let answer = match serde_json::from_slice(&line) {
                    Ok(request) => execute(request),
                    Err(error) => Answer::Refused { reason: format!("no request: {error}") },
                };
                if !self.answer(&answer) {
                    return false;
                }
            }
        }
        true
    }

    /// Whether answers wait for the client to read.
    pub fn waits(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// The connection.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    fn answer(&mut self, answer: &Answer) -> bool {
        // These types have no maps with keys that are not text, the only thing that can fail.
        let Ok(text) = serde_json::to_vec(answer) else { return false };
        self.outbox.send(&self.stream, &text, b"\n", WAITING).is_ok()
    }
}
