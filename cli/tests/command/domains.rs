//! `nile domain`: what the guide in docs/domains.md does, word by word; what is refused; and
//! domains and supervisors that are killed. Those with disks are in [`disks`], cores that go to
//! whoever needs them in [`elastic`], memory that they share in [`sharing`], and what domains have
//! had in [`usage`].

mod disks;
mod elastic;
mod sharing;
mod steps;
mod usage;

use std::fs;
use std::time::Duration;

use nile_platform::Attack;
use serde_json::{Value, json};

use crate::cluster::{Place, refused, send, until};
use crate::critical;
use crate::support::{Said, launcher, launcher_again, nile, root, run};

/// A cluster with a supervisor, which has the cores 1 to 3 and 192 MiB to give.
fn supervised() -> Place {
    let place = Place::new();
    let words = ["--machine", "hosted", "--supervisor", "--cores", "4", "--memory", "256M"];
    place.run(&[&["up"][..], &words].concat()).expect(0);
    place
}

fn free(place: &Place) -> Value {
    place.json(&["domain", "list"])["free"].clone()
}

fn all() -> Value {
    json!({ "cores": [1, 2, 3], "memory": 192 << 20 })
}

/// The commands of the guide's first block, and what the second says that they print.
fn guide() -> (Vec<Vec<String>>, String) {
    let text = fs::read_to_string(root().join("docs/domains.md")).unwrap();
    let guide = text.split("## Try it\n").nth(1).expect("there is a guide");
    let mut blocks = guide.split("```").skip(1).step_by(2);
    let commands = blocks.next().unwrap().lines().filter_map(|line| line.strip_prefix("./nile "));
    let words = |line: &str| line.split(' ').map(String::from).collect();
    (commands.map(words).collect(), blocks.next().unwrap().trim_start_matches("text\n").into())
}

#[test]
fn the_guide_works_word_by_word() {
    let place = Place::new();
    let (commands, shown) = guide();
    let mut printed = String::new();
    for words in &commands {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let said = place.run(&words).expect(0);
        if matches!(words[..], ["domain", "list"] | ["call", ..]) {
            printed += &said.out;
        }
    }
    assert_eq!(printed.trim(), shown.trim());
    assert_eq!(place.left(), [""; 0], "nothing is left");
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let place = supervised();
    let create = |words: &[&str]| place.run(&[&["domain", "create"], words].concat());
    let planned = ["web", "--cores", "2", "--memory", "64M", "--dry-run"];
    assert_eq!(create(&planned).expect(0).out, "web would be n2, with cores 1,2 and 64 MiB\n");
    assert_eq!(free(&place), all());
    place.run(&["domain", "create", "web", "--cores", "2", "--memory", "64M"]).expect(0);
    let before = place.json(&["domain", "list"]);
    for (words, part) in [
        (&["web", "--cores", "1", "--memory", "64M"][..], "a domain web already"),
        (&["a", "--cores", "2", "--memory", "64M"], "2 cores are wanted; free: 3; web has 2"),
        (&["a", "--cores", "1", "--memory", "130M"], "130 MiB are wanted; free: 128 MiB; web"),
        (&["a", "--cores", "1", "--memory", "33M"], "in whole 2M"),
        (&["a", "--cores", "0", "--memory", "64M"], "0 is not in 1..=255"),
        (&["n3", "--cores", "1", "--memory", "64M"], "not n and a number"),
        (
            &["a", "--cores", "1", "--min-cores", "3", "--memory", "64M"],
            "at least 3 cores, and at most 1: none fits",
        ),
        (&["free", "--cores", "1", "--memory", "64M"], "switch, or free"),
        (&["A", "--cores", "1", "--memory", "64M"], "lower-case letters"),
    ] {
        refused(create(words), part);
    }
    for (words, part) in [
        (&["domain", "show", "wbe"][..], "no domain `wbe`; there are: web"),
        (&["domain", "destroy", "other"], "no domain other; there is web"),
        (
            &["call", "ackermann.compute", "m=2", "n=3", "--core", "wab.c0"],
            "no domain `wab`; did you mean `web`?",
        ),
        (&["call", "ackermann.compute", "m=2", "n=3", "--core", "web.c7"], "no core `n2.c7`"),
        (&["logs", "web.c0"], "is a core"),
    ] {
        refused(place.run(words), part);
    }
    assert_eq!(place.json(&["domain", "list"]), before);

    for (words, part) in [
        (&["--supervisor", "--nodes", "2"][..], "one node shares a machine, not 2"),
        (&["--supervisor", "--memory", "128M"], "it keeps 96 MiB; use --memory 192 MiB"),
        (&["--supervisor", "--machine", "hosted", "--cores", "1"], "it keeps a core"),
        (&["--supervisor", "--machine", "hosted", "--memory", "64M"], "--memory 128 MiB"),
    ] {
        refused(place.run(&[&["up", "--cluster", "one"], words].concat()), part);
    }
    place.run(&["up", "--cluster", "one", "--machine", "hosted", "--nodes", "1"]).expect(0);
    refused(place.run(&["domain", "list", "--cluster", "one"]), "has no supervisor");
}

