//! The disks of a node on the command line: files of the host, made when they are not there.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::OpenOptions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;
use rustix::fs::OFlags;
use tempfile::TempDir;

use crate::failure::Failure;
use crate::path;
use crate::size::Bytes;

/// A disk that a node is to have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Disk {
    /// One of so many bytes that is gone with the node.
    Fresh(Bytes),
    /// A file that stays, which gets so many bytes if it is made.
    File(PathBuf, Option<Bytes>),
}

impl Disk {
    /// Reads what the command line says of a disk.
    pub fn parse(given: OsString) -> Result<Disk, String> {
        let size = |bytes: &[u8]| -> Option<Bytes> { str::from_utf8(bytes).ok()?.parse().ok() };
        let bytes = given.as_bytes();
        let colon = bytes.iter().rposition(|byte| *byte == b':');
        let made = colon.and_then(|at| Some((&bytes[..at], size(&bytes[at + 1..])?)));
        let disk = match (size(bytes), made) {
            (Some(bytes), _) => Disk::Fresh(bytes),
            (_, Some((path, bytes))) => Disk::File(OsStr::from_bytes(path).into(), Some(bytes)),
            _ => Disk::File(given.into(), None),
        };
        match &disk {
            Disk::Fresh(bytes) | Disk::File(_, Some(bytes)) => check_size(*bytes)?,
            Disk::File(..) => {}
        }
        match &disk {
            Disk::File(path, _) if path.as_os_str().is_empty() => {
                Err("a disk is a size or a file, as 1G, disk.img or disk.img:1G".into())
            }
            _ => Ok(disk),
        }
    }
}

/// Bytes of a disk, as 1G.
pub fn size(text: &str) -> Result<Bytes, String> {
    let bytes = text.parse()?;
    check_size(bytes).map(|()| bytes)
}

fn check_size(bytes: Bytes) -> Result<(), String> {
    const LEAST: Bytes = Bytes::mebi(1);
    // What the largest file systems of Linux have room for.
    const MOST: Bytes = Bytes::mebi(1 << 40);
    match (LEAST..=MOST).contains(&bytes) {
        true => Ok(()),
        false => Err(format!("a disk has {LEAST} to {MOST}, not {bytes}")),
    }
}

/// What QEMU connects disks to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Bus {
    /// A virtio-blk device for each.
    Virtio,
    /// The SATA controller of the emulated PC.
    Ahci,
}

/// How they are connected there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connected {
    /// To what.
    pub bus: Bus,
    /// Whether the machine has an IOMMU, which virtio devices go through then.
    pub has_iommu: bool,
}

/// The files of a node's disks. Those that are to go with the node go with this.
pub struct Files {
    paths: Vec<PathBuf>,
    /// Whether all of them go.
    are_passing: bool,
    _folder: Option<TempDir>,
}

impl Files {
    /// Makes what is not there yet.
    pub fn prepare(disks: &[Disk]) -> Result<Files, Failure> {
        let are_passing = disks.iter().all(|disk| matches!(disk, Disk::Fresh(_)));
        let mut files = Files { paths: Vec::new(), are_passing, _folder: None };
        if disks.iter().any(|disk| matches!(disk, Disk::Fresh(_))) {
            let cannot = |error| Failure::failed(format!("no folder for disks: {error}"));
            files._folder = Some(tempfile::tempdir().map_err(cannot)?);
        }
        for (number, disk) in disks.iter().enumerate() {
            let path = match (disk, &files._folder) {
                (Disk::Fresh(bytes), Some(folder)) => {
                    let path = folder.path().join(format!("disk{number}.img"));
                    make(&path, Some(*bytes))?;
                    path
                }
                (Disk::File(path, bytes), _) => {
                    make(path, *bytes)?;
                    path.clone()
                }
                (Disk::Fresh(_), None) => unreachable!("there is a folder for fresh disks"),
            };
            files.paths.push(path);
        }
        files.check_each_once()?;
        Ok(files)
    }

    /// Refuses a disk that is given twice, under whatever names: what is written to one of them
    /// would be lost with the other.
    fn check_each_once(&self) -> Result<(), Failure> {
        let mut seen = BTreeSet::new();
        for path in &self.paths {
            let about = path.metadata().map_err(|error| wrong(path, &error))?;
            if !seen.insert((about.dev(), about.ino())) {
                return Err(wrong(path, &"the node has it already"));
            }
        }
        Ok(())
    }

    /// Gives the disks to a hosted node.
    pub fn to_hosted(&self, command: &mut Command) {
        for path in &self.paths {
            hosted(command, path);
        }
        if self.are_passing {
            passing(command);
        }
    }

    /// Gives the disks to a node in QEMU, whose virtio devices go through its IOMMU if it has one.
    pub fn to_qemu(&self, command: &mut Command, bus: Bus, has_iommu: bool) {
        for (number, path) in self.paths.iter().enumerate() {
            let connected = Connected { bus, has_iommu };
            qemu(command, number, path, connected, self.are_passing);
        }
    }
}

