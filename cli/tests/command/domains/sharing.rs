//! Memory that domains share, hosted and on a PC: packages of two domains count primes over it.

use std::fs;

use serde_json::{Value, json};

use super::free;
use crate::cluster::{Place, refused, until};
use crate::jobs::packages;
use crate::network::{commands, step};
use crate::support::{launcher, root, run};

/// What two packages find that count below the guide's number, and what they print.
const FOUND: &str = "664579 primes below 10000000";

fn shared(place: &Place) -> Value {
    place.json(&["domain", "list"])["shared"].clone()
}

fn start(place: &Place, on: &str, argument: &str) {
    let file = packages().join("primes.elf");
    let file = file.to_str().unwrap();
    place.run(&["package", "start", file, "--on", on, "--argument", argument]).expect(0);
}

fn has_counted(place: &Place, domain: &str) -> bool {
    place.run(&["domain", "logs", domain]).expect(0).out.contains(FOUND)
}

#[test]
fn the_guide_has_two_domains_count_together_and_send_packets() {
    let place = Place::new();
    let text = fs::read_to_string(root().join("docs/domains.md")).unwrap();
    let lines = commands(&text, "Memory that domains share");
    for line in &lines {
        if line.contains("unshare") {
            for domain in ["web", "batch"] {
                until("both have counted", || has_counted(&place, domain));
            }
        }
        if line.ends_with("logs batch") {
            until("batch has counted", || has_counted(&place, "batch"));
        }
        if line.ends_with("logs web") {
            let is_told = |it: &str| it.contains("1000 packets of 64 bytes there and back: ");
            let log = || place.run(&["domain", "logs", "web"]).expect(0).out;
            until("packets have come back", || is_told(&log()));
        }
        if line.contains("hear 1") {
            let list = || place.run(&["package", "list"]).expect(0).out;
            until("the echo has ended, too", || !list().contains("rf"));
        }
        let said = step(&place, line, 0);
        if line.contains("say hello") {
            let log = || place.run(&["domain", "logs", "batch"]).expect(0).out;
            until("batch has heard it", || log().contains("member 1 says: hello"));
        }
        match line.as_str() {
            "./nile domain list" => assert!(said.contains("primes  web,batch  shared"), "{said}"),
            "./nile region list" => {
                assert!(said.contains("n2") && said.contains("n3"), "{said}");
            }
            _ => {}
        }
    }
    assert_eq!(place.left(), [""; 0], "nothing is left");
}

/// What cannot be is refused, and what is shared goes when nobody has it any more.
fn who_shares_what(place: &Place, is_hosted: bool) {
    let domain = |words: &[&str]| place.run(&[&["domain"], words].concat());
    let share = |name: &str, memory: &str, with: &str| {
        domain(&["share", name, "--memory", memory, "--with", with])
    };
    let before = free(place)["memory"].as_u64().unwrap();
    refused(share("primes", "2M", "web,none"), "no domain `none`");
    refused(share("primes", "3M", "web"), "whole 2M");
    refused(share("primes", "258M", "web"), "it has 2 to 256 MiB");
    refused(share("free", "2M", "web"), "name");
    assert_eq!((shared(place), free(place)["memory"].as_u64()), (json!([]), Some(before)));
    share("primes", "4M", "web").expect(0);
    refused(share("primes", "2M", "batch"), "primes is there already and has 4 MiB");
    share("primes", "4M", "batch").expect(0);
    share("primes", "4M", "batch,web").expect(0);
    let had =
        |domains: &[&str]| json!([{ "name": "primes", "memory": 4 << 20, "domains": domains }]);
    assert_eq!(shared(place), had(&["web", "batch"]));
    assert_eq!(free(place)["memory"].as_u64(), Some(before - (4 << 20)));
    refused(domain(&["unshare", "other"]), "nothing is shared as other");
    // Who has a region of that name refuses, and has no part in what is shared.
    place.run(&["region", "make", "table", "64K", "--on", "n3"]).expect(0);
    refused(share("table", "2M", "web,batch"), "batch: table: there is one of 65536 bytes");
    assert_eq!(shared(place)[1]["domains"], json!(["web"]));
    domain(&["unshare", "table"]).expect(0);
    place.run(&["region", "drop", "table", "--on", "n3"]).expect(0);

    start(place, "batch.c1", "hold 10000000");
    refused(domain(&["unshare", "primes", "--from", "batch"]), "packages have it: end those");
    // A managing core that begins anew knows who has it.
    if is_hosted {
        place.run(&["fault", "kill", "batch.c0"]).expect(0);
    }
    until("batch is back", || {
        place.json(&["region", "list"])["regions"][1]["packages"] == json!(["n3.c1"])
    });
    refused(domain(&["unshare", "primes", "--from", "batch"]), "packages have it: end those");
    // If it had a piece, that is done by the next package there, and the others are by both.
    place.run(&["package", "stop", "batch.c1"]).expect(0);
    start(place, "web.c1", "count 10000000");
    start(place, "batch.c1", "join 664579");
    for domain in ["web", "batch"] {
        until("both have counted", || has_counted(place, domain));
    }
    domain(&["unshare", "primes", "--from", "web"]).expect(0);
    assert_eq!(shared(place), had(&["batch"]));
    refused(domain(&["unshare", "primes", "--from", "web"]), "web does not share primes");
    domain(&["destroy", "batch", "--force"]).expect(0);
    assert_eq!(shared(place), json!([]));
}