#[test]
fn a_domain_that_is_killed_keeps_what_it_has_until_it_is_destroyed() {
    let place = supervised();
    let made = place.json(&["domain", "create", "web", "--cores", "2", "--memory", "64M"]);
    assert_eq!(
        (&made["node"], &made["cores"], &made["state"]),
        (&json!("n2"), &json!([1, 2]), &json!("running"))
    );
    place.run(&["fault", "kill", "web"]).expect(0);
    let seen = place.json(&["domain", "show", "web"]);
    assert_eq!((&seen["state"], &seen["cores"]), (&json!("gone"), &json!([1, 2])));
    let said = place.run(&["domain", "show", "web"]).expect(0).out;
    assert!(said.contains("its processes are gone; its log ends: "), "{said}");
    assert!(!place.run(&["domain", "logs", "web"]).expect(0).out.is_empty());
    // Others do not get what is its own.
    let other = ["domain", "create", "batch", "--cores", "2", "--memory", "64M"];
    refused(place.run(&other), "2 cores are wanted; free: 3");
    place.run(&["domain", "destroy", "web"]).expect(0);
    assert_eq!(free(&place), all());
    let next = place.json(&other);
    assert_eq!((&next["node"], &next["generation"]), (&json!("n2"), &json!(2)));
}

/// The phases of a domain's cores.
fn phases(place: &Place, name: &str) -> Vec<String> {
    let shown = place.json(&["roles", name]);
    let cores = shown["cores"].as_array().unwrap().iter();
    cores.map(|it| it["state"].as_str().unwrap().to_string()).collect()
}

#[test]
fn cores_come_and_go_while_a_domain_runs() {
    let place = supervised();
    let domain = |words: &[&str]| place.run(&[&["domain"], words].concat());
    let cores = |name: &str| place.json(&["domain", "show", name])["cores"].clone();
    let create = ["create", "web", "--cores", "2", "--min-cores", "1", "--max-cores", "3"];
    domain(&[&create[..], &["--memory", "64M", "--priority", "9"]].concat()).expect(0);
    assert_eq!(phases(&place, "web"), ["running", "running", "away"]);
    domain(&["create", "batch", "--cores", "1", "--memory", "64M"]).expect(0);
    for (words, part) in [
        (&["resize", "web", "--cores", "+1"][..], "1 cores are wanted, and none is free"),
        (&["resize", "web", "--cores", "4"], "it would have 4 cores, and must have 1 to 3"),
        (&["resize", "batch", "--cores", "-1"], "it would have 0 cores, and must have 1 to 1"),
        (&["resize", "web", "--cores", "x"], "neither a number of cores nor a difference"),
        (&["resize", "web", "--memory", "66M"], "66 MiB of memory, and must have 2 to 64"),
        (&["resize", "web"], "say --cores"),
        (&["lend", "batch", "web", "--cores", "1"], "it would have 0 cores"),
        (&["recall", "web"], "web has no cores from others"),
    ] {
        refused(domain(words), part);
    }
    domain(&["destroy", "batch"]).expect(0);

    domain(&["resize", "web", "--cores", "+1"]).expect(0);
    assert_eq!(
        (cores("web"), phases(&place, "web")),
        (json!([1, 2, 3]), vec!["running".into(); 3])
    );
    domain(&["resize", "web", "--cores", "-2"]).expect(0);
    assert_eq!((cores("web"), free(&place)["cores"].clone()), (json!([1]), json!([2, 3])));
    assert_eq!(phases(&place, "web"), ["running", "away", "away"]);
    // A node that begins anew has what it had.
    place.run(&["fault", "restart", "web"]).expect(0);
    assert_eq!(phases(&place, "web"), ["running", "away", "away"]);
    let call = ["call", "ackermann.compute", "m=2", "n=3", "--core", "web.c0"];
    assert_eq!(place.run(&call).expect(0).out, "<reply><value>9</value></reply>\n");
}

