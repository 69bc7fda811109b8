//! `nile core`, on a cluster of three hosted nodes with three cores each that is up for other
//! tests, too: the last one is the node's only worker.

use crate::cluster::{Place, refused};

pub fn check(place: &Place) {
    let core = |action, core| place.run(&["core", action, core]);
    let generation = || {
        let status = place.json(&["call", "core_manager.statistics", "core=2", "--core", "n1.c0"]);
        status["reply"]["statistics"]["entry"]["generation"].as_u64().unwrap()
    };
    let before = generation();
    assert_eq!(core("renew", "n1.c2").expect(0).out, "n1.c2 has begun anew\n");
    assert_eq!(generation(), before + 1);
    let said = place.json(&["core", "renew", "n1.c2", "--patience", "2"]);
    assert_eq!((&said["core"], &said["phase"]), (&"n1.c2".into(), &"running".into()));
    assert_eq!(core("back", "n1.c2").expect(0).out, "n1.c2 is there\n");
    for (action, name, part) in [
        ("away", "n1.c2", "the node's last worker"),
        ("away", "n1.c1", "not a worker alone"),
        ("renew", "n1.c1", "link to its cluster"),
        ("away", "n1.c0", "not a worker alone"),
        ("renew", "n1.c7", "no core 7"),
        ("back", "n1.c7", "no core 7"),
        ("renew", "n1", "name a core of it"),
        ("renew", "n9.c1", "n9 does not answer"),
    ] {
        refused(core(action, name), part);
    }
    for (core, role, part) in [
        ("n1.c0", "worker", "settled by its configuration"),
        ("n1.c1", "worker", "link to its cluster"),
        ("n1.c2", "disk", "the last that runs with the role worker"),
        ("n1.c2", "toaster", "no role; there are"),
        ("n1.c7", "disk", "no core 7"),
        ("n1", "disk", "name a core of it"),
    ] {
        refused(place.run(&["roles", "set", core, role]), part);
    }
    refused(place.run(&["roles", "n9"]), "n9 does not answer");
    assert_eq!(generation(), before + 2, "what is refused changes nothing");
    let shown = place.json(&["roles", "n1"]);
    let cores = shown["cores"].as_array().unwrap();
    let drives = |core: usize| cores[core]["drives"].clone();
    assert_eq!(cores.len(), 3);
    assert_eq!(drives(1), serde_json::json!(["interface0"]));
    assert_eq!((&cores[2]["roles"][0], &cores[2]["pinned"]), (&"worker".into(), &false.into()));
    let said = place.run(&["roles", "n1.c2"]).expect(0).out;
    assert!(said.lines().count() == 2 && said.contains("n1.c2  worker"), "{said}");
    let compute = ["call", "ackermann.compute", "m=2", "n=3", "--core", "n1.c2"];
    assert_eq!(place.run(&compute).expect(0).out, "<reply><value>9</value></reply>\n");
}
