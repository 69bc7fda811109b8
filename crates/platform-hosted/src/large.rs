//! A file with pages of 2 MiB and without a name, for the pool of buffers.
//!
//! A memfd has pages of 4 KiB unless the system's `shmem_enabled` says otherwise. A file on a
//! tmpfs of one's own does not care. That tmpfs is mounted nowhere, so nothing is left of it when
//! the last process that has the file is gone. Linux asks for the right to mount; such a file
//! cannot be sealed.

use std::fmt;
use std::fs::File;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

/// Why there are no pages of 2 MiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// Linux refuses a step.
    Step(&'static str, Errno),
    /// Linux took every step and gave a page of 4 KiB.
    SmallPage,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Step(step, error) => write!(f, "Linux refuses {step}: {error}"),
            Refused::SmallPage => f.write_str("Linux gave a small one when asked for a large one"),
        }
    }
}

/// A file of `bytes` zeros, whole 2 MiB. It takes memory as it is touched. Programs that this
/// process starts inherit it, under the same number.
pub(crate) fn file(bytes: u64) -> Result<File, Refused> {
    use rustix::mount::{fsconfig_create, fsconfig_set_string, fsmount, fsopen};

    let step = |name| move |error| Refused::Step(name, error);
    let tmpfs = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).map_err(step("fsopen"))?;
    fsconfig_set_string(&tmpfs, "huge", "always").map_err(step("huge=always"))?;
    // Without it, a tmpfs ends at half of the machine's memory.
    fsconfig_set_string(&tmpfs, "size", bytes.to_string()).map_err(step("size"))?;
    fsconfig_create(&tmpfs).map_err(step("a tmpfs"))?;
    // Nothing in the pool is ever code.
    let attributes = MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let root =
        fsmount(&tmpfs, FsMountFlags::FSMOUNT_CLOEXEC, attributes).map_err(step("fsmount"))?;
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    let file = rustix::fs::openat(&root, ".", flags, Mode::RUSR | Mode::WUSR)
        .map_err(step("a file on a tmpfs"))?;
    rustix::fs::ftruncate(&file, bytes).map_err(step("the file's length"))?;
    Ok(File::from(file))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_file_longer_than_the_machines_memory_takes_none_before_it_is_touched() {
        match file(1 << 42) {
            Ok(file) => {
                let file = file.metadata().expect("a file");
                assert_eq!((file.len(), file.blocks()), (1 << 42, 0));
            }
            Err(why) => {
                eprintln!("not tested: {why}");
                assert!(matches!(why, Refused::Step("fsopen" | "huge=always" | "fsmount", _)));
            }
        }
    }
}
