//! What the disks of a cluster are told from those of others by, a number that is drawn when its
//! disks are made, and the key that they are encrypted with. Both are noted in the folder in which
//! the disks stay, and whoever starts a cluster with that folder again, by whatever name, has the
//! same.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::failure::Failure;
use crate::peer::new_key;

/// The file in a folder of disks.
const FILE: &str = "cluster";

/// The identity of a cluster whose disks stay in `folder`, if they do.
pub fn of(folder: Option<&Path>) -> Result<u64, Failure> {
    let Some(path) = folder.map(|folder| folder.join(FILE)) else { return drawn() };
    let failed =
        |what: &dyn std::fmt::Display| Failure::request(format!("{}: {what}", path.display()));
    match fs::read_to_string(&path) {
        Ok(text) => read(&text).ok_or_else(|| {
            failed(&"not the identity of a cluster, 16 hexadecimal digits, which its disks have")
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let identity = drawn()?;
            fs::write(&path, format!("{identity:016x}\n")).map_err(|error| failed(&error))?;
            Ok(identity)
        }
        Err(error) => Err(failed(&error)),
    }
}

/// The file with the key, which the disks' owner alone can read.
const KEY_FILE: &str = "key";

/// The key of a cluster, in hexadecimal digits: that of the disks that stay in `folder`, if they
/// do, or a new one.
pub fn key(folder: Option<&Path>) -> Result<String, Failure> {
    let new = || Ok(new_key()?.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    let Some(path) = folder.map(|folder| folder.join(KEY_FILE)) else { return new() };
    let failed =
        |what: &dyn std::fmt::Display| Failure::request(format!("{}: {what}", path.display()));
    match fs::read_to_string(&path) {
        Ok(text) => {
            let key = text.trim();
            let is_key = key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
            let what = "not a key, 64 hexadecimal digits, which its disks are encrypted with";
            if is_key { Ok(key.into()) } else { Err(failed(&what)) }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = new()?;
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            let written = made.and_then(|mut file| writeln!(file, "{key}"));
            written.map_err(|error| failed(&error))?;
            Ok(key)
        }
        Err(error) => Err(failed(&error)),
    }
}

fn drawn() -> Result<u64, Failure> {
    let [a, b, c, d, e, f, g, h, ..] = new_key()?;
    Ok(u64::from_le_bytes([a, b, c, d, e, f, g, h]).max(1))
}

fn read(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim(), 16).ok().filter(|identity| *identity != 0)
}

/// As a node's configuration has it.
pub fn setting(identity: u64) -> String {
    // A cluster of a version that did not know it.
    if identity == 0 { String::new() } else { format!("cluster = \"{identity:016x}\"\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_keeps_the_key_of_its_disks() {
        let folder = tempfile::tempdir().unwrap();
        let first = key(Some(folder.path())).unwrap();
        assert_eq!((first.len(), key(Some(folder.path())).unwrap()), (64, first.clone()));
        assert_ne!(key(None).unwrap(), first);
        fs::write(folder.path().join(KEY_FILE), "abc").unwrap();
        assert!(matches!(key(Some(folder.path())), Err(Failure::Request(_))));
    }

    #[test]
    fn a_folder_remembers_its_cluster() {
        let folder = tempfile::tempdir().unwrap();
        let first = of(Some(folder.path())).unwrap();
        assert_eq!(of(Some(folder.path())).unwrap(), first);
        assert_ne!(of(None).unwrap(), first);
        for wrong in ["", "x", "0"] {
            fs::write(folder.path().join(FILE), wrong).unwrap();
            assert!(matches!(of(Some(folder.path())), Err(Failure::Request(_))), "{wrong:?}");
        }
    }
}
