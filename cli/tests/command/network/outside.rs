//! Linux's own network stack as the other side of a node's, over a TAP of a network namespace: an
//! oracle that is another project's, and clients that are, `ping` and `curl`.

use std::fs;
use std::process::Command;

use super::{LARGE, put};
use crate::cluster::{Place, hosted, until};
use crate::jobs::packages;
use crate::support::{Said, run};

/// A network namespace with the TAP `tap`, which is gone with the value.
struct Namespace(String);

impl Namespace {
    /// `None` where that takes privileges that are missing.
    fn with_tap() -> Option<Namespace> {
        let namespace = Namespace(format!("nile-tap-{}", std::process::id()));
        let name = namespace.0.as_str();
        let steps: [&[&str]; 5] = [
            &["netns", "add", name],
            &["-n", name, "tuntap", "add", "tap", "mode", "tap"],
            &["-n", name, "address", "add", "fd42::99/64", "dev", "tap", "nodad"],
            &["-n", name, "address", "add", "10.42.0.99/16", "dev", "tap"],
            &["-n", name, "link", "set", "tap", "up"],
        ];
        let done = |words: &[&str]| {
            Command::new("ip").args(words).output().is_ok_and(|it| it.status.success())
        };
        let made = steps.iter().all(|it| done(it));
        made.then_some(namespace)
    }

    /// A program in there.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, program]);
        command
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Said {
        run(&mut self.command(program), arguments)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).output();
    }
}

/// Both addresses of IPv6 that n1 has.
const WIDE: &str = "fd42::1";
const LINK: &str = "fe80::ff:fe00:100%tap";

/// Echoes to both addresses, a large one, and one that comes in pieces.
fn echoes(namespace: &Namespace) {
    let ping = |more: &[&str]| namespace.run("ping", &[&["-6", "-W", "2"][..], more].concat());
    for to in [WIDE, LINK] {
        let said = ping(&["-c", "3", "-i", "0.2", to]).expect(0).out;
        assert!(said.contains(" 0% packet loss"), "{said}");
    }
    ping(&["-c", "1", "-s", "1452", "-M", "do", WIDE]).expect(0);
    assert_ne!(ping(&["-c", "1", "-s", "3000", WIDE]).status, Some(0), "pieces are dropped");
}

#[test]
fn linux_reaches_a_node_over_ipv6_while_its_network_begins_anew() {
    let Some(namespace) = Namespace::with_tap() else {
        return eprintln!("not run: this user may not make network devices");
    };
    let has = |program: &str| Command::new(program).arg("-V").output().is_ok();
    if !has("curl") {
        return eprintln!("not run: there is no curl");
    }
    let place = Place::new();
    let file = place.folder().join("nile.toml");
    fs::write(&file, "[ip]\nipv6 = \"fd42::1/64\"\n").unwrap();
    let mut up = namespace.command(place.nile().get_program().to_str().unwrap());
    place.in_here(up.env("NILE_HOSTED", hosted()));
    let words = ["up", "--machine", "hosted", "--nodes", "1", "--disk", "64M"];
    let with = ["--config", file.to_str().unwrap(), "--interface", "tap:tap"];
    run(&mut up, &[&words[..], &with].concat()).expect(0);
    fs::remove_file(file).unwrap();
    let content = put(&place, LARGE);
    for name in ["net", "web"] {
        let start = ["package", "start", name, "--on", "n1.c3", "--share"];
        run(place.nile().env("NILE_PACKAGES", packages()), &start).expect(0);
    }
    until("it has its addresses", || {
        let v6 = place.json(&["net", "list"])["addresses"][0]["v6"].clone();
        v6 == serde_json::json!(["fe80::ff:fe00:100/64", "fd42::1/64"])
    });
    match has("ping") {
        true => echoes(&namespace),
        false => eprintln!("not run in part: there is no ping"),
    }
    let copy = place.folder().join("copy");
    for to in [format!("[{WIDE}]"), format!("[{LINK}]"), "10.42.0.1".into()] {
        let url = format!("http://{}/data/large", to.replace('%', "%25"));
        let slowly = ["--silent", "--show-error", "--limit-rate", "3M", "--output"];
        let mut curl = namespace.command("curl");
        curl.args(slowly).arg(&copy).arg(&url);
        let mut curl = curl.spawn().unwrap();
        for _ in 0..3 {
            place.run(&["servers", "restart", "net"]).expect(0);
            until("it serves again", || {
                place.json(&["net", "list"])["listeners"].as_array().is_some_and(|it| it.len() == 1)
            });
        }
        assert!(curl.wait().unwrap().success(), "{url}");
        assert!(fs::read(&copy).unwrap() == content, "{url}: what has come is not what was put");
    }
    fs::remove_file(copy).unwrap();
    place.run(&["down"]).expect(0);
    assert_eq!(place.left(), Vec::<String>::new());
}
