//! `nile run wordcount`: how often each word is in a text.

use std::path::PathBuf;

use super::args::{Package, Wordcount};
use super::{code, package};
use crate::cluster::args::Kind;
use crate::failure::Failure;

/// The package with the job.
const PACKAGE: &str = "wordcount";

/// Refuses what cannot be counted; the machines of the cluster that would be started for it.
pub fn check(options: &Wordcount) -> Result<Vec<Kind>, Failure> {
    // The package's file need not be there yet.
    package::check_text(&as_package(options, PathBuf::new()))
}

/// Counts, and prints the counts or keeps them.
pub fn run(options: &Wordcount) -> Result<(), Failure> {
    check(options)?;
    package::run(&as_package(options, code::own(PACKAGE)?))
}

fn as_package(options: &Wordcount, file: PathBuf) -> Package {
    Package {
        file,
        arguments: Vec::new(),
        input: vec![options.text.clone()],
        output: options.output.clone(),
        samples: 0,
        usual: options.usual.clone(),
    }
}
