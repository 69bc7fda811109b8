//! The configuration, which a person writes and a loader hands over.

use std::time::Duration;

use nile_abi::Role;
use nile_kernel::{Config, ConfigError};

/// The bytes as a `nile.toml`, fitted to nodes of several sizes. Accepted: the file is valid by
/// itself.
pub fn config(bytes: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(bytes) else { return false };
    let config = match Config::parse(text) {
        Ok(config) => config,
        Err(error) => {
            check_error(&error, text);
            return false;
        }
    };
    assert!(config.tick.is_none_or(|tick| tick >= Duration::from_millis(1)));
    for cores in [0, 1, 2, 3, 4, 64] {
        match config.roles(cores) {
            Ok(roles) => {
                assert_eq!(roles.len(), cores);
                assert!(roles.iter().all(|set| !set.is_empty()));
                assert!(roles.first().is_none_or(|set| set.contains(Role::Management)));
            }
            Err(error) => check_error(&error, text),
        }
    }
    true
}

/// An error is one line of text about one line of the file.
fn check_error(error: &ConfigError, text: &str) {
    let lines = text.lines().count() + 1;
    assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)), "{error}");
    assert!(!error.message.is_empty());
}
