//! A node's configuration file, checked before anything starts. The kernel parses it again, with
//! the same code. It may be a pipe, as `--config <(…)` and `--config /dev/stdin` are: [`File`]
//! reads it once, and nodes get what was read.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use nile_abi::{NodeId, RoleSet};
use nile_kernel::config::MAX_BYTES;
use nile_kernel::{Config, ConfigError, Named, Supervising};
use nile_stl::Registration;
use tempfile::NamedTempFile;

use crate::failure::Failure;

/// A configuration file that the command line names.
#[derive(Clone, Debug)]
pub struct File {
    path: PathBuf,
    text: Arc<OnceLock<String>>,
}

impl From<OsString> for File {
    fn from(path: OsString) -> File {
        File { path: path.into(), text: Arc::default() }
    }
}

impl File {
    /// As it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says. It is read the first time.
    pub fn text(&self) -> Result<&str, Failure> {
        if let Some(text) = self.text.get() {
            return Ok(text);
        }
        let shown = self.path.display();
        let mut bytes = Vec::new();
        fs::File::open(&self.path)
            .and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes))
            .map_err(|error| wrong(&shown, &error))?;
        if bytes.len() > MAX_BYTES {
            return Err(wrong(&shown, &format!("it is longer than {MAX_BYTES} bytes")));
        }
        let text = String::from_utf8(bytes).map_err(|_| wrong(&shown, &"it is not UTF-8 text"))?;
        Ok(self.text.get_or_init(|| text))
    }

    /// Takes what can be read only once for empty: it is left to the command that is to follow.
    pub fn leave(&self) {
        if !self.path.is_file() {
            let _ = self.text.set(String::new());
        }
    }

    /// The same for a process that reads it later.
    pub fn handed_on(&self) -> Result<Handed, Failure> {
        // Below these the same name is another file for another process.
        let own = ["/dev", "/proc"].iter().any(|folder| self.path.starts_with(folder));
        if self.path.is_file() && !own {
            return Ok(Handed::Itself(self.path.clone()));
        }
        let text = self.text()?;
        let copy = NamedTempFile::with_suffix(".toml").and_then(|mut copy: NamedTempFile| {
            copy.write_all(text.as_bytes())?;
            Ok(copy)
        });
        let failed = |error: io::Error| {
            Failure::failed(format!("no copy of {}: {error}", self.path.display()))
        };
        Ok(Handed::Copy(copy.map_err(failed)?))
    }
}

/// A configuration file as another process finds it, as long as this lives.
pub enum Handed {
    /// It is where it was.
    Itself(PathBuf),
    /// A copy of what could be read only once.
    Copy(NamedTempFile),
}

impl Handed {
    /// Where it is.
    pub fn path(&self) -> &Path {
        match self {
            Handed::Itself(path) => path,
            Handed::Copy(file) => file.path(),
        }
    }
}

/// What a file says; without one, what an empty one would.
pub fn read(file: Option<&File>) -> Result<Config, Failure> {
    let Some(file) = file else { return Ok(Config::default()) };
    parse(Some(file.path()), file.text()?)
}

