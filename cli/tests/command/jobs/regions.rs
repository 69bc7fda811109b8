//! `nile region`: memory that packages of several cores share, on a cluster of three hosted nodes
//! that is up for other tests, too.

use serde_json::{Value, json};

use super::packages;
use crate::cluster::{Place, refused};

/// On a cluster that is up; nothing of it is left.
pub fn check(place: &Place) {
    let make = |more: &[&str]| place.run(&[&["region", "make"], more].concat());
    let drop = |more: &[&str]| place.run(&[&["region", "drop", "primes"], more].concat());
    let listed = || place.json(&["region", "list"])["regions"].as_array().unwrap().clone();
    assert_eq!(make(&["primes", "64K"]).expect(0).out, "primes is there on n1, n2, n3\n");
    assert_eq!(make(&["primes", "64K", "--on", "n2"]).expect(0).out, "primes is there on n2\n");
    refused(make(&["primes", "1M"]), "n1: primes: there is one of 65536 bytes: drop that first");
    refused(make(&["a/b", "1M"]), "a name is 1 to 30 letters");
    refused(make(&["other", "257M"]), "268435456 at most");
    refused(make(&["other", "1M", "--on", "n2.c1"]), "n2.c1 is a core; name its node, as n2");
    refused(make(&["other", "1M", "--on", "n9"]), "n9");
    refused(place.run(&["region", "drop", "other"]), "there is none");
    let region = |node: &str, packages: &[&str]| -> Value {
        json!({ "region": "primes", "node": node, "bytes": 65536, "shared": false,
            "packages": packages })
    };
    assert_eq!(listed(), [region("n1", &[]), region("n2", &[]), region("n3", &[])]);
    let primes = packages().join("primes.elf");
    let start = |argument: &str| {
        let file = primes.to_str().unwrap();
        place.run(&["package", "start", file, "--on", "n2.c2", "--argument", argument])
    };
    start("hold 1000").expect(0);
    assert_eq!(listed()[1], region("n2", &["n2.c2"]));
    let text = place.run(&["region", "list", "--on", "n2"]).expect(0).out;
    let rows: Vec<Vec<&str>> = text.lines().map(|it| it.split_whitespace().collect()).collect();
    assert_eq!(rows[1..], [["primes", "n2", "65536", "n2.c2"]], "{text}");
    refused(drop(&["--on", "n2"]), "packages have it: end those first");
    place.run(&["package", "stop", "n2.c2"]).expect(0);
    drop(&["--on", "n2"]).expect(0);
    let said = start("count 1000").expect(1).err;
    assert!(said.contains("exited with 1"), "it has no region: {said}");
    make(&["primes", "64K"]).expect(0);
    start("count 1000").expect(0);
    let log = place.run(&["logs", "n2"]).expect(0).out;
    assert!(log.contains("168 primes below 1000; 2400 of 2400 pieces here"), "{log}");
    drop(&[]).expect(0);
    assert!(listed().is_empty());
}