/// The bytes that a domain's node says that it has, and how many pieces of 2 MiB are free.
fn memory(place: &Place, name: &str) -> (u64, u64) {
    let core = format!("{name}.c0");
    let said = place.json(&["call", "physical_memory.statistics", "--core", &core]);
    let number = |what: &str| said["reply"]["use"][what].as_u64().expect("a number");
    (number("total_bytes"), number("free_2m"))
}

#[test]
fn memory_comes_and_goes_while_a_hosted_domain_runs() {
    let place = supervised();
    let domain = |words: &[&str]| place.run(&[&["domain"], words].concat());
    let shown = |name: &str| place.json(&["domain", "show", name])["memory"].as_u64().unwrap();
    domain(&["create", "web", "--cores", "2", "--memory", "64M", "--max-memory", "160M"]).expect(0);
    let (before, free_before) = memory(&place, "web");
    assert!(before <= 64 << 20, "{before}");
    domain(&["resize", "web", "--memory", "+96M"]).expect(0);
    let grown = (before + (96 << 20), free_before + 48);
    assert_eq!((shown("web"), memory(&place, "web")), (160 << 20, grown));
    assert_eq!(free(&place)["memory"], 32 << 20);
    refused(domain(&["resize", "web", "--memory", "+2M"]), "162 MiB of memory");
    // What is free goes; what is in use stays, and so does all then.
    domain(&["resize", "web", "--memory", "-96M"]).expect(0);
    assert_eq!((shown("web"), memory(&place, "web").0), (64 << 20, before));
    let said = domain(&["resize", "web", "--memory", "2M"]).expect(1);
    assert!(said.err.contains("1 collections of 2 MiB more are in use"), "{}", said.err);
    assert_eq!((shown("web"), memory(&place, "web").0), (64 << 20, before));
    // A node that begins anew has what it had.
    place.run(&["fault", "restart", "web"]).expect(0);
    assert_eq!(memory(&place, "web").0, before);

    // Whatever a command that was killed has left, the next one makes right.
    for (at, change) in ["+96M", "-96M", "+32M", "-32M", "+96M"].into_iter().enumerate() {
        let mut resize = place.nile();
        resize.args(["domain", "resize", "web", "--memory", change]);
        let mut resize = resize.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(20 * at as u64));
        send("-KILL", resize.id());
        resize.wait().unwrap();
        domain(&["resize", "web", "--cores", "2"]).expect(0);
        let has = shown("web");
        assert_eq!(memory(&place, "web").0 + (64 << 20), before + has, "{change} after {at}");
        assert_eq!(free(&place)["memory"], (192 << 20) - has);
    }
}

#[test]
fn a_destroyed_domain_is_not_missed_first() {
    let place = supervised();
    place.run(&["domain", "create", "web", "--cores", "1", "--memory", "64M"]).expect(0);
    place.run(&["domain", "destroy", "web", "--force"]).expect(0);
    let status = place.run(&["status"]).expect(0).out;
    assert!(!status.contains("n2"), "{status}");
}

#[test]
fn domains_need_no_supervisor_to_run_and_end_with_the_cluster() {
    let place = supervised();
    for name in ["web", "batch"] {
        place.run(&["domain", "create", name, "--cores", "1", "--memory", "64M"]).expect(0);
    }
    place.run(&["fault", "kill", "n1"]).expect(0);
    let call = ["call", "ackermann.compute", "m=2", "n=3", "--core", "batch.c0"];
    assert_eq!(place.run(&call).expect(0).out, "<reply><value>9</value></reply>\n");
    place.run(&["fault", "restart", "n1"]).expect(0);
    place.run(&["domain", "destroy", "web", "--force"]).expect(0);
    assert_eq!(free(&place)["cores"], json!([1, 3]));
    place.run(&["domain", "create", "log", "--cores", "2", "--memory", "64M"]).expect(0);
    place.run(&["down"]).expect(0);
    until("nothing is left", || place.left().is_empty());
}

