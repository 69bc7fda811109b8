//! Hosted domains with disks: the guide's sort beside a service, and what becomes of what is on the
//! disks.

use std::fs;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use super::{all, free, supervised};
use crate::cluster::{Place, refused};
use crate::jobs::packages;
use crate::network::commands;
use crate::support::{launcher, root, run};

#[test]
fn the_guide_puts_a_service_beside_a_sort() {
    let place = Place::new();
    let text = fs::read_to_string(root().join("docs/domains.md")).unwrap();
    let lines = commands(&text, "A service beside a sort");
    let (mut beside, mut took): (Vec<Child>, Vec<String>) = Default::default();
    for line in &lines {
        let command = |line: &str| {
            let mut command = place.nile();
            command.env("NILE_PACKAGES", packages()).current_dir(place.folder());
            let readme = root().join("README.md");
            let words = line.strip_prefix("./nile ").unwrap().split(' ');
            command.args(
                words.map(|it| if it == "README.md" { readme.as_os_str() } else { it.as_ref() }),
            );
            command
        };
        match line.strip_suffix(" &") {
            _ if line == "wait" => {
                assert!(beside.drain(..).all(|mut it| it.wait().unwrap().success()), "it sorts");
            }
            Some(line) => beside.push(command(line).stdout(Stdio::null()).spawn().unwrap()),
            None => {
                let said = run(&mut command(line), &[]).expect(0).out;
                if line == "./nile ls" {
                    assert!(said.contains("words") && said.contains("n3"), "{said}");
                }
                if line.contains("--times") {
                    assert!(said.starts_with("5000 calls of n2.c1: p50 "), "{said}");
                    took.push(said);
                }
            }
        }
    }
    assert_eq!((took.len(), beside.len()), (2, 0));
    let counts = fs::read_to_string(place.folder().join("words.txt")).unwrap();
    assert!(counts.lines().count() > 100, "{counts}");
    fs::remove_file(place.folder().join("words.txt")).unwrap();
    assert_eq!(place.left(), [""; 0], "nothing is left");
}

