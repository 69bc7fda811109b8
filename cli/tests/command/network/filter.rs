//! The packet filter of a node's network, as its configuration and people have it.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use super::servers::{echoes, servers};
use super::{connect, get};
use crate::cluster::{Place, refused, until};

/// How long somebody waits for an answer that does not come.
const IN_VAIN: Duration = Duration::from_secs(1);

#[test]
fn a_filter_is_set_while_connections_are_open_and_outlives_the_network() {
    let (place, [web, echo]) = servers("[filter]\nrules = [\"deny in tcp to port 81\"]\n");
    let filter = |place: &Place| place.json(&["net", "filter", "n1"])["filters"][0].clone();
    assert_eq!(filter(&place)["rules"][0], "deny in tcp to port 81");
    let mut open = connect(echo);
    echoes(&mut open, 1);
    let file = place.folder().join("rules");
    let set = |text: &str| {
        fs::write(&file, text).unwrap();
        let said = place.run(&["net", "filter", "n1", "set", file.to_str().unwrap()]);
        fs::remove_file(&file).unwrap();
        said
    };
    refused(set("deny in\nallow in tcp to port http\n"), "rules:2:22: no port, such as 80");
    refused(place.run(&["net", "filter", "n2"]), "no package serves a network of n2");
    let rules = "allow in established # what is open stays open\n\
                 allow in tcp to port 80 new\n\
                 deny in\n";
    let said = set(rules).expect(0).out;
    assert!(said.starts_with("allow in established\nallow in tcp to port 80 new\n"), "{said}");
    for turn in 0..2 {
        echoes(&mut open, turn);
        let mut late = connect(echo);
        late.set_read_timeout(Some(IN_VAIN)).unwrap();
        late.write_all(b"hello").unwrap();
        let failed = late.read(&mut [0]).expect_err("nobody is to answer");
        assert_eq!(failed.kind(), ErrorKind::WouldBlock, "it is dropped, not refused");
        assert!(get(web, "/", "").0.starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(filter(&place)["denied"].as_u64().unwrap() > 0);
        if turn == 0 {
            place.run(&["servers", "restart", "net"]).expect(0);
            until("it serves again", || filter(&place)["rules"].as_array().is_some());
            assert_eq!(filter(&place)["rules"].as_array().unwrap().len(), 3);
        }
    }
    set("").expect(0);
    echoes(&mut connect(echo), 3);
    place.run(&["down"]).expect(0);
    assert_eq!(place.left(), Vec::<String>::new());
}
