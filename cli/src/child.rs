//! A child process that never outlives its purpose. It has a process group of its own, which is
//! ended when its time is up, when someone presses Ctrl-C and when its owner drops it; and the
//! kernel ends it when this process is killed outright (`PR_SET_PDEATHSIG`, set by `setpriv`).

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{self, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::failure::Failure;
use crate::interrupt;
use crate::serial::{Said, Splitter};

/// How often a waiting loop looks for Ctrl-C, the deadline and the child's end.
const POLL: Duration = Duration::from_millis(20);

/// How long a child may take to end when it is asked to, before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// A command that runs `program` as such a child.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command.process_group(0).stdin(Stdio::null());
    command
}

/// Why a child did not come to its own end.
#[derive(Debug)]
pub enum ChildError {
    /// It could not be started or read.
    System(io::Error),
    /// It was still running after this time and was ended.
    TimedOut(Duration),
    /// Someone pressed Ctrl-C; it was ended.
    Interrupted,
}

impl fmt::Display for ChildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChildError::System(error) => write!(f, "cannot be run: {error}"),
            ChildError::TimedOut(limit) => write!(f, "did not end within {} s", limit.as_secs()),
            ChildError::Interrupted => f.write_str("was interrupted"),
        }
    }
}

impl From<io::Error> for ChildError {
    fn from(error: io::Error) -> ChildError {
        ChildError::System(error)
    }
}

impl ChildError {
    /// The end of a command whose child `what` failed so.
    pub fn of(self, what: &str) -> Failure {
        match self {
            ChildError::Interrupted => Failure::Interrupted,
            error => Failure::failed(format!("{what} {error}")),
        }
    }
}

/// Runs `command`, which [`command`] made, to its end and gives `hear` what its standard output
/// and error say. Blocks for at most `limit` and the little time that ending it takes.
pub fn listen(
    command: &mut Command,
    limit: Duration,
    hear: impl FnMut(Said),
) -> Result<ExitStatus, ChildError> {
    listen_with(GRACE, command, limit, hear)
}

/// The same for a command that may take `grace` to end when it is asked to, as it has much to
/// clear away.
pub fn listen_with(
    grace: Duration,
    command: &mut Command,
    limit: Duration,
    mut hear: impl FnMut(Said),
) -> Result<ExitStatus, ChildError> {
    let mut child = Guard::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()), limit)?;
    child.grace = grace;
    let (sender, said) = mpsc::channel();
    read(child.process.stdout.take(), sender.clone());
    read(child.process.stderr.take(), sender);
    loop {
        match said.recv_timeout(POLL) {
            Ok(said) => hear(said),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        child.check()?;
    }
    child.wait()
}

/// Runs `command`, which [`command`] made and whose output someone else looks after, to its end.
pub fn wait(command: &mut Command, limit: Duration) -> Result<ExitStatus, ChildError> {
    Guard::start(command, limit)?.wait()
}

/// Passes on what `stream` says until it ends, on a thread of its own.
fn read(stream: Option<impl Read + Send + 'static>, sender: Sender<Said>) {
    let Some(mut stream) = stream else { return };
    thread::spawn(move || {
        let mut splitter = Splitter::default();
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            for said in splitter.feed(&bytes[..count]) {
                // The listener has gone away: it is ending the child.
                let Ok(()) = sender.send(said) else { return };
            }
        }
        if let Some(said) = splitter.finish() {
            let _ = sender.send(said);
        }
    });
}

struct Guard {
    process: process::Child,
    limit: Duration,
    grace: Duration,
    deadline: Instant,
    ended: Option<ExitStatus>,
}

impl Guard {
    fn start(command: &mut Command, limit: Duration) -> Result<Guard, ChildError> {
        interrupt::watch()?;
        let deadline = Instant::now() + limit;
        Ok(Guard { process: command.spawn()?, limit, grace: GRACE, deadline, ended: None })
    }

    /// Whether it may go on.
    fn check(&self) -> Result<(), ChildError> {
        if interrupt::requested() {
            return Err(ChildError::Interrupted);
        }
        match Instant::now() < self.deadline {
            true => Ok(()),
            false => Err(ChildError::TimedOut(self.limit)),
        }
    }

    fn wait(&mut self) -> Result<ExitStatus, ChildError> {
        loop {
            if let Some(status) = self.process.try_wait()? {
                self.ended = Some(status);
                return Ok(status);
            }
            self.check()?;
            thread::sleep(POLL);
        }
    }

    fn signal(&self, signal: Signal) {
        // A group that is gone already is what the signal is for.
        let _ = kill_process_group(Pid::from_child(&self.process), signal);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.ended.is_some() {
            return;
        }
        self.signal(Signal::TERM);
        let patience = Instant::now() + self.grace;
        while Instant::now() < patience {
            if let Ok(Some(_)) = self.process.try_wait() {
                return;
            }
            thread::sleep(POLL);
        }
        self.signal(Signal::KILL);
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn shell(script: &str) -> Command {
        let mut command = command("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_report_and_status_come_through() {
        let (mut lines, mut reports) = (Vec::new(), Vec::new());
        let script = r#"echo log; printf '\036{"a":1}\n'; echo oops >&2; exit 3"#;
        let status = listen(&mut shell(script), Duration::from_secs(20), |said| match said {
            Said::Line(line) => lines.push(line),
            Said::Report(report) => reports.push(report),
        });
        lines.sort();
        assert_eq!(lines, ["log", "oops"]);
        assert_eq!(reports, ["{\"a\":1}"]);
        assert_eq!(status.unwrap().code(), Some(3));
    }

    #[test]
    fn a_child_that_outstays_its_time_is_ended_with_its_own_children() {
        let mut pids = Vec::new();
        let script = "trap '' TERM; echo $$; sleep 100 & echo $!; wait; sleep 100";
        let ended = listen(&mut shell(script), Duration::from_millis(300), |said| match said {
            Said::Line(line) => pids.push(line),
            Said::Report(_) => panic!("the script sends none"),
        });
        assert!(matches!(ended, Err(ChildError::TimedOut(_))));
        assert_eq!(pids.len(), 2);
        let start = Instant::now();
        while pids.iter().any(|pid| runs(pid)) {
            assert!(start.elapsed() < Duration::from_secs(20), "one of {pids:?} still runs");
            thread::sleep(POLL);
        }
    }

    /// Whether a process runs; one that has ended but that init has yet to collect does not.
    fn runs(pid: &str) -> bool {
        let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn a_missing_program_is_no_success() {
        let status = wait(&mut command("/nonexistent/program"), Duration::from_secs(20)).unwrap();
        assert!(!status.success());
    }
}
