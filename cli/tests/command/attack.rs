//! A node under attack: somebody on the same switch sends frames of every wrong kind as quickly as
//! it can, while honest calls go on. Only counters change, and no call is lost.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};

use crate::machines::Cluster;

/// Seconds that the attack takes: a minute in long runs.
fn seconds() -> u64 {
    let given = std::env::var("NILE_ATTACK_SECONDS").ok();
    given.map_or(4, |it| it.parse().expect("a number of seconds"))
}

/// Frames a second, as many as two CPUs carry beside the switch, the nodes and the calls. With ten
/// times as many the switch's queues are full of them, and calls time out (CAVEATS.md).
const RATE: u64 = 10_000;

/// Dropped, it says that it is over.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A generator of choices; the attack need not be repeated.
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn plug_in(cluster: &Cluster) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    connect(&socket, &SocketAddrUnix::new(cluster.folder().join("switch")).unwrap()).unwrap();
    send(&socket, b"attacker", SendFlags::NOSIGNAL).unwrap();
    socket
}

/// The next frame of the attack: one that was heard as it was or changed, or made up.
fn frame(choices: &mut Choices, heard: &[Vec<u8>], out: &mut Vec<u8>) {
    out.clear();
    let choice = choices.next();
    if let Some(known) = heard.get(choice as usize % heard.len().max(1))
        && choice & 0x300 != 0
    {
        out.extend_from_slice(known);
        match choice >> 10 & 3 {
            // Replayed.
            0 => {}
            // Forged.
            1 => {
                let at = 14 + choices.next() as usize % (out.len() - 14);
                out[at] ^= 1 << (choice >> 20 & 7);
            }
            // Cut short.
            2 => out.truncate(14 + choices.next() as usize % (out.len() - 14)),
            // Too long for what it says.
            _ => out.resize(1514, 0xa5),
        }
        return;
    }
    let length = 14 + choices.next() as usize % 1500;
    out.extend((0..length).map(|_| choices.next() as u8));
    out[..6].copy_from_slice(&[2, 0, 0, 0, 1 + (choice & 1) as u8, 0]);
    out[12..14].copy_from_slice(&(0x88b5 + (choice >> 1 & 1) as u16).to_be_bytes());
}

#[test]
fn a_node_under_attack_serves_on() {
    let usual = ["--machine", "hosted", "--nodes", "2", "--cores", "2", "--memory", "64M"];
    let cluster = Cluster::up(&usual);
    let before = counters(&cluster);
    let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut calls = 0;
    thread::scope(|scope| {
        scope.spawn(|| attack(&cluster, &over, &sent));
        // Also if a call fails.
        let _end = Ends(&over);
        let end = Instant::now() + Duration::from_secs(seconds());
        while Instant::now() < end {
            let core = if calls % 2 == 0 { "n1.c1" } else { "n2.c1" };
            let call = ["call", "ackermann.compute", "m=2", "n=3", "--core", core];
            let answer = cluster.json(&call);
            assert_eq!((&answer["status"], &answer["reply"]["value"]), (&"ok".into(), &9.into()));
            calls += 1;
        }
    });
    let after = counters(&cluster);
    let sent = sent.load(Ordering::Relaxed);
    let bad = |it: &serde_json::Value| -> u64 {
        let kinds = ["malformed", "forged", "unsealed", "replayed", "stale", "oversized", "unmet"];
        kinds.iter().map(|kind| it[kind].as_u64().unwrap()).sum()
    };
    eprintln!("{sent} bad frames, {} of them counted by n1; {calls} calls", bad(&after));
    assert!(calls > 0 && bad(&after) > bad(&before), "the attack did not reach n1: {after}");
    let status = cluster.json(&["status"]);
    for node in status["nodes"].as_array().unwrap() {
        assert_eq!(node["state"], "alive");
        for core in node["cores"].as_array().unwrap() {
            assert_eq!(core["generation"], 1, "a core restarted: {core}");
        }
    }
    cluster.down();
}

/// What n1's network core has counted.
fn counters(cluster: &Cluster) -> serde_json::Value {
    let answer = cluster.json(&["call", "network.counters", "--core", "n1.c0"]);
    let list = answer["reply"]["counters"].as_array().unwrap().clone();
    let named =
        list.into_iter().map(|it| (it["name"].as_str().unwrap().to_string(), it["count"].clone()));
    serde_json::Value::Object(named.collect())
}

fn attack(cluster: &Cluster, over: &AtomicBool, sent: &AtomicU64) {
    let socket = plug_in(cluster);
    let (mut choices, mut heard, mut out) = (Choices(0x5eed), Vec::new(), Vec::new());
    let mut buffer = [0; 2048];
    let begin = Instant::now();
    while !over.load(Ordering::Relaxed) {
        while let Ok((length, _)) = recv(&socket, &mut buffer, RecvFlags::DONTWAIT) {
            if length > 14 && heard.len() < 256 {
                heard.push(buffer[..length].to_vec());
            }
        }
        let due = begin.elapsed().as_micros() as u64 * RATE / 1_000_000;
        for _ in 0..due.saturating_sub(sent.load(Ordering::Relaxed)).min(256) {
            frame(&mut choices, &heard, &mut out);
            // The switch drops what it has no room for; so does this.
            let _ = send(&socket, &out, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            sent.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(Duration::from_micros(200));
    }
}