/// Makes a disk of so many bytes, which take no room until they are written. What is there stays
/// as it is.
pub fn make(path: &Path, bytes: Option<Bytes>) -> Result<(), Failure> {
    let wrong = |error: std::io::Error| wrong(path, &error);
    let mut options = OpenOptions::new();
    // Nobody could end a command that waits for the other end of a pipe.
    options.custom_flags(OFlags::NONBLOCK.bits() as i32);
    // What it holds is nobody else's business.
    options.mode(0o600);
    let file = options.read(true).write(true).create(bytes.is_some()).truncate(false).open(path);
    let file = file.map_err(wrong)?;
    let about = file.metadata().map_err(wrong)?;
    match bytes {
        _ if about.file_type().is_block_device() => Ok(()),
        _ if !about.is_file() => {
            Err(self::wrong(path, &"it is neither a regular file nor a block device"))
        }
        _ if about.len() > 0 => Ok(()),
        Some(Bytes(bytes)) => file.set_len(bytes).map_err(wrong),
        None => {
            let shown = path.display();
            Err(self::wrong(path, &format!("it is empty; give it a size, as {shown}:1G")))
        }
    }
}

fn wrong(path: &Path, error: &dyn fmt::Display) -> Failure {
    Failure::request(format!("disk {}: {error}", path.display()))
}

/// Gives a hosted node the disk at `path`.
pub fn hosted(command: &mut Command, path: &Path) {
    // Behind a last colon it looks for a size, which this one has already.
    command.arg("--disk").arg(path::joined(path, ":0"));
}

/// Says to a hosted node that its disks go when it does: nobody is to wait until what they hold
/// could outlast this machine.
pub fn passing(command: &mut Command) {
    command.arg("--passing-disks");
}

/// Gives a node in QEMU the disk that is `file`, which goes when the node does if it is `passing`.
pub fn qemu(command: &mut Command, number: usize, file: &Path, to: Connected, passing: bool) {
    let cache = if passing { "unsafe" } else { "writeback" };
    let drive = format!("if=none,id=disk{number},format=raw,discard=unmap,cache={cache},file=");
    command.arg("-drive").arg(path::joined(drive, path::qemu_listed(file)));
    let device = match to.bus {
        Bus::Virtio if to.has_iommu => {
            format!(
                "virtio-blk-pci,drive=disk{number},serial=NILE{number},iommu_platform=on,\
                 disable-legacy=on"
            )
        }
        Bus::Virtio => format!("virtio-blk-pci,drive=disk{number},serial=NILE{number}"),
        Bus::Ahci => format!("ide-hd,drive=disk{number},bus=ide.{number},serial=NILE{number}"),
    };
    command.args(["-device", &device]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_a_size_or_a_file() {
        let file = |path: &str, bytes| Ok(Disk::File(path.into(), bytes));
        let gibi = Bytes::mebi(1024);
        let parse = |text: &str| Disk::parse(text.into());
        assert_eq!(parse("1G"), Ok(Disk::Fresh(gibi)));
        assert_eq!(parse("disk.img"), file("disk.img", None));
        assert_eq!(parse("a:b.img:1G"), file("a:b.img", Some(gibi)));
        assert_eq!(parse("a:b.img"), file("a:b.img", None));
        let bytes = OsStr::from_bytes(b"\xff:1G");
        let other = Path::new(OsStr::from_bytes(b"\xff")).to_path_buf();
        assert_eq!(Disk::parse(bytes.into()), Ok(Disk::File(other, Some(gibi))));
        for text in ["", ":1G", "10K", "disk.img:0M"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn files_are_made_once_and_fresh_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        assert!(Files::prepare(&[Disk::File(path.clone(), None)]).is_err());
        let refused = |disks: &[Disk]| match Files::prepare(disks) {
            Err(Failure::Request(message)) => message,
            _ => panic!("{disks:?} are taken"),
        };
        for (file, said) in [("/dev/null", "neither a regular file"), ("/tmp", "Is a directory")] {
            for bytes in [None, Some(Bytes(4096))] {
                let message = refused(&[Disk::File(file.into(), bytes)]);
                assert!(message.contains(said), "{message}");
            }
        }
        let empty = folder.path().join("empty");
        std::fs::write(&empty, "").unwrap();
        assert!(
            refused(&[Disk::File(empty.clone(), None)]).contains("it is empty; give it a size")
        );
        let again = folder.path().join("again");
        std::os::unix::fs::symlink(&empty, &again).unwrap();
        let both = [empty, again].map(|path| Disk::File(path, Some(Bytes(4096))));
        assert!(refused(&both).contains("again: the node has it already"));
        for _ in 0..2 {
            let disks = [Disk::Fresh(Bytes::mebi(2)), Disk::File(path.clone(), Some(Bytes(4096)))];
            let files = Files::prepare(&disks).unwrap();
            let length = |path: &Path| std::fs::metadata(path).unwrap().len();
            assert_eq!(
                files.paths.iter().map(|it| length(it)).collect::<Vec<_>>(),
                [2 << 20, 4096]
            );
            let fresh = files.paths[0].clone();
            drop(files);
            assert!(!fresh.exists() && path.exists());
        }
    }
}
