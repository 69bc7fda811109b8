//! Nodes of other machines in a cluster. Here they are of this one, and plug in to its switch by
//! themselves.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::cluster::{Place, document, hosted, until};

/// A node that no command of the cluster has started. It ends with the value.
struct Stranger(Child);

impl Stranger {
    /// Starts `node` in the cluster whose folder is `folder`, with `lines` in its `[node]`.
    fn start(place: &Place, folder: &str, node: &str, lines: &str) -> Stranger {
        let folder = PathBuf::from(folder);
        let config = fs::read_to_string(folder.join("n1.toml")).unwrap();
        let (_, network) = config.split_once("[network]").unwrap();
        let path = place.folder().join(format!("{node}.toml"));
        fs::write(&path, format!("[node]\n{lines}\n[network]{network}")).unwrap();
        let mut command = Command::new(hosted());
        command.args(["--cores", "3", "--memory", "67108864", "--program", "serve", "--config"]);
        command.arg(path).arg("--switch").arg(folder.join("switch"));
        let log = fs::File::create(place.folder().join(format!("{node}.log"))).unwrap();
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        Stranger(child)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn nodes_of_other_machines_are_shown() {
    let place = Place::new();
    let up = document(&place.up(&["--nodes", "1", "--json"]).expect(0));
    let status = place.json(&["status"]);
    assert_eq!(status["nodes"].as_array().unwrap().len(), 1);
    let folder = up["folder"].as_str().unwrap();
    let stranger = Stranger::start(&place, folder, "n7", "id = 7");
    let mut status = place.json(&["status"]);
    until("n7 is shown with its cores", || {
        let said = place.run(&["status", "--json"]);
        status = serde_json::from_str(&said.out).unwrap();
        said.status == Some(0)
            && status["nodes"][1]["cores"].as_array().is_some_and(|it| it.len() == 3)
    });
    let node = &status["nodes"][1];
    assert_eq!((&node["name"], &node["state"]), (&"n7".into(), &"alive".into()));
    assert_eq!(node["machine"], "elsewhere");
    drop(stranger);
    until("n7 is held for dead, and said to be away", || {
        let said = place.run(&["status"]);
        said.status == Some(3) && said.err.contains("left out: n7") && said.out.contains("n7")
    });
    place.run(&["down"]).expect(0);
}