#[test]
fn disks_of_a_domain_are_its_own_and_go_with_it() {
    let place = supervised();
    let domain = |words: &[&str]| place.run(&[&["domain"], words].concat());
    let named = |words: &[&str]| {
        let mut nile = place.nile();
        run(nile.env("NILE_PACKAGES", packages()), words)
    };
    for (words, part) in [
        (&["--disk", "4K"][..], "a disk has 1 MiB to"),
        (&["--disks", "2"], "--disk"),
        (&["--disk", "64M", "--disks", "9"], "9 is not in 1..=8"),
    ] {
        let create = ["create", "web", "--cores", "1", "--memory", "64M"];
        refused(domain(&[&create[..], words].concat()), part);
    }
    assert_eq!(free(&place), all());
    domain(&["create", "web", "--cores", "1", "--memory", "64M"]).expect(0);
    // Nobody has a disk to sort with.
    let sort = ["run", "terasort", "--size", "1M", "--json", "--keep"];
    refused(named(&sort), "no domain has a disk");
    refused(named(&[&sort[..], &["--on", "web"]].concat()), "--on web: it has no disk");
    let batch = ["create", "batch", "--cores", "2", "--memory", "64M", "--disk", "64M"];
    let made = place.json(&[&["domain"], &batch[..], &["--disks", "2"]].concat());
    let disks: Vec<(String, u64)> = made["disks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["file"].as_str().unwrap().into(), it["bytes"].as_u64().unwrap()))
        .collect();
    assert_eq!(disks.iter().map(|it| it.1).collect::<Vec<_>>(), [64 << 20; 2]);
    let there = || disks.iter().filter(|it| fs::exists(&it.0).unwrap()).count();
    assert_eq!(there(), 2);
    let shown = domain(&["show", "batch"]).expect(0).out;
    assert!(shown.contains(&format!("disk {}, 64 MiB\n", disks[1].0)), "{shown}");
    assert!(domain(&["list"]).expect(0).out.contains("2 x 64 MiB"));

    // Those of a job are on the domain that made them, whether it was named or not.
    named(&[&sort[..], &["--on", "batch"]].concat()).expect(0);
    let nodes = |name: &str| {
        // While a domain's end is not known everywhere, it cannot be asked.
        let said: Value = serde_json::from_str(&place.run(&["ls", "--json"]).out).unwrap();
        let all = said["datasets"].as_array().unwrap().clone();
        all.iter().find(|it| it["name"] == name).map(|it| it["nodes"].clone())
    };
    assert_eq!(nodes("terasort.output"), Some(json!(["n3"])));
    for (words, part) in [
        (&["--on", "batch.c0"][..], "a job is kept to nodes"),
        (&["--on", "n9"], "no node `n9`"),
        (&["--on", "batch", "--reducers", "2"], "there are 1 worker cores"),
    ] {
        refused(named(&[&["run", "terasort", "--size", "1M"], words].concat()), part);
    }
    named(&["run", "terasort", "--size", "1M", "--name", "other", "--keep"]).expect(0);
    assert_eq!(nodes("other.output"), Some(json!(["n3"])));
    place.run(&["disk", "check", "batch", "--disk", "n3.disk2"]).expect(0);
    refused(place.run(&["disk", "check", "batch.c0"]), "is a core");

    // They are there when the domain begins anew, in its place.
    let digest = || {
        let file = place.folder().join("got");
        place.run(&["get", "terasort.output", file.to_str().unwrap()]).expect(0);
        let bytes = fs::read(&file).unwrap();
        fs::remove_file(file).unwrap();
        bytes
    };
    let before = digest();
    domain(&["destroy", "web"]).expect(0);
    for force in [&[][..], &["--force"]] {
        let anew = place.json(&[&["domain", "restart", "batch"], force].concat());
        assert_eq!((&anew["node"], &anew["state"]), (&json!("n3"), &json!("running")));
        assert!(before == digest(), "it has what it had");
    }

    // What is nowhere else is not let go of without a word.
    let listed = place.json(&["domain", "list"]);
    let refuses = domain(&["destroy", "batch"]);
    refused(refuses, "only batch has all of other.input, other.output, other.report, terasort.");
    assert_eq!((place.json(&["domain", "list"]), there()), (listed, 2));
    let said = domain(&["destroy", "batch", "--force"]).expect(0);
    assert!(said.err.contains("gone with batch: other.input"), "{}", said.err);
    assert_eq!((there(), free(&place)), (0, all()));
    assert_eq!(place.run(&["ls"]).out, "there are no datasets\n");

    // The next one of its place has nothing of it, and with a copy elsewhere nothing is missed.
    domain(&["create", "web", "--cores", "1", "--memory", "64M"]).expect(0);
    place.json(&[&["domain"], &batch[..]].concat());
    assert_eq!(place.run(&["ls", "--all"]).out.matches("n3").count(), 0);
    let readme = root().join("README.md");
    place.run(&["put", readme.to_str().unwrap(), "text", "--copies", "2"]).expect(0);
    domain(&["destroy", "batch"]).expect(0);
    assert_eq!(nodes("text"), Some(json!(["n1"])));
    // A job goes on with what there is once somebody can work again.
    place.json(&[&["domain"], &batch[..]].concat());
    named(&["run", "wordcount", "text", "--output", "words"]).expect(0);
}

#[test]
fn a_domain_of_a_pc_sorts_on_a_disk_of_its_own() {
    let place = Place::new();
    // The launcher provides QEMU and the kernel.
    let mut up = launcher();
    place.in_here(&mut up);
    up.args(["up", "--machine", "qemu", "--supervisor", "--disk", "32M"]);
    run(&mut up, &["--cores", "4", "--memory", "320M"]).expect(0);
    let named = |words: &[&str]| {
        let mut nile = place.nile();
        run(nile.env("NILE_PACKAGES", packages()), words)
    };
    let create = |name, words: &[&str]| {
        let create = ["domain", "create", name, "--cores", "1", "--memory", "96M", "--json"];
        place.run(&[&create[..], words].concat())
    };
    for (words, part) in [
        (&["--disk", "64M"][..], "a disk of this machine has 32 MiB"),
        (&["--disk", "32M", "--disks", "2"], "a domain of a PC has one disk"),
    ] {
        refused(create("batch", words), part);
    }
    let made: Value = serde_json::from_str(&create("batch", &["--disk", "32M"]).expect(0).out)
        .expect("one JSON document");
    assert_eq!(made["disks"][0]["bytes"], json!(32 << 20));
    // The machine has an IOMMU, which the disk goes through.
    assert_eq!((&made["isolated"], &made["kept_off"]), (&json!(true), &json!(0)));
    let shown = place.run(&["domain", "show", "batch"]).expect(0).out;
    assert!(shown.contains("isolated: yes, its disk reaches its own memory alone"), "{shown}");
    refused(create("web", &["--disk", "1M"]), "device 0 is batch's");
    let sort = ["run", "terasort", "--size", "1M", "--keep", "--on", "batch"];
    named(&sort).expect(0);
    let datasets = || place.json(&["ls"])["datasets"].clone();
    assert_eq!(datasets()[0]["nodes"], json!(["n2"]), "{}", datasets());

    // It goes with the domain, and the next one that gets the disk has nothing of it.
    refused(place.run(&["domain", "destroy", "batch"]), "only batch has all of terasort.");
    let again = place.run(&["domain", "restart", "batch", "--force"]).expect(0);
    assert!(again.err.contains("gone with batch: terasort."), "{}", again.err);
    assert_eq!(place.run(&["ls"]).out, "there are no datasets\n");
    named(&sort).expect(0);
    // The disk has never been told anything else.
    assert_eq!(place.json(&["domain", "show", "batch"])["kept_off"], json!(0));
    place.run(&["domain", "destroy", "batch", "--force"]).expect(0);
    let free = place.json(&["domain", "list"])["free"]["disks"].clone();
    assert_eq!(free[0]["bytes"], json!(32 << 20));
}

/// The guide's parts of a disk, word by word.
#[test]
fn domains_of_a_pc_share_a_disk_as_the_guide_says() {
    let place = Place::new();
    let text = fs::read_to_string(root().join("docs/domains.md")).unwrap();
    let mut said = Vec::new();
    for line in commands(&text, "Parts of a disk") {
        // The launcher provides QEMU and the kernel.
        let is_first = said.is_empty();
        let mut command = if is_first { launcher() } else { place.nile() };
        place.in_here(&mut command);
        command.env("NILE_PACKAGES", packages());
        command.args(line.strip_prefix("./nile ").unwrap().split(' '));
        if line.contains("account") {
            check_accounts(&place);
        }
        said.push((line.to_string(), run(&mut command, &[]).expect(0)));
    }
    let of = |part: &str| &said.iter().find(|(line, _)| line.contains(part)).unwrap().1;
    let shown = &of("show web").out;
    assert!(shown.contains("disk part 1 of the supervisor's, 64 MiB\n"), "{shown}");
    assert!(shown.contains("isolated: yes"), "{shown}");
    assert!(shown.contains("its disk moves 16 MiB a second, 1 MiB at once, weight 1\n"), "{shown}");
    assert!(of("restart batch").err.contains("gone with batch: terasort."), "nobody else has it");
    assert_eq!(place.left(), [""; 0], "nothing is left");
}

/// What two domains have had a disk do, of which one has sorted more.
fn check_accounts(place: &Place) {
    let accounts = place.json(&["domain", "account"])["domains"].clone();
    let [web, batch] = [&accounts[0]["disk"], &accounts[1]["disk"]];
    let number = |value: &Value| value.as_u64().unwrap();
    // A sort writes and reads its input, what is between, and its output.
    assert!(number(&batch["bytes"]) > 4 << 20, "{accounts}");
    assert!(number(&web["requests"]) > 0 && number(&web["bytes"]) > 1 << 20, "{accounts}");
    assert!(number(&web["bytes"]) < number(&batch["bytes"]), "{accounts}");
    for disk in [web, batch] {
        assert_eq!(disk["refused"], 0, "{accounts}");
        assert!(disk["disk_seconds"].as_f64().unwrap() > 0.0, "{accounts}");
    }
    // The rest of what there is to refuse and to see.
    refused(
        place.run(&["domain", "limit", "web", "--disk", "--burst", "4K"]),
        "a burst is 65536 to 1073741824, and not 4096",
    );
    let create = ["domain", "create", "log", "--cores", "1", "--memory", "32M", "--disk", "64M"];
    refused(place.run(&create), "device 0 is web's");
    place.run(&["disk", "check", "batch"]).expect(0);
    place.run(&["domain", "restart", "web", "--force"]).expect(0);
    let web = place.json(&["domain", "show", "web"]);
    assert_eq!(web["disk_limit"]["rate"], 16 << 20, "it has its limit again: {web}");
}
