//! Wrong requests: the message names what is wrong and what to do, the exit status is 2, and
//! nothing has been started.

use std::fs;
use std::process::Stdio;

use crate::support::{Said, nile, run};

/// Expects the request to be refused with a message that holds each of `parts`.
#[track_caller]
fn refused(arguments: &[&str], parts: &[&str]) {
    let said = run(&mut nile(), arguments).expect(2);
    for part in parts {
        assert!(said.err.contains(part), "{arguments:?} should say {part:?}, but: {}", said.err);
    }
    assert_eq!(said.out, "", "{arguments:?} must print nothing on standard output");
}

#[test]
fn wrong_arguments_are_named() {
    refused(&["bot"], &["bot", "similar subcommand exists: 'boot'"]);
    refused(&["boot", "--machine", "vax"], &["vax", "qemu, hosted, sim"]);
    refused(&["boot", "--cores", "0"], &["0 is not in 1..=256"]);
    refused(&["boot", "--cores", "257"], &["257 is not in 1..=256"]);
    refused(&["boot", "--cores", "four"], &["four"]);
    refused(&["boot", "--memory", "512"], &["`512` is not a size", "as 512M"]);
    refused(&["boot", "--memroy", "1G"], &["--memroy", "similar argument exists: '--memory'"]);
    refused(&["boot", "--seed", "7"], &["--seed", "--machine sim"]);
    refused(&["boot", "--interface", "tap:a"], &["--interface", "--machine hosted"]);
    refused(&["up", "--interface", "eth0"], &["eth0", "tap:NAME or packet:NAME"]);
    refused(&["boot", "--program", "a\nb"], &["'\\n' cannot stand on a kernel's command line"]);
    let nonsense = ["boot", "--machine", "sim", "--program", "nonsense"];
    refused(&nonsense, &["unknown program", "isolation"]);
    refused(&["boot", "--firmware", "uefi"], &["--iso"]);
    refused(&["test", "nonsense"], &["no test `nonsense`; there are: format, lint"]);
    refused(&["image", "--iso", "/nonexistent/nile.iso"], &["/nonexistent/nile.iso"]);
    refused(&["image", "--only", "wroker"], &["--only wroker: no service", "`worker`"]);
    refused(&["image", "--only", "worker,"], &["--only : no service", "there are: ackermann"]);
    refused(&["bench", "peers", "--only", "mysql"], &["mysql", "gnu-sort, duckdb"]);
    refused(&["bench", "peers", "--runs", "0"], &["0 is not in 1..=1000"]);
    refused(&["bench", "peers", "--size", "99K"], &["99 KiB is less than 1 MiB"]);
    refused(&["bench", "peers", "--report", "/dev/null"], &["/dev/null is no folder"]);
    refused(&["bench", "linux", "--report", "/dev/null/x"], &["/dev/null, which is no folder"]);
    refused(&["bench", "paper", "--runs", "1"], &["1 is not in 2..=1000"]);
    refused(&["bench", "paper", "--reducers", "1,65"], &["65 is not in 1..=64"]);
    refused(&["bench", "paper", "--sizes", "64M,99K"], &["99 KiB is less than 1 MiB"]);
    refused(&["bench", "idle", "--record", "--quick"], &["--record", "--quick"]);
    refused(&["bench", "paper", "--record", "--control"], &["--record", "--control"]);
    refused(&["bench", "idle", "--note", "odd"], &["--record"]);
}

/// Output that nothing takes is a failure; what is said on standard error is said to nobody then.
#[test]
fn streams_that_take_nothing_are_no_reason_to_panic() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for arguments in [&["help"][..], &["--version"], &["boot", "--help"], &["down", "--json"]] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = nile();
        command.args(arguments).env("XDG_RUNTIME_DIR", folder.path());
        let said = Said::from(command.stdout(full()).stderr(Stdio::piped()).output().unwrap());
        let said = said.expect(1);
        assert!(said.err.starts_with("nile: cannot write the result: No space"), "{}", said.err);
    }
    let sim = ["boot", "--machine", "sim", "--cores", "1"];
    for (arguments, status) in [(&["bot"][..], 2), (&["boot", "--memory", "1M"], 2), (&sim, 0)] {
        let output = nile().args(arguments).stderr(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    }
}

#[test]
fn impossible_amounts_are_named() {
    refused(&["boot", "--memory", "1M"], &["1 MiB is too little", "at least"]);
    refused(&["boot", "--memory", "1000T"], &["1000 TiB is more than the", "this machine has"]);
    refused(&["boot", "--disk", "10K"], &["a disk has 1 MiB to 1 EiB, not 10 KiB"]);
    refused(&["boot", "--disk", "/nonexistent/disk.img"], &["/nonexistent/disk.img: No such"]);
    refused(&["boot", "--iso", "/dev/null"], &["neither a regular file nor a block device"]);
    refused(&["boot", "--machine", "sim", "--disk", "disk.img"], &["give it a size"]);
    refused(&["up", "--disk-folder", "disks"], &["--disk <SIZE>"]);
    refused(&["boot", "--cores", "256"], &["256 is more than the 255 that QEMU emulates"]);
}

