//! Why a call failed.

use alloc::borrow::Cow;
use core::fmt;

use nile_abi::Status;

/// The end of a call that failed: a status that travels, and what a person should know besides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallError {
    /// What went wrong, by its number on the wire.
    pub status: Status,
    /// What, where, and what to do; may be empty.
    pub message: Cow<'static, str>,
}

/// What a call gives.
pub type CallResult<T> = Result<T, CallError>;

impl CallError {
    /// A failure with an explanation.
    pub fn new(status: Status, message: impl Into<Cow<'static, str>>) -> CallError {
        CallError { status, message: message.into() }
    }

    /// Another's failure as it came over the wire: the message is cut to whole letters.
    pub fn from_wire(status: Status, message: &[u8]) -> CallError {
        let text = match str::from_utf8(message) {
            Ok(text) => text,
            Err(error) => str::from_utf8(&message[..error.valid_up_to()]).unwrap_or_default(),
        };
        CallError { status, message: Cow::Owned(text.into()) }
    }
}

/// What a caller is told of a call that was not made, as its callee was not there any more.
const INSTANCE_GONE: &str = "the instance is gone";
const CORE_LEFT: &str = "the core has left";

impl CallError {
    /// The instance that was called is not there any more; nothing was done.
    pub fn instance_gone() -> CallError {
        CallError::new(Status::Gone, INSTANCE_GONE)
    }

    /// The core that was called has left as planned; nothing was done.
    pub fn core_left() -> CallError {
        CallError::new(Status::Gone, CORE_LEFT)
    }

    /// Whether nothing was done of a call that ended so, as its callee was not there any more: it
    /// may be made anew.
    pub fn was_not_made(&self) -> bool {
        let is_told = [INSTANCE_GONE, CORE_LEFT].contains(&&*self.message);
        self.status == Status::Gone || self.status == Status::Dead && is_told
    }

    /// For who meant one place: what is not there any more is dead.
    pub(crate) fn gone_is_dead(self) -> CallError {
        match self.status {
            Status::Gone => CallError { status: Status::Dead, ..self },
            _ => self,
        }
    }
}

impl From<Status> for CallError {
    fn from(status: Status) -> CallError {
        CallError { status, message: Cow::Borrowed("") }
    }
}

impl From<nile_bosml::Error> for CallError {
    fn from(error: nile_bosml::Error) -> CallError {
        CallError::new(Status::Invalid, alloc::format!("{error}"))
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.message {
            "" => write!(f, "{}", self.status),
            message => write!(f, "{}: {message}", self.status),
        }
    }
}

impl core::error::Error for CallError {}
