//! A node's datasets over HTTP, as the guide in docs/network.md has it: its commands are run as
//! they stand there, on a port that is free. Then what clients do that are up to no good. And other
//! packages with sockets: `iperf` under an unmodified iperf3, `echo` while it is stopped.

mod faults;
mod filter;
mod outside;
mod servers;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::net::sockopt;

use crate::cluster::{Place, refused, until};
use crate::jobs::packages;
use crate::support::{root, run};

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of the dataset that is had several times at once; far more than fits all buffers between.
const LARGE: usize = 6_000_001;

/// Has a cluster keep so many bytes as the dataset `large`: what they are.
fn put(place: &Place, bytes: usize) -> Vec<u8> {
    let content: Vec<u8> = (0..bytes).map(|at| (at.wrapping_mul(at) >> 9) as u8).collect();
    let file = place.folder().join("large");
    fs::write(&file, &content).unwrap();
    place.run(&["put", file.to_str().unwrap(), "large"]).expect(0);
    fs::remove_file(file).unwrap();
    content
}

/// A port of this machine that nobody has.
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// What comes of some bytes, up to the end of the connection.
fn answer(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(port);
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// The head and the body of an answer to a request for a path.
fn get(port: u16, path: &str, headers: &str) -> (String, Vec<u8>) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n{headers}\r\n");
    let answer = answer(port, request.as_bytes());
    let end = answer.windows(4).position(|it| it == b"\r\n\r\n").expect("it has a head") + 4;
    (String::from_utf8(answer[..end].to_vec()).unwrap(), answer[end..].to_vec())
}

/// The commands of a section of the guide.
pub fn commands(guide: &str, begins: &str) -> Vec<String> {
    let section = guide.split("\n## ").find(|it| it.starts_with(begins)).unwrap();
    let blocks = section.split("```").skip(1).step_by(2);
    blocks.flat_map(|it| it.lines().skip(1)).map(String::from).collect()
}

/// A command of the guide.
pub fn step(place: &Place, line: &str, port: u16) -> String {
    let line = line.replace("8080", &port.to_string());
    // Between quotes there is one word.
    let parts = line.split('"').enumerate();
    let words: Vec<&str> = parts
        .flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        })
        .collect();
    let mut command = match words[0] {
        "./nile" => {
            let mut command = place.nile();
            command.env("NILE_PACKAGES", packages()).current_dir(root());
            command
        }
        program => {
            let mut command = Command::new(program);
            command.current_dir(place.folder());
            command
        }
    };
    run(&mut command, &words[1..]).expect(0).out
}

#[test]
fn the_guide_serves_a_dataset() {
    let place = Place::new();
    let port = free_port();
    let guide = fs::read_to_string(root().join("docs/network.md")).unwrap();
    let lines = commands(&guide, "Serve a dataset");
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    let readme = fs::read(root().join("README.md")).unwrap();
    let of = |part: &str| lines.iter().position(|it| it.contains(part)).unwrap();
    let (metrics, list) = (of("/metrics"), of("net list"));
    for line in &lines[..=metrics] {
        if line.starts_with("curl") && !has_curl {
            continue;
        }
        let said = step(&place, line, port);
        if line.starts_with("./nile up") {
            let failed =
                connect(port).read_exact(&mut [0]).expect_err("nobody serves anything yet");
            assert_eq!(failed.kind(), ErrorKind::ConnectionReset);
        }
        if line.contains("--range 0-9") {
            assert_eq!(said.as_bytes(), &readme[..10]);
        }
        if line.ends_with("/metrics") {
            assert!(said.contains("nile_web_requests_total{node=\"n1\"} "), "{said}");
        }
    }
    if has_curl {
        assert_eq!(fs::read(place.folder().join("copy.md")).unwrap(), readme);
        fs::remove_file(place.folder().join("copy.md")).unwrap();
    }
    check(&place, port, &readme);
    let listed = step(&place, &lines[list], port);
    assert!(listed.contains("10.42.0.1:80"), "{listed}");
    for line in &lines[list + 1..] {
        step(&place, line, port);
    }
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "the port is free again");
    assert_eq!(place.left(), Vec::<String>::new());
}