#[test]
fn a_create_that_is_ended_in_the_midst_leaves_nothing() {
    for signal in ["-INT", "-KILL"] {
        let place = supervised();
        // It does not hear that the domain is up.
        place.run(&["fault", "loss", "100%"]).expect(0);
        let mut create = place.nile();
        create.args(["domain", "create", "web", "--cores", "2", "--memory", "64M"]);
        let mut create = create.spawn().unwrap();
        until("it starts", || !place.workers("n2").is_empty());
        send(signal, create.id());
        create.wait().unwrap();
        place.run(&["fault", "loss", "0"]).expect(0);
        // Whoever is next undoes what the killed one has left.
        place.run(&["domain", "create", "other", "--cores", "3", "--memory", "64M"]).expect(0);
        let list = place.json(&["domain", "list"]);
        assert_eq!(list["domains"].as_array().unwrap().len(), 1, "{signal}: {list}");
    }
}

/// What a node that supervises its machine keeps of it.
const SUPERVISOR: &str = "[supervisor]\ncores = 1\nmemory = \"96M\"\n";

#[test]
fn domains_come_and_go_on_a_pc() {
    let config = tempfile::NamedTempFile::new().unwrap();
    let parts = "disks = 1\ndisk_parts = 2\ndisk_part = \"8M\"\n";
    fs::write(config.path(), format!("{SUPERVISOR}{parts}")).unwrap();
    let mut boot = launcher();
    boot.args(["boot", "--json", "--machine", "qemu", "--program", "domains", "--disk", "24M"]);
    boot.args(["--disk", "16M"]);
    boot.args(["--cores", "4", "--memory", "256M", "--config"]).arg(config.path());
    let said = run(&mut boot, &[]).expect(0);
    let report: Value = serde_json::from_str(&said.out).expect("one JSON document");
    assert_eq!(report["program"]["passed"], true, "{}", report["program"]);
    assert_eq!(report["cores"].as_array().unwrap().len(), 1, "the others are domains'");
    assert_eq!(report["program"]["figures"]["disks_for_domains"], 3);
}

#[test]
fn domains_come_and_go_in_the_simulator() {
    let config = tempfile::NamedTempFile::new().unwrap();
    let parts = "disk_parts = 2\ndisk_part = \"8M\"\n";
    fs::write(config.path(), format!("{SUPERVISOR}{parts}")).unwrap();
    let mut boot = launcher_again();
    boot.args(["boot", "--json", "--machine", "sim", "--program", "domains", "--seed", "7"]);
    boot.args(["--disk", "24M"]);
    boot.args(["--cores", "4", "--memory", "256M", "--config"]).arg(config.path());
    let said = run(&mut boot, &[]).expect(0);
    let report: Value = serde_json::from_str(&said.out).expect("one JSON document");
    assert_eq!(report["program"]["passed"], true, "{}", report["program"]);
    assert_eq!(report["cores"].as_array().unwrap().len(), 1, "the others are domains'");
}

/// Attacks that end the machine if nothing keeps them from it: a port, a register of the processor,
/// the gates and what is executed first.
const POWER: [&str; 11] = [
    "reset-machine",
    "forget-no-execute",
    "triple-fault",
    "run-own-code",
    "fast-reset",
    "reset-by-keyboard",
    "switch-off",
    "sleep-for-good",
    "unmap-stacks",
    "no-gates",
    "no-segments",
];

/// Without a guard, this attack ends the machine.
fn ends_the_machine(attack: &str) {
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), SUPERVISOR).unwrap();
    let number = Attack::ALL.into_iter().find(|it| it.name() == attack).unwrap() as u8;
    let mut boot = launcher_again();
    boot.args(["boot", "--json", "--machine", "qemu", "--cores", "3", "--memory", "256M"]);
    boot.arg("--program").arg(format!("domain-attacks control=1 attack={number}"));
    let said = run(boot.arg("--config").arg(config.path()), &[]);
    assert_ne!(said.status, Some(0), "{attack}: {}", said.out);
    assert_eq!(said.out, "", "{attack}: the machine went on");
}

