//! `nile graph`, on a cluster of hosted nodes that is up for other tests, too: what the guide in
//! docs/streaming.md does, and what is refused.

use std::fs;

use serde_json::json;

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

    assert_eq!(place.run(&["graph", "create", "web"]).expect(0).out, "the graph is on n1.c2\n");
    let feed = place.json(&["graph", "feed", "web", file, "--source", "5"]);
    assert_eq!(feed, json!({ "source": 5, "new": 4, "known": 0 }));
    let feed = place.json(&["graph", "feed", "web", file, "--source", "5"]);
    assert_eq!(feed, json!({ "source": 5, "new": 0, "known": 4 }), "nothing counts twice");
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
    let half = place.run(&["graph", "feed", "web", file, "--source", "6"]);
    refused(half, "line 2: \"x\" is no number from 0 to");
    let settled = place.json(&["graph", "top", "web", "--settled"]);
    assert_eq!(settled["graph"]["edges"], 3, "the line before is in");
    let sources = place.json(&["graph", "sources", "web"]);
    assert_eq!(
        (&sources["sources"][0]["next"], &sources["sources"][1]["next"]),
        (&4.into(), &1.into())
    );
    for (words, part) in [
        (&["create", "web"][..], "has a graph web already"),
        (&["create", "other", "--error", "0"], "no number above 0"),
        (&["create", "other", "--on", "n9.c9"], "no worker core"),
        (&["top", "nope"], "`nile graph list`"),
        (&["feed", "web", "/nope"], "cannot be read"),
        (&["vertex", "web", "77"], "the vertex 77 is in no edge"),
    ] {
        refused(place.run(&[&["graph"], words].concat()), part);
    }
    let list = place.json(&["graph", "list"]);
    assert_eq!(list["graphs"].as_array().unwrap().len(), 1);
    place.run(&["graph", "remove", "web"]).expect(0);
    fs::remove_file(file).unwrap();
    assert_eq!(place.json(&["graph", "list"]), json!({ "graphs": [] }));
}
