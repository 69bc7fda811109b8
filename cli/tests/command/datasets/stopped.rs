//! A node stops in the midst of commands, and before they begin, or is cut off from the others:
//! they use the copy that lives, and the nodes that most others hear.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::{Place, document, send, until};
use crate::support::Said;

/// More than a command has a node read or write at once, twice.
const BYTES: usize = 18 << 20;

/// Longer than a test may take: a command that waits for the node comes to no end.
const LONG: &str = "1000";

pub fn a_node_stops(place: &Place, folder: &Path) {
    let [file, out] = ["long file", "long out"].map(|it| folder.join(it));
    let content = super::write(&file, BYTES);
    let [file_name, out_name] = [&file, &out].map(|it| it.to_str().unwrap());
    let put = place.json(&["put", file_name, "stopped", "--copies", "2"]);
    // The one that is asked first.
    let on = nodes(&put["nodes"]);
    let stopped = on.iter().min().unwrap().clone();

    // In the midst of a get: a pipe holds far less than is asked for at once.
    let mut get = begin(place, &["get", "stopped", "/dev/stdout", "--timeout", LONG]);
    let mut got = vec![0];
    get.stdout.as_mut().unwrap().read_exact(&mut got).unwrap();
    send("-STOP", place.leader(&stopped));
    get.stdout.as_mut().unwrap().read_to_end(&mut got).unwrap();
    ended(get).expect(0);
    assert!(got == content, "the other copy is not what was put");

    // Before it begins.
    place.run(&["get", "stopped", out_name, "--timeout", LONG]).expect(0);
    assert!(fs::read(&out).unwrap() == content, "the other copy is not what was put");
    let late = place.json(&["put", file_name, "late", "--copies", "2", "--timeout", LONG]);
    assert!(!nodes(&late["nodes"]).contains(&stopped), "{late}");
    goes_on(place, &stopped);
    others_answer(place, &stopped);
    one_is_cut_off(place);
    one_comes_back(place);

    // In the midst of a put: as one of the two nodes that have the most space.
    let probe = place.json(&["put", "Cargo.toml", "probe", "--copies", "2"]);
    place.run(&["rm", "probe"]).expect(0);
    let stopped = &nodes(&probe["nodes"])[1];
    let mut put = begin(place, &["put", "/dev/stdin", "moved", "--copies", "2", "--json"]);
    let mut input = put.stdin.take().unwrap();
    let (first, rest) = content.split_at(BYTES / 2);
    input.write_all(first).unwrap();
    send("-STOP", place.leader(stopped));
    let rest = rest.to_vec();
    let writing = thread::spawn(move || input.write_all(&rest));
    let said = ended(put).expect(0);
    writing.join().unwrap().unwrap();
    assert!(said.err.contains(&format!("has the copy in place of {stopped}")), "{}", said.err);
    let moved = document(&said);
    let on = nodes(&moved["nodes"]);
    assert!(on.len() == 2 && !on.contains(stopped), "{moved}");
    place.run(&["get", "moved", out_name]).expect(0);
    assert!(fs::read(&out).unwrap() == content, "it is not what was put");
    goes_on(place, stopped);
    ["late", "moved"].iter().for_each(|name| drop(place.run(&["rm", name]).expect(0)));
}

/// `ls` and `rm` say which node they could not ask, within their patience, and what it has goes
/// when it is back.
fn others_answer(place: &Place, stopped: &str) {
    send("-STOP", place.leader(stopped));
    for command in [&["ls"][..], &["rm", "stopped"]] {
        let begun = Instant::now();
        let said = place.run(command).expect(3);
        // Five seconds, and what a machine takes that is busy.
        assert!(begun.elapsed() < Duration::from_secs(8), "{command:?}: {:?}", begun.elapsed());
        assert!(said.err.contains(stopped), "{command:?}: {}", said.err);
    }
    goes_on(place, stopped);
    let core = format!("{stopped}.c1");
    until("what was removed is gone", || {
        let said = place.run(&["call", "dataset.list", "skip=0", "--core", &core]);
        said.status == Some(0) && !said.out.contains("stopped")
    });
}

/// The node that is asked first hears no other, but commands do.
fn one_is_cut_off(place: &Place) {
    place.run(&["fault", "partition", "n1|n2,n3"]).expect(0);
    place.run(&["put", "Cargo.toml", "cut off", "--copies", "2"]).expect(0);
    place.run(&["get", "cut off", "/dev/null"]).expect(0);
    let removed = place.run(&["rm", "cut off"]);
    // What n1 has goes when it is back, if others say of it that it is dead.
    assert!(matches!(removed.status, Some(0 | 3)), "{}", removed.err);
    let alive = || {
        let members = place.json(&["call", "gossip.members", "after=0", "--core", "n1"]);
        let members = members["reply"]["members"].as_array().unwrap().clone();
        members.iter().filter(|it| it["state"] == "alive").count()
    };
    until("n1 holds the others for dead, and they it", || alive() == 1);
    place.run(&["fault", "heal"]).expect(0);
    // While the nodes still say so of each other, commands use those that answer.
    let healed = Instant::now();
    while healed.elapsed() < Duration::from_secs(3) {
        place.run(&["put", "Cargo.toml", "healed", "--copies", "2"]).expect(0);
        assert!(matches!(place.run(&["rm", "healed"]).status, Some(0 | 3)));
    }
    until("all are back", || place.run(&["ls"]).status == Some(0));
}

/// A node that was away when a command began, and came back in its midst, frees what the command
/// replaces.
fn one_comes_back(place: &Place) {
    let put = place.json(&["put", "Cargo.toml", "back", "--copies", "2"]);
    let on = nodes(&put["nodes"]);
    let away = on.iter().max().unwrap();
    place.run(&["fault", "kill", away]).expect(0);
    until("it is away", || place.run(&["ls"]).status == Some(3));
    let mut put = begin(place, &["put", "/dev/stdin", "back", "--replace", "--timeout", LONG]);
    let mut input = put.stdin.take().unwrap();
    // More than it reads before it has found its stores.
    input.write_all(&vec![7; 1 << 20]).unwrap();
    place.run(&["fault", "restart", away]).expect(0);
    until("the node is back", || place.run(&["ls"]).status == Some(0));
    drop(input);
    ended(put).expect(0);
    let core = format!("{away}.c1");
    let said = place.run(&["call", "dataset.list", "skip=0", "--core", &core]).expect(0);
    assert!(!said.out.contains("\"back\""), "{}", said.out);
    place.run(&["rm", "back"]).expect(0);
}

/// The node goes on, and is of the cluster again.
fn goes_on(place: &Place, node: &str) {
    send("-CONT", place.leader(node));
    until("the node is back", || place.run(&["ls"]).status == Some(0));
}

fn nodes(all: &serde_json::Value) -> Vec<String> {
    all.as_array().unwrap().iter().map(|node| node.as_str().unwrap().to_string()).collect()
}

fn begin(place: &Place, arguments: &[&str]) -> Child {
    let mut command = place.nile();
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn ended(child: Child) -> Said {
    child.wait_with_output().unwrap().into()
}
