//! Records of a core under unmodified clients of memcached, as the guide in docs/records.md has it,
//! and while the package that serves them is stopped.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::cluster::{Place, refused, until};
use crate::network::{commands, connect, free_port, step};
use crate::support::root;

/// A client that knows the protocol, and what it expects.
struct Client {
    reads: BufReader<TcpStream>,
    sends: TcpStream,
}

impl Client {
    fn new(port: u16) -> Client {
        let sends = connect(port);
        Client { reads: BufReader::new(sends.try_clone().unwrap()), sends }
    }

    fn say(&mut self, request: &str) {
        self.sends.write_all(request.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reads.read_line(&mut line).unwrap();
        line.trim_end_matches("\r\n").into()
    }

    fn expect(&mut self, request: &str, answer: &str) {
        self.say(request);
        for expected in answer.lines() {
            assert_eq!(self.line(), expected, "{request}");
        }
    }
}

#[test]
fn the_guide_serves_records() {
    let place = Place::new();
    let port = free_port();
    let guide = fs::read_to_string(root().join("docs/records.md")).unwrap();
    let lines = commands(&guide, "Serve records");
    let has_clients = Command::new("memccapable").arg("-h").output().is_ok();
    let (down, others) = lines.split_last().unwrap();
    for line in others {
        let line = line.replace("11211:n1", &format!("{port}:n1"));
        let line = line.replace("-p 11211", &format!("-p {port}"));
        let line = line.replace("127.0.0.1:11211", &format!("127.0.0.1:{port}"));
        if line.starts_with("memc") && !has_clients {
            eprintln!("not run, as libmemcached's tools are not there: {line}");
            continue;
        }
        let said = step(&place, &line, port);
        if line.starts_with("memccapable") {
            assert!(said.contains("All tests passed"), "{said}");
        }
        if line.starts_with("memcstat") {
            assert!(said.contains("curr_items"), "{said}");
        }
    }
    values_outlive_the_package(&place, port);
    step(&place, down, port);
    assert_eq!(place.left(), Vec::<String>::new());
}

#[test]
fn the_guide_keeps_records() {
    let place = Place::new();
    let guide = fs::read_to_string(root().join("docs/records.md")).unwrap();
    let lines = commands(&guide, "From the command line");
    let (down, others) = lines.split_last().unwrap();
    let said: Vec<String> =
        others.iter().map(|line| step(&place, &line.replace('"', ""), 0)).collect();
    assert!(said[1].starts_with("greeting is on n"), "{said:?}");
    assert!(said[1].ends_with(", version 1\n"), "{said:?}");
    assert_eq!(said[2], "hello");
    assert!(said[3].contains("greeting") && said[4].contains("13"), "{said:?}");
    let nothing = place.run(&["record", "get", "greeting"]);
    assert_eq!((nothing.status, nothing.out.as_str()), (Some(2), ""), "{}", nothing.err);
    let large = "v".repeat(4097);
    refused(place.run(&["record", "put", "a", &large]), "at most 4096 bytes");
    refused(place.run(&["record", "put", "", "x"]), "1 to 256");
    for key in 0..30 {
        place.run(&["record", "put", &format!("key-{key}"), "x"]).expect(0);
    }
    let listed = |number: &str| place.json(&["record", "list", "-n", number]);
    let (all, some) = (listed("30"), listed("29"));
    assert_eq!((all["records"].as_array().unwrap().len(), &all["more"]), (30, &false.into()));
    assert_eq!((some["records"].as_array().unwrap().len(), &some["more"]), (29, &true.into()));
    step(&place, down, 0);
    assert_eq!(place.left(), Vec::<String>::new());
}

/// Requests in great number on one connection, while the package is stopped: each is answered once,
/// as a model has it, and what was stored is there.
fn values_outlive_the_package(place: &Place, port: u16) {
    let list = ["call", "packages.list", "--core", "n1.c3"];
    let state = || place.json(&list)["reply"]["packages"][0].clone();
    let begun = state()["begun"].as_u64().unwrap();
    let mut client = Client::new(port);
    let mut model = BTreeMap::new();
    for turn in 0..3 {
        thread::scope(|scope| {
            let stops = scope.spawn(|| {
                thread::sleep(Duration::from_millis(1100));
                place.run(&["servers", "restart", "memcached"]).expect(0);
                until("it runs again", || state()["begun"] == begun + turn + 1);
            });
            let mut at = 0_u64;
            while !stops.is_finished() {
                at += 1;
                let key = format!("key-{}", at % 100);
                let value = "v".repeat((at * 37 % 4000) as usize) + &format!("{turn}-{at}");
                // Several at once are answered in their order.
                let set = format!("set {key} {at} 0 {}\r\n{value}\r\n", value.len());
                client.say(&format!("{set}get {key}\r\n"));
                assert_eq!(client.line(), "STORED");
                assert_eq!(client.line(), format!("VALUE {key} {at} {}", value.len()));
                assert!(client.line() == value, "{key} has another value");
                assert_eq!(client.line(), "END");
                model.insert(key, value);
            }
            assert!(at > 10, "{at} requests");
        });
    }
    // Those of an earlier incarnation are there for another connection, too.
    let mut other = Client::new(port);
    for (key, value) in &model {
        other.say(&format!("get {key}\r\n"));
        assert!(other.line().starts_with(&format!("VALUE {key} ")), "{key} is gone");
        assert!(other.line() == *value, "{key} has another value");
        assert_eq!(other.line(), "END");
    }
    // What is too large is passed over, whatever it looks like.
    let large = "get key-1\r\n".repeat(3000);
    client.say(&format!("set large 0 0 {}\r\n{large}\r\n", large.len()));
    assert_eq!(client.line(), "SERVER_ERROR object too large for cache");
    client.expect("flush_all\r\nget key-1\r\n", "OK\nEND\n");
    client.expect("quit\r\n", "");
    assert_eq!(client.line(), "", "the connection has ended");
}
