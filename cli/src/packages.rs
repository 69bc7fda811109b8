//! The packages that a node is booted with: the project's own for every program but `boot`, in a
//! cluster, too, and those that are named on the command line. All machines but the simulator get
//! them as one archive; the simulator has the project's own linked in (`nile-sim`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nile_package::Package;
use tempfile::NamedTempFile;

use crate::args::Boot;
use crate::config;
use crate::failure::Failure;
use crate::needs::{self, PACKAGES};

/// Whether the node is booted with the project's own packages: a node that only boots runs none.
pub fn needs_own(options: &Boot) -> bool {
    !options.only_boots() && options.iso.is_none()
}

/// A package as it goes into an archive.
struct Entry {
    name: String,
    file: Vec<u8>,
}

impl Entry {
    fn read(path: &Path) -> Result<Entry, Failure> {
        let wrong = |error: &dyn std::fmt::Display| {
            Failure::request(format!("{}: {error}", path.display()))
        };
        let file = fs::read(path).map_err(|error| wrong(&error))?;
        let package = Package::parse(&file).map_err(|error| wrong(&error))?;
        Ok(Entry { name: package.manifest().name().into(), file })
    }
}

/// Refuses packages that no node could run.
pub fn check(named: &[PathBuf]) -> Result<(), Failure> {
    named.iter().try_for_each(|path| Entry::read(path).map(|_| ()))
}

/// Writes the archive for a node, with its configuration if `config` names one; nothing for a node
/// without packages. The file lives as long as the value.
pub fn archive(
    options: &Boot,
    config: Option<&config::File>,
) -> Result<Option<NamedTempFile>, Failure> {
    let mut entries = if needs_own(options) { own()? } else { Vec::new() };
    for path in &options.packages {
        let entry = Entry::read(path)?;
        // The one that was asked for counts.
        entries.retain(|other| other.name != entry.name);
        entries.push(entry);
    }
    if entries.is_empty() {
        return Ok(None);
    }
    let file = NamedTempFile::with_suffix(".tar")
        .map_err(|error| cannot(&std::env::temp_dir(), &error))?;
    let config = config.map(config::File::text).transpose()?;
    write(file.as_file(), config, &entries).map_err(|error| cannot(file.path(), &error))?;
    Ok(Some(file))
}

/// Writes the project's own packages as an archive to `path`, with a configuration if there is
/// one: what a cluster's node is started with that runs a scenario.
pub fn write_own(path: &Path, config: Option<&str>) -> Result<(), Failure> {
    let entries = own()?;
    let file = fs::File::create(path).map_err(|error| cannot(path, &error))?;
    write(&file, config, &entries).map_err(|error| cannot(path, &error))
}

/// The project's own packages, in the same order on every host.
fn own() -> Result<Vec<Entry>, Failure> {
    let folder = needs::provided(PACKAGES)?;
    let files = fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let files = files.map_err(|error| cannot(&folder, &error))?;
    let mut paths: Vec<PathBuf> = files.iter().map(fs::DirEntry::path).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "elf"));
    paths.sort();
    paths.iter().map(|path| Entry::read(path)).collect()
}

fn write(file: &fs::File, config: Option<&str>, entries: &[Entry]) -> io::Result<()> {
    let mut archive = tar::Builder::new(file);
    let mut add = |name: String, contents: &[u8]| {
        let mut header = tar::Header::new_ustar();
        header.set_size(contents.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, contents)
    };
    if let Some(config) = config {
        add("nile.toml".into(), config.as_bytes())?;
    }
    for entry in entries {
        add(format!("packages/{}.elf", entry.name), &entry.file)?;
    }
    archive.finish()
}

fn cannot(place: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", place.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_package::{BootModule, Image};

    #[test]
    fn a_node_reads_what_is_written_for_it() {
        let entries = [("hello", vec![7; 1000]), ("x", vec![])]
            .map(|(name, file)| Entry { name: name.into(), file });
        let file = NamedTempFile::new().unwrap();
        write(file.as_file(), Some("[timer]\n"), &entries).unwrap();
        let module = BootModule::parse(fs::read(&file).unwrap().leak()).unwrap();
        assert_eq!(module.config, "[timer]\n");
        assert_eq!(module.packages.find("hello"), Some(Image::Elf(&[7; 1000])));
        assert_eq!(module.packages.find("x"), Some(Image::Elf(&[])));
    }

    #[test]
    fn what_is_no_package_is_refused_by_name() {
        let text = NamedTempFile::new().unwrap();
        fs::write(&text, "no package").unwrap();
        let Err(Failure::Request(message)) = check(&[text.path().into()]) else {
            panic!("it was accepted, or it failed");
        };
        assert_eq!(message, format!("{}: not an ELF file", text.path().display()));
        assert!(check(&["/no/such/file".into()]).is_err());
    }
}