mod long {
    /// By the step `jobs-long` of `./nile test --full`.
    #[test]
    fn every_attack_on_its_power_ends_a_machine_without_a_guard() {
        super::launcher();
        super::POWER.iter().for_each(|attack| super::ends_the_machine(attack));
    }
}

#[test]
fn what_a_domain_reaches_for_stays_as_it_was_but_without_a_guard() {
    // The launcher asks before it builds anything.
    let wrong = ["needs", "--", "domain", "attack", "nope"];
    refused(run(&mut nile(), &wrong), "no attack `nope`");
    let said = run(&mut launcher(), &["domain", "attack", "--json"]).expect(0);
    let document: Value = serde_json::from_str(&said.out).expect("one JSON document");
    let attacks = document["attacks"].as_array().unwrap();
    assert!(attacks.len() >= 77, "{document}");
    for it in attacks {
        assert_eq!(it["broken"], false, "{it}");
        // Nobody could tell of a machine that is off.
        let ends_it = it["broken_without"].is_null();
        assert!(ends_it || it["broken_without"] == true, "{it}");
    }
    // Those, and what a supervisor reads without belief, guard or not.
    let ends = attacks.iter().filter(|it| it["broken_without"].is_null()).count();
    assert_eq!(ends, POWER.len() + 2, "{document}");

    // The controls of these: the machine says no more.
    let (quick, _) = POWER.split_at(4);
    quick.iter().for_each(|attack| ends_the_machine(attack));

    // What could undo all this stands in one place of the kernel's code.
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let image = target.join("x86_64-unknown-linux-gnu/bare/nile-bare-scenarios");
    let found = critical::found(&image);
    let elsewhere: Vec<_> = found.iter().filter(|(_, is_allowed)| !is_allowed).collect();
    assert_eq!(elsewhere.len(), 0, "{elsewhere:?}");
    // Its control: there are some of each kind to find.
    for kind in ["wrmsr", "mov    cr0", "mov    cr3", "mov    cr4", "lgdt", "lidt", "ltr", "out "] {
        assert!(found.iter().any(|(it, _)| it.contains(kind)), "no {kind} in {found:?}");
    }
}

