//! The processes of a cluster. They outlive the command that starts them, and are found again by
//! a mark in their environment, which all that they start inherits. Nothing is written down that
//! could be out of date: a process that has the mark belongs to the cluster, and a signal goes to
//! it through a handle that was there before the mark was read, so never to another process that
//! got its number.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable that marks processes: `PART@FOLDER`.
const MARK: &str = "NILE_PROCESS_OF";

/// What the switch's process is called among the parts of a cluster; a node's is its name.
pub const SWITCH: &str = "switch";

/// What a worker process of a hosted node is started with; its core follows.
const WORKER: &str = "--worker-of-a-node";

/// A process of a cluster.
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Which part of the cluster it belongs to: a node's name, or [`SWITCH`].
    pub part: String,
    /// Whether it was started by a command; the others were started by such a process.
    pub leads: bool,
    handle: OwnedFd,
}

/// Starts `command` as `part` of the cluster in `folder`, in a session of its own. What it says
/// goes to `log`.
pub fn start(folder: &Path, part: &str, command: &Command, log: &File) -> io::Result<Child> {
    let mut detached = Command::new("setsid");
    detached.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => detached.env(name, value),
            None => detached.env_remove(name),
        };
    }
    mark(&mut detached, part, folder);
    // What the caller has open is the caller's: a process of a cluster outlives it.
    close_fds::set_fds_cloexec(3, &[]);
    detached.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?);
    detached.spawn()
}

/// Marks what `command` starts, and all that is started by it, as `part` of what is in `folder`.
/// A cluster that is started by it has a mark of its own.
pub fn mark(command: &mut Command, part: &str, folder: &Path) {
    let mut mark = OsString::from(part);
    mark.push("@");
    mark.push(folder);
    command.env(MARK, mark);
}

/// The processes of the cluster in `folder` that run now, in the order of their numbers.
pub fn all(folder: &Path) -> Vec<Process> {
    found(|marked| marked == folder)
}

/// The processes of what is in `folder` and of all clusters below it.
pub fn below(folder: &Path) -> Vec<Process> {
    found(|marked| marked.starts_with(folder))
}

fn found(is_meant: impl Fn(&Path) -> bool) -> Vec<Process> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut processes: Vec<Process> =
        numbers.filter_map(|pid| Process::find(pid, &is_meant)).collect();
    processes.sort_by_key(|process| process.pid);
    processes
}

/// Those of [`all`] that belong to `part`.
pub fn of(folder: &Path, part: &str) -> Vec<Process> {
    let mut processes = all(folder);
    processes.retain(|process| process.part == part);
    processes
}

impl Process {
    fn find(pid: i32, is_meant: impl Fn(&Path) -> bool) -> Option<Process> {
        let part = marked(pid, &is_meant)?;
        let number = Pid::from_raw(pid)?;
        let handle = pidfd_open(number, PidfdFlags::empty()).ok()?;
        // Only now is it certain that the handle is of the process with the mark.
        if marked(pid, &is_meant)? != part {
            return None;
        }
        let leads = session(pid) == Some(pid);
        Some(Process { pid, part, leads, handle })
    }

    /// Sends a signal. One that has ended does not mind.
    pub fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.handle, signal);
    }

    /// Waits until it has ended; says whether it did within `patience`.
    pub fn wait(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).ok();
            let mut handle = [PollFd::new(&self.handle, PollFlags::IN)];
            match poll(&mut handle, timeout.as_ref()) {
                Ok(0) => return false,
                Ok(_) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Its command line.
    pub fn arguments(&self) -> Vec<String> {
        let text = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let words = text.strip_suffix(&[0]).unwrap_or(&text).split(|byte| *byte == 0);
        words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }
}

/// The worker processes of a hosted node, by core.
pub fn workers(processes: &[Process]) -> BTreeMap<u16, i32> {
    let core = |process: &Process| {
        let arguments = process.arguments();
        let at = arguments.iter().position(|word| word == WORKER)?;
        arguments.get(at + 1)?.parse().ok()
    };
    processes.iter().filter_map(|process| Some((core(process)?, process.pid))).collect()
}

/// The part of the cluster that a process says it belongs to, if the cluster's folder is meant. One
/// that has ended but is not collected says nothing.
fn marked(pid: i32, is_meant: impl Fn(&Path) -> bool) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let prefix = format!("{MARK}=");
    let mut variables = environment.split(|byte| *byte == 0);
    let mark = variables.find_map(|variable| variable.strip_prefix(prefix.as_bytes()))?;
    let at = mark.iter().position(|byte| *byte == b'@')?;
    let folder = Path::new(OsStr::from_bytes(&mark[at + 1..]));
    let is_ours = is_meant(folder) && is_seen_alike(pid, folder);
    is_ours.then(|| String::from_utf8_lossy(&mark[..at]).into_owned())
}