#[test]
fn a_relay_joins_connections() {
    let place = Place::new();
    let port = free_port();
    let guide = fs::read_to_string(root().join("docs/network.md")).unwrap();
    let lines = commands(&guide, "Join ports");
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    let readme = fs::read(root().join("README.md")).unwrap();
    let (down, others) = lines.split_last().unwrap();
    for line in others {
        if has_curl || !line.starts_with("curl") {
            step(&place, line, port);
        }
    }
    if has_curl {
        assert_eq!(fs::read(place.folder().join("copy.md")).unwrap(), readme);
        fs::remove_file(place.folder().join("copy.md")).unwrap();
    }
    // One side sends no more before the other one has begun.
    let mut stream = connect(port);
    stream.write_all(b"GET /data/readme HTTP/1.0\r\n\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut came = Vec::new();
    stream.read_to_end(&mut came).unwrap();
    assert!(came.starts_with(b"HTTP/1.1 200 ") && came.ends_with(&readme));

    // Its connections end with it, and when there is nobody to join them to.
    let mut stream = connect(port);
    stream.write_all(b"GET ").unwrap();
    thread::sleep(Duration::from_millis(300));
    place.run(&["servers", "restart", "relay"]).expect(0);
    let ended = stream.read(&mut [0]).map_err(|error| error.kind());
    assert!(matches!(ended, Ok(0) | Err(ErrorKind::ConnectionReset)), "{ended:?}");
    place.run(&["package", "stop", "web"]).expect(0);
    until("nobody is joined", || {
        let mut stream = connect(port);
        let _ = stream.write_all(b"GET ");
        stream.read(&mut [0]).is_err()
    });
    step(&place, down, port);
    assert_eq!(place.left(), Vec::<String>::new());
}

#[test]
fn iperf3_measures_and_what_is_echoed_outlives_the_package() {
    let place = Place::new();
    let (measures, echoes) = (free_port(), free_port());
    let guide = fs::read_to_string(root().join("docs/network.md")).unwrap();
    let lines = commands(&guide, "Measure it with iperf3");
    let has_iperf = Command::new("iperf3").arg("--version").output().is_ok();
    let (down, others) = lines.split_last().unwrap();
    for line in others {
        let line = line
            .replace("--forward 5201", &format!("--forward {measures}"))
            .replace("--port 5201", &format!("--port {measures}"))
            .replace("--forward 7007", &format!("--forward {echoes}"));
        if line.starts_with("iperf3") && !has_iperf {
            eprintln!("not run, as there is no iperf3: {line}");
            continue;
        }
        let said = step(&place, &line, echoes);
        if line.starts_with("iperf3") {
            let ends = ["sender", "receiver"].map(|end| said.matches(end).count());
            assert!(
                ends[0] >= 1 && ends[0] == ends[1] && said.ends_with("iperf Done.\n"),
                "{said}"
            );
        }
    }
    let servers = place.json(&["servers"]);
    let names = servers["servers"].as_array().unwrap().iter().map(|it| it["name"].clone());
    assert_eq!(names.collect::<Vec<_>>(), ["iperf", "echo"]);
    refused(place.run(&["servers", "restart", "n1.c2"]), "n1.c2");
    an_echo_comes_whole(&place, echoes);
    step(&place, down, echoes);
    assert_eq!(place.left(), Vec::<String>::new());
}

/// `web` and `echo` on one core of a node, by `net` beside them, which dies meanwhile. Its address
/// is lent, and its next incarnation has it at once.
#[test]
fn several_packages_have_one_network() {
    let place = Place::new();
    let (web, echo) = (free_port(), free_port());
    let [serves, echoes] = [(web, 80), (echo, 7)].map(|(port, to)| format!("{port}:n1:{to}"));
    let datagrams = format!("{echoes}/udp");
    let file = place.folder().join("nile.toml");
    fs::write(&file, "[ip]\naddress = \"dhcp\"\n").unwrap();
    let up = ["up", "--machine", "hosted", "--nodes", "2", "--disk", "64M"];
    let with = ["--config", file.to_str().unwrap()];
    let forwards = [&serves, &echoes, &datagrams].map(|it| ["--forward", it]);
    place.run(&[&up[..], &with, forwards.as_flattened()].concat()).expect(0);
    fs::remove_file(file).unwrap();
    let content = put(&place, LARGE);
    for name in ["net", "web", "echo"] {
        let start = ["package", "start", name, "--on", "n1.c3", "--share"];
        run(place.nile().env("NILE_PACKAGES", packages()), &start).expect(0);
    }
    let mut echoed = connect(echo);
    let mut stream = connect(web);
    sockopt::set_socket_recv_buffer_size(&stream, 64 << 10).unwrap();
    stream.write_all(b"GET /data/large HTTP/1.0\r\n\r\n").unwrap();
    let mut said = Vec::new();
    for turn in 0..4u8 {
        let mut more = vec![0; 300_000];
        stream.read_exact(&mut more).unwrap();
        said.extend(more);
        echoed.write_all(&[turn; 5000]).unwrap();
        let mut back = [0; 5000];
        echoed.read_exact(&mut back).unwrap();
        assert_eq!(back, [turn; 5000]);
        // A user's death is none of the others' business.
        let dies = if turn == 2 { "n1.c3/web" } else { "n1.c3/net" };
        place.run(&["servers", "restart", dies]).expect(0);
    }
    until("both listen again", || {
        let listed = place.json(&["net", "list"]);
        let listeners = listed["listeners"].as_array().unwrap().iter();
        let mut whose: Vec<String> = listeners.map(|it| it["package"].to_string()).collect();
        whose.sort();
        whose == ["\"echo\"", "\"web\""]
    });
    let address = place.json(&["net", "list"])["addresses"][0].clone();
    let of = |what: &str| address[what].as_str().unwrap().to_string();
    assert_eq!((of("at"), of("server")), ("10.42.0.1/16".into(), "10.42.255.254".into()));
    assert!((3000..=3600).contains(&address["left_s"].as_u64().unwrap()), "{address}");
    until("a datagram comes back", || {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        socket.send_to(b"hello", ("127.0.0.1", echo)).unwrap();
        let mut back = [0; 16];
        socket.recv(&mut back).is_ok_and(|count| back[..count] == *b"hello")
    });
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    said.extend(rest);
    let head = said.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
    assert!(said[head..] == content, "what has come is not what was put");
    place.run(&["down"]).expect(0);
    assert_eq!(place.left(), Vec::<String>::new());
}

/// While its package on n2 is stopped ten times, each time after it has run for a second: sooner it
/// would begin again after a pause.
fn an_echo_comes_whole(place: &Place, port: u16) {
    const PIECE: usize = 200_000;
    let list = ["call", "packages.list", "--core", "n2.c3"];
    let state = || place.json(&list)["reply"]["packages"][0].clone();
    let content: Vec<u8> = (0..11 * PIECE).map(|at| ((at * at) >> 7) as u8).collect();
    let mut stream = connect(port);
    let mut sends = stream.try_clone().unwrap();
    let mut came = vec![0; content.len()];
    thread::scope(|scope| {
        scope.spawn(|| {
            sends.write_all(&content).unwrap();
            sends.shutdown(Shutdown::Write).unwrap();
        });
        for (turn, piece) in came.chunks_mut(PIECE).enumerate() {
            stream.read_exact(piece).unwrap();
            if turn < 10 {
                thread::sleep(Duration::from_millis(1100));
                place.run(&["servers", "restart", "n2.c3/echo"]).expect(0);
                until("it runs again", || state()["begun"] == turn + 2);
            }
        }
    });
    assert!(came == content, "what came back is not what was sent");
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "there is nothing behind it");
}

