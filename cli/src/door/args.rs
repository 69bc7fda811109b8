//! The words of `nile door`.

use std::net::SocketAddr;

use clap::{Args, Subcommand};

use crate::cluster::args::Query;

#[derive(Args)]
pub struct Door {
    #[command(subcommand)]
    pub protocol: Protocol,
}

#[derive(Subcommand)]
pub enum Protocol {
    /// Take edges from producers of Kafka, until Ctrl-C. A topic is a graph, and a message is a
    /// line as `graph feed` takes it; what is acknowledged to acks=all is kept.
    Kafka {
        /// Where producers come to. Whoever reaches it can change graphs.
        #[arg(long, default_value = "127.0.0.1:9092", value_name = "ADDRESS:PORT")]
        listen: SocketAddr,
        /// Where producers are told that it is, if that is another address, as behind a forwarded
        /// port. Without this it is the one that they have come to.
        #[arg(long, value_name = "ADDRESS:PORT")]
        advertise: Option<SocketAddr>,
        #[command(flatten)]
        query: Query,
    },
}
