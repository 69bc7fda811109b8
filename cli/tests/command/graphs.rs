//! `nile graph`, on a cluster of hosted nodes that is up for other tests, too: what the guide in
//! docs/streaming.md does, and what is refused.

use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::time::Duration;
use std::{fs, thread};

use serde_json::{Value, json};

use crate::cluster::{Place, refused};
use crate::support::root;

pub fn check(place: &Place) {
    let guide = fs::read_to_string(root().join("docs/streaming.md")).unwrap();
    let mut blocks = guide.split("```").skip(1).step_by(2);
    let (commands, shown) = (blocks.next().unwrap(), blocks.next().unwrap());
    let file = place.folder().join("edges.txt");
    let line = commands.lines().find_map(|it| it.strip_prefix("printf '")).unwrap();
    let text = line.strip_suffix("' > edges.txt").unwrap().replace("\\n", "\n");
    fs::write(&file, &text).unwrap();
    let file = file.to_str().unwrap();
    assert!(commands.contains("./nile graph create web\n./nile graph feed web edges.txt\n"));

    let made = place.run(&["graph", "create", "web"]).expect(0).out;
    assert_eq!(made, "the graph is in memory only, on n1.c2\n", "the cluster has no disks");
    let feed = place.json(&["graph", "feed", "web", file, "--source", "5"]);
    assert_eq!(feed, json!({ "source": 5, "new": 4, "known": 0, "rejected": 0 }));
    let feed = place.json(&["graph", "feed", "web", file, "--source", "5"]);
    assert_eq!(
        feed,
        json!({ "source": 5, "new": 0, "known": 4, "rejected": 0 }),
        "nothing counts twice"
    );
    let top = place.run(&["graph", "top", "web", "--settled"]).expect(0).out;
    assert_eq!(top.trim(), shown.trim_start_matches("text\n").trim());
    let top = place.json(&["graph", "top", "web", "-n", "1"]);
    assert_eq!((&top["top"][0]["vertex"], &top["graph"]["edges"]), (&3.into(), &4.into()));
    assert!(top["graph"]["error"].as_f64().unwrap() <= 1e-3);
    let vertex = place.json(&["graph", "vertex", "web", "1"]);
    assert_eq!(vertex["component"], json!({ "lowest": 1, "vertices": 4 }));
    assert_eq!(place.run(&["graph", "distance", "web", "2", "1"]).expect(0).out, "2\n");
    let none = place.run(&["graph", "distance", "web", "1", "2"]).expect(0).out;
    assert_eq!(none, "no way leads from 1 to 2\n");

    let stands = place.run(&["graph", "show", "web"]).expect(0).out;
    assert!(stands.contains("publication") && stands.contains("n1.c2"), "{stands}");
    assert_eq!(place.json(&["graph", "show", "web"])["vertices"], 4);
    let fresh = place.json(&["graph", "freshness", "web", "--for", "1"]);
    assert_eq!((&fresh["events"], &fresh["staleness_us"]["max"]), (&0.into(), &0.into()));
    assert!(fresh["error"].as_f64().unwrap() <= 1e-3, "{fresh}");
    let each = place.run(&["graph", "freshness", "web", "--watch", "-n", "2", "--for", "1"]);
    let each = each.expect(0).out;
    assert!(each.starts_with("publication ") && each.contains(": 3 1\n"), "{each}");
    let page = place.folder().join("a page.html");
    let shown = page.to_str().unwrap();
    let said = place.run(&["graph", "show", "web", "--html", shown, "--for", "1"]).expect(0).out;
    assert!(said.starts_with(shown) && said.ends_with(" s of web\n"), "{said}");
    let html = fs::read_to_string(&page).unwrap();
    assert!(
        html.contains("<h1>The graph web on n1.c2</h1>") && html.contains(">0.479726<"),
        "{html}"
    );
    fs::remove_file(&page).unwrap();
    let nowhere = place.run(&["graph", "show", "web", "--html", "/nope/page.html"]);
    refused(nowhere, "there is no folder /nope");

    fs::write(file, "-3 1\n1 x\n").unwrap();
    let fed = place.json(&["graph", "feed", "web", file, "--source", "6"]);
    assert_eq!((&fed["new"], &fed["rejected"]), (&1.into(), &1.into()));
    let rejects = place.run(&["graph", "rejects", "web"]).expect(0).out;
    assert!(rejects.contains("\"x\" is no number from 0 to"), "{rejects}");
    let settled = place.json(&["graph", "top", "web", "--settled"]);
    assert_eq!(settled["graph"]["edges"], 3, "the line before is in");
    fs::write(file, "-3 1\n1 3\n").unwrap();
    let mended = place.json(&["graph", "feed", "web", file, "--source", "6"]);
    assert_eq!((&mended["new"], &mended["rejected"]), (&1.into(), &0.into()));
    assert_eq!(place.json(&["graph", "rejects", "web"]), json!({ "rejects": [] }));
    let sources = place.json(&["graph", "sources", "web"]);
    assert_eq!(
        (&sources["sources"][0]["next"], &sources["sources"][1]["next"]),
        (&4.into(), &2.into())
    );
    for (words, part) in [
        (&["create", "web"][..], "has a graph web already"),
        (&["create", "other", "--error", "0"], "no number above 0"),
        (&["create", "other", "--on", "n9.c9"], "no worker core"),
        (&["create", "other", "--copies", "1"], "the cluster has no disks"),
        (&["top", "nope"], "`nile graph list`"),
        (&["feed", "web", "/nope"], "cannot be read"),
        (&["vertex", "web", "77"], "the vertex 77 is in no edge"),
    ] {
        refused(place.run(&[&["graph"], words].concat()), part);
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    refused(place.run(&["door", "kafka", "--listen", &address]), "cannot be listened on");
    let list = place.json(&["graph", "list"]);
    assert_eq!(list["graphs"].as_array().unwrap().len(), 1);
    place.run(&["graph", "remove", "web"]).expect(0);
    check_parts(place, file, &text);
    fs::remove_file(file).unwrap();
    assert_eq!(place.json(&["graph", "list"]), json!({ "graphs": [] }));
}

/// A graph in parts is for all commands what it would be in one.
fn check_parts(place: &Place, file: &str, text: &str) {
    fs::write(file, text).unwrap();
    let made = place.json(&["graph", "create", "parts", "--parts", "2"]);
    assert_eq!(made["cores"].as_array().unwrap().len(), 2);
    let again = place.run(&["graph", "create", "parts"]);
    refused(again, "has a graph parts already");
    let feed = place.json(&["graph", "feed", "parts", file, "--source", "5"]);
    assert_eq!(feed["new"], 4);
    let top = place.json(&["graph", "top", "parts", "-n", "2", "--settled"]);
    let rank = top["top"][0]["rank"].as_f64().unwrap();
    assert_eq!((&top["top"][0]["vertex"], &top["top"][1]["vertex"]), (&3.into(), &1.into()));
    assert!((rank - 0.479726).abs() < 1e-3, "{rank}");
    let graph = &top["graph"];
    assert_eq!(
        (&graph["edges"], &graph["vertices"], &graph["parts"]),
        (&4.into(), &4.into(), &2.into())
    );
    let vertex = place.json(&["graph", "vertex", "parts", "3"]);
    let component = json!({ "lowest": 1, "vertices": 4 });
    assert_eq!((vertex["rank"].as_f64(), &vertex["component"]), (Some(rank), &component));
    assert_eq!(place.run(&["graph", "distance", "parts", "2", "1"]).expect(0).out, "2\n");
    let none = place.run(&["graph", "distance", "parts", "1", "2"]).expect(0).out;
    assert_eq!(none, "no way leads from 1 to 2\n");
    refused(place.run(&["graph", "vertex", "parts", "77"]), "the vertex 77 is in no edge");
    let sources = place.json(&["graph", "sources", "parts"]);
    assert_eq!(
        (&sources["sources"][0]["next"], sources["sources"].as_array().unwrap().len()),
        (&4.into(), 1)
    );
    fs::write(file, "1 x\n").unwrap();
    place.json(&["graph", "feed", "parts", file, "--source", "6"]);
    let rejects = place.json(&["graph", "rejects", "parts"]);
    assert_eq!(rejects["rejects"].as_array().unwrap().len(), 1, "though each part has it");
    let list = place.json(&["graph", "list"]);
    assert_eq!(
        (&list["graphs"][0]["name"], list["graphs"].as_array().unwrap().len()),
        (&"parts".into(), 1)
    );
    let stands = place.run(&["graph", "show", "parts"]).expect(0).out;
    assert!(stands.contains("one of 2 parts"), "{stands}");
    place.run(&["graph", "remove", "parts"]).expect(0);
}

/// Lines of the file that is fed while a node is started anew.
const LINES: u64 = 300_000;

/// On a cluster with disks: a node with a graph, or with any part of one, is started anew in the
/// midst of a feed, which goes on; nothing is lost, and nothing counts twice.
pub fn check_kept(place: &Place) {
    let file = place.folder().join("many edges.txt");
    let edges: Vec<(u64, u64)> = (0..LINES).map(|at| (at % 5003, at / 7)).collect();
    let lines: Vec<String> = edges.iter().map(|(from, to)| format!("{from} {to}\n")).collect();
    fs::write(&file, lines.concat()).unwrap();
    let file = file.to_str().unwrap();
    let exact = exact(&edges);
    // The first time it is the node with the first part, and with a graph that is not divided.
    for ended in 0..2 {
        let parts = ["graph", "create", "parts", "--copies", "2", "--parts", "2"];
        let cores = place.json(&parts)["cores"].clone();
        let core = cores[ended].as_str().unwrap();
        let mut graphs = vec!["parts"];
        if ended == 0 {
            place.json(&["graph", "create", "kept", "--copies", "2", "--on", core]);
            graphs.push("kept");
        }
        let feed = |name: &&str| {
            let mut feed = place.nile();
            feed.args(["graph", "feed", name, file, "--source", "5"]);
            feed.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut feeds: Vec<Child> = graphs.iter().map(feed).collect();
        thread::sleep(Duration::from_millis(400));
        assert!(feeds.iter_mut().all(|it| it.try_wait().unwrap().is_none()), "it is in the midst");
        place.run(&["fault", "restart", core.split('.').next().unwrap()]).expect(0);
        for (feed, name) in feeds.into_iter().zip(graphs) {
            let fed = feed.wait_with_output().unwrap();
            assert!(fed.status.success(), "{}", String::from_utf8_lossy(&fed.stderr));
            check_fed(place, name, file, &exact);
        }
    }
    fs::remove_file(file).unwrap();
}

/// All lines are in, once, and ranks are those of all; then the graph goes.
fn check_fed(place: &Place, name: &str, file: &str, exact: &[f64]) {
    let again = place.json(&["graph", "feed", name, file, "--source", "5"]);
    assert_eq!((&again["new"], &again["known"]), (&0.into(), &LINES.into()));
    let top = ["graph", "top", name, "-n", "500", "--settled", "--timeout", "60"];
    let settled = place.json(&top);
    let graph = &settled["graph"];
    assert_eq!((&graph["events"], &graph["edges"]), (&LINES.into(), &LINES.into()));
    let rank = |it: &Value| (it["vertex"].as_u64().unwrap(), it["rank"].as_f64().unwrap());
    let top: Vec<(u64, f64)> = settled["top"].as_array().unwrap().iter().map(rank).collect();
    let wrong: f64 = top.iter().map(|(vertex, rank)| (rank - exact[*vertex as usize]).abs()).sum();
    let bound = graph["error"].as_f64().unwrap();
    assert!(top.len() == 500 && wrong <= bound && bound <= 1e-3, "{wrong} {bound} {}", top.len());
    place.run(&["graph", "remove", name]).expect(0);
    refused(place.run(&["graph", "top", name]), "`nile graph list`");
}

/// Ranks of edges that are each there once, by the number of the vertex; those of vertices without
/// edges from them go everywhere.
fn exact(edges: &[(u64, u64)]) -> Vec<f64> {
    let count = 1 + edges.iter().map(|it| it.0.max(it.1)).max().unwrap() as usize;
    let mut degrees = vec![0.0; count];
    edges.iter().for_each(|it| degrees[it.0 as usize] += 1.0);
    let mut ranks = vec![1.0 / count as f64; count];
    for _ in 0..120 {
        let loose = ranks.iter().zip(&degrees).filter(|(_, degree)| **degree == 0.0);
        let loose: f64 = loose.map(|it| it.0).sum();
        let mut next = vec![(0.15 + 0.85 * loose) / count as f64; count];
        for (from, to) in edges {
            next[*to as usize] += 0.85 * ranks[*from as usize] / degrees[*from as usize];
        }
        ranks = next;
    }
    ranks
}
