//! The fault campaign of a network (docs/network.md, after the DSN paper's): `net` and its users
//! are killed, moved, and replaced by files that do not begin, by files that loop and by files with
//! flipped bits, while an echo and a download go on. What was noticed of it is counted in a table.

use std::fmt::Write as _;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use super::servers::servers;
use super::{connect, put};
use crate::cluster::Place;
use crate::jobs::packages;

/// Bytes of the dataset that is downloaded again and again.
const BYTES: usize = 20_000_000;

/// How long nobody notices anything, and how long it may take until the node is reachable again.
const UNNOTICED: Duration = Duration::from_secs(1);
const REACHABLE: Duration = Duration::from_secs(10);

/// How long a package runs before it is harmed again: sooner it would begin anew after a pause.
const WELL: Duration = Duration::from_millis(1100);

/// Bits that are flipped in a file.
const FLIPS: usize = 24;

/// What is done to a server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// `net` is killed.
    Kills,
    /// The package that echoes is.
    KillsUser,
    /// `net` goes on on another core.
    Moves,
    /// A file that fails at its first instruction replaces `net`.
    Crashes,
    /// A file that does nothing but loop does.
    Hangs,
    /// A file of which bits have flipped does: it may do anything.
    Flips,
}

const FAULTS: [(Fault, &str); 6] = [
    (Fault::Kills, "kill of net"),
    (Fault::KillsUser, "kill of echo"),
    (Fault::Moves, "move of net"),
    (Fault::Crashes, "upgrade that crashes"),
    (Fault::Hangs, "upgrade that hangs"),
    (Fault::Flips, "flipped bits in net"),
];

/// What came of faults of one kind.
#[derive(Clone, Copy, Default)]
struct Row {
    injected: u32,
    unnoticed: u32,
    broken: u32,
    /// The node was reachable again only once a person had `net` replaced.
    repaired: u32,
    unreachable: u32,
    longest: Duration,
}

#[test]
fn faults_of_each_kind_break_no_connection() {
    campaign(FAULTS.len() as u32 * 2);
}

/// The same, for long: `NILE_FAULTS` says how many.
mod long {
    #[test]
    fn hundreds_of_faults_break_no_connection() {
        let faults = std::env::var("NILE_FAULTS").ok().and_then(|it| it.parse().ok());
        super::campaign(faults.unwrap_or(200));
    }
}

fn campaign(faults: u32) {
    let (place, [web, echo]) = servers("");
    let content = put(&place, BYTES);
    let net = packages().join("net.elf");
    let harmed = place.folder().join("harmed");
    let mut draw = 0x9e37_79b9_7f4a_7c15;
    let mut rows = [Row::default(); FAULTS.len()];
    let (stop, broken, done) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let mut open = connect(echo);
    let ends = Ends(&stop);
    thread::scope(|scope| {
        let _ends = ends;
        scope.spawn(|| {
            while !stop.load(SeqCst) {
                match download(web, &content, &stop) {
                    true => done.fetch_add(1, SeqCst),
                    false => broken.fetch_add(1, SeqCst),
                };
            }
        });
        for turn in 0..faults as usize {
            let (fault, name) = FAULTS[turn % FAULTS.len()];
            let row = &mut rows[turn % FAULTS.len()];
            thread::sleep(WELL);
            let before = broken.load(SeqCst);
            let begun = Instant::now();
            harm(&place, fault, (&net, &harmed), &mut draw);
            let is_whole = round_trip(&mut open, turn as u8, || {
                row.repaired += 1;
                replace(&place, &net);
            });
            let took = begun.elapsed();
            let reach = || round_trip(&mut connect(echo), !(turn as u8), || {});
            let mut is_reachable = reach();
            let is_well = is_whole && is_reachable;
            if fault == Fault::Flips {
                replace(&place, &net);
                if !is_reachable {
                    // It breaks what comes to it, and says so.
                    row.repaired += 1;
                    is_reachable = reach();
                }
            }
            if !is_well {
                open = connect(echo);
            }
            let lost = u32::from(!is_whole) + (broken.load(SeqCst) - before) as u32;
            row.injected += 1;
            row.broken += lost;
            row.unnoticed += u32::from(lost == 0 && took < UNNOTICED);
            row.unreachable += u32::from(!is_reachable);
            row.longest = row.longest.max(took);
            eprintln!("{name}: {took:?}, {lost} broken, reachable: {is_reachable}");
        }
    });
    let table = table(&rows);
    eprintln!("{table}{} downloads ended whole", done.load(SeqCst));
    for ((fault, _), row) in FAULTS.iter().zip(rows) {
        assert_eq!(row.unreachable, 0, "{table}");
        let may_break = matches!(fault, Fault::Hangs | Fault::Flips);
        assert!(may_break || row.broken == 0, "{table}");
        assert!(*fault == Fault::Flips || row.repaired == 0, "{table}");
    }
    place.run(&["down"]).expect(0);
    assert_eq!(place.left(), Vec::<String>::new());
}