/// The server is stopped from outside, replaced, stopped and started in the midst of a download of
/// `large`, which ends as if nothing had been.
fn a_download_goes_on(place: &Place, port: u16, content: &[u8]) {
    let list = ["call", "packages.list", "--core", "n1.c3"];
    let state = || place.json(&list)["reply"]["packages"][0].clone();
    let named = |arguments: &[&str]| {
        let mut command = place.nile();
        run(command.env("NILE_PACKAGES", packages()), arguments).expect(0)
    };
    let mut stream = connect(port);
    // What is read slowly, with little room, is still on its way whatever is done meanwhile.
    sockopt::set_socket_recv_buffer_size(&stream, 64 << 10).unwrap();
    stream.write_all(b"GET /data/large HTTP/1.0\r\n\r\n").unwrap();
    let mut said = vec![0; 300_000];
    stream.read_exact(&mut said).unwrap();
    for turn in 0..3 {
        place.run(&["servers", "restart", "web"]).expect(0);
        until("it runs again", || state()["begun"] == turn + 2);
        let mut more = vec![0; 300_000];
        stream.read_exact(&mut more).unwrap();
        said.extend(more);
    }
    named(&["package", "replace", "web", "web"]);
    place.run(&["package", "stop", "web"]).expect(0);
    named(&["package", "start", "web", "--on", "n1.c3"]);
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    said.extend(rest);
    let head = said.windows(4).position(|it| it == b"\r\n\r\n").unwrap() + 4;
    assert!(said[head..] == *content, "what has come is not what was put");
    let listed = place.json(&["net", "list"]);
    assert_eq!(
        (&listed["listeners"][0]["resumed"], &listed["listeners"][0]["accepted"]),
        (&1.into(), &0.into())
    );
}

