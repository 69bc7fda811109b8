//! A node that supervises its machine keeps some of its cores and memory, and gives all else to
//! domains (RainForest 4.1): what its configuration says of that.

use alloc::string::String;

use serde::Deserialize;
use toml::Spanned;

use crate::config::ConfigError;
use crate::pool::size_of;

/// What a node keeps that supervises its machine.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SupervisorTable {
    cores: Spanned<u16>,
    memory: Spanned<String>,
    disks: Option<u8>,
    disk_parts: Option<Spanned<u16>>,
    disk_part: Option<Spanned<String>>,
}

/// What a domain's node is told of its machine.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DomainTable {
    /// Whether a guard keeps it to what it has, on a PC.
    pub guard: bool,
}

impl Default for DomainTable {
    fn default() -> DomainTable {
        DomainTable { guard: true }
    }
}

/// What a node keeps of the machine that it supervises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Supervising {
    /// Its own cores.
    pub cores: usize,
    /// Bytes of its own memory.
    pub memory: u64,
    /// How many disks of a PC are its own; all if nothing is said.
    pub disks: Option<usize>,
    /// The parts at the end of its last disk that are for domains, if there are any.
    pub parts: Option<DiskParts>,
    /// The line that says so.
    pub line: usize,
}

/// Parts of a disk for domains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskParts {
    /// How many, one at least.
    pub count: u16,
    /// Bytes of each, whole 2 MiB.
    pub bytes: u64,
}

/// The most parts of a disk: as many as there can be domains.
const MOST_PARTS: u16 = 62;

impl DiskParts {
    fn from_table(
        count: Option<Spanned<u16>>,
        bytes: Option<Spanned<String>>,
        line_of: impl Fn(usize) -> usize,
    ) -> Result<Option<DiskParts>, ConfigError> {
        let wrong = |at, message: &str| {
            Err(ConfigError { line: Some(line_of(at)), message: message.into() })
        };
        match (count, bytes) {
            (None, None) => Ok(None),
            (Some(count), Some(bytes)) if (1..=MOST_PARTS).contains(count.get_ref()) => {
                let line = line_of(bytes.span().start);
                let bytes = size_of("disk_part", bytes.get_ref(), 2 << 20, "2M", line)?;
                Ok(Some(DiskParts { count: *count.get_ref(), bytes }))
            }
            (Some(count), Some(_)) => wrong(count.span().start, "disk_parts is 1 to 62"),
            (Some(count), None) => wrong(
                count.span().start,
                "disk_parts needs disk_part, the bytes of each, as \"1G\"",
            ),
            (None, Some(bytes)) => {
                wrong(bytes.span().start, "disk_part needs disk_parts, how many there are")
            }
        }
    }
}

impl Supervising {
    /// What the table says; `None` if there is none. `line_of` gives the line of a byte.
    pub(crate) fn from_table(
        table: Option<SupervisorTable>,
        line_of: impl Fn(usize) -> usize,
    ) -> Result<Option<Supervising>, ConfigError> {
        let Some(table) = table else { return Ok(None) };
        let SupervisorTable { cores, memory, disks, disk_parts, disk_part } = table;
        let line = line_of(cores.span().start);
        if *cores.get_ref() == 0 {
            let message = "a supervisor keeps a core at least".into();
            return Err(ConfigError { line: Some(line), message });
        }
        let at = line_of(memory.span().start);
        let memory = size_of("memory", memory.get_ref(), 2 << 20, "2M", at)?;
        let (cores, disks) = ((*cores.get_ref()).into(), disks.map(usize::from));
        let parts = DiskParts::from_table(disk_parts, disk_part, line_of)?;
        Ok(Some(Supervising { cores, memory, disks, parts, line }))
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::DiskParts;
    use crate::config::Config;

    #[test]
    fn a_supervisor_keeps_cores_and_memory() {
        let of = |text: &str| Config::parse(text).map(|it| it.supervisor);
        assert_eq!(of(""), Ok(None));
        let kept = of("[supervisor]\ncores = 2\nmemory = \"64M\"").unwrap().unwrap();
        assert_eq!((kept.cores, kept.memory, kept.line), (2, 64 << 20, 2));
        assert_eq!(kept.disks, None);
        let kept = of("[supervisor]\ncores = 1\nmemory = \"64M\"\ndisks = 0").unwrap().unwrap();
        assert_eq!((kept.disks, kept.parts), (Some(0), None));
        for text in ["cores = 0\nmemory = \"64M\"", "cores = 1\nmemory = \"3M\"", "cores = 1"] {
            assert!(of(&format!("[supervisor]\n{text}")).is_err(), "{text}");
        }
        let with = |text| of(&format!("[supervisor]\ncores = 1\nmemory = \"64M\"\n{text}"));
        let kept = with("disk_parts = 3\ndisk_part = \"64M\"").unwrap().unwrap();
        assert_eq!(kept.parts, Some(DiskParts { count: 3, bytes: 64 << 20 }));
        for (text, line) in [
            ("disk_parts = 3", 4),
            ("disk_part = \"64M\"", 4),
            ("disk_parts = 0\ndisk_part = \"64M\"", 4),
            ("disk_parts = 63\ndisk_part = \"64M\"", 4),
            ("disk_parts = 3\ndisk_part = \"1M\"", 5),
        ] {
            assert_eq!(with(text).unwrap_err().line, Some(line), "{text}");
        }
    }
}
