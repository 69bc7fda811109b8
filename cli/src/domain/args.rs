//! The words of `nile domain`.

use clap::{Args, Subcommand, value_parser};
use nile_domain::Name;

use crate::cluster::args::{Query, Which};
use crate::size::Bytes;

#[derive(Args)]
pub struct Domain {
    #[command(subcommand)]
    pub action: DomainAction,
}

#[derive(Subcommand)]
pub enum DomainAction {
    /// Make a domain: a node of its own on cores and memory that nobody else has.
    Create {
        /// What it is called; other commands take this name for a node's.
        name: Name,
        /// How many cores it gets.
        #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=255))]
        cores: u16,
        /// How much memory it gets, in whole 2M, as 256M.
        #[arg(long, value_name = "SIZE")]
        memory: Bytes,
        /// Show what it would get, and change nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        options: Options,
    },
    /// Show all domains, and what is free.
    List(Options),
    /// Show one domain: what it has, and whether it runs.
    Show {
        /// Which.
        name: Name,
        #[command(flatten)]
        options: Options,
    },
    /// End a domain and take back all that it has.
    Destroy {
        /// Which.
        name: Name,
        /// Without asking it to end first.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        options: Options,
    },
    /// Show the last lines of a domain's log.
    Logs {
        /// Which.
        name: Name,
        /// The last so many lines.
        #[arg(long, default_value_t = 256, value_parser = value_parser!(u16).range(1..=256))]
        lines: u16,
        /// Go on with what is written from now on, until Ctrl-C.
        #[arg(long)]
        follow: bool,
        #[command(flatten)]
        query: Query,
    },
}

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    pub which: Which,
    /// Print one JSON document and nothing else.
    #[arg(long)]
    pub json: bool,
}