#[test]
fn impossible_jobs_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    fs::write(&text, "a b a\n").unwrap();
    let text = text.to_str().unwrap();
    let sort = |more: &[&str], parts: &[&str]| {
        // No cluster is up there.
        let which = ["run", "terasort", "--cluster", "nobody-has-this"];
        refused(&[&which, more].concat(), parts);
    };
    sort(&[], &["--size <SIZE>"]);
    sort(&["--size", "1"], &["`1` is not a size"]);
    sort(&["--size", "0M"], &["0 B holds no record of 100 bytes"]);
    sort(&["--size", "1M", "--reducers", "0"], &["0 is not in 1.."]);
    sort(&["--size", "1M", "--reducers", "999"], &["--reducers 999", "worker cores"]);
    sort(&["--size", "1M", "--copies", "2"], &["as many nodes; there are 1"]);
    sort(&["--size", "1M", "--memory", "1M"], &["1 MiB is too little", "16 MiB at least"]);
    sort(&["--size", "1M", "--memory", "1000T"], &["more than the", "this machine has"]);
    sort(&["--size", "1M", "--nodes", "0"], &["0 is not in 1..="]);
    sort(&["--size", "1M", "--machine", "vax"], &["no machine `vax`"]);
    sort(&["--size", "1M", "--name", "a/b"], &["--name", "no /"]);
    sort(&["--size", "1M", "--disk-folder", "/nonexistent"], &["no folder /nonexistent"]);
    sort(&["--size", "100000T"], &["on disk", "--disk-folder"]);
    let count = |more: &[&str], parts: &[&str]| {
        let which = ["run", "wordcount", "--cluster", "nobody-has-this"];
        refused(&[&which, more].concat(), parts);
    };
    count(&["/no/such/text"], &["no file /no/such/text", "no cluster is up"]);
    count(&[text, "--output", "x"], &["--output x", "--keep"]);
    count(&[text, "--json"], &["--json", "add --output"]);
    let profile = |more: &[&str], parts: &[&str]| {
        let which = ["profile", "terasort", "--cluster", "nobody-has-this"];
        refused(&[&which, more].concat(), parts);
    };
    refused(&["profile"], &["terasort"]);
    refused(&["profile", "wordcount"], &["wordcount"]);
    profile(&["--size", "0M"], &["0 B holds no record of 100 bytes"]);
    profile(&["--reducers", "999"], &["--reducers 999", "worker cores"]);
    profile(&["--rate", "1001"], &["1001 is not in 0..=1000"]);
    profile(&["--rate", "often"], &["often", "--rate"]);
    profile(&["--output", text], &["--output", "is no folder"]);
    profile(&["--output", "/no/such/folder"], &["--output /no/such/folder", "No such file"]);
    refused(&["run"], &["terasort", "wordcount", "PACKAGE.elf"]);
    refused(&["run", text], &[text, "not an ELF file"]);
    refused(&["run", "/no/such.elf"], &["no file /no/such.elf"]);
    refused(&["run", "terasrot"], &["did you mean `terasort`?"]);
    refused(&["run", text, "--reducers", "0"], &["0 is not in 1.."]);
}

#[test]
fn a_wrong_configuration_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nile.toml");
    let path = file.to_str().unwrap();
    for (text, line, message) in [
        ("[roles]\nmanagement = 1\nwroker = 2\n", 3, "unknown role `wroker`"),
        ("[roles]\nworker = 9\n", 2, "9 cores"),
        ("[roles]\ndisk = [4]\n", 2, "core 4"),
        ("[roles\n", 1, ""),
        ("[timer]\n\ntick_hz = 5000\n", 3, "5000"),
    ] {
        fs::write(&file, text).unwrap();
        let place = format!("{path}:{line}: ");
        for machine in ["qemu", "hosted", "sim"] {
            let request = ["boot", "--machine", machine, "--cores", "4", "--config", path];
            refused(&request, &[&place, message]);
        }
    }
    fs::write(&file, "[network]\ninterface = \"tap:a\"\n").unwrap();
    for machine in ["qemu", "sim"] {
        let place = format!("{path}:2: interface is for hosted nodes");
        refused(&["boot", "--machine", machine, "--config", path], &[&place]);
    }
    fs::write(&file, [0xff, 0xfe]).unwrap();
    refused(&["boot", "--config", path], &[path]);
    fs::write(&file, "[services]\nheap = []\njob = []\n").unwrap();
    let without = ["image", "--only", "worker", "--config", path];
    refused(&without, &[&format!("{path}:3: unknown service `job`; the services are bulk")]);
    refused(&["image", "--config", "/nonexistent.toml"], &["/nonexistent.toml: No such file"]);
}

#[test]
fn what_the_launcher_should_have_provided_is_named() {
    refused(&["boot", "--machine", "hosted"], &["NILE_HOSTED is not set", "./nile"]);
}

#[test]
fn without_qemu_the_command_says_what_to_install() {
    let said = run(nile().env("PATH", "/nonexistent"), &["boot"]).expect(2);
    assert!(said.err.contains("sudo apt-get install qemu-system-x86"), "{}", said.err);
}
