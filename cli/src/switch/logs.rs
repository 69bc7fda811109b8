//! The logs of a cluster's parts have bounds: the switch, which every cluster has, looks at them
//! from time to time. What a log has when it is too long becomes its last one, in place of the one
//! before, and it begins anew. The processes that write it go on as they are: they write at its
//! end, wherever that is.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of a log that is too long.
const MOST: u64 = 16 << 20;

/// How often it is looked.
pub const LOOK: Duration = Duration::from_secs(2);

/// Where the part of a log is that was written before.
pub fn last_of(log: &Path) -> PathBuf {
    log.with_extension("log.1")
}

/// Looks at the logs in a folder. What cannot be done now is tried again at the next look.
pub fn rotate(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let logs =
        entries.map(|entry| entry.path()).filter(|it| it.extension().is_some_and(|it| it == "log"));
    for log in logs {
        if fs::metadata(&log).is_ok_and(|it| it.len() > MOST)
            && let Err(error) = begin_anew(&log)
        {
            crate::say(format_args!("nile: {}: {error}", log.display()));
        }
    }
}

/// Lines that are written between the two steps are in neither file.
fn begin_anew(log: &Path) -> io::Result<()> {
    let mut open = OpenOptions::new();
    let mut last = open.create(true).write(true).truncate(true).mode(0o600).open(last_of(log))?;
    io::copy(&mut File::open(log)?, &mut last)?;
    OpenOptions::new().write(true).open(log)?.set_len(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_long_log_begins_anew_and_its_last_part_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("n1.log");
        let mut log = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let bytes = || [&path, &last_of(&path)].map(|it| fs::metadata(it).map_or(0, |it| it.len()));
        for mebibyte in 0..64 {
            log.write_all(&[b'a' + mebibyte; 1 << 20]).unwrap();
            rotate(folder.path());
            let [now, last] = bytes();
            assert!(now <= MOST && last <= MOST + (1 << 20), "{now} {last}");
        }
        log.write_all(b"after").unwrap();
        assert!(fs::read(&path).unwrap().ends_with(b"after"), "its writer goes on at the end");
        assert!(bytes()[1] > MOST);
    }
}
