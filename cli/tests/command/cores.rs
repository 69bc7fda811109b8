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
        ("renew", "n1.c0", "manages the node"),
        ("renew", "n1.c7", "no core 7"),
        ("back", "n1.c7", "no core 7"),
        ("renew", "n1", "name a core of it"),
        ("renew", "n9.c1", "n9 does not answer"),
    ] {
        refused(core(action, name), part);
    }
    assert_eq!(generation(), before + 2, "what is refused changes nothing");
    let compute = ["call", "ackermann.compute", "m=2", "n=3", "--core", "n1.c2"];
    assert_eq!(place.run(&compute).expect(0).out, "<reply><value>9</value></reply>\n");
}