/// The same, for an image that has no other services than these.
pub fn read_for(file: Option<&File>, services: &[&'static Registration]) -> Result<(), Failure> {
    let known = services.iter().map(|service| service.name());
    let (config, Some(file)) = (read(file)?, file) else { return Ok(()) };
    config.check_services(known).map_err(|error| place(&file.path().display(), &error))
}

/// What `text` says, which came from the file `path`, perhaps with lines of our own behind it.
pub fn parse(path: Option<&Path>, text: &str) -> Result<Config, Failure> {
    let file = path.unwrap_or(Path::new("the default configuration"));
    nile_node::configuration(text).map_err(|error| place(&file.display(), &error))
}

/// The roles that `config`, which came from `path`, gives to each of `cores` cores.
pub fn roles(path: Option<&Path>, config: &Config, cores: u16) -> Result<Vec<RoleSet>, Failure> {
    let file = path.unwrap_or(Path::new("the default configuration"));
    nile_node::roles(config, cores.into()).map_err(|error| place(&file.display(), &error))
}

/// The bytes of the pool of a node with so much memory, as `config`, which came from `path`, has
/// it.
pub fn pool(path: Option<&Path>, config: &Config, memory: u64) -> Result<u64, Failure> {
    let file = path.unwrap_or(Path::new("the default configuration"));
    config.pool_bytes(memory).map_err(|error| place(&file.display(), &error))
}

/// Refuses a network, as `config`, which came from `path`, has it, that has no address for one of
/// so many nodes.
pub fn addresses(path: Option<&Path>, config: &Config, nodes: usize) -> Result<(), Failure> {
    let file = path.unwrap_or(Path::new("the default configuration"));
    let last = NodeId(u32::try_from(nodes).unwrap_or(u32::MAX));
    config.ip.check(last).map_err(|error| place(&file.display(), &error))
}

/// Refuses what only a hosted node can be told, for a node on another machine.
pub fn no_interface(path: Option<&Path>, config: &Config) -> Result<(), Failure> {
    let Some(Named { line, .. }) = &config.interface else { return Ok(()) };
    let file = path.unwrap_or(Path::new("the default configuration"));
    let message = "interface is for hosted nodes; others drive their own devices".into();
    Err(place(&file.display(), &ConfigError { line: Some(*line), message }))
}

/// Refuses what a node is told that supervises its machine, for one that cannot.
pub fn no_supervisor(path: Option<&Path>, config: &Config) -> Result<(), Failure> {
    let Some(Supervising { line, .. }) = config.supervisor else { return Ok(()) };
    let file = path.unwrap_or(Path::new("the default configuration"));
    let message = "[supervisor] is for a PC that is alone, as `nile boot --machine qemu`; hosted \
                   domains are made with `nile up --machine hosted --supervisor`"
        .into();
    Err(place(&file.display(), &ConfigError { line: Some(line), message }))
}

/// What a node keeps of a machine of so many cores and so much memory: all, if it supervises none.
/// Refuses a supervisor that leaves nothing to domains.
pub fn own_part(
    path: Option<&Path>,
    config: &Config,
    (cores, memory): (u16, u64),
) -> Result<(u16, u64), Failure> {
    let Some(kept) = config.supervisor else { return Ok((cores, memory)) };
    if kept.cores >= cores.into() || kept.memory >= memory {
        let file = path.unwrap_or(Path::new("the default configuration"));
        let message = format!(
            "the supervisor leaves nothing of {cores} cores and {} MiB to domains",
            memory >> 20
        );
        return Err(place(&file.display(), &ConfigError { line: Some(kept.line), message }));
    }
    Ok((kept.cores as u16, kept.memory))
}

/// Says what is wrong the way compilers do, so that editors find the line.
fn place(file: &dyn Display, error: &ConfigError) -> Failure {
    match error.line {
        Some(line) => wrong(&format!("{file}:{line}"), &error.message),
        None => wrong(file, &error.message),
    }
}

fn wrong(place: &dyn Display, error: &dyn Display) -> Failure {
    Failure::request(format!("{place}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &Path) -> File {
        path.as_os_str().to_os_string().into()
    }

    #[test]
    fn a_file_is_read_once_and_handed_on() {
        let there = NamedTempFile::new().unwrap();
        fs::write(&there, "[timer]\n").unwrap();
        let given = file(there.path());
        given.leave();
        assert_eq!(given.text().unwrap(), "[timer]\n");
        fs::write(&there, "[roles]\n").unwrap();
        assert_eq!(given.text().unwrap(), "[timer]\n");
        assert_eq!(given.handed_on().unwrap().path(), there.path());
    }

    #[test]
    fn a_pipe_is_copied_for_others_and_left_by_who_only_asks() {
        let (pipe, mut writer) = io::pipe().unwrap();
        let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&pipe));
        let asks = file(Path::new(&path));
        asks.leave();
        assert_eq!(asks.text().unwrap(), "");
        writer.write_all(b"[timer]\n").unwrap();
        drop(writer);
        let given = file(Path::new(&path));
        let handed = given.handed_on().unwrap();
        assert_eq!(fs::read_to_string(handed.path()).unwrap(), "[timer]\n");
        assert_eq!(given.text().unwrap(), "[timer]\n");
    }

    #[test]
    fn what_never_ends_is_no_configuration() {
        let Err(Failure::Request(message)) = file(Path::new("/dev/zero")).text() else { panic!() };
        assert_eq!(message, "/dev/zero: it is longer than 16384 bytes");
        assert!(matches!(file(Path::new("/tmp")).text(), Err(Failure::Request(_))));
    }
}
