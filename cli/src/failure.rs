//! How a command ends when it does not do what was asked: the exit status is a contract, the
//! message says what failed, where, and what to do.

use std::fmt;
use std::process::ExitCode;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub enum Failure {
    /// The request was wrong and nothing was started. Exit status 2.
    Request(String),
    /// It started and failed. Exit status 1.
    Failed(String),
    /// Someone pressed Ctrl-C or ended the command. Exit status 130, as shells report it.
    Interrupted,
}

impl Failure {
    /// A wrong request.
    pub fn request(message: impl Into<String>) -> Failure {
        Failure::Request(message.into())
    }

    /// Something that started and failed.
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure::Failed(message.into())
    }

    /// The status that the process ends with.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Request(_) => 2,
            Failure::Failed(_) => 1,
            Failure::Interrupted => 130,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Request(message) | Failure::Failed(message) => f.write_str(message),
            Failure::Interrupted => {
                f.write_str("interrupted; what this command had started has ended")
            }
        }
    }
}
