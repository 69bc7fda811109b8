//! What the disks of a cluster are told from those of others by: a number that is drawn when its
//! disks are made. It is noted in the folder in which they stay, beside them, and whoever starts a
//! cluster with that folder again, by whatever name, has the same.

use std::fs;
use std::io::ErrorKind;
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
