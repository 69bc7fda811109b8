//! Regions that a node's configuration asks for: memory that packages of its cores share, as long
//! as the node runs (FENCE, sections 3 and 4).
//!
//! ```toml
//! [region.ranks]
//! bytes = "16M"        # whole pages of 4 KiB, at most 256 MiB
//! ```

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::KeepName;
use nile_platform::board::{Keep, MOST_KEEPS};
use serde::Deserialize;
use toml::Spanned;

use crate::config::ConfigError;
use crate::pool::size_of;

/// What a configuration says of a region.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RegionTable {
    bytes: Spanned<String>,
}

/// The name of a region: as a manifest may have it.
pub(crate) fn name_of(text: &str) -> Option<KeepName> {
    let plain = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
    KeepName::region(text).filter(|_| text.bytes().all(plain))
}

/// What the tables say. `line_of` gives the line of a byte.
pub(crate) fn from_tables(
    tables: BTreeMap<Spanned<String>, RegionTable>,
    line_of: impl Fn(usize) -> usize,
) -> Result<Vec<(KeepName, u64)>, ConfigError> {
    let mut regions = Vec::new();
    for (name, RegionTable { bytes }) in tables {
        let line = Some(line_of(name.span().start));
        let region = name_of(name.get_ref()).ok_or_else(|| ConfigError {
            line,
            message: format!(
                "a region's name is 1 to 30 ASCII letters, digits, `-`, `_` and `.`, not `{}`",
                name.get_ref()
            ),
        })?;
        let at = line_of(bytes.span().start);
        let size = size_of("bytes", bytes.get_ref(), 4096, "4K", at)?;
        if size > Keep::MOST_BYTES {
            let message = format!("bytes is \"{}\"; a region has 256M at most", bytes.get_ref());
            return Err(ConfigError { line: Some(at), message });
        }
        if regions.len() == MOST_KEEPS {
            let message = format!("there are more than {MOST_KEEPS} regions");
            return Err(ConfigError { line, message });
        }
        regions.push((region, size));
    }
    Ok(regions)
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use crate::config::Config;

    #[test]
    fn regions_have_names_and_bytes() {
        let config = Config::parse("[region.ranks]\nbytes = \"16M\"\n[region.a-1]\nbytes = \"4K\"");
        let regions = config.unwrap().regions;
        let said = |(name, bytes): &(nile_abi::KeepName, u64)| {
            (String::from(name.as_region().unwrap()), *bytes)
        };
        let said: alloc::vec::Vec<_> = regions.iter().map(said).collect();
        assert_eq!(said, [("a-1".into(), 4096), ("ranks".into(), 16 << 20)]);
    }

    #[test]
    fn what_no_region_can_be_is_told_with_its_line() {
        for (text, line, what) in [
            ("[region.a]\nbytes = \"257M\"", 2, "256M at most"),
            ("[region.a]\nbytes = \"1K\"", 2, "whole 4K"),
            ("[region.a]\nbytes = \"0\"", 2, "one at least"),
            ("[region.\"a/b\"]\nbytes = \"4K\"", 1, "a region's name"),
            ("[region.a]\nsize = \"4K\"", 2, "unknown field"),
            ("[region.a]", 1, "missing field"),
        ] {
            let error = Config::parse(text).unwrap_err();
            assert!(error.message.contains(what), "{text}: {error}");
            assert_eq!(error.line, Some(line), "{text}");
        }
        let long = format!("[region.{}]\nbytes = \"4K\"", "a".repeat(31));
        assert!(Config::parse(&long).is_err());
    }
}