/// Has the downloads end, however the campaign does.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Does something to a server.
fn harm(place: &Place, fault: Fault, (net, harmed): (&Path, &PathBuf), draw: &mut u64) {
    let servers = |arguments: &[&str]| {
        let said = place.run(&[&["servers"], arguments].concat());
        // A file that fails at once is told to whoever replaces it.
        let may_fail = matches!(fault, Fault::Crashes | Fault::Flips);
        assert!(said.status == Some(0) || may_fail, "{arguments:?}: {}{}", said.out, said.err);
    };
    match fault {
        Fault::Kills => servers(&["restart", "net"]),
        Fault::KillsUser => servers(&["restart", "echo"]),
        Fault::Moves => {
            let list = place.json(&["servers"]);
            let all = list["servers"].as_array().unwrap();
            let core = all.iter().find(|it| it["name"] == "net").unwrap()["core"].clone();
            let other = if core == "n1.c3" { "n1.c2" } else { "n1.c3" };
            servers(&["move", "net", other, "--share"]);
        }
        Fault::Crashes | Fault::Hangs | Fault::Flips => {
            let mut file = fs::read(net).unwrap();
            let code = code(&file);
            let entry = u64::from_le_bytes(file[24..32].try_into().unwrap());
            let first = (entry - code.2 + code.0 as u64) as usize;
            match fault {
                Fault::Crashes => file[first..first + 2].copy_from_slice(&[0x0f, 0x0b]),
                Fault::Hangs => file[first..first + 2].copy_from_slice(&[0xeb, 0xfe]),
                _ => {
                    for _ in 0..FLIPS {
                        *draw ^= *draw << 13;
                        *draw ^= *draw >> 7;
                        *draw ^= *draw << 17;
                        file[code.0 + (*draw >> 8) as usize % code.1] ^= 1 << (*draw & 7);
                    }
                }
            }
            fs::write(harmed, file).unwrap();
            servers(&["replace", "net", harmed.to_str().unwrap()]);
            fs::remove_file(harmed).unwrap();
        }
    }
}

/// Where the code of a file is, how many bytes of it, and at which address.
fn code(file: &[u8]) -> (usize, usize, u64) {
    let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let half = |at: usize| u16::from_le_bytes(file[at..at + 2].try_into().unwrap());
    let (headers, size, count) = (word(32) as usize, half(54) as usize, half(56) as usize);
    let mut all = (0..count).map(|index| headers + index * size);
    // A segment that is loaded and can be executed.
    let text = all.find(|at| file[*at] == 1 && file[at + 4] & 1 == 1).expect("it has code");
    (word(text + 8) as usize, word(text + 32) as usize, word(text + 16))
}

/// A person has the good file run again, or begins it if the harmed one has ended as one that is
/// done.
fn replace(place: &Place, net: &Path) {
    let net = net.to_str().unwrap();
    if place.run(&["servers", "replace", "net", net]).status != Some(0) {
        place.run(&["package", "start", net, "--on", "n1.c3", "--share"]).expect(0);
    }
}

/// Whether bytes come back from `echo`; once nothing has come for long, `repair` is to help.
fn round_trip(stream: &mut TcpStream, byte: u8, repair: impl FnOnce()) -> bool {
    stream.set_read_timeout(Some(REACHABLE)).unwrap();
    if stream.write_all(&[byte; 3000]).is_err() {
        return false;
    }
    let (mut back, mut had) = ([0; 3000], 0);
    let mut repair = Some(repair);
    while had < back.len() {
        match (stream.read(&mut back[had..]), repair.is_some()) {
            (Ok(count), _) if count > 0 => had += count,
            (Err(error), true) if error.kind() == ErrorKind::WouldBlock => {
                repair.take().into_iter().for_each(|repair| repair());
            }
            _ => return false,
        }
    }
    back == [byte; 3000]
}

/// Whether a download ends whole, or goes on whole when it is to stop.
fn download(port: u16, content: &[u8], stop: &AtomicBool) -> bool {
    let mut stream = connect(port);
    sockopt::set_socket_recv_buffer_size(&stream, 64 << 10).unwrap();
    let mut head = [0; 1];
    let (mut line, mut at) = (Vec::new(), 0);
    if stream.write_all(b"GET /data/large HTTP/1.0\r\n\r\n").is_err() {
        return false;
    }
    while !line.ends_with(b"\r\n\r\n") {
        if stream.read_exact(&mut head).is_err() {
            return false;
        }
        line.push(head[0]);
    }
    let mut piece = [0; 16 << 10];
    while !stop.load(SeqCst) {
        match stream.read(&mut piece) {
            Ok(0) => return at == content.len(),
            Ok(count) if content[at..].starts_with(&piece[..count]) => at += count,
            _ => return false,
        }
        // It is to last for some faults.
        thread::sleep(Duration::from_millis(5));
    }
    true
}

fn table(rows: &[Row]) -> String {
    let mut table = format!(
        "{:22} {:>9} {:>10} {:>8} {:>9} {:>12} {:>10}\n",
        "fault", "injected", "unnoticed", "broken", "repaired", "unreachable", "longest"
    );
    let all = rows.iter().fold(Row::default(), |all, row| Row {
        injected: all.injected + row.injected,
        unnoticed: all.unnoticed + row.unnoticed,
        broken: all.broken + row.broken,
        repaired: all.repaired + row.repaired,
        unreachable: all.unreachable + row.unreachable,
        longest: all.longest.max(row.longest),
    });
    let named = FAULTS.iter().map(|it| it.1).chain(["all"]).zip(rows.iter().chain([&all]));
    for (name, row) in named {
        let Row { injected, unnoticed, broken, repaired, unreachable, longest } = row;
        let longest = longest.as_millis();
        let _ = writeln!(
            table,
            "{name:22} {injected:>9} {unnoticed:>10} {broken:>8} {repaired:>9} {unreachable:>12} \
             {longest:>7} ms"
        );
    }
    table
}
