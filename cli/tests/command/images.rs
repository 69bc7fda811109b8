//! `nile deploy` on a node in QEMU: all its cores get another kernel, one by one, while it sorts.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, mem, thread};

use serde_json::json;

use crate::cluster::{Place, document, refused, until};
use crate::deploy::images;
use crate::support::{Said, launcher, root, run};

/// What an image says about itself, and the words in that.
const MAGIC: &[u8] = b"NILEKERN";
const ABI: usize = 8;
const BEGIN: usize = 16;

/// The kernel that the launcher has built, changed.
fn kernel(folder: &Path, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> String {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let mut bytes =
        fs::read(target.join("x86_64-unknown-linux-gnu/bare/nile-bare.stripped")).unwrap();
    change(&mut bytes);
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().into()
}

fn find(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).position(|it| it == what).expect("the kernel has it")
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// One that says something else: another image that does the same.
fn telling(bytes: &mut [u8]) {
    let at = find(bytes, b"the value takes too long");
    bytes[at..][..24].copy_from_slice(b"the value lasts too long");
}

/// One whose cores begin with these bytes of code.
fn beginning_with(bytes: &mut [u8], code: [u8; 2]) {
    let begin = word(bytes, find(bytes, MAGIC) + BEGIN);
    let headers = word(bytes, 32) as usize;
    let mut segments = (0..16).map(|number| headers + number * 56);
    let has_it = |at: &usize| {
        let start = word(bytes, at + 16);
        (start..start.saturating_add(word(bytes, at + 32))).contains(&begin)
    };
    let segment = segments.find(has_it).unwrap();
    let at = word(bytes, segment + 8) + begin - word(bytes, segment + 16);
    bytes[at as usize..][..2].copy_from_slice(&code);
}

/// An instruction that is none, and one that leads to itself.
const BROKEN: [u8; 2] = [0x0f, 0x0b];
const ENDLESS: [u8; 2] = [0xeb, 0xfe];

/// Has a command run with all that a real kernel needs.
fn real(place: &Place, arguments: &[&str]) -> Command {
    let mut command = launcher();
    place.in_here(&mut command);
    command.args(arguments);
    command
}

#[test]
fn cores_in_qemu_get_another_kernel_while_they_sort() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let config = folder.join("roles.toml");
    fs::write(&config, "[roles]\nnetwork = [1]\nworker = [2, 3]\ndisk = [4]\n").unwrap();
    let up = ["up", "--machine", "qemu", "--nodes", "1", "--cores", "5", "--memory", "400M"];
    let with = ["--disk", "256M", "--config", config.to_str().unwrap()];
    run(&mut real(&place, &up), &with).expect(0);
    // A busy machine takes long for what a core works on.
    let deploy =
        |file: &str, at: &[&str]| place.run(&[&["deploy", file, "--patience", "50"], at].concat());

    let other = kernel(folder, "other", |bytes| {
        let at = find(bytes, MAGIC) + ABI;
        bytes[at] ^= 1;
    });
    let short = kernel(folder, "short", |bytes| bytes.truncate(1 << 20));
    let good = kernel(folder, "good", |bytes| telling(bytes));
    for (file, at, part) in [
        (&other, "n1", "another ABI than the node"),
        (&short, "n1", "no kernel image of a PC"),
        (&good, "n1.c7", "there is no core n1.c7"),
    ] {
        refused(deploy(file, &[at]), part);
    }
    assert_eq!(images(&place, "n1"), [None, None, None, None, None]);

    // Each in the midst of sorts.
    let deploy_while_sorting = |at: &str| {
        let mut command = place.nile();
        command.args(["deploy", &good, at, "--patience", "50", "--json"]);
        let mut renewal = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut sorts = 0;
        while renewal.try_wait().unwrap().is_none() || sorts == 0 {
            let name = format!("{}.{sorts}", &at[3..]);
            let sort = ["run", "terasort", "--size", "16M", "--json", "--name", &name];
            let sorted = document(&run(&mut real(&place, &sort), &[]).expect(0));
            assert_eq!(sorted["valid"], true, "{sorted}");
            sorts += 1;
        }
        let said = document(&Said::from(renewal.wait_with_output().unwrap()).expect(0));
        assert_eq!((&said["cores"], &said["kept"]), (&json!([at]), &json!([])));
        said["image"].as_str().unwrap().to_owned()
    };
    let given: Vec<String> =
        ["n1.c2", "n1.c3", "n1.c4"].iter().map(|at| deploy_while_sorting(at)).collect();
    let image = given[0].clone();
    assert!(given.iter().all(|it| *it == image), "{given:?}");
    let has_it = |from: usize| {
        let images = images(&place, "n1");
        images[from..].iter().all(|it| it.as_deref() == Some(image.as_str()))
    };
    let all_have_it = || has_it(2);
    assert!(all_have_it());
    let says = |core: &str, part: &str| {
        let call = ["call", "ackermann.compute", "m=3", "n=1000", "--core", core];
        // One that has just begun anew may have to be found again.
        until(&format!("{core} says {part}"), || place.run(&call).err.contains(part));
    };
    says("n1.c2", "lasts too long");
    says("n1.c4", "lasts too long");
    says("n1.c1", "takes too long");

    // The link to the cluster.
    deploy(&good, &["n1.c1"]).expect(0);
    says("n1.c1", "lasts too long");
    let bad = kernel(folder, "bad", |bytes| beginning_with(bytes, BROKEN));
    let refused = deploy(&bad, &["n1.c0"]).expect(1);
    assert!(refused.err.contains("runs its former one again"), "{}", refused.err);
    assert!(has_it(1) && images(&place, "n1")[0].is_none());
    says("n1.c0", "takes too long");
    // The managing core stays while it has the master of a job, and of the next one.
    let sort = ["run", "terasort", "--size", "60M", "--json"];
    let mut sorting = real(&place, &sort);
    let sorting = sorting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("a job has begun", || place.run(&["jobs"]).out.contains("terasort.input"));
    deploy(&good, &["n1.c0"]).expect(0);
    let sorted = document(&Said::from(sorting.wait_with_output().unwrap()).expect(0));
    assert_eq!(sorted["valid"], true, "{sorted}");
    assert!(has_it(0));
    says("n1.c0", "lasts too long");
    place.run(&["core", "renew", "n1.c0"]).expect(0);
    let sort = ["run", "terasort", "--size", "16M", "--json", "--name", "after"];
    assert_eq!(document(&run(&mut real(&place, &sort), &[]).expect(0))["valid"], true);
    assert!(has_it(0));

    // The next incarnation of the managing core knows them.
    place.run(&["call", "core_manager.end_core", "core=0", "--core", "n1.c0"]);
    until("it manages again", || place.run(&["roles", "n1"]).status == Some(0));
    assert!(all_have_it());
    // Its own is taken back, if its trial was not over.
    let taken_back = usize::from(images(&place, "n1")[0].is_none());

    // A core keeps its image when it begins anew. What is on no core any more is free again.
    let free = || {
        let call = ["call", "physical_memory.statistics", "--core", "n1.c0"];
        place.json(&call)["reply"]["use"]["free_bytes"].as_u64().unwrap()
    };
    place.run(&["core", "renew", "n1.c2"]).expect(0);
    says("n1.c2", "lasts too long");
    let (mut before, mut alike) = (free(), 0);
    until("nothing comes back any more", || {
        thread::sleep(Duration::from_millis(500));
        let last = mem::replace(&mut before, free());
        alike = if last == before { alike + 1 } else { 0 };
        alike == 5
    });

    // One that cannot even begin is taken back, and so is one that fails in its first ten seconds.
    for core in ["n1.c2", "n1.c4"] {
        let bad = deploy(&bad, &[core]).expect(1);
        assert!(bad.err.contains("runs its former one again"), "{}", bad.err);
        says(core, "lasts too long");
    }
    assert!(all_have_it());
    let own = kernel(folder, "own", |_| ());
    deploy(&own, &["n1.c2"]).expect(0);
    assert_ne!(images(&place, "n1")[2], Some(image.clone()));
    place.run(&["call", "core_manager.end_core", "core=2", "--core", "n1.c0"]).expect(0);
    until("its former image is back", || images(&place, "n1")[2].as_ref() == Some(&image));
    says("n1.c2", "lasts too long");
    let log = place.run(&["logs", "n1"]).expect(0).out;
    let failed = log.matches("failed while it was on trial").count();
    assert_eq!(failed, 4 + taken_back, "{log}");
    assert!(log.contains(" of image "), "{log}");
    until("their memory is free", || {
        let now = free();
        println!("{now} bytes are free, and were {before}");
        now >= before
    });

    // All of them by one command, the managing core last.
    let said = place.json(&["deploy", &own, "n1"]);
    let cores = json!(["n1.c2", "n1.c3", "n1.c4", "n1.c1", "n1.c0"]);
    assert_eq!((&said["cores"], &said["kept"]), (&cores, &json!([])));
    assert!(images(&place, "n1").iter().all(|it| it.as_deref() == said["image"].as_str()));
    place.run(&["down"]).expect(0);
}

mod long {
    use super::*;

    #[test]
    fn one_that_hangs_is_taken_back() {
        let place = Place::new();
        let up = ["up", "--machine", "qemu", "--nodes", "1", "--cores", "3", "--memory", "128M"];
        run(&mut real(&place, &up), &[]).expect(0);
        let folder = tempfile::tempdir().unwrap();
        let endless = kernel(folder.path(), "endless", |bytes| beginning_with(bytes, ENDLESS));
        let said = place.run(&["deploy", &endless, "n1.c2", "--timeout", "30"]).expect(1);
        assert!(said.err.contains("runs its former one again"), "{}", said.err);
        assert_eq!(images(&place, "n1"), [None, None, None]);
        let compute = ["call", "ackermann.compute", "m=2", "n=3", "--core", "n1.c2"];
        place.run(&compute).expect(0);
        let log = place.run(&["logs", "n1"]).expect(0).out;
        assert!(log.contains("failed while it was on trial (did not begin)"), "{log}");
        place.run(&["down"]).expect(0);
    }
}
