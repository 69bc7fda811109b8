//! Servers are restarted, replaced and moved while connections are open through them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::net::sockopt;

use super::{LARGE, connect, free_port, put};
use crate::cluster::{Place, refused};
use crate::jobs::packages;
use crate::support::run;

/// Bytes of what is downloaded by the step `jobs-long`, and of it here.
const LONG: usize = 100_000_000;

/// A node with `net`, `web` and `echo` on its last core, and another one without any; ports of this
/// machine that lead to `web` and `echo`. Their configuration says `more`.
pub fn servers(more: &str) -> (Place, [u16; 2]) {
    let place = Place::new();
    let ports = [free_port(), free_port()];
    let [web, echo] = ports;
    let file = configuration(
        &place,
        &format!(
            "[ip]\naddress = \"192.168.7.5/24\"\nforward = [\"{web}:n1:80\", \"{echo}:n1:7\"]\n\
             {more}"
        ),
    );
    let up = ["up", "--machine", "hosted", "--nodes", "2", "--disk", "256M", "--config"];
    place.run(&[&up[..], &[file.to_str().unwrap()]].concat()).expect(0);
    fs::remove_file(file).unwrap();
    for name in ["net", "web", "echo"] {
        let start = ["package", "start", name, "--on", "n1.c3", "--share"];
        run(place.nile().env("NILE_PACKAGES", packages()), &start).expect(0);
    }
    (place, ports)
}

/// A file with a configuration.
fn configuration(place: &Place, text: &str) -> PathBuf {
    let file = place.folder().join("nile.toml");
    fs::write(&file, text).unwrap();
    file
}

#[test]
fn what_is_no_network_is_refused_before_anything_is_started() {
    let place = Place::new();
    for (text, part) in [
        ("[ip]\naddress = \"10.0.0.1\"\n", "nile.toml:2: address is \"10.0.0.1\"; it is n1's"),
        ("[ip]\naddress = \"10.0.0.1/30\"\n", "nile.toml:2: the network of 10.0.0.1/30 has no"),
        ("[ip]\naddress = \"dhcp\"\ngateway = \"10.42.0.9\"\n", "nile.toml:3: gateway is"),
        ("[ip]\nforward = [\"80:80\"]\n", "nile.toml:2: forward: `80:80` is not"),
        ("[ip]\nforward = [\"8080:n9:80\"]\n", "its last node is n2"),
        ("[filter]\nrules = [\n\"deny\"]\n", "nile.toml:3: rule \"deny\", byte 5: behind that"),
    ] {
        let file = configuration(&place, text);
        refused(place.up(&["--nodes", "2", "--config", file.to_str().unwrap()]), part);
        fs::remove_file(file).unwrap();
    }
    assert_eq!(place.left(), Vec::<String>::new());
}

/// Sends bytes to `echo`, and has them again.
pub fn echoes(stream: &mut TcpStream, byte: u8) {
    stream.write_all(&[byte; 5000]).unwrap();
    let mut back = [0; 5000];
    stream.read_exact(&mut back).unwrap();
    assert_eq!(back, [byte; 5000]);
}

