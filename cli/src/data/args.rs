//! What can be said about datasets on the command line.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cluster::args::{Query, Said};

#[derive(Args)]
pub struct Put {
    /// The file.
    pub file: PathBuf,
    /// What the dataset is to be called.
    pub name: String,
    /// On how many nodes it is to be.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub copies: u8,
    /// The file has records of so many bytes: no block ends within one.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    pub record: Option<u32>,
    /// Takes the place of a dataset or output of this name, if there is one, in one step.
    #[arg(long)]
    pub replace: bool,
    #[command(flatten)]
    pub query: Query,
}

#[derive(Args)]
pub struct Get {
    /// The dataset.
    pub name: String,
    /// The file that it is written to; one of this name is replaced.
    pub file: PathBuf,
    #[command(flatten)]
    pub query: Query,
}

#[derive(Args)]
pub struct List {
    /// Also those whose names begin with a dot: what jobs keep for themselves.
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub query: Query,
}

#[derive(Args)]
pub struct Remove {
    /// The dataset.
    pub name: String,
    #[command(flatten)]
    pub query: Query,
}

#[derive(Args)]
pub struct Mend {
    /// What is to be done.
    #[arg(value_enum)]
    pub action: DiskAction,
    /// The node, as n1, or a domain's name.
    pub node: Said,
    /// Which of the node's disks, as `check` calls it or by the name of its file; without this,
    /// all of them are checked or repaired.
    #[arg(long, value_name = "DISK")]
    pub disk: Option<String>,
    /// Format the disk: all that it has is given up.
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub query: Query,
}

/// What can be done to a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DiskAction {
    /// Tell what is damaged, and which other nodes have it.
    Check,
    /// Get from other nodes what is damaged or missing.
    Repair,
    /// Give the node an empty store.
    Format,
}
