//! How others talk to the switch: over the Unix socket `control` in its folder, one request a
//! line, one answer a line, both JSON. This is both sides' vocabulary, and the client.

use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nile_switch::Counts;
use serde::{Deserialize, Serialize};

use super::fault::Fault;

/// The socket in the switch's folder.
pub const SOCKET: &str = "control";

/// The most bytes of a line.
pub const LINE: usize = 4 << 20;

/// How long the client waits for an answer: the switch never takes long.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the client waits between two tries to connect.
const RETRY: Duration = Duration::from_millis(5);

/// What can be asked of the switch. Where a link is named, `n1` means `n1` and every `n1.…`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "request", deny_unknown_fields)]
pub enum Request {
    /// What is plugged in, with its settings and counts: [`Answer::Links`].
    Links,
    /// Sets a fault of one link, or of all and those to come.
    Fault {
        /// The setting.
        #[serde(rename = "set")]
        fault: Fault,
        /// The link's name; none for all.
        link: Option<String>,
    },
    /// Lets no frame pass between links of different sides; a link on no side reaches all.
    Partition {
        /// The names on each side.
        sides: Vec<Vec<String>>,
    },
    /// Ends the partition.
    Heal,
    /// Writes every frame that enters the switch to a new file, in place of a capture before.
    Capture {
        /// The file, from the root.
        #[serde(with = "crate::path")]
        file: PathBuf,
    },
    /// Ends the capture; its file is then complete.
    EndCapture,
    /// Plugs in a machine that listens on `NAME.qemu`, as soon as it does, and whenever it does
    /// again.
    Dial {
        /// The name of the link.
        name: String,
    },
    /// No longer dials, and pulls the cable.
    HangUp {
        /// The name of the link.
        name: String,
    },
    /// Ends the switch.
    Stop,
}

/// What the switch answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "answer")]
pub enum Answer {
    /// It is done.
    Done,
    /// It is not done, and why; nothing has changed.
    Refused {
        /// The reason, for people.
        reason: String,
    },
    /// The answer to [`Request::Links`].
    Links {
        /// Every link, in the order of names.
        links: Vec<LinkStatus>,
        /// The capture, if there is or was one.
        capture: Option<CaptureStatus>,
    },
}

/// One link of the switch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LinkStatus {
    /// Its name.
    pub name: String,
    /// Whether it is plugged in.
    pub up: bool,
    /// The side of the partition on which it is, from zero.
    pub side: Option<usize>,
    /// What distinguishes the cable from a perfect one.
    pub faults: Vec<Fault>,
    /// What the switch counted.
    pub counts: Counts,
}

/// What became of a capture.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CaptureStatus {
    /// Its file.
    #[serde(with = "crate::path")]
    pub file: PathBuf,
    /// Frames written so far.
    pub frames: u64,
    /// Frames that were left out, because the file was written too slowly.
    pub left_out: u64,
    /// Why it ended before it was asked to.
    pub error: Option<String>,
}

impl fmt::Display for CaptureStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "capture {}: {} frames", self.file.display(), self.frames)?;
        if self.left_out > 0 {
            write!(f, ", {} left out", self.left_out)?;
        }
        match &self.error {
            Some(error) => write!(f, "; it ended: {error}"),
            None => Ok(()),
        }
    }
}

/// Why the switch did not do it.
#[derive(Debug)]
pub enum ControlError {
    /// Nobody listens in this folder, or who did has gone.
    Unreachable(PathBuf, io::Error),
    /// It answered something that is no answer.
    Garbled(String),
    /// It refused, and said why.
    Refused(String),
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlError::Unreachable(path, error) if error.kind() == ErrorKind::WouldBlock => {
                write!(f, "the switch at {} has not answered in time", path.display())
            }
            ControlError::Unreachable(path, error) => {
                write!(f, "the switch cannot be reached at {}: {error}", path.display())
            }
            ControlError::Garbled(line) => write!(f, "the switch answered nonsense: {line}"),
            ControlError::Refused(reason) => f.write_str(reason),
        }
    }
}

/// A connection to the switch. It blocks until the answer is here.
pub struct Client {
    stream: BufReader<UnixStream>,
    path: PathBuf,
}

impl Client {
    /// Connects to the switch of `folder`; tries for as long as `patience` if nobody listens.
    pub fn connect(folder: &Path, patience: Duration) -> Result<Client, ControlError> {
        let path = folder.join(SOCKET);
        let deadline = Instant::now() + patience;
        let stream = loop {
            match UnixStream::connect(&path) {
                Ok(stream) => break Ok(stream),
                Err(error) if Instant::now() >= deadline => break Err(error),
                Err(_) => std::thread::sleep(RETRY),
            }
        };
        let timed = stream.and_then(|stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(stream)
        });
        match timed {
            Ok(stream) => Ok(Client { stream: BufReader::new(stream), path }),
            Err(error) => Err(ControlError::Unreachable(path, error)),
        }
    }

    /// The same, which waits for an answer for so long.
    pub fn within(self, patience: Duration) -> Result<Client, ControlError> {
        let timed = self.stream.get_ref().set_read_timeout(Some(patience));
        timed.map_err(|error| ControlError::Unreachable(self.path.clone(), error))?;
        Ok(self)
    }

    /// Asks for something that has no answer but success.
    pub fn ask(&mut self, request: &Request) -> Result<(), ControlError> {
        self.exchange(request).map(|_| ())
    }

    /// Every link, and the capture.
    pub fn links(&mut self) -> Result<(Vec<LinkStatus>, Option<CaptureStatus>), ControlError> {
        match self.exchange(&Request::Links)? {
            Answer::Links { links, capture } => Ok((links, capture)),
            other => Err(ControlError::Garbled(format!("{other:?}"))),
        }
    }

    fn exchange(&mut self, request: &Request) -> Result<Answer, ControlError> {
        let line = self.round_trip(request);
        let line = line.map_err(|error| ControlError::Unreachable(self.path.clone(), error))?;
        match serde_json::from_str(&line) {
            Ok(Answer::Refused { reason }) => Err(ControlError::Refused(reason)),
            Ok(answer) => Ok(answer),
            Err(_) => Err(ControlError::Garbled(line)),
        }
    }

    fn round_trip(&mut self, request: &Request) -> io::Result<String> {
        let mut line = serde_json::to_string(request)?;
        line.push('\n');
        self.stream.get_mut().write_all(line.as_bytes())?;
        line.clear();
        match (&mut self.stream).take(LINE as u64).read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }
}