#[test]
fn connections_go_on_while_their_servers_are_replaced_and_moved() {
    let (place, [web, echo]) = servers("");
    let content = put(&place, LARGE);
    let servers = |arguments: &[&str]| {
        let arguments = [&["servers"], arguments].concat();
        run(place.nile().env("NILE_PACKAGES", packages()), &arguments)
    };
    let mut echoed = connect(echo);
    let mut stream = connect(web);
    sockopt::set_socket_recv_buffer_size(&stream, 64 << 10).unwrap();
    stream.write_all(b"GET /data/large HTTP/1.0\r\n\r\n").unwrap();
    let mut said = Vec::new();
    let steps: [&[&str]; 8] = [
        &["replace", "net", "net"],
        &["move", "net", "n1.c2"],
        &["replace", "n1.c3/web", "web"],
        &["move", "echo", "n1.c2", "--share"],
        &["move", "n1.c3/web", "n1.c2", "--share"],
        &["move", "n1.c2/net", "n1.c3"],
        &["replace", "echo", "echo"],
        &["move", "web", "n1.c3", "--share"],
    ];
    for (turn, step) in (0..).zip(steps) {
        let mut more = vec![0; 300_000];
        stream.read_exact(&mut more).unwrap();
        said.extend(more);
        echoes(&mut echoed, turn);
        servers(step).expect(0);
    }
    echoes(&mut echoed, 99);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    said.extend(rest);
    let head = said.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
    assert!(said[head..] == content, "what has come is not what was put");

    // What cannot be leaves all as it is.
    let before = place.json(&["servers"])["servers"].clone();
    for (step, part) in [
        (&["move", "net", "n1.c3"][..], "on c3 already"),
        (&["move", "net", "n1.c2"], "--share runs net beside"),
        (&["move", "net", "n1.c1"], "n1.c1 is no worker core"),
        (&["move", "net", "n2.c3"], "the address of its node"),
        (&["replace", "net", "web"], "web is another package"),
        (&["move", "nobody", "n1.c2"], "nobody"),
    ] {
        refused(servers(step), part);
    }
    let after = place.json(&["servers"])["servers"].clone();
    let told = |all: &serde_json::Value| {
        let all = all.as_array().unwrap().iter();
        all.map(|it| (it["core"].clone(), it["name"].clone(), it["begun"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(told(&before), told(&after));
    echoes(&mut echoed, 100);
    let listed = place.json(&["net", "list"]);
    let listeners = listed["listeners"].as_array().unwrap().iter();
    let at: Vec<&str> = listeners.map(|it| it["at"].as_str().unwrap()).collect();
    assert!(at.contains(&"192.168.7.5:80") && at.contains(&"192.168.7.5:7"), "{at:?}");
    place.run(&["down"]).expect(0);
    assert_eq!(place.left(), Vec::<String>::new());
}

#[test]
fn curl_has_a_dataset_through_restarts_of_the_network() {
    curl_through_restarts(LARGE, 3);
}

/// The same, for long.
mod long {
    #[test]
    fn curl_has_a_hundred_megabytes_through_ten_restarts_of_the_network() {
        super::curl_through_restarts(super::LONG, 10);
    }

    #[test]
    fn half_a_request_does_not_hold_a_place_for_ever() {
        let (place, [web, _]) = super::servers("");
        let mut stream = super::TcpStream::connect(("127.0.0.1", web)).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(120))).unwrap();
        super::Write::write_all(&mut stream, b"GET / HT").unwrap();
        let mut answer = String::new();
        super::Read::read_to_string(&mut stream, &mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
        place.run(&["down"]).expect(0);
    }
}

/// `curl` has a dataset of so many bytes while `net` begins anew so often. What `curl` has goes
/// through a pipe, of which one half is read bit by bit between restarts.
fn curl_through_restarts(bytes: usize, restarts: usize) {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("not run, as there is no curl");
        return;
    }
    let (place, [web, _]) = servers("");
    let content = put(&place, bytes);
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--max-time", "600"]);
    curl.arg(format!("http://127.0.0.1:{web}/data/large"));
    let mut curl = curl.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut had = curl.stdout.take().unwrap();
    let mut came = vec![0; bytes];
    let (first, rest) = came.split_at_mut(bytes / 2);
    for part in first.chunks_mut(bytes.div_ceil(2 * restarts)) {
        had.read_exact(part).unwrap();
        place.run(&["servers", "restart", "net"]).expect(0);
    }
    had.read_exact(rest).unwrap();
    assert_eq!(had.read(&mut [0]).unwrap(), 0, "curl has more than what was put");
    let said = curl.wait_with_output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert!(came == content, "what has come is not what was put");
    let servers = place.json(&["servers"]);
    let servers = servers["servers"].as_array().unwrap();
    let begun = |name: &str| servers.iter().find(|it| it["name"] == name).unwrap()["begun"].clone();
    assert_eq!((begun("net"), begun("web")), ((restarts + 1).into(), 1.into()));
    place.run(&["down"]).expect(0);
    assert_eq!(place.left(), Vec::<String>::new());
}