#[test]
fn domains_of_a_pc_are_made_called_and_destroyed_by_name() {
    let place = Place::new();
    // The launcher provides QEMU and the kernel.
    let mut up = launcher();
    place.in_here(&mut up);
    up.args(["up", "--machine", "qemu", "--supervisor"]);
    run(&mut up, &["--cores", "4", "--memory", "256M"]).expect(0);
    let free = || place.json(&["domain", "list"])["free"].clone();
    let (all, bytes) = (free(), |it: &Value| it["memory"].as_u64().unwrap());
    assert_eq!(all["cores"], json!([0, 1, 2]));
    let create = |words: &[&str]| place.run(&[&["domain", "create"], words].concat());
    let planned = create(&["web", "--cores", "2", "--memory", "48M", "--dry-run"]).expect(0);
    assert_eq!(planned.out, "web would be n2, with cores 0,1 and 48 MiB\n");
    assert_eq!(free(), all);
    let web = ["web", "--cores", "2", "--max-cores", "3", "--memory", "48M"];
    create(&[&web[..], &["--max-memory", "64M"]].concat()).expect(0);
    create(&["batch", "--cores", "1", "--memory", "32M"]).expect(0);
    let resize = |cores: &str| place.run(&["domain", "resize", "web", "--cores", cores, "--json"]);
    refused(place.run(&["fault", "kill", "web"]), "domain restart web");
    let call = |core: &str| {
        let said = place.run(&["call", "ackermann.compute", "m=2", "n=3", "--core", core]);
        assert_eq!(said.expect(0).out, "<reply><value>9</value></reply>\n", "{core}");
    };
    ["web.c0", "web.c1", "batch.c0", "n1.c0"].into_iter().for_each(call);
    // Between two domains, by the supervisor's switch.
    let heard = place.run(&["domain", "logs", "web"]).expect(0).out;
    assert!(heard.contains("n3") && heard.contains("is in the cluster"), "{heard}");

    usage::is_limited(&place, "batch", || call("batch.c0"));
    let anew = place.json(&["domain", "restart", "batch"]);
    assert_eq!((&anew["state"], &anew["generation"]), (&json!("running"), &json!(2)));
    assert_eq!(anew["limit"], json!({ "rate": null, "burst": 2048, "weight": 2 }));
    call("batch.c0");
    place.run(&["domain", "destroy", "batch"]).expect(0);

    // A difference is one to what it has.
    let cores =
        |said: Said| serde_json::from_str::<Value>(&said.expect(0).out).unwrap()["cores"].clone();
    assert_eq!(cores(resize("+1")), json!([0, 1, 2]));
    assert_eq!(cores(resize("2")), json!([0, 1]));
    refused(resize("-1"), "2 to 3");
    let account = place.json(&["domain", "account", "web"])["domains"][0].clone();
    let number = |what: &str| account[what].as_f64().unwrap();
    let cores_on_average = number("core_seconds") / number("age_seconds");
    assert!((2.0..3.0).contains(&cores_on_average), "{account}");
    // One that has nothing to do gives back what it has beyond its minimum.
    cores(resize("+1"));
    let elastic = ["domain", "policy", "elastic", "--for", "web", "--by", "load", "--json"];
    let bounds = ["--lt", "99%", "--ut", "100%", "--calm", "1", "--window", "100ms", "--span"];
    let told = place.run(&[&elastic[..], &bounds, &["2s"]].concat()).expect(0).out;
    assert!(told.lines().next().is_some_and(|it| it.contains(r#""cores":-1"#)), "{told}");
    assert_eq!(place.json(&["domain", "show", "web"])["cores"], json!([0, 1]));

    // One that is forced goes, and its next owner gets it.
    cores(resize("+1"));
    let force = ["domain", "resize", "web", "--cores", "2", "--force", "--json"];
    assert_eq!(cores(place.run(&force)), json!([0, 1]));
    ["web.c0", "web.c1"].into_iter().for_each(call);
    assert_eq!(cores(resize("+1")), json!([0, 1, 2]));
    call("web.c2");
    // The node has the memory that comes.
    let memory = |size: &str| {
        let said = place.run(&["domain", "resize", "web", "--memory", size, "--json"]);
        serde_json::from_str::<Value>(&said.expect(0).out).unwrap()["memory"].clone()
    };
    let usable = || {
        let said = place.json(&["call", "physical_memory.statistics", "--core", "web.c0"]);
        said["reply"]["use"]["free_bytes"].as_u64().unwrap()
    };
    let before = usable();
    assert_eq!(memory("+16M"), json!(64 << 20));
    assert_eq!(usable(), before + (16 << 20));
    assert_eq!(memory("-8M"), json!(56 << 20));
    assert_eq!(usable(), before + (8 << 20));
    let refuse = |size: &str, part| {
        refused(place.run(&["domain", "resize", "web", "--memory", size]), part);
    };
    refuse("+16M", "it would have 72 MiB of memory, and must have 2 to 64");
    refuse("3M", "whole 2M");
    assert_eq!(memory("48M"), json!(48 << 20));
    place.run(&["domain", "destroy", "web", "--force"]).expect(0);
    assert_eq!((free(), bytes(&all) > 100 << 20), (all.clone(), true));
    refused(place.run(&["domain", "show", "web"]), "no domain `web`");
    let small = create(&["small", "--cores", "2", "--memory", "2M"]);
    refused(small, "--memory 2 MiB is too little");
    assert_eq!(free(), all);
}

#[test]
fn a_machine_that_nobody_supervises_has_no_domains() {
    for machine in ["sim", "qemu"] {
        let mut boot = launcher_again();
        boot.args(["boot", "--json", "--machine", machine, "--program", "domains"]);
        let said = run(&mut boot, &[]).expect(1);
        assert!(said.out.contains("its configuration has no [supervisor]"), "{}", said.out);
    }
    let config = tempfile::NamedTempFile::new().unwrap();
    fs::write(config.path(), SUPERVISOR).unwrap();
    for (machine, words, part) in [
        ("hosted", &["--cores", "4"][..], "hosted domains are made with `nile up"),
        ("qemu", &["--cores", "1"], "leaves nothing of 1 cores"),
        ("sim", &["--cores", "1"], "leaves nothing of 1 cores"),
    ] {
        let mut boot = launcher_again();
        boot.args(["boot", "--machine", machine, "--config"]).arg(config.path()).args(words);
        refused(run(&mut boot, &[]), part);
    }
}
