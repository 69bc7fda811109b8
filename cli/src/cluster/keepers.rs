//! Which nodes of a cluster keep the names of its datasets: three, if there are so many, else one.
//! The nodes' disks belong together by that. So it is noted in the folder in which they stay, and
//! whoever starts a cluster with that folder again has the same nodes keep them.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::failure::Failure;

/// The file in a folder of disks.
const FILE: &str = "keepers";

/// The keepers of a new cluster of so many nodes, whose disks stay in `folder`, if they do.
pub fn of(nodes: usize, folder: Option<&Path>) -> Result<Vec<u32>, Failure> {
    let usual = if nodes >= 3 { vec![1, 2, 3] } else { vec![1] };
    let Some(path) = folder.map(|folder| folder.join(FILE)) else { return Ok(usual) };
    let failed =
        |what: &dyn std::fmt::Display| Failure::request(format!("{}: {what}", path.display()));
    match fs::read_to_string(&path) {
        Ok(text) => read(&text).ok_or_else(|| {
            failed(&"not the numbers of one node or of three, which keep the names of datasets")
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::write(&path, written(&usual)).map_err(|error| failed(&error))?;
            Ok(usual)
        }
        Err(error) => Err(failed(&error)),
    }
}

fn read(text: &str) -> Option<Vec<u32>> {
    let keepers: Option<Vec<u32>> = text.split_whitespace().map(|it| it.parse().ok()).collect();
    keepers.filter(|it| matches!(it.len(), 1 | 3))
}

fn written(keepers: &[u32]) -> String {
    let numbers: Vec<String> = keepers.iter().map(u32::to_string).collect();
    format!("{}\n", numbers.join(" "))
}

/// As a node's configuration has them.
pub fn setting(keepers: &[u32]) -> String {
    let numbers: Vec<String> = keepers.iter().map(u32::to_string).collect();
    format!("keepers = [{}]", numbers.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_remembers_its_keepers() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(of(2, None).unwrap(), [1]);
        assert_eq!(of(3, Some(folder.path())).unwrap(), [1, 2, 3]);
        assert_eq!(of(1, Some(folder.path())).unwrap(), [1, 2, 3], "as it was made");
        assert_eq!(setting(&[1, 2, 3]), "keepers = [1, 2, 3]");
        for wrong in ["", "1 2", "a", "1 2 3 4"] {
            fs::write(folder.path().join(FILE), wrong).unwrap();
            assert!(matches!(of(3, Some(folder.path())), Err(Failure::Request(_))), "{wrong:?}");
        }
    }
}
