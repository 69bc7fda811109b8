//! What the first process of a Linux system has to do, and what threads are pinned with.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::thread;

use rustix::mount::{MountFlags, mount as mount_at};
use rustix::system::{RebootCommand, finit_module, reboot, uname};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::Outcome;

/// Mounts what processes find out about the system by.
pub fn mount() -> Outcome<()> {
    for (kind, at) in [("devtmpfs", "/dev"), ("proc", "/proc")] {
        fs::create_dir_all(at)?;
        mount_at(kind, at, kind, MountFlags::empty(), None)
            .map_err(|error| format!("{kind} cannot be mounted on {at}: {error}"))?;
    }
    Ok(())
}

/// Loads the modules of `/modules`, in the order of their names.
pub fn load_modules() -> Outcome<()> {
    let entries = fs::read_dir("/modules")?.collect::<io::Result<Vec<_>>>()?;
    let mut paths: Vec<PathBuf> = entries.iter().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        finit_module(File::open(&path)?, c"", 0)
            .map_err(|error| format!("{} cannot be loaded: {error}", path.display()))?;
    }
    Ok(())
}

/// The CPUs that there are, also those that Linux keeps apart.
pub fn cpus() -> Outcome<usize> {
    let stat = fs::read_to_string("/proc/stat")?;
    let is_cpu = |line: &str| line.starts_with("cpu") && !line.starts_with("cpu ");
    Ok(stat.lines().filter(|line| is_cpu(line)).count().max(1))
}

/// Has this thread run on these CPUs alone.
pub fn pin(cpus: &[usize]) -> Outcome<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(None, &set)
        .map_err(|error| format!("a thread cannot be pinned to {cpus:?}: {error}").into())
}

/// Which Linux it is.
pub fn kernel() -> String {
    let name = uname();
    format!("{} {}", name.release().to_string_lossy(), name.version().to_string_lossy())
}

/// Ends the machine; gives why it could not.
pub fn power_off() -> io::Error {
    // The serial line has a buffer.
    thread::sleep(std::time::Duration::from_millis(100));
    match reboot(RebootCommand::PowerOff) {
        Ok(()) => io::Error::other("Linux went on"),
        Err(error) => error.into(),
    }
}
