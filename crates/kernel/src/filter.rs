//! The rules of the packet filter of a node's network, from `nile.toml`:
//!
//! ```toml
//! [filter]
//! rules = ["allow in established", "allow in tcp to port 80", "deny in"]
//! ```
//!
//! What a rule is, `nile-filter` says.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use nile_filter::Rules;
use serde::Deserialize;
use toml::Spanned;

use crate::config::ConfigError;

/// The part of the file that says so.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FilterTable {
    rules: Vec<Spanned<String>>,
}

/// The rules that the table says, one a line. `line_of` gives the line of a byte.
pub(crate) fn rules_of(
    table: FilterTable,
    line_of: impl Fn(usize) -> usize,
) -> Result<Arc<str>, ConfigError> {
    let mut all = String::new();
    for said in table.rules {
        let line = Some(line_of(said.span().start));
        let rule = said.into_inner();
        if let Err(error) = rule.parse::<Rules>() {
            let message = format!("rule \"{rule}\", byte {}: {}", error.column, error.wrong);
            return Err(ConfigError { line, message });
        }
        all.push_str(&rule);
        all.push('\n');
    }
    Ok(all.into())
}

#[cfg(test)]
mod tests {
    use crate::Config;

    #[test]
    fn rules_are_read_or_refused_with_their_line() {
        let own = "[node]\nid = 1\n[network]\nunsealed = true\n";
        let rules = |text: &str| {
            let config = Config::parse(&alloc::format!("{own}{text}"));
            config.map(|it| it.membership.unwrap().rules).map_err(|it| alloc::format!("{it}"))
        };
        assert_eq!(rules("").as_deref(), Ok(""));
        let good = "[filter]\nrules = [\n\"allow in tcp to port 80\",\n\"deny in\"]\n";
        assert_eq!(rules(good).as_deref(), Ok("allow in tcp to port 80\ndeny in\n"));
        let wrong = rules("[filter]\nrules = [\n\"deny in\",\n\"deny in tcp to port x\"]\n");
        let said = "line 8: rule \"deny in tcp to port x\", byte 21: no port, such as 80 or 1-1023";
        assert_eq!(wrong, Err(said.into()));
    }
}
