//! Paths beyond this program: they are bytes, not always text.
//!
//! In JSON documents that this program alone reads (`#[serde(with = "crate::path")]`) they are text
//! where they can be, and else a list of their bytes. QEMU takes some for something else than a
//! file: [`qemu`] sees to that.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How a path is written down.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(PathBuf),
    Bytes(Vec<u8>),
}

/// Writes a path down.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    match path.to_str() {
        Some(text) => text.serialize(serializer),
        None => path.as_os_str().as_bytes().serialize(serializer),
    }
}

/// Reads such a path.
pub fn deserialize<'d, D: Deserializer<'d>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Ok(match Written::deserialize(deserializer)? {
        Written::Text(path) => path,
        Written::Bytes(bytes) => OsString::from_vec(bytes).into(),
    })
}

/// The name of a file as QEMU's option for drives and images takes it, which would read what
/// stands before a colon as a protocol.
pub fn qemu(path: &Path) -> OsString {
    Path::new(".").join(path).into_os_string()
}

/// The same within a list of QEMU's options: a comma ends one there, and two are one.
pub fn qemu_listed(path: &Path) -> OsString {
    let name = qemu(path);
    let pieces: Vec<&[u8]> = name.as_bytes().split(|byte| *byte == b',').collect();
    OsString::from_vec(pieces.join(&b",,"[..]))
}

/// `option` with `value` behind it.
pub fn joined(option: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> OsString {
    let mut joined = option.as_ref().to_os_string();
    joined.push(value);
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Document {
        #[serde(with = "crate::path")]
        path: PathBuf,
    }

    #[test]
    fn every_path_comes_back() {
        for (bytes, text) in
            [(&b"/a/\"b"[..], r#"{"path":"/a/\"b"}"#), (b"/\xff", r#"{"path":[47,255]}"#)]
        {
            let path = PathBuf::from(OsStr::from_bytes(bytes));
            let document = Document { path };
            assert_eq!(serde_json::to_string(&document).unwrap(), text);
            assert_eq!(serde_json::from_str::<Document>(text).unwrap(), document);
        }
    }

    #[test]
    fn qemu_is_told_names_that_are_files() {
        let path = Path::new(OsStr::from_bytes(b"nbd:a,\xff"));
        assert_eq!(qemu(path).as_bytes(), b"./nbd:a,\xff");
        assert_eq!(qemu_listed(path).as_bytes(), b"./nbd:a,,\xff");
        assert_eq!(qemu_listed(Path::new("/x")), "/x");
    }
}
