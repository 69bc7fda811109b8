//! A sort on three hosted nodes whose worker core, node, or node of the master dies, in each of its
//! phases: by the step `jobs-long` of `./nile test --full`. What has to be there at that moment
//! holds its breath meanwhile, so that the phase is the one that is meant. And a sort on many
//! nodes, of which one dies.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{cluster, document, job, names, sorted};
use crate::cluster::{Place, until as until_it_is};

/// How often a sort is begun until it is met in a phase, which may be short.
const TRIES: u32 = 30;

/// What is done to the cluster when the sort comes to a phase, if it still is in that when it has
/// been brought to a standstill. That something was done is noted.
fn at(place: &Place, phase: &str, dies: &str, note: &Path) -> String {
    let nile = env!("CARGO_BIN_EXE_nile");
    // While the record cannot be kept the job cannot end; without workers nothing else goes on.
    let held: Vec<u32> = match phase {
        "ending" => ["n2", "n3"].iter().map(|node| place.leader(node)).collect(),
        _ => {
            let nodes = ["n1", "n2", "n3"].into_iter();
            nodes.flat_map(|node| place.workers(node)).map(|(_, pid)| pid).collect()
        }
    };
    let held: Vec<String> = held.iter().map(u32::to_string).collect();
    let held = held.join(" ");
    let is_in_it = match phase {
        // Those who keep the record do not answer now.
        "ending" => "true".into(),
        _ => format!("{nile} jobs --json | grep -q '\"phase\":\"{phase}\"'"),
    };
    // One of them may be no more by then.
    format!(
        "sort:{phase}=kill -STOP {held} && {is_in_it} && {nile} fault kill {dies} > {note}; \
         kill -CONT {held} 2>/dev/null || true",
        note = note.display()
    )
}

/// Whether something was killed, since the last call.
fn was_killed(note: &Path) -> bool {
    let was_killed = !fs::read_to_string(note).unwrap_or_default().is_empty();
    fs::write(note, "").unwrap();
    was_killed
}

/// Has a node that was killed come back, and removes what it has that was removed meanwhile.
fn mend(place: &Place, dies: &str) {
    if !dies.contains('.') {
        place.run(&["fault", "restart", dies]).expect(0);
        for name in names(place) {
            place.run(&["rm", &name]).expect(0);
        }
    }
}

#[test]
fn a_sort_survives_whatever_dies_if_there_is_another_copy() {
    let place = cluster();
    let note = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let expected = sorted(&place, &["--copies", "2"])["checksum"].clone();
    for phase in ["sampling", "mapping", "reducing", "ending"] {
        // The master is on the first node that was asked.
        for dies in ["n2.c2", "n3", "n1"] {
            let meets = || {
                eprintln!("{dies} dies while {phase}");
                let hook = at(&place, phase, dies, &note);
                let survived = sorted(&place, &["--copies", "2", "--at", &hook]);
                assert_eq!(survived["checksum"], expected, "{dies} died while {phase}");
                was_killed(&note)
            };
            assert!((0..TRIES).any(|_| meets()), "no sort was met while {phase}");
            mend(&place, dies);
        }
    }
    assert_eq!(names(&place), Vec::<String>::new(), "nothing is left");
}

#[test]
fn a_sort_without_another_copy_ends_with_the_names_of_what_is_lost() {
    let place = cluster();
    let note = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    for phase in ["sampling", "mapping", "reducing"] {
        let mut sorts = (0..TRIES).map(|_| {
            let hook = at(&place, phase, "n2", &note);
            let said = job(&place, &["terasort", "--size", "20M", "--at", &hook]);
            (was_killed(&note), said)
        });
        let (_, lost) = sorts.find(|it| it.0).expect("a sort is met in this phase");
        let lost = lost.expect(1);
        assert!(lost.err.contains("terasort.input"), "it names what was lost: {}", lost.err);
        assert!(lost.err.contains("block"), "{}", lost.err);
        place.run(&["fault", "restart", "n2"]).expect(0);
        // Its share of the input was removed while it was away, and goes now.
        until_it_is("nothing is left", || names(&place).is_empty());
    }
}

/// Nearly a hundred cores on one machine: at any time most of them wait for a processor.
#[test]
fn a_sort_on_24_nodes_survives_the_death_of_one() {
    let place = Place::new();
    let nodes = ["up", "--machine", "hosted", "--nodes", "24", "--cores", "4", "--memory", "192M"];
    place.run(&[&nodes[..], &["--disk", "128M", "--direct"]].concat()).expect(0);
    let generations = || -> Vec<Value> {
        let shown = place.json(&["status"]);
        let nodes = shown["nodes"].as_array().unwrap().iter();
        nodes.map(|it| it["generation"].clone()).collect()
    };
    let before = generations();
    assert_eq!(before.len(), 24);
    let sort = |at: &str| {
        let words = ["terasort", "--size", "10M", "--copies", "2", "--json", "--at", at];
        let sorted = document(&job(&place, &words).expect(0));
        assert_eq!((&sorted["valid"], &sorted["records"]), (&true.into(), &104_857.into()));
        sorted["checksum"].clone()
    };
    let expected = sort("sort:mapping=true");
    assert_eq!(generations(), before, "no node seemed to be another one");
    let dies = format!("sort:mapping=kill -KILL {}", place.leader("n7"));
    assert_eq!(sort(&dies), expected);
    place.run(&["fault", "restart", "n7"]).expect(0);
}

/// As if a package had its process deaf to signals: that is ended by force, and a new one begins.
#[test]
fn a_turn_that_no_signal_ends_ends_with_its_process() {
    let place = Place::new();
    let node = ["up", "--machine", "hosted", "--cores", "3", "--memory", "256M"];
    place.run(&[&node[..], &["--disk", "64M"]].concat()).expect(0);
    let worker = || place.workers("n1")[0].1;
    let deaf = worker();
    let is_there = format!("test -e /proc/{deaf}");
    let hook = format!(
        "unsteady:mapping=sleep 1; kill -STOP {deaf}; while {is_there}; do sleep 0.2; done; \
         kill -INT $PPID"
    );
    super::code::unsteady(&place, "loop\n", &["--at", &hook]).expect(130);
    assert_ne!(worker(), deaf);
    let said = super::code::unsteady(&place, "fine\nfine\n", &[]).expect(0);
    assert_eq!(said.out, "fine\t2\n");
}
