//! `nile status`: the nodes, their cores, and what those have done.

mod gather;
mod show;

use super::args::Query;
use super::session::Session;
use crate::failure::Failure;

pub use gather::{CoreStatus, Gatherer, NodeStatus};

/// Prints the state of every node.
pub fn run(options: &Query) -> Result<(), Failure> {
    let session = Session::open(&options.which, options.timeout)?;
    let nodes = Gatherer::new(session).gather()?;
    match options.json {
        true => {
            let document = serde_json::json!({ "nodes": nodes });
            crate::print(&format!("{document}\n"))?;
        }
        false => crate::print(&show::describe(&nodes))?,
    }
    let silent = nodes.iter().filter(|node| node.cores.is_empty() || node.error.is_some());
    Failure::unless_all_asked(&silent.map(|node| node.node).collect())
}
