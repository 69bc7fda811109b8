//! A container of LXC whose only program is a shell with a script, for it to have as little to do
//! at its start as a container can.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::machine::said;
use crate::figure::Failure;
use crate::place::Cpu;

/// How often it is looked whether something has happened, and how long at most.
const LOOK: Duration = Duration::from_micros(200);
const PATIENCE: Duration = Duration::from_secs(20);

/// It is stopped with this.
pub struct Container {
    folder: TempDir,
}

impl Container {
    /// One that does this once it has said that it runs.
    pub fn new(script: &str) -> Result<Container, Failure> {
        let container = Container { folder: tempfile::tempdir()? };
        let root = container.root();
        for folder in ["usr", "proc", "dev", "out"] {
            fs::create_dir_all(root.join(folder))?;
        }
        for link in ["bin", "lib", "lib64"] {
            symlink(Path::new("usr").join(link), root.join(link))?;
        }
        let program = root.join("init");
        fs::write(&program, format!("#!/bin/sh\necho $$ > /out/runs\n{script}\n"))?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        let text = format!(
            "lxc.uts.name = nile-bench\n\
             lxc.rootfs.path = dir:{}\n\
             lxc.mount.entry = /usr usr none bind,ro 0 0\n\
             lxc.mount.entry = /dev dev none bind 0 0\n\
             lxc.mount.auto = proc:mixed\n\
             lxc.net.0.type = empty\n\
             lxc.autodev = 0\n\
             lxc.apparmor.profile = unconfined\n\
             lxc.init.cmd = /init\n",
            root.display()
        );
        fs::write(container.settings(), text)?;
        Ok(container)
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn settings(&self) -> PathBuf {
        self.folder.path().join("settings")
    }

    fn lxc(&self, program: &str, words: &[&str]) -> Result<String, Failure> {
        let mut command = Command::new(program);
        command.arg("-P").arg(self.folder.path()).args(["-n", "nile-bench"]);
        said(command, words)
    }

    /// Starts it, and waits until its program runs.
    pub fn start(&self) -> Result<(), Failure> {
        let runs = self.root().join("out/runs");
        let _ = fs::remove_file(&runs);
        self.lxc("lxc-start", &["-d", "-f", &self.settings().to_string_lossy()])?;
        until("the container does not run", || fs::metadata(&runs).is_ok_and(|it| it.len() > 0))
    }

    /// Stops it without asking.
    pub fn stop(&self) -> Result<(), Failure> {
        self.lxc("lxc-stop", &["-k"]).map(drop)
    }

    /// The process of its program.
    pub fn process(&self) -> Result<u32, Failure> {
        let said = self.lxc("lxc-info", &["-p", "-H"])?;
        said.trim().parse().map_err(|_| Failure::Node(format!("lxc-info: {said}")))
    }

    /// Sends it to another CPU, and waits until its program, which is busy, is there.
    pub fn go_to(&self, cpu: Cpu, process: u32) -> Result<(), Failure> {
        let number = cpu.number().to_string();
        self.lxc("lxc-cgroup", &["cpuset.cpus", &number])?;
        let stat = format!("/proc/{process}/stat");
        until("the container stays where it was", || {
            let text = fs::read_to_string(&stat).unwrap_or_default();
            processor(&text) == Some(number.as_str())
        })
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // One that does not run has nothing to stop.
        let _ = self.stop();
    }
}

/// The CPU that a thread ran on last, in the line that /proc has on it.
fn processor(stat: &str) -> Option<&str> {
    // The name before it may hold anything, also parentheses.
    stat.rsplit_once(") ")?.1.split(' ').nth(36)
}

fn until(what: &str, is_so: impl Fn() -> bool) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() >= deadline {
            return Err(Failure::Node(what.into()));
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_found_behind_any_name() {
        let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        let stat = format!("71 (a) b) {}", fields.join(" "));
        assert_eq!(processor(&stat), Some("39"));
        assert_eq!(processor("71 (a) S 1"), None);
    }
}
