//! A node under attack: somebody on the same switch, who has recorded the cluster's traffic, sends
//! frames of every wrong kind as quickly as it can, while honest calls go on. Only counters
//! change, and no call is lost.

mod frames;

use std::fs;
use std::io::{BufRead, BufReader, IoSlice, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, connect, send, sendmmsg, socket_with,
};

use crate::machines::Cluster;
use frames::Frames;

/// Frames a second.
const RATE: u64 = 100_000;

/// Frames that are sent with one call of Linux.
const BATCH: usize = 64;

/// How long the honest side rests between two calls. Each is made by a tool of its own, and nodes
/// know a bounded number of those (CAVEATS.md).
const REST: Duration = Duration::from_millis(80);

/// Seconds for which the attack would go on if the machine keeps up: a minute in long runs, in
/// which it has to.
fn seconds() -> (u64, bool) {
    let given = std::env::var("NILE_ATTACK_SECONDS").ok();
    given.map_or((4, false), |it| (it.parse().expect("a number of seconds"), true))
}

/// Dropped, it says that it is over.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn plug_in(cluster: &Cluster) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(cluster.folder().join("switch")).unwrap()).unwrap();
    send(&socket, b"attacker", SendFlags::NOSIGNAL).unwrap();
    socket
}

#[test]
fn a_node_under_attack_serves_on() {
    let usual = ["--machine", "hosted", "--nodes", "2", "--cores", "2", "--memory", "64M"];
    let cluster = Cluster::up(&usual);
    let recorded = record(&cluster);
    let (services, before) = (cluster.json(&["services"]), counters(&cluster));
    let (over, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let ((seconds, is_long), mut calls) = (seconds(), 0);
    let frames = RATE * seconds;
    let took = thread::scope(|scope| {
        let attack = scope.spawn(|| {
            let _done = Ends(&done);
            attack(&cluster, &recorded, frames, &over)
        });
        // Also if a call fails.
        let _end = Ends(&over);
        while !done.load(Ordering::Relaxed) {
            honest_call(&cluster, calls);
            calls += 1;
            thread::sleep(REST);
        }
        attack.join().unwrap()
    });
    let after = counters(&cluster);
    let grew = |kind: &str| after[kind].as_u64().unwrap() - before[kind].as_u64().unwrap();
    let rate = (frames as f64 / took.as_secs_f64()) as u64;
    eprintln!(
        "{frames} bad frames, {rate} a second, of which {} reached n1; {calls} calls, all answered",
        grew("received")
    );
    assert!(calls > 0);
    for kind in ["malformed", "corrupt", "forged", "replayed"] {
        assert!(grew(kind) > 0, "n1 has seen no frame that is {kind}: {after}");
    }
    // Nobody else needed this program's processor as long.
    assert!(!is_long || rate >= RATE * 99 / 100, "only {rate} frames a second were sent");
    assert_eq!(cluster.json(&["services"]), services);
    let status = cluster.json(&["status"]);
    for node in status["nodes"].as_array().unwrap() {
        assert_eq!(node["state"], "alive");
        for core in node["cores"].as_array().unwrap() {
            assert_eq!(core["generation"], 1, "a core restarted: {core}");
        }
    }
    cluster.down();
}

fn honest_call(cluster: &Cluster, number: u64) {
    let core = if number.is_multiple_of(2) { "n1.c1" } else { "n2.c1" };
    let call = ["call", "ackermann.compute", "m=2", "n=3", "--core", core];
    let answer = cluster.json(&call);
    assert_eq!((&answer["status"], &answer["reply"]["value"]), (&"ok".into(), &9.into()));
}

/// What n1's network core has counted.
fn counters(cluster: &Cluster) -> serde_json::Value {
    let answer = cluster.json(&["call", "network.counters", "--core", "n1.c0"]);
    let list = answer["reply"]["counters"].as_array().unwrap().clone();
    let named =
        list.into_iter().map(|it| (it["name"].as_str().unwrap().to_string(), it["count"].clone()));
    serde_json::Value::Object(named.collect())
}

/// The frames of some honest calls.
fn record(cluster: &Cluster) -> Vec<Vec<u8>> {
    let file = cluster.folder().join("recorded");
    let mut control = UnixStream::connect(cluster.folder().join("control")).unwrap();
    let mut ask = |request: &str| {
        control.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(&control).read_line(&mut answer).unwrap();
        assert_eq!(answer, "{\"answer\":\"done\"}\n");
    };
    ask(&format!("{{\"request\":\"capture\",\"file\":{file:?}}}\n"));
    (0..4).for_each(|number| honest_call(cluster, number));
    ask("{\"request\":\"end_capture\"}\n");
    let bytes = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    // A header of 24 bytes; before each frame come its moment and twice its length.
    let (mut rest, mut frames) = (&bytes[24..], Vec::new());
    while let Some((head, tail)) = rest.split_first_chunk::<16>() {
        let length = u32::from_le_bytes(head[8..12].try_into().unwrap()) as usize;
        frames.push(tail[..length].to_vec());
        rest = &tail[length..];
    }
    frames
}

/// Sends so many frames, unless it is told to end; how long that took.
fn attack(cluster: &Cluster, recorded: &[Vec<u8>], frames: u64, over: &AtomicBool) -> Duration {
    let socket = plug_in(cluster);
    let mut source = Frames::new(recorded);
    let begin = Instant::now();
    let mut sent = 0;
    while sent < frames && !over.load(Ordering::Relaxed) {
        let due = (begin.elapsed().as_micros() as u64 * RATE / 1_000_000).min(frames);
        while sent < due {
            let batch = source.next(BATCH.min((due - sent) as usize));
            match send_all(&socket, batch) {
                Ok(count) => sent += count as u64,
                // The switch has not taken what came before.
                Err(Errno::AGAIN) => break,
                Err(error) => panic!("the switch cut the attacker's link: {error}"),
            }
        }
        thread::sleep(Duration::from_micros(200));
    }
    begin.elapsed()
}

/// Sends what there is room for; how many frames that were.
fn send_all(socket: &OwnedFd, frames: &[Vec<u8>]) -> Result<usize, Errno> {
    let parts: Vec<[IoSlice; 1]> = frames.iter().map(|frame| [IoSlice::new(frame)]).collect();
    let mut controls: Vec<_> = parts.iter().map(|_| SendAncillaryBuffer::default()).collect();
    let messages = parts.iter().zip(&mut controls);
    let mut messages: Vec<_> =
        messages.map(|(part, control)| MMsgHdr::new(part, control)).collect();
    sendmmsg(socket, &mut messages, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}
