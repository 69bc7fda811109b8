//! What a job reads, as it was named on the command line: files, which are put before, what comes
//! through a pipe, or datasets of the cluster.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use super::args::Usual;
use super::place;
use crate::failure::Failure;

/// What standard input is called.
const STANDARD: &str = "-";

/// Something that a job reads.
pub enum Input {
    /// A dataset of this name, if there is one.
    Dataset(String),
    /// A file.
    File(PathBuf),
    /// What has come through a pipe: a file without a name, which goes with this process however
    /// that ends.
    Taken(File),
}

/// Whether this is read once, from its beginning to its end: standard input, a pipe, a device.
fn is_stream(name: &OsStr) -> bool {
    let is_stream = |about: fs::Metadata| !about.is_file() && !about.is_dir();
    name == STANDARD || fs::metadata(name).is_ok_and(is_stream)
}

/// Refuses what a cluster that is started for the job could not have.
pub fn check(names: &[OsString], is_own: bool) -> Result<(), Failure> {
    let missing = names.iter().find(|name| !Path::new(name).is_file() && !is_stream(name));
    match missing.filter(|_| is_own) {
        Some(name) if Path::new(name).is_dir() => Err(folder(&name.to_string_lossy())),
        Some(name) => Err(Failure::request(format!(
            "there is no file {}, and no cluster is up that could have such a dataset",
            Path::new(name).display()
        ))),
        None => Ok(()),
    }
}

/// A folder where one file is wanted.
pub fn folder(name: &str) -> Failure {
    Failure::request(format!(
        "{name} is a folder, and no dataset is called so; name one of its files, or have all of \
         them read as one: cat FILES | nile run … {STANDARD}"
    ))
}

/// Bytes of those that are files.
pub fn bytes(names: &[OsString]) -> u64 {
    let length = |name: &OsString| fs::metadata(name).ok().filter(|it| it.is_file());
    names.iter().filter_map(length).map(|it| it.len()).sum()
}

impl Input {
    /// What these names stand for; blocks until all that comes through pipes is there.
    pub fn take(names: &[OsString], usual: &Usual) -> Result<Vec<Input>, Failure> {
        let one = |name: &OsString| match () {
            () if is_stream(name) => taken(name, usual).map(Input::Taken),
            () if Path::new(name).is_file() => Ok(Input::File(name.into())),
            // Those of datasets are text.
            () => Ok(Input::Dataset(name.to_string_lossy().into_owned())),
        };
        names.iter().map(one).collect()
    }

    /// Its bytes, as far as they are known here.
    pub fn bytes(&self) -> u64 {
        let about = match self {
            Input::Dataset(_) => None,
            Input::File(path) => fs::metadata(path).ok(),
            Input::Taken(file) => file.metadata().ok(),
        };
        about.map_or(0, |about| about.len())
    }
}

/// A path to an open file that has no name, as long as it is open.
pub fn path_of(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Reads a stream to its end.
fn taken(name: &OsStr, usual: &Usual) -> Result<File, Failure> {
    let shown = Path::new(name).display();
    let folder = usual.disk_folder.clone().unwrap_or_else(place::usual_folder);
    let unreadable = |error: io::Error| Failure::request(format!("cannot read {shown}: {error}"));
    let unwritable = |error: io::Error| {
        let folder = folder.display();
        Failure::failed(format!("{folder} does not take what {shown} gives: {error}"))
    };
    let mut file = tempfile::tempfile_in(&folder).map_err(unwritable)?;
    let mut stream: Box<dyn io::Read> = match name == STANDARD {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(name).map_err(unreadable)?),
    };
    io::copy(&mut stream, &mut file).map_err(unwritable)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_streams_and_folders_are_told_from_datasets() {
        let names = |name: &str| vec![OsString::from(name)];
        let is_stream = |name: &str| super::is_stream(OsStr::new(name));
        assert!(is_stream("-") && is_stream("/dev/null"));
        assert!(!is_stream("Cargo.toml") && !is_stream(".") && !is_stream("no such file"));
        assert!(check(&names("no such file"), false).is_ok() && check(&names("-"), true).is_ok());
        let said = check(&names("no such file"), true).unwrap_err().to_string();
        assert!(said.contains("no cluster is up"), "{said}");
        let said = check(&names("."), true).unwrap_err().to_string();
        assert!(said.contains(". is a folder"), "{said}");
        assert!(bytes(&names("Cargo.toml")) > 100 && bytes(&names("/dev/null")) == 0);
    }
}
