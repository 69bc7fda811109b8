//! What domains are charged for, and what they do in each second.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::supervised;
use crate::cluster::{Place, refused};

/// The one domain that `words` tell of.
fn account(place: &Place, words: &[&str]) -> Value {
    place.json(&[&["domain", "account"], words].concat())["domains"][0].clone()
}

fn number(account: &Value, what: &str) -> f64 {
    account[what].as_f64().unwrap_or_else(|| panic!("no {what} in {account}"))
}

/// A domain of a PC is charged for what it sends, and sends no more than it may. It has no limit
/// when this ends.
pub fn is_limited(place: &Place, name: &str, call: impl Fn()) {
    let limit = |words: &[&str]| place.run(&[&["domain", "limit", name], words].concat());
    refused(limit(&[]), "say --rate, --burst or --weight");
    refused(limit(&["--burst", "1K"]), "a burst is 2048 to 1073741824, and not 1024");
    refused(limit(&["--rate", "100"]), "a size from 1K on");
    let sent = || account(place, &[name])["sent"].clone();
    let before = sent();
    call();
    let after = sent();
    for what in ["frames", "bytes", "bridge_seconds"] {
        assert!(number(&after, what) > number(&before, what), "{what}: {before} {after}");
    }
    let dropped = number(&after, "dropped");
    limit(&["--rate", "1K", "--burst", "2K"]).expect(0);
    let until = Instant::now() + Duration::from_secs(60);
    while number(&sent(), "dropped") == dropped {
        assert!(Instant::now() < until, "{}", sent());
        // It may have no answer in time.
        place.run(&["call", "ackermann.compute", "m=2", "n=3", "--core", &format!("{name}.c0")]);
    }
    let text = limit(&["--weight", "2"]).expect(0).out;
    assert!(text.contains("sends 1 KiB a second, 2 KiB at once, weight 2\n"), "{text}");
    limit(&["--rate", "unlimited"]).expect(0);
    call();
}

#[test]
fn domains_are_charged_for_what_they_had() {
    let place = supervised();
    let domain = |words: &[&str]| place.run(&[&["domain"], words].concat());
    assert_eq!(place.json(&["domain", "account"]), json!({ "domains": [] }));
    let create = ["create", "web", "--cores", "2", "--max-cores", "3", "--memory", "64M"];
    domain(&create).expect(0);
    let before = account(&place, &["web"]);
    place.run(&["call", "ackermann.compute", "m=2", "n=3", "--core", "web.c1"]).expect(0);
    let after = account(&place, &[]);
    let passed = |what| number(&after, what) - number(&before, what);
    let age = passed("age_seconds");
    assert!(age > 0.0);
    assert!((passed("core_seconds") - 2.0 * age).abs() < 1e-4, "{before} {after}");
    assert!((passed("mebibyte_seconds") - 64.0 * age).abs() < 1e-2, "{before} {after}");
    assert!(passed("answers") >= 1.0 && passed("interrupts") >= 0.0, "{before} {after}");
    assert!(number(&after, "busy_seconds") > 0.0, "{after}");

    domain(&["resize", "web", "--cores", "3"]).expect(0);
    let (before, after) = (account(&place, &["web"]), account(&place, &["web"]));
    let passed = |what| number(&after, what) - number(&before, what);
    assert!((passed("core_seconds") - 3.0 * passed("age_seconds")).abs() < 1e-4, "{after}");

    let top = domain(&["top", "--times", "2", "--period", "50ms", "--json"]).expect(0).out;
    let seen: Vec<Value> = top.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(seen.len(), 2, "{top}");
    let [first, second] = [0, 1].map(|at| seen[at]["domains"][0].clone());
    assert_eq!((&second["name"], &second["cores"]), (&json!("web"), &json!([1, 2, 3])));
    assert!(first["load_percent"].is_null() && second["load_percent"].is_u64(), "{top}");
    let text = domain(&["top", "--times", "1"]).expect(0).out;
    assert!(text.starts_with("domain") && text.contains("web"), "{text}");
    assert!(!text.contains('\u{1b}'), "it is no terminal: {text:?}");

    refused(domain(&["account", "wbe"]), "no domain `wbe`; there are");
    assert!(after["sent"].is_null(), "nobody counts the frames of a hosted one: {after}");
    refused(domain(&["limit", "web", "--weight", "2"]), "nobody in between");
    refused(domain(&["top", "--period", "1ms"]), "less than 10ms");
}
