//! A node's configuration file, checked before anything starts. The kernel parses it again, with
//! the same code.

use std::fmt::Display;
use std::fs;
use std::path::Path;

use nile_abi::RoleSet;
use nile_kernel::{Config, ConfigError, Named};

use crate::failure::Failure;

/// What the file at `path` says; without a file, what an empty one would.
pub fn read(path: Option<&Path>) -> Result<Config, Failure> {
    let Some(given) = path else { return Ok(Config::default()) };
    let text = fs::read_to_string(given).map_err(|error| wrong(&given.display(), &error))?;
    parse(path, &text)
}

/// What `text` says, which came from the file `path`, perhaps with lines of our own behind it.
pub fn parse(path: Option<&Path>, text: &str) -> Result<Config, Failure> {
    let file = path.unwrap_or(Path::new("the default configuration"));
    let checked = Config::parse(text).and_then(|config| {
        nile_scenarios::check_services(&config)?;
        Ok(config)
    });
    checked.map_err(|error| place(&file.display(), &error))
}

/// The roles that `config`, which came from `path`, gives to each of `cores` cores.
pub fn roles(path: Option<&Path>, config: &Config, cores: u16) -> Result<Vec<RoleSet>, Failure> {
    let file = path.unwrap_or(Path::new("the default configuration"));
    let checked = config.roles(cores.into()).and_then(|roles| {
        nile_scenarios::check_protocols(config, &roles)?;
        Ok(roles)
    });
    checked.map_err(|error| place(&file.display(), &error))
}

/// The bytes of the pool of a node with so much memory, as `config`, which came from `path`, has
/// it.
pub fn pool(path: Option<&Path>, config: &Config, memory: u64) -> Result<u64, Failure> {
    let file = path.unwrap_or(Path::new("the default configuration"));
    config.pool_bytes(memory).map_err(|error| place(&file.display(), &error))
}

/// Refuses what only a hosted node can be told, for a node on another machine.
pub fn no_interface(path: Option<&Path>, config: &Config) -> Result<(), Failure> {
    let Some(Named { line, .. }) = &config.interface else { return Ok(()) };
    let file = path.unwrap_or(Path::new("the default configuration"));
    let message = "interface is for hosted nodes; others drive their own devices".into();
    Err(place(&file.display(), &ConfigError { line: Some(*line), message }))
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
