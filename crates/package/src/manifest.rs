//! A package's manifest: the text of an ELF note that the macro `nile_user::package!` writes.
//!
//! ```text
//! name ackermann
//! publishes numbers.ackermann
//! publishes numbers.fibonacci
//! uses pool
//! uses frames
//! uses region graph
//! keeps state 65536
//! answers 2
//! ```

use core::time::Duration;

use crate::error::ManifestError;

/// The name of the note that holds a manifest, with its closing zero.
pub const NOTE_NAME: &[u8] = b"NileOS\0";

/// The type of the note that holds a manifest.
pub const NOTE_TYPE: u64 = 1;

/// The most service types that a package can publish.
pub const MAX_PUBLISHED: usize = 64;

/// The most keeps of a package.
pub const MAX_KEEPS: usize = 8;

/// The longest that a package may promise to be silent, in seconds.
const MAX_ANSWERS: u64 = 3600;

/// The most bytes of a name.
const MAX_NAME: usize = 64;

/// What a package says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manifest<'a> {
    name: &'a str,
    text: &'a str,
}

impl<'a> Manifest<'a> {
    /// Reads the text of a manifest.
    pub fn parse(text: &'a [u8]) -> Result<Manifest<'a>, ManifestError> {
        let text = core::str::from_utf8(text).map_err(|_| ManifestError::NotText)?;
        let mut name = None;
        let (mut published, mut kept) = (0, 0);
        let mut answers = false;
        for (line, content) in (1..).zip(text.lines()) {
            let (key, value) = content.split_once(' ').ok_or(ManifestError::Line(line))?;
            match key {
                "name" if name.is_some() => return Err(ManifestError::SecondName(line)),
                "name" => name = Some(value),
                "publishes" => published += 1,
                "uses" if matches!(value, "pool" | "frames") => {}
                "uses" if region(value).is_some() => {}
                "keeps" if keep(value).is_some() => kept += 1,
                "answers" if !answers && seconds(value).is_some() => answers = true,
                _ => return Err(ManifestError::Line(line)),
            }
            if !matches!(key, "keeps" | "uses") && !is_name(value) {
                return Err(ManifestError::Name(line));
            }
        }
        if published > MAX_PUBLISHED || kept > MAX_KEEPS {
            return Err(ManifestError::TooMany);
        }
        Ok(Manifest { name: name.ok_or(ManifestError::Nameless)?, text })
    }

    /// All that it says: what [`Manifest::parse`] reads.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The package's name.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The service types that it may publish, in the manifest's order.
    pub fn publishes(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.text.lines().filter_map(|line| line.strip_prefix("publishes "))
    }

    /// Whether the package has the node's pool of buffers in its memory.
    pub fn uses_pool(&self) -> bool {
        self.text.lines().any(|line| line == "uses pool")
    }

    /// Whether the package is one that serves a network: if it also has a core for itself, it may
    /// send and receive frames.
    pub fn uses_frames(&self) -> bool {
        self.text.lines().any(|line| line == "uses frames")
    }

    /// Whether the package may have the region `name`, memory that packages of several cores share.
    pub fn uses_region(&self, name: &str) -> bool {
        let mut used = self.text.lines().filter_map(|line| region(line.strip_prefix("uses ")?));
        used.any(|used| used == name)
    }

    /// The memory that stays when it has ended: names and bytes, in the manifest's order.
    pub fn keeps(&self) -> impl Iterator<Item = (&'a str, u64)> + use<'a> {
        self.text.lines().filter_map(|line| keep(line.strip_prefix("keeps ")?))
    }

    /// How long the package calls nobody at most, unless it waits: one that stays and is silent for
    /// longer hangs.
    pub fn answers(&self) -> Option<Duration> {
        self.text.lines().find_map(|line| seconds(line.strip_prefix("answers ")?))
    }

    /// Whether the package may keep so many bytes by this name.
    pub fn may_keep(&self, name: &str, bytes: u64) -> bool {
        self.keeps().any(|keep| keep == (name, bytes))
    }

    /// Whether the package may publish instances of the service type `name`.
    pub fn may_publish(&self, name: &str) -> bool {
        self.publishes().any(|published| published == name)
    }
}

/// A region's name.
fn region(text: &str) -> Option<&str> {
    text.strip_prefix("region ").filter(|name| is_name(name))
}

/// A keep's name and its bytes.
fn keep(text: &str) -> Option<(&str, u64)> {
    let (name, bytes) = text.split_once(' ')?;
    let bytes = bytes.parse().ok().filter(|bytes| *bytes > 0)?;
    is_name(name).then_some((name, bytes))
}

/// Seconds that a package may be silent.
fn seconds(text: &str) -> Option<Duration> {
    let seconds = text.parse().ok().filter(|it| (1..=MAX_ANSWERS).contains(it))?;
    Some(Duration::from_secs(seconds))
}

fn is_name(text: &str) -> bool {
    let plain = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    #[test]
    fn a_manifest_names_what_may_be_published() {
        let text = b"name ackermann\npublishes numbers.ackermann\npublishes numbers.b-2\n";
        let manifest = Manifest::parse(text).unwrap();
        assert_eq!(manifest.name(), "ackermann");
        let published: Vec<_> = manifest.publishes().collect();
        assert_eq!(published, ["numbers.ackermann", "numbers.b-2"]);
        assert!(manifest.may_publish("numbers.b-2"));
        assert!(!manifest.may_publish("numbers.b"));
        assert!(!manifest.uses_pool());
        assert_eq!(Manifest::parse(b"name a").unwrap().publishes().count(), 0);
        assert!(Manifest::parse(b"name a\nuses pool\n").unwrap().uses_pool());
        let manifest = Manifest::parse(b"name a\nuses frames\n").unwrap();
        assert!(manifest.uses_frames() && !manifest.uses_pool());
        let manifest = Manifest::parse(b"name a\nuses region ranks\n").unwrap();
        assert!(manifest.uses_region("ranks") && !manifest.uses_region("rank"));
        assert!(!manifest.uses_pool());
        let manifest = Manifest::parse(b"name a\nkeeps state 65536\nkeeps log 1\n").unwrap();
        assert_eq!(manifest.keeps().collect::<Vec<_>>(), [("state", 65536), ("log", 1)]);
        assert!(manifest.may_keep("log", 1) && !manifest.may_keep("log", 2));
        assert_eq!(manifest.answers(), None);
        let manifest = Manifest::parse(b"name a\nanswers 3600\n").unwrap();
        assert_eq!(manifest.answers(), Some(Duration::from_secs(3600)));
    }

    #[test]
    fn each_mistake_has_its_line() {
        let long = format!("name {}", "a".repeat(MAX_NAME + 1));
        let many: String = (0..=MAX_PUBLISHED).map(|i| format!("publishes t{i}\n")).collect();
        for (text, error) in [
            ("name \u{ff}", ManifestError::Name(1)),
            ("", ManifestError::Nameless),
            ("publishes a", ManifestError::Nameless),
            ("name a\nname b", ManifestError::SecondName(2)),
            ("name a\n\n", ManifestError::Line(2)),
            ("name a\npublish b", ManifestError::Line(2)),
            ("name a b", ManifestError::Name(1)),
            ("name a\nuses disk", ManifestError::Line(2)),
            ("name a\nuses region", ManifestError::Line(2)),
            ("name a\nuses region a/b", ManifestError::Line(2)),
            ("name a\nkeeps state", ManifestError::Line(2)),
            ("name a\nkeeps state 0", ManifestError::Line(2)),
            ("name a\nkeeps st/te 1", ManifestError::Line(2)),
            ("name a\nkeeps state -1", ManifestError::Line(2)),
            ("name a\nanswers 0", ManifestError::Line(2)),
            ("name a\nanswers 3601", ManifestError::Line(2)),
            ("name a\nanswers 2\nanswers 2", ManifestError::Line(3)),
            ("name a\npublishes ", ManifestError::Name(2)),
            (&long, ManifestError::Name(1)),
            (&format!("name a\n{many}"), ManifestError::TooMany),
        ] {
            assert_eq!(Manifest::parse(text.as_bytes()), Err(error), "{text:?}");
        }
        assert_eq!(Manifest::parse(b"name \xff"), Err(ManifestError::NotText));
    }
}