/// Whether a process sees the folder that this one sees under that name, or neither sees one: in a
/// container the name may be another's.
fn is_seen_alike(pid: i32, folder: &Path) -> bool {
    let root = Path::new("/proc").join(pid.to_string()).join("root");
    let there = root.join(folder.strip_prefix("/").unwrap_or(folder));
    let which = |path: &Path| fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    which(folder) == which(&there)
}

/// The session of a process; none of one that has ended. Linux gives 0 for a process that ends
/// while it is asked, which `rustix::process::getsid` takes for a number of a process and panics.
fn session(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    session_in(&stat)
}

/// The session that a line of `/proc/PID/stat` names: the fourth field after the program's name,
/// which stands in parentheses and may hold any character.
fn session_in(stat: &str) -> Option<i32> {
    let (_, fields) = stat.rsplit_once(')')?;
    let session = fields.split_whitespace().nth(3)?.parse().ok()?;
    (session > 0).then_some(session)
}

/// Ends the processes of the `parts` of a cluster: the leaders are asked, and what still runs when
/// they have ended, or after `grace`, is killed.
pub fn end(folder: &Path, parts: impl Fn(&str) -> bool, grace: Duration) {
    let mine = || -> Vec<Process> {
        all(folder).into_iter().filter(|process| parts(&process.part)).collect()
    };
    let deadline = Instant::now() + grace;
    // What they have started they end themselves, or it is in nobody's hands any more.
    let mut leaders = mine();
    leaders.retain(|process| process.leads);
    leaders.iter().for_each(|it| it.signal(Signal::TERM));
    for process in &leaders {
        process.wait(deadline.saturating_duration_since(Instant::now()));
    }
    kill(mine);
}

/// Kills the processes that `mine` gives until it gives none: one may just have started another.
pub fn kill(mine: impl Fn() -> Vec<Process>) {
    /// Linux ends a killed process at once, unless it waits for a device.
    const PATIENCE: Duration = Duration::from_secs(2);
    const TRIES: usize = 10;
    for _ in 0..TRIES {
        let left = mine();
        if left.is_empty() {
            return;
        }
        left.iter().for_each(|process| process.signal(Signal::KILL));
        left.iter().for_each(|process| {
            process.wait(PATIENCE);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(folder: &Path, part: &str, script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let log = tempfile::tempfile().unwrap();
        start(folder, part, &command, &log).unwrap()
    }

    #[test]
    fn a_process_that_has_ended_leads_no_session() {
        assert_eq!(session_in("12 (a) b) S 3 11 10 0 -1"), Some(10));
        assert_eq!(session_in("12 (sh) Z 3 0 0 0 -1"), None);
        assert_eq!(session_in("12 (sh"), None);
        let mut child = Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        child.wait().unwrap();
        assert_eq!(session(pid), None);
    }

    /// As of a container that shows it another folder under the same name.
    #[test]
    fn a_process_that_sees_another_folder_is_none_of_ours() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let apart = |script: &str| {
            let script = format!("mount -t tmpfs none {} && {script}", path.display());
            Command::new("unshare").args(["--mount", "sh", "-c", &script]).status()
        };
        if !apart("true").is_ok_and(|status| status.success()) {
            return crate::say(format_args!("not run: this user may not mount"));
        }
        let script = format!("mount -t tmpfs none {} && exec sleep 1000", path.display());
        let mut child = shell(path, "n1", &format!("exec unshare --mount sh -c '{script}'"));
        let is_there = || {
            let name = fs::read_to_string(format!("/proc/{}/comm", child.id()));
            name.is_ok_and(|name| name == "sleep\n")
        };
        let begun = Instant::now();
        while !is_there() {
            assert!(begun.elapsed() < Duration::from_secs(20), "it does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(all(path).is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn all_that_a_part_starts_is_found_and_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let mut children = [
            shell(path, "n1", "trap '' TERM; sleep 1000 & sleep 1000"),
            shell(path, "n2", "exec sleep 1000"),
        ];
        let count =
            |part| (of(path, part).len(), of(path, part).iter().filter(|it| it.leads).count());
        let begun = Instant::now();
        // `setsid` has the mark before it has a session of its own.
        while all(path).len() < 4 || count("n1").1 != 1 || count("n2") != (1, 1) {
            assert!(begun.elapsed() < Duration::from_secs(20), "they do not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(all(&path.join("other")).is_empty());
        end(path, |part| part == "n1", Duration::from_millis(100));
        assert_eq!((count("n1").0, count("n2").0), (0, 1));
        end(path, |_| true, Duration::from_secs(20));
        assert!(all(path).is_empty());
        children.iter_mut().for_each(|child| drop(child.wait()));
    }
}
