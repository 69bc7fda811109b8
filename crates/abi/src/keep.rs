//! Names of *keeps*: memory of a package that its next incarnation finds again; and of *regions*:
//! memory that packages of several cores have at once, which is a keep of no package's.

use core::fmt;

/// A keep by its package and its own name: `counter/state`, zeros behind it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeepName([u8; KeepName::BYTES]);

impl KeepName {
    /// The most bytes of both names and what is between them.
    pub const BYTES: usize = 32;

    /// In the place of a package's name, for what belongs to none: no package is called so.
    const NOBODY: &str = "@";

    /// The keep `name` of `package`. None if either is empty or both are too long.
    pub fn new(package: &str, name: &str) -> Option<KeepName> {
        let mut bytes = [0; KeepName::BYTES];
        let end = package.len() + 1 + name.len();
        if package.is_empty() || name.is_empty() || end > bytes.len() {
            return None;
        }
        bytes[..package.len()].copy_from_slice(package.as_bytes());
        bytes[package.len()] = b'/';
        bytes[package.len() + 1..end].copy_from_slice(name.as_bytes());
        Some(KeepName(bytes))
    }

    /// The region `name`. None if that is empty or too long.
    pub fn region(name: &str) -> Option<KeepName> {
        KeepName::new(KeepName::NOBODY, name)
    }

    /// A region's own name; None if it is a package's keep.
    pub fn as_region(&self) -> Option<&str> {
        self.text().strip_prefix(KeepName::NOBODY)?.strip_prefix('/')
    }

    /// The keep that is called so as a whole.
    pub fn parse(text: &str) -> Option<KeepName> {
        let (package, name) = text.split_once('/')?;
        KeepName::new(package, name)
    }

    /// As words.
    pub fn words(self) -> [u64; 4] {
        let word =
            |at: usize| self.0[at..at + 8].iter().rev().fold(0, |w, b| w << 8 | u64::from(*b));
        [0, 8, 16, 24].map(word)
    }

    /// The name with these words; None if it is none.
    pub fn from_words(words: [u64; 4]) -> Option<KeepName> {
        let mut bytes = [0; KeepName::BYTES];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let name = KeepName(bytes);
        (KeepName::parse(name.text())? == name).then_some(name)
    }

    /// The text, empty if that is not UTF-8.
    pub fn text(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        core::str::from_utf8(&self.0[..end]).unwrap_or_default()
    }
}

impl fmt::Display for KeepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_a_package_and_a_keep() {
        let name = KeepName::new("counter", "state").unwrap();
        assert_eq!(name.text(), "counter/state");
        assert_eq!(KeepName::parse("counter/state"), Some(name));
        assert_eq!(KeepName::from_words(name.words()), Some(name));
        assert!(KeepName::new("0123456789012345", "012345678901234").is_some());
        assert_eq!(KeepName::new("0123456789012345", "0123456789012345"), None);
        assert_eq!((KeepName::new("", "a"), KeepName::new("a", "")), (None, None));
        assert_eq!(KeepName::parse("counter"), None);
        let region = KeepName::region("graph").unwrap();
        assert_eq!((region.text(), region.as_region()), ("@/graph", Some("graph")));
        assert_eq!((name.as_region(), KeepName::region("")), (None, None));
        for words in [[0; 4], [u64::MAX; 4], [u64::from(b'a'), 0, 0, 0]] {
            assert_eq!(KeepName::from_words(words), None);
        }
        // Something behind the end.
        let [first, second, third, _] = name.words();
        assert_eq!(KeepName::from_words([first, second, third, 1]), None);
    }
}
