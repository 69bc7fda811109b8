//! `nile ls`: the committed datasets of the cluster.

use serde_json::{Value, json};

use super::args::List as Options;
use super::catalogue::{Catalogue, is_hidden};
use super::stores::{Stores, nodes};
use crate::failure::Failure;
use crate::table;

/// Prints them in the order of their names.
pub fn run(options: &Options) -> Result<(), Failure> {
    let mut stores = Stores::open(&options.query)?;
    let all = Catalogue::survey(&mut stores)?;
    let mut rows = vec![["name", "bytes", "blocks", "copies", "nodes"].map(String::from).to_vec()];
    let mut documents: Vec<Value> = Vec::new();
    for (name, known) in all.all() {
        if is_hidden(name) && !options.all {
            continue;
        }
        let is_whole = known.is_whole(&mut stores)?;
        let on = nodes(known.nodes());
        documents.push(json!({
            "name": name,
            "bytes": known.facts.bytes,
            "blocks": known.facts.blocks,
            "copies": known.facts.copies,
            "epoch": known.epoch,
            "parts": known.of,
            "nodes": on,
            "whole": is_whole,
        }));
        let note = match (is_whole, known.lacks()) {
            (true, _) => String::new(),
            (false, Some(lacks)) => format!(" ({lacks})"),
            (false, None) => " (blocks are missing)".into(),
        };
        let numbers = [known.facts.bytes, known.facts.blocks.into(), known.facts.copies.into()];
        let [bytes, blocks, copies] = numbers.map(|number| number.to_string());
        rows.push(vec![name.into(), bytes, blocks, copies, format!("{}{note}", on.join(" "))]);
    }
    match options.query.json {
        true => crate::print(&format!("{}\n", json!({ "datasets": documents })))?,
        false if rows.len() == 1 => crate::print("there are no datasets\n")?,
        false => crate::print(&table::columns("", &rows))?,
    }
    stores.unless_all_asked()
}
