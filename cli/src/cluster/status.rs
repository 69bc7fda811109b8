//! `nile status`: the nodes, their cores, and what those have done.

mod gather;
mod show;

use std::time::Duration;

use super::args::Query;
use super::session::Session;
use crate::failure::Failure;
use crate::switch::control::Client;

pub use gather::{CoreStatus, Gatherer, NodeStatus, PackageStatus};
pub use show::memory;

/// Prints the state of every node.
pub fn run(options: &Query) -> Result<(), Failure> {
    let session = Session::open(&options.which, options.timeout)?;
    let capture = Client::connect(session.folder.path(), Duration::ZERO)
        .and_then(|mut switch| switch.links())
        .map_err(|error| Failure::failed(error.to_string()))?
        .1;
    let mut gatherer = Gatherer::new(session);
    let mut nodes = gatherer.gather()?;
    gatherer.find_namesakes(&mut nodes)?;
    match options.json {
        true => {
            let document = serde_json::json!({ "nodes": nodes, "capture": capture });
            crate::print(&format!("{document}\n"))?;
        }
        false => {
            let capture = capture.map(|capture| format!("\n{capture}\n")).unwrap_or_default();
            crate::print(&(show::describe(&nodes) + &capture))?;
        }
    }
    let silent = nodes.iter().filter(|node| node.cores.is_empty() || node.error.is_some());
    Failure::unless_all_asked(&silent.map(|node| node.node).collect())
}
