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
    /// The line that says so.
    pub line: usize,
}

impl Supervising {
    /// What the table says; `None` if there is none. `line_of` gives the line of a byte.
    pub(crate) fn from_table(
        table: Option<SupervisorTable>,
        line_of: impl Fn(usize) -> usize,
    ) -> Result<Option<Supervising>, ConfigError> {
        let Some(SupervisorTable { cores, memory, disks }) = table else { return Ok(None) };
        let line = line_of(cores.span().start);
        if *cores.get_ref() == 0 {
            let message = "a supervisor keeps a core at least".into();
            return Err(ConfigError { line: Some(line), message });
        }
        let at = line_of(memory.span().start);
        let memory = size_of("memory", memory.get_ref(), 2 << 20, "2M", at)?;
        let (cores, disks) = ((*cores.get_ref()).into(), disks.map(usize::from));
        Ok(Some(Supervising { cores, memory, disks, line }))
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use crate::config::Config;

    #[test]
    fn a_supervisor_keeps_cores_and_memory() {
        let of = |text: &str| Config::parse(text).map(|it| it.supervisor);
        assert_eq!(of(""), Ok(None));
        let kept = of("[supervisor]\ncores = 2\nmemory = \"64M\"").unwrap().unwrap();
        assert_eq!((kept.cores, kept.memory, kept.line), (2, 64 << 20, 2));
        assert_eq!(kept.disks, None);
        let kept = of("[supervisor]\ncores = 1\nmemory = \"64M\"\ndisks = 0").unwrap().unwrap();
        assert_eq!(kept.disks, Some(0));
        for text in ["cores = 0\nmemory = \"64M\"", "cores = 1\nmemory = \"3M\"", "cores = 1"] {
            assert!(of(&format!("[supervisor]\n{text}")).is_err(), "{text}");
        }
    }
}