/// On a cluster that serves `readme`.
fn check(place: &Place, port: u16, readme: &[u8]) {
    let (head, body) = get(port, "/", "");
    let page = String::from_utf8(body).unwrap();
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && page.contains("href=\"/data/readme\""),
        "{page}"
    );
    assert!(get(port, "/data/readme", "").1 == readme);
    let (head, body) = get(port, "/data/readme", "Range: bytes=-7\r\n");
    assert!(head.starts_with("HTTP/1.1 206 ") && body == readme[readme.len() - 7..], "{head}");
    for (path, headers, status) in [
        ("/data/nothing", "", "404"),
        ("/data/", "", "404"),
        ("/elsewhere", "", "404"),
        ("/data/readme", "Range: bytes=999999999-\r\n", "416"),
        ("/%zz", "", "400"),
        ("/", "Content-Length: 9\r\n", "400"),
    ] {
        let (head, _) = get(port, path, headers);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {head}");
    }
    for (request, status) in [
        (&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], "400"),
        (b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", "405"),
        (&[b"GET / HTTP/1.1\r\nX: ", &[b'a'; 9000][..]].concat(), "431"),
    ] {
        let said = answer(port, request);
        assert!(said.starts_with(format!("HTTP/1.1 {status} ").as_bytes()), "{status}: {said:?}");
    }
    // Two requests at once, and an end of one side alone.
    let mut stream = connect(port);
    let both =
        "HEAD /data/readme HTTP/1.1\r\nHost: a\r\n\r\nGET /data/readme HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(both.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    assert!(said.ends_with(readme) && said.starts_with(b"HTTP/1.1 200 "));

    // Several at once, while others go away in the midst.
    let content = put(place, LARGE);
    thread::scope(|scope| {
        for client in 0..6 {
            let content = &content;
            scope.spawn(move || {
                if client % 3 == 0 {
                    let mut stream = connect(port);
                    stream.write_all(b"GET /data/large HTTP/1.0\r\n\r\n").unwrap();
                    stream.read_exact(&mut [0; 100_000]).unwrap();
                    return;
                }
                assert!(get(port, "/data/large", "").1 == *content);
            });
        }
    });
    until("those who went away are gone", || {
        let listed = place.json(&["net", "list"]);
        listed["connections"].as_array().unwrap().is_empty()
    });

    a_download_goes_on(place, port, &content);

    // What is refused before anything is started.
    let other = Place::new();
    for (forward, part) in [
        (format!("{port}:n1:80"), "cannot be had"),
        ("8080".into(), "8080:n1:80"),
        (format!("{}:n9:80", free_port()), "its last node is n1"),
    ] {
        let up = ["--nodes", "1", "--forward", &forward];
        refused(other.up(&up), part);
        assert_eq!(other.left(), Vec::<String>::new());
    }
}