#[test]
fn hosted_domains_share_what_they_are_told_to() {
    let place = Place::new();
    let up = ["up", "--machine", "hosted", "--supervisor", "--cores", "5", "--memory", "320M"];
    place.run(&up).expect(0);
    for name in ["web", "batch"] {
        let create = ["domain", "create", name, "--cores", "2", "--memory", "64M", "--disk"];
        place.run(&[&create[..], &["64M"]].concat()).expect(0);
    }
    who_shares_what(&place, true);
    // What others left there is zero when it is shared anew, or there would be as many primes as
    // there were: nobody counts.
    let again = ["domain", "share", "primes", "--memory", "4M", "--with", "web"];
    place.run(&again).expect(0);
    let file = packages().join("primes.elf");
    let join = ["package", "start", file.to_str().unwrap(), "--on", "web.c1", "--argument", "join"];
    assert!(place.run(&join).expect(1).err.contains("exited with 3"), "there is something");
}

/// A package's file is on three nodes, of which one is the supervisor's. The worker core of the
/// next domain has had no job, for which it would listen to other nodes.
#[test]
fn a_package_starts_in_a_domain_that_has_no_copy_of_its_file() {
    let place = Place::new();
    let up = ["up", "--machine", "hosted", "--supervisor", "--cores", "7", "--memory", "256M"];
    place.run(&up).expect(0);
    for name in ["one", "two", "three"] {
        let create = ["domain", "create", name, "--cores", "2", "--memory", "64M", "--disk"];
        place.run(&[&create[..], &["64M"]].concat()).expect(0);
    }
    let file = packages().join("hello.elf");
    let start = ["package", "start", file.to_str().unwrap(), "--on"];
    let started = place.run(&[&start[..], &["three.c1"]].concat()).expect(0);
    assert_eq!(started.out, "the package is started on n4.c1\n");
}

#[test]
fn domains_of_a_pc_share_what_they_are_told_to_and_nothing_else() {
    let place = Place::new();
    // The launcher provides QEMU and the kernel.
    let mut up = launcher();
    place.in_here(&mut up);
    up.args(["up", "--machine", "qemu", "--supervisor", "--disk", "64M", "--disks", "2"]);
    run(&mut up, &["--cores", "5", "--memory", "320M"]).expect(0);
    for name in ["web", "batch"] {
        let create = ["domain", "create", name, "--cores", "2", "--memory", "64M", "--disk"];
        place.run(&[&create[..], &["64M"]].concat()).expect(0);
    }
    // A domain that says itself what it shares is not believed.
    let web = ["domain", "share", "table", "--memory", "2M", "--with", "web"];
    place.run(&web).expect(0);
    let machine = place.json(&["call", "domains.list", "--core", "n1.c0"]);
    let first = machine["reply"]["machine"]["shared"][0]["first"].as_u64().unwrap();
    let own = format!("shared=<some><first>{first}</first><place>2</place></some>");
    let make = ["call", "core_manager.make_region", "name=table", "bytes=2097152", &own];
    let said = place.run(&[&make[..], &["--core", "batch.c0"]].concat()).expect(1);
    assert!(said.err.contains("no supervisor has this node share that memory"), "{}", said.err);
    place.run(&["domain", "unshare", "table"]).expect(0);
    who_shares_what(&place, false);
}
