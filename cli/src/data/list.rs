//! `nile ls`: the committed datasets of the cluster.

use serde_json::{Value, json};

use super::catalogue;
use super::stores::{Stores, nodes};
use crate::cluster::args::Query;
use crate::failure::Failure;
use crate::table;

/// Prints them in the order of their names.
pub fn run(options: &Query) -> Result<(), Failure> {
    let mut stores = Stores::open(options)?;
    let all = catalogue::everything(&mut stores)?;
    let mut rows = vec![["name", "bytes", "blocks", "copies", "nodes"].map(String::from).to_vec()];
    let mut documents: Vec<Value> = Vec::new();
    for (name, known) in catalogue::committed(&all) {
        let is_whole = known.is_whole(&mut stores)?;
        let on = nodes(known.stores.iter().map(|(target, _)| target.node));
        let listed = &known.listed;
        documents.push(json!({
            "name": name,
            "bytes": listed.bytes,
            "blocks": listed.blocks,
            "copies": listed.copies,
            "epoch": listed.epoch,
            "nodes": on,
            "whole": is_whole,
        }));
        let numbers = [listed.bytes, listed.blocks.into(), listed.copies.into()];
        let [bytes, blocks, copies] = numbers.map(|number| number.to_string());
        let note = if is_whole { "" } else { " (blocks are missing)" };
        rows.push(vec![name, bytes, blocks, copies, format!("{}{note}", on.join(" "))]);
    }
    match options.json {
        true => crate::print(&format!("{}\n", json!({ "datasets": documents }))),
        false if rows.len() == 1 => crate::print("there are no datasets\n"),
        false => crate::print(&table::columns("", &rows)),
    }
}
