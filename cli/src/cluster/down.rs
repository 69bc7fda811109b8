//! `nile down`: ends a cluster, whatever state it is in, and leaves nothing behind.

use std::time::Duration;

use serde_json::json;

use super::args::Down;
use super::folder::Folder;
use super::process;
use crate::failure::Failure;
use crate::switch::control::{Client, Request};

/// How long nodes may take to end when they are asked to. A hosted node gives its workers two
/// seconds of it.
const GRACE: Duration = Duration::from_secs(5);

/// How long the switch may take.
const SWITCH_GRACE: Duration = Duration::from_secs(2);

/// Ends the cluster that is meant, if there is one.
pub fn run(options: &Down) -> Result<(), Failure> {
    let folder = Folder::of(&options.which)?;
    let mut parts = Vec::new();
    let claim = folder.claim()?;
    let was_there = claim.is_some() || !process::all(folder.path()).is_empty();
    if was_there {
        parts = end_all(&folder);
    }
    if let Some(claim) = claim {
        folder.remove(claim)?;
    }
    if options.json {
        return crate::print(&format!("{}\n", json!({ "ended": parts })));
    }
    match was_there {
        true => crate::print(&format!("ended: {}\n", list(&parts))),
        false => crate::print("nothing is up\n"),
    }
}

fn list(parts: &[String]) -> String {
    match parts.is_empty() {
        true => "a cluster none of which ran any more".into(),
        false => parts.join(", "),
    }
}

/// Ends all processes of a cluster, the nodes before their network; gives the parts that ran.
pub fn end_all(folder: &Folder) -> Vec<String> {
    let mut parts: Vec<String> =
        process::all(folder.path()).into_iter().map(|process| process.part).collect();
    parts.sort_by_key(|part| (part == process::SWITCH, part.len(), part.clone()));
    parts.dedup();
    process::end(folder.path(), |part| part != process::SWITCH, GRACE);
    end_capture(folder);
    process::end(folder.path(), |_| true, SWITCH_GRACE);
    parts
}

/// Ends the capture of the cluster's network, if there is one, and says so if it lacks anything.
fn end_capture(folder: &Folder) {
    let Ok(mut switch) = Client::connect(folder.path(), Duration::ZERO) else { return };
    let Ok((_, Some(_))) = switch.links() else { return };
    let ended = switch.ask(&Request::EndCapture).and_then(|()| switch.links());
    if let Ok((_, Some(capture))) = ended
        && (capture.left_out > 0 || capture.error.is_some())
    {
        crate::say(format_args!("nile: {capture}"));
    }
}
