//! The words of `nile record`.

use clap::{Args, Subcommand, value_parser};

use crate::cluster::args::{Query, Said};

#[derive(Args)]
pub struct Record {
    #[command(subcommand)]
    pub action: RecordAction,
}

#[derive(Subcommand)]
pub enum RecordAction {
    /// Store a value under a key.
    Put {
        #[command(flatten)]
        key: Key,
        /// The value, of at most 4096 bytes; - is what comes in.
        value: String,
        #[command(flatten)]
        query: Query,
    },
    /// Print the value of a key, as it is.
    Get {
        #[command(flatten)]
        key: Key,
        #[command(flatten)]
        query: Query,
    },
    /// Remove the record of a key.
    Remove {
        #[command(flatten)]
        key: Key,
        #[command(flatten)]
        query: Query,
    },
    /// Show records, one core's after the other's, in the order of their keys.
    List {
        /// Those of this core alone, as n1.c2.
        #[arg(long, value_name = "CORE")]
        on: Option<Said>,
        /// How many at most.
        #[arg(short, long, default_value_t = 100, value_parser = value_parser!(u32).range(1..))]
        number: u32,
        #[command(flatten)]
        query: Query,
    },
    /// Show how many records each core has.
    Show(Query),
}

#[derive(Args)]
pub struct Key {
    /// The key, of 1 to 256 bytes.
    pub key: String,
    /// The core that has it, as n1.c2; without it the one that the key belongs to.
    #[arg(long, value_name = "CORE")]
    pub on: Option<Said>,
}
