//! The switch process as those who plug in meet it.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nile_abi::ethernet::CALLS;
use nile_abi::{MacAddress, NodeId};
use nile_switch::frame::MAX_FRAME;
use pcap_parser::{LegacyPcapSlice, PcapBlockOwned};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with,
};
use tempfile::TempDir;

use super::control::{Client, ControlError, LINE, LinkStatus, Request, SOCKET};
use super::fault::Fault;
use super::server::Server;
use super::sockets::SWITCH;
use crate::failure::Failure;

/// How long a test waits for what must happen.
const LONG: Duration = Duration::from_secs(20);

/// How long it waits for what must not happen.
const SHORT: Duration = Duration::from_millis(60);

/// A switch in a folder of its own, on a thread of its own.
struct Running {
    folder: TempDir,
    client: Client,
    thread: Option<JoinHandle<Result<(), Failure>>>,
}

impl Running {
    fn start() -> Running {
        let folder = TempDir::new().unwrap();
        let path = folder.path().to_path_buf();
        let thread = Some(thread::spawn(move || Server::open(&path, 1)?.run()));
        let client = Client::connect(folder.path(), LONG).unwrap();
        Running { folder, client, thread }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn ask(&mut self, request: Request) {
        self.client.ask(&request).unwrap();
    }

    fn refused(&mut self, request: Request) -> String {
        match self.client.ask(&request) {
            Err(ControlError::Refused(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    fn fault(&mut self, name: &str, value: &str, link: Option<&str>) {
        let fault = Fault::parse(name, value).unwrap();
        self.ask(Request::Fault { fault, link: link.map(Into::into) });
    }

    fn link(&mut self, name: &str) -> Option<LinkStatus> {
        let (links, _) = self.client.links().unwrap();
        links.into_iter().find(|link| link.name == name)
    }

    /// Waits until a link is as `wanted`.
    fn wait_for(&mut self, name: &str, wanted: impl Fn(&LinkStatus) -> bool) -> LinkStatus {
        let start = Instant::now();
        loop {
            let link = self.link(name);
            match link.filter(&wanted) {
                Some(link) => return link,
                None => assert!(start.elapsed() < LONG, "{name}: {:?}", self.link(name)),
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// A hosted node, plugged in.
    fn hosted(&mut self, name: &str) -> Hosted {
        let before = self.client.links().unwrap().0.iter().filter(|link| link.up).count();
        let hosted = Hosted::connect(self.path(), name);
        let start = Instant::now();
        while self.client.links().unwrap().0.iter().filter(|link| link.up).count() <= before {
            assert!(start.elapsed() < LONG, "{name} is not plugged in");
        }
        hosted
    }

    /// Where QEMU listens.
    fn machine(&self, name: &str) -> UnixListener {
        UnixListener::bind(self.path().join(format!("{name}.qemu"))).unwrap()
    }

    fn stop(mut self) {
        self.ask(Request::Stop);
        self.thread.take().unwrap().join().unwrap().unwrap();
        for name in [SWITCH, SOCKET] {
            assert!(!self.path().join(name).exists(), "{name} is left behind");
        }
    }
}

struct Hosted(OwnedFd);

impl Hosted {
    fn connect(folder: &Path, hello: &str) -> Hosted {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        connect(&socket, &SocketAddrUnix::new(folder.join(SWITCH)).unwrap()).unwrap();
        let hosted = Hosted(socket);
        hosted.send(hello.as_bytes());
        hosted
    }

    fn send(&self, frame: &[u8]) {
        assert_eq!(send(&self.0, frame, SendFlags::NOSIGNAL), Ok(frame.len()));
    }

    /// The next frame; empty if the link was cut.
    fn receive(&self, patience: Duration) -> Result<Vec<u8>, Errno> {
        set_socket_timeout(&self.0, Timeout::Recv, Some(patience)).unwrap();
        let mut bytes = vec![0; MAX_FRAME];
        let (count, _) = recv(&self.0, &mut *bytes, RecvFlags::empty())?;
        bytes.truncate(count);
        Ok(bytes)
    }

    fn hears(&self, frame: &[u8]) {
        assert_eq!(self.receive(LONG).as_deref(), Ok(frame));
    }

    fn hears_nothing(&self) {
        assert_eq!(self.receive(SHORT), Err(Errno::AGAIN));
    }
}

fn prefixed(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_be_bytes(), frame].concat()
}

fn hears(mut machine: &UnixStream, frame: &[u8]) {
    machine.set_read_timeout(Some(LONG)).unwrap();
    let mut bytes = vec![0; 4 + frame.len()];
    machine.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, prefixed(frame));
}

const ALL: u32 = u32::MAX;

fn frame(to: u32, from: u32, data: &[u8]) -> Vec<u8> {
    let mac = |node| match node {
        ALL => MacAddress::BROADCAST,
        node => MacAddress::local(NodeId(node), 0),
    };
    [&mac(to).0, &mac(from).0, &CALLS.to_be_bytes()[..], data].concat()
}

#[test]
fn nodes_machines_and_peers_reach_each_other() {
    let mut switch = Running::start();
    let (n1, n2) = (switch.hosted("n1"), switch.hosted("n2"));
    let listener = switch.machine("n3");
    switch.ask(Request::Dial { name: "n3".into() });
    let (mut n3, _) = listener.accept().unwrap();
    switch.wait_for("n3", |link| link.up);
    let hello = frame(ALL, 1, b"hello");
    n1.send(&hello);
    n2.hears(&hello);
    hears(&n3, &hello);
    // Everybody answers; what they say goes to n1 alone, and n1 to them alone.
    let (second, third) = (frame(1, 2, b"second"), frame(1, 3, b"third"));
    n2.send(&second);
    n1.hears(&second);
    n3.write_all(&prefixed(&third)).unwrap();
    n1.hears(&third);
    let large = frame(3, 1, &vec![5; MAX_FRAME - 14]);
    n1.send(&large);
    hears(&n3, &large);
    n2.hears_nothing();
    // Many may be peers; what is theirs goes with them.
    let (one, other) = (switch.hosted("peer"), switch.hosted("peer"));
    one.send(&frame(1, 77, b"?"));
    n1.hears(&frame(1, 77, b"?"));
    n1.send(&frame(77, 1, b"!"));
    one.hears(&frame(77, 1, b"!"));
    other.hears_nothing();
    drop((one, other));
    let start = Instant::now();
    while switch.link("peer").is_some() {
        assert!(start.elapsed() < LONG);
    }
    let counts = switch.link("n1").unwrap().counts;
    assert_eq!((counts.received, counts.sent), (3, 3));
    assert_eq!(counts.sent_bytes, (14 + 6) + (14 + 5) + (14 + 1));
    switch.stop();
}

#[test]
fn a_machine_that_starts_again_is_dialled_again() {
    let mut switch = Running::start();
    let n1 = switch.hosted("n1");
    // It is dialled before it listens.
    switch.ask(Request::Dial { name: "n2".into() });
    switch.fault("delay", "1us", Some("n2"));
    let mut before = None;
    for incarnation in 1..=3u8 {
        let listener = switch.machine("n2");
        let (n2, _) = listener.accept().unwrap();
        let link = switch.wait_for("n2", |link| link.up);
        assert_eq!(link.faults.len(), 1, "its cable is the same");
        assert!(before.is_none_or(|sent| sent < incarnation.into()), "and so are its counts");
        before = Some(link.counts.sent);
        let hello = frame(2, 1, &[incarnation]);
        n1.send(&hello);
        hears(&n2, &hello);
        drop((n2, listener));
        fs::remove_file(switch.path().join("n2.qemu")).unwrap();
        switch.wait_for("n2", |link| !link.up);
    }
    switch.ask(Request::HangUp { name: "n2".into() });
    let listener = switch.machine("n2");
    listener.set_nonblocking(true).unwrap();
    thread::sleep(Duration::from_millis(300));
    assert!(listener.accept().is_err(), "it is not dialled any more");
    assert_eq!(switch.refused(Request::HangUp { name: "n9".into() }), "`n9` is not dialled");
    switch.stop();
}

#[test]
fn a_node_that_starts_again_takes_over_its_link() {
    let mut switch = Running::start();
    let n1 = switch.hosted("n1");
    let old = switch.hosted("n2");
    switch.ask(Request::Partition { sides: vec![vec!["n1".into()], vec!["n2".into()]] });
    let new = Hosted::connect(switch.path(), "n2");
    assert_eq!(old.receive(LONG), Ok(vec![]), "the old connection is cut");
    n1.send(&frame(ALL, 1, b"apart"));
    new.hears_nothing();
    switch.ask(Request::Heal);
    n1.send(&frame(ALL, 1, b"again"));
    new.hears(&frame(ALL, 1, b"again"));
    drop(new);
    assert_eq!(switch.wait_for("n2", |link| !link.up).counts.partitioned, 1);
    // Who has no name is not plugged in.
    for hello in ["n 3", "../n3", "GET / HTTP/1.1", "", &"n".repeat(65)] {
        let stranger = Hosted::connect(switch.path(), hello);
        assert_eq!(stranger.receive(LONG), Ok(vec![]), "{hello:?}");
    }
    assert_eq!(switch.client.links().unwrap().0.len(), 2);
    switch.stop();
}

#[test]
fn faults_are_set_while_frames_pass() {
    let mut switch = Running::start();
    let (n1, n2) = (switch.hosted("n1"), switch.hosted("n2"));
    let hello = frame(ALL, 1, b"hello");
    switch.fault("delay", "40ms", Some("n2"));
    let start = Instant::now();
    n1.send(&hello);
    n2.hears(&hello);
    assert!(start.elapsed() >= Duration::from_millis(40), "{:?}", start.elapsed());
    switch.fault("delay", "0", Some("n2"));
    switch.fault("loss", "100%", None);
    n1.send(&hello);
    n2.hears_nothing();
    // So does a cable that is plugged in later.
    let late = switch.hosted("n3");
    switch.fault("loss", "0", Some("n1"));
    n1.send(&hello);
    late.hears_nothing();
    assert_eq!(switch.link("n3").unwrap().counts.lost, 1);
    switch.fault("loss", "0", None);
    switch.fault("duplicate", "100%", Some("n1"));
    n1.send(&hello);
    n2.hears(&hello);
    n2.hears(&hello);
    // 125 frames of 1000 bytes on the wire are a million bits.
    switch.fault("duplicate", "0", None);
    switch.fault("rate", "10M", Some("n1"));
    let start = Instant::now();
    let full = frame(ALL, 1, &[0; 1000 - 24 - 14]);
    (0..125).for_each(|_| n1.send(&full));
    (0..125).for_each(|_| n2.hears(&full));
    assert!(start.elapsed() >= Duration::from_millis(100), "{:?}", start.elapsed());
    let fault = Fault::Loss { per_million: 1 };
    let reason = switch.refused(Request::Fault { fault, link: Some("n22".into()) });
    assert_eq!(reason, "no link `n22`; did you mean `n2`?");
    assert_eq!(switch.link("n1").unwrap().faults, [Fault::parse("rate", "10M").unwrap()]);
    switch.stop();
}

#[test]
fn a_partition_names_nodes_and_takes_all_their_links() {
    let mut switch = Running::start();
    let [n1, second, n2, n3] = ["n1", "n1.2", "n2", "n3"].map(|name| switch.hosted(name));
    let sides = vec![vec!["n1".into()], vec!["n2".into(), "n3".into()]];
    switch.ask(Request::Partition { sides });
    assert_eq!(switch.link("n1.2").unwrap().side, Some(0));
    let hello = frame(ALL, 1, b"hello");
    n1.send(&hello);
    second.hears(&hello);
    let hello = frame(ALL, 3, b"hello");
    n3.send(&hello);
    n2.hears(&hello);
    [&n1, &second, &n3].iter().for_each(|link| link.hears_nothing());
    let unknown = Request::Partition { sides: vec![vec!["n1".into()], vec!["xyz".into()]] };
    assert_eq!(switch.refused(unknown), "no link `xyz`; there are: n1, n1.2, n2, n3");
    assert_eq!(switch.link("n3").unwrap().side, Some(1), "nothing has changed");
    switch.ask(Request::Heal);
    n1.send(&frame(ALL, 1, b"healed"));
    n3.hears(&frame(ALL, 1, b"healed"));
    switch.stop();
}

#[test]
fn a_capture_has_every_frame_that_enters() {
    let mut switch = Running::start();
    let (n1, n2) = (switch.hosted("n1"), switch.hosted("n2"));
    let listener = switch.machine("n3");
    switch.ask(Request::Dial { name: "n3".into() });
    let (mut n3, _) = listener.accept().unwrap();
    switch.wait_for("n3", |link| link.up);
    let file = switch.path().join("run.pcap");
    switch.ask(Request::Capture { file: file.clone() });
    switch.fault("loss", "100%", Some("n2"));
    let mut sent = Vec::new();
    for number in 0..50u8 {
        // What is lost or short is there, too.
        sent.push(frame(2, 1, &vec![number; usize::from(number) * 20]));
        n1.send(sent.last().unwrap());
    }
    sent.push(vec![1, 2, 3]);
    n1.send(&[1, 2, 3]);
    switch.wait_for("n1", |link| link.counts.received + link.counts.malformed == 51);
    sent.push(frame(ALL, 3, b"from a machine"));
    n3.write_all(&prefixed(&sent[51])).unwrap();
    n1.hears(&sent[51]);
    n2.hears_nothing();
    switch.ask(Request::EndCapture);
    n1.send(&frame(ALL, 1, b"not this one"));
    let (_, status) = switch.client.links().unwrap();
    assert_eq!(status.map(|status| (status.frames, status.error)), Some((52, None)));
    let bytes = fs::read(&file).unwrap();
    let blocks = LegacyPcapSlice::from_slice(&bytes).unwrap();
    assert!(blocks.header.is_nanosecond_precision());
    let frames: Vec<Vec<u8>> = blocks
        .map(|block| match block.unwrap() {
            PcapBlockOwned::Legacy(block) => block.data.to_vec(),
            _ => panic!("the file is of another format"),
        })
        .collect();
    assert_eq!(frames, sent);
    switch.stop();
}

#[test]
fn a_full_disk_ends_the_capture_and_nothing_else() {
    let mut switch = Running::start();
    let (n1, n2) = (switch.hosted("n1"), switch.hosted("n2"));
    let full = Path::new("/dev/full").to_path_buf();
    let reason = switch.refused(Request::Capture { file: full.clone() });
    assert!(reason.starts_with("the capture cannot be written to /dev/full: "), "{reason}");
    // A file that is full only later: writing fails after the header.
    let full = fs::OpenOptions::new().write(true).open(full).unwrap();
    let mut capture = super::capture::Capture::to(full).unwrap();
    capture.note(&frame(2, 1, b"lost"));
    capture.end();
    assert!(capture.status().error.is_some_and(|error| error.contains("No space left")));
    assert_eq!(capture.status().left_out, 1);
    capture.note(&frame(2, 1, b"ignored"));
    n1.send(&frame(ALL, 1, b"still here"));
    n2.hears(&frame(ALL, 1, b"still here"));
    let relative = Request::Capture { file: "run.pcap".into() };
    assert!(switch.refused(relative).contains("not named from the root"));
    switch.stop();
}

/// The reader of a FIFO comes late, reads a little, and stops; the network notices nothing of it.
#[test]
fn a_paused_reader_of_a_capture_holds_up_nobody() {
    let mut switch = Running::start();
    let (n1, n2) = (switch.hosted("n1"), switch.hosted("n2"));
    let fifo = switch.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    switch.ask(Request::Capture { file: fifo.clone() });
    let bytes = frame(ALL, 1, &[7; 8000]);
    let exchange = |frames: usize| {
        for _ in 0..frames {
            n1.send(&bytes);
            n2.hears(&bytes);
        }
    };
    exchange(10);
    let mut reader = fs::File::open(&fifo).unwrap();
    let mut head = vec![0; 24 + 16 + bytes.len()];
    reader.read_exact(&mut head).unwrap();
    assert_eq!(head[40..], bytes);
    exchange(3000);
    let capture = |switch: &mut Running| switch.client.links().unwrap().1.unwrap();
    let status = capture(&mut switch);
    assert!(status.left_out > 0 && status.error.is_none(), "{status:?}");
    // It goes on where it was, with whole frames.
    let mut rest = vec![0; 100 * (16 + bytes.len())];
    reader.read_exact(&mut rest).unwrap();
    assert!(rest.chunks(16 + bytes.len()).all(|it| it[16..] == bytes));
    drop(reader);
    switch.ask(Request::EndCapture);
    let status = capture(&mut switch);
    assert_eq!(status.frames + status.left_out, 3010, "{status:?}");
    switch.stop();
}

#[test]
fn who_does_not_read_loses_frames_and_holds_up_nobody() {
    let mut switch = Running::start();
    let (n1, n2) = (switch.hosted("n1"), switch.hosted("n2"));
    let asleep = switch.hosted("n3");
    let listener = switch.machine("n4");
    switch.ask(Request::Dial { name: "n4".into() });
    let (machine, _) = listener.accept().unwrap();
    switch.wait_for("n4", |link| link.up);
    let mut number = 0u32;
    let overrun = |switch: &mut Running, name| switch.link(name).unwrap().counts.overrun;
    while overrun(&mut switch, "n3") < 10 || overrun(&mut switch, "n4") < 10 {
        for _ in 0..100 {
            let bytes = frame(ALL, 1, &[&number.to_be_bytes()[..], &[0; 8000]].concat());
            n1.send(&bytes);
            n2.hears(&bytes);
            number += 1;
        }
        assert!(number < 100_000, "memory is not bounded");
    }
    assert_eq!(overrun(&mut switch, "n2"), 0);
    // What the sleepers did get is whole and in order, and all of it comes when they wake up.
    assert_eq!(asleep.receive(LONG).unwrap()[14..18], [0; 4]);
    let link = switch.link("n4").unwrap();
    let taken = number - link.counts.overrun as u32;
    assert!(taken * 8000 > 4 << 20, "{taken} frames are less than what waits in the switch");
    for expected in 0..taken {
        hears(&machine, &frame(ALL, 1, &[&expected.to_be_bytes()[..], &[0; 8000]].concat()));
    }
    let awake = frame(ALL, 1, b"awake");
    n1.send(&awake);
    hears(&machine, &awake);
    switch.stop();
}

#[test]
fn a_stream_of_nonsense_ends_that_link_only() {
    let mut switch = Running::start();
    let (n1, n2) = (switch.hosted("n1"), switch.hosted("n2"));
    let listener = switch.machine("n3");
    switch.ask(Request::Dial { name: "n3".into() });
    let (mut machine, _) = listener.accept().unwrap();
    machine.write_all(&u32::MAX.to_be_bytes()).unwrap();
    assert_eq!(machine.read(&mut [0; 8]).unwrap_or(0), 0, "it is cut");
    let _redialled = listener.accept().unwrap();
    // What is too short or too long in a packet only counts.
    n1.send(b"");
    assert_eq!(n1.receive(LONG), Ok(vec![]), "an empty packet is the end");
    n2.send(b"x");
    n2.send(&vec![0; MAX_FRAME + 100]);
    assert_eq!(switch.wait_for("n2", |link| link.counts.malformed == 2).counts.received, 0);
    switch.stop();
}

#[test]
fn requests_that_are_none_are_refused() {
    let mut switch = Running::start();
    let mut stream = UnixStream::connect(switch.path().join(SOCKET)).unwrap();
    let mut answer = |line: &str| {
        stream.write_all(line.as_bytes()).unwrap();
        let mut bytes = [0; 4096];
        let count = stream.read(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).to_string()
    };
    for line in ["\n", "{}\n", "{\"request\":\"explode\"}\n", "\u{1}\u{2}\n"] {
        assert!(answer(line).starts_with("{\"answer\":\"refused\""), "{line:?}");
    }
    assert_eq!(answer("{\"request\":\"heal\"}\n"), "{\"answer\":\"done\"}\n");
    let loss = r#"{"request":"fault","set":{"fault":"loss","per_million":0},"link":null}"#;
    assert_eq!(answer(&format!("{loss}\n")), "{\"answer\":\"done\"}\n");
    // A line without an end is not kept for ever.
    let part = vec![b' '; 1 << 20];
    let cut = (0..=LINE / part.len()).any(|_| stream.write_all(&part).is_err());
    assert!(cut || stream.read(&mut [0; 8]).is_err() || stream.write_all(b" ").is_err());
    assert!(switch.link("n1").is_none(), "the switch is still there");
    switch.stop();
}

#[test]
fn one_folder_has_one_switch() {
    let running = Running::start();
    match Server::open(running.path(), 1).err() {
        Some(Failure::Request(reason)) => assert!(reason.contains("already"), "{reason}"),
        other => panic!("{other:?}"),
    }
    running.stop();
    // A switch that was killed leaves its sockets; a new one takes their place.
    let folder = TempDir::new().unwrap();
    drop(UnixListener::bind(folder.path().join(SOCKET)).unwrap());
    drop(UnixListener::bind(folder.path().join(SWITCH)).unwrap());
    drop(Server::open(folder.path(), 1).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // A file of somebody else's is left alone.
    fs::write(folder.path().join(SOCKET), "precious").unwrap();
    assert!(Server::open(folder.path(), 1).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert!(Server::open(Path::new("/nonexistent"), 1).is_err());
}
