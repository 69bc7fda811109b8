//! What domains are called.

use core::fmt;
use core::str::FromStr;

/// The most bytes of a name.
pub const MOST_NAME: usize = 24;

/// A domain's name: lower-case letters, digits and dashes, the first a letter; not what a node
/// without a name is called (`n` and digits), nor what the network and memory that nobody has are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    bytes: [u8; MOST_NAME],
    len: u8,
}

impl Name {
    /// The name in these bytes, which zeros may follow; `None` if they are none.
    pub fn new(bytes: &[u8]) -> Option<Name> {
        let end = bytes.iter().rposition(|byte| *byte != 0)? + 1;
        let bytes = &bytes[..end];
        let is_plain = |it: &u8| it.is_ascii_lowercase() || it.is_ascii_digit() || *it == b'-';
        let starts = bytes[0].is_ascii_lowercase() && bytes.iter().all(is_plain);
        let is_number = bytes[0] == b'n' && end > 1 && bytes[1..].iter().all(u8::is_ascii_digit);
        if !starts || is_number || matches!(bytes, b"switch" | b"free") {
            return None;
        }
        let mut name = Name { bytes: [0; MOST_NAME], len: u8::try_from(end).ok()? };
        name.bytes.get_mut(..end)?.copy_from_slice(bytes);
        Some(name)
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }

    /// Its bytes, zeros after them.
    pub(crate) fn padded(&self) -> &[u8; MOST_NAME] {
        &self.bytes
    }
}

impl FromStr for Name {
    type Err = crate::Refused;

    fn from_str(text: &str) -> Result<Name, crate::Refused> {
        Name::new(text.as_bytes()).ok_or(crate::Refused::Name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}
