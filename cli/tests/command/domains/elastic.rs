//! Cores that go to a domain and back by what it has to do.

use std::process::Stdio;

use serde_json::{Value, json};

use super::supervised;
use crate::cluster::{Place, refused, send, until};

fn cores(place: &Place, name: &str) -> usize {
    place.json(&["domain", "show", name])["cores"].as_array().unwrap().len()
}

#[test]
fn a_domain_gets_cores_while_it_is_slow_and_gives_them_back() {
    let place = supervised();
    let create = |words: &[&str]| {
        place.run(&[&["domain", "create"], words, &["--memory", "64M"]].concat()).expect(0)
    };
    create(&["web", "--cores", "1", "--max-cores", "2"]);
    create(&["batch", "--cores", "2", "--min-cores", "1"]);
    let policy = ["domain", "policy", "elastic", "--for", "web", "--from", "batch"];
    for (words, part) in [
        (&["--lt", "5ms", "--ut", "5ms"][..], "--lt 5ms is not below --ut 5ms"),
        (&["--lt", "5ms", "--ut", "80%"], "--by latency wants a time, as 5ms"),
        (&["--lt", "5ms", "--ut", "80%", "--by", "load"], "--by load wants a share, as 80%"),
        (&["--lt", "5", "--ut", "80%"], "not a time from 1us to 60s"),
        (&["--lt", "5%", "--ut", "101%"], "no share from 0% to 100%"),
        (&["--lt", "1ms", "--ut", "2ms", "--window", "1ms"], "less than 10ms"),
        (&["--lt", "1ms", "--ut", "2ms", "--percentile", "0"], "not a number from 1 to 100"),
    ] {
        refused(place.run(&[&policy[..], words].concat()), part);
    }
    let bounds = ["--lt", "100us", "--ut", "200us"];
    let other = |name| [&["domain", "policy", "elastic", "--for", name][..], &bounds].concat();
    refused(place.run(&other("wbe")), "no domain `wbe`; there are");
    let own = [&other("web")[..], &["--from", "web"]].concat();
    refused(place.run(&own), "takes no cores from itself");

    let mut elastic = place.nile();
    elastic.args(policy).args(bounds);
    elastic.args(["--window", "100ms", "--calm", "2", "--json"]);
    let elastic = elastic.stdout(Stdio::piped()).spawn().unwrap();
    // Each of these calls takes milliseconds.
    let slow = ["call", "ackermann.compute", "m=2", "n=900", "--core", "web.c0", "--times", "20"];
    until("it has got a core", || {
        place.run(&slow).expect(0);
        cores(&place, "web") == 2
    });
    assert_eq!(cores(&place, "batch"), 1);
    until("it has given it back", || cores(&place, "web") == 1);
    assert_eq!(cores(&place, "batch"), 2);
    send("-INT", elastic.id());
    let said = elastic.wait_with_output().unwrap();
    assert_eq!(said.status.code(), Some(130));
    let lines = String::from_utf8(said.stdout).unwrap();
    let steps: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let taken: Vec<&Value> = steps.iter().filter(|it| it["refused"].is_null()).collect();
    assert_eq!((&taken[0]["cores"], &taken[1]["cores"]), (&json!(1), &json!(-1)), "{lines}");
    assert!(taken[0]["measured"]["within_ns"].as_u64() > Some(200_000), "{lines}");
    // What is refused is told once.
    let refused = lines.matches("web has as many cores as it can have").count();
    assert!(refused <= 1, "{lines}");
}
