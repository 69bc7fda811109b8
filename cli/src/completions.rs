//! `nile completions SHELL`: what a shell needs to complete this command's words.

use clap::CommandFactory;

use crate::args::Nile;
use crate::cluster::args::Completions;
use crate::failure::Failure;

/// Prints the script, which goes where the shell looks for completions.
pub fn run(options: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Nile::command(), "nile", &mut script);
    crate::print(&String::from_utf8_lossy(&script))
}
