//! Keeps: memory that stays when the package ends, however that is, and that its next incarnation
//! finds again on whichever core it runs: state that outlives its code.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::AtomicU64;

use nile_abi::call::{KeepPlace, System, SystemCall, keep_word};
use nile_abi::{CoreId, Status};

use crate::Runtime;

/// A keep of this package's: words that it has for as long as it runs. What they say when it is
/// [found](Keep::is_found) may be anything that an incarnation has left which ended between any two
/// stores; whoever relies on it checks it first.
pub struct Keep<'s> {
    start: NonNull<AtomicU64>,
    words: usize,
    is_found: bool,
    system: PhantomData<&'s dyn System>,
}

/// Why there is no keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeepError {
    /// A package of this core has it.
    Elsewhere(CoreId),
    /// What there is has so many bytes and this version. Whoever wants another one drops it first.
    Other {
        /// Bytes, whole pages.
        bytes: u64,
        /// The version of its contents.
        version: u16,
    },
    /// `Denied` for a package of a job, and if the manifest does not name it with these bytes;
    /// `Invalid` for a name or a size that none can have, `NoMemory` for lack of that or if there
    /// are too many, `Timeout` if another core lets go of it for long.
    Refused(Status),
}

impl<'s> Runtime<'s> {
    /// The keep `name`, of so many bytes, rounded up to whole pages, and this version of its
    /// contents. It is zero when it is made.
    pub fn keep(&self, name: &str, bytes: u64, version: u16) -> Result<Keep<'s>, KeepError> {
        let word = keep_word(bytes, version).ok_or(KeepError::Refused(Status::Invalid))?;
        let mut place = [0; KeepPlace::BYTES];
        let called = self.call(SystemCall::Keep, word, name.as_bytes(), &mut place).result();
        called.map_err(KeepError::Refused)?;
        let place = KeepPlace::decode(&place).ok_or(KeepError::Refused(Status::Invalid))?;
        let KeepPlace { at, bytes: there, version: is, core, is_found } = place;
        let wanted = bytes.next_multiple_of(4096);
        let Some(at) = at else {
            let is_same = (there, is) == (wanted, version);
            return Err(match is_same {
                true => KeepError::Elsewhere(core),
                false => KeepError::Other { bytes: there, version: is },
            });
        };
        // A simulation has no more than one piece of memory in a row.
        let start = self.memory(at, there).ok_or(KeepError::Refused(Status::NoMemory))?;
        let words = usize::try_from(there / 8).unwrap_or_default();
        Ok(Keep { start: start.cast(), words, is_found, system: PhantomData })
    }
}

impl<'s> Keep<'s> {
    /// Whether an earlier package has had it, and what is there is what that one has left.
    pub fn is_found(&self) -> bool {
        self.is_found
    }

    /// All of it.
    pub fn words(&self) -> &'s [AtomicU64] {
        // SAFETY: the kernel has mapped so many bytes there, aligned to a page, to be written, for
        // as long as the package runs, which the system outlives; nobody else has them, and they
        // are reached as atomics only.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl fmt::Debug for Keep<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keep({} bytes)", self.words * 8)
    }
}

impl fmt::Display for KeepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeepError::Elsewhere(core) => {
                write!(f, "a package on {core} has it: end that one first")
            }
            KeepError::Other { bytes, version } => write!(
                f,
                "what there is has {bytes} bytes and version {version}: drop it, or run a package \
                 that takes it"
            ),
            KeepError::Refused(status) => write!(f, "{status}"),
        }
    }
}

impl core::error::Error for KeepError {}
