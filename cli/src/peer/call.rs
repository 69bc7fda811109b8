//! Calls and how they end.

use std::fmt;

use nile_abi::{NodeId, Status};
use nile_ipioe::Refused;
use nile_stl::CallError;

use super::known::Target;

/// A call to make.
#[derive(Clone, Debug)]
pub struct Call {
    /// The instance that shall do it.
    pub target: Target,
    /// Which of its methods, or [`Call::DISCOVER`].
    pub method: u16,
    /// The arguments, as a document.
    pub document: String,
}

impl Call {
    /// The method that every service has: it gives the service's schema.
    pub const DISCOVER: u16 = u16::MAX;

    /// Asks an instance for its schema.
    pub fn discover(target: Target) -> Call {
        Call { target, method: Call::DISCOVER, document: String::new() }
    }
}

/// A call whose arguments and reply are in the binary form, by somebody who knows the service.
#[derive(Clone, Debug)]
pub struct Request {
    /// The instance that shall do it.
    pub target: Target,
    /// Which of its methods.
    pub method: u16,
    /// The arguments, encoded.
    pub arguments: Vec<u8>,
}

/// The end of a call: the reply as a document, or why there is none.
pub type Outcome = Result<String, CallFailed>;

/// Why a call has no reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallFailed {
    /// What went wrong.
    pub status: Status,
    /// What the callee, or this end, says about it.
    pub message: String,
}

impl CallFailed {
    /// A failure with an explanation, which may be empty.
    pub fn new(status: Status, message: impl Into<String>) -> CallFailed {
        CallFailed { status, message: message.into() }
    }

    /// Whether nothing was done of the call, as its callee was not there any more.
    pub fn was_not_made(&self) -> bool {
        CallError::new(self.status, self.message.clone()).was_not_made()
    }

    /// No answer came in time.
    pub fn timed_out(node: NodeId) -> CallFailed {
        CallFailed::new(Status::Timeout, format!("no answer from {node} in time"))
    }

    /// The call was not begun.
    pub fn refused(refused: Refused) -> CallFailed {
        let status = match refused {
            Refused::TooLong | Refused::NotAPeer => Status::Invalid,
            Refused::Late => Status::Timeout,
            Refused::Full | Refused::TooManyPeers => Status::Busy,
        };
        CallFailed::new(status, refused.to_string())
    }
}

impl fmt::Display for CallFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.message.is_empty() {
            true => write!(f, "{}", self.status),
            false => write!(f, "{}: {}", self.status, self.message),
        }
    }
}
