//! How a command ends when it does not do what was asked: the exit status is a contract, the
//! message says what failed, where, and what to do.

use std::collections::BTreeSet;
use std::fmt;
use std::process::ExitCode;

use nile_abi::NodeId;

use crate::interrupt;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub enum Failure {
    /// The request was wrong and nothing was started. Exit status 2.
    Request(String),
    /// It started and failed. Exit status 1.
    Failed(String),
    /// It was done with the nodes that could be asked, and some could not. Exit status 3.
    Partial(String),
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

    /// From now on a signal to end this process has what waits end with
    /// [`Interrupted`](Failure::Interrupted). To be said before anything is made that would be
    /// left behind.
    pub fn at_signals() -> Result<(), Failure> {
        interrupt::watch().map_err(|error| Failure::failed(format!("no Ctrl-C: {error}")))
    }

    /// How a command ends that was done without the nodes `away`: well if there are none. What it
    /// printed before holds for the others.
    pub fn unless_all_asked(away: &BTreeSet<NodeId>) -> Result<(), Failure> {
        let names: Vec<String> = away.iter().map(NodeId::to_string).collect();
        match names.is_empty() {
            true => Ok(()),
            false => {
                let names = names.join(", ");
                Err(Failure::Partial(format!(
                    "nodes that could not be asked are left out: {names}"
                )))
            }
        }
    }

    /// The same of what had begun by then: no request is wrong any more.
    pub fn once_begun(self) -> Failure {
        match self {
            Failure::Request(message) => Failure::Failed(message),
            other => other,
        }
    }

    /// The same, with something in its message called otherwise.
    pub fn calling(self, what: &str, other: &str) -> Failure {
        self.saying(|message| message.replace(what, other))
    }

    /// The same, as a part of something.
    pub fn within(self, what: &str) -> Failure {
        self.saying(|message| format!("{what}: {message}"))
    }

    fn saying(self, other: impl FnOnce(String) -> String) -> Failure {
        match self {
            Failure::Request(message) => Failure::Request(other(message)),
            Failure::Failed(message) => Failure::Failed(other(message)),
            Failure::Partial(message) => Failure::Partial(other(message)),
            Failure::Interrupted => Failure::Interrupted,
        }
    }

    /// The status that the process ends with.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Request(_) => 2,
            Failure::Failed(_) => 1,
            Failure::Partial(_) => 3,
            Failure::Interrupted => 130,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Request(message) | Failure::Failed(message) | Failure::Partial(message) => {
                f.write_str(message)
            }
            Failure::Interrupted => {
                f.write_str("interrupted; what this command had started has ended")
            }
        }
    }
}
