//! What a node's configuration gives each of its packages:
//!
//! ```toml
//! [packages]
//! memory = "256M"      # the most memory of its own
//! buffers = 400        # the most buffers of the pool at once
//! log = "64K"          # bytes of lines a second; what is beyond is left out, and counted
//! ```
//!
//! Whoever starts a package may give it less.

use alloc::format;
use alloc::string::String;

use nile_stl::node::PackageLimits;
use serde::Deserialize;
use toml::Spanned;

use crate::config::ConfigError;
use crate::pool::parse_size;

/// The part of the file that says what packages may have.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PackagesTable {
    memory: Option<Spanned<String>>,
    buffers: Option<u32>,
    log: Option<Spanned<String>>,
}

/// What the file gives a package at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Most {
    memory_bytes: u64,
    buffers: u32,
    log_bytes: Option<u32>,
}

impl Default for Most {
    /// What an empty file gives: what whoever starts it wants.
    fn default() -> Most {
        Most { memory_bytes: u64::MAX, buffers: u32::MAX, log_bytes: None }
    }
}

impl Most {
    /// What the table says. `line_of` gives the line of a byte.
    pub fn from_table(
        table: PackagesTable,
        line_of: impl Fn(usize) -> usize,
    ) -> Result<Most, ConfigError> {
        let size = |name: &str, text: Option<Spanned<String>>, most: u64| {
            let Some(text) = text else { return Ok(None) };
            let bytes = parse_size(text.get_ref()).filter(|bytes| *bytes <= most);
            let wrong = || ConfigError {
                line: Some(line_of(text.span().start)),
                message: format!("{name} is \"{}\"; a size is as \"64K\"", text.get_ref()),
            };
            bytes.map(Some).ok_or_else(wrong)
        };
        let log = size("log", table.log, u32::MAX.into())?;
        Ok(Most {
            memory_bytes: size("memory", table.memory, u64::MAX)?.unwrap_or(u64::MAX),
            buffers: table.buffers.unwrap_or(u32::MAX),
            log_bytes: log.and_then(|bytes| u32::try_from(bytes).ok()),
        })
    }

    /// What a package gets that is started with these limits.
    pub fn of(self, limits: PackageLimits) -> PackageLimits {
        PackageLimits {
            memory_bytes: limits.memory_bytes.min(self.memory_bytes),
            buffers: limits.buffers.min(self.buffers),
            log_bytes: self.log_bytes.unwrap_or(limits.log_bytes),
            ..limits
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use alloc::string::ToString;

    #[test]
    fn a_file_may_give_packages_less() {
        let most = |text: &str| Config::parse(text).map(|it| it.package_limits);
        let usual = PackageLimits::default();
        assert_eq!(most("").map(|it| it.of(usual)), Ok(usual));
        let table = "[packages]\nmemory = \"1M\"\nbuffers = 7\nlog = \"128K\"\n";
        let wanted =
            PackageLimits { memory_bytes: 1 << 20, buffers: 7, log_bytes: 128 << 10, ..usual };
        assert_eq!(most(table).map(|it| it.of(usual)), Ok(wanted));
        let wrong = most("[packages]\nlog = \"4G\"\n").unwrap_err().to_string();
        assert_eq!(wrong, "line 2: log is \"4G\"; a size is as \"64K\"");
    }
}
