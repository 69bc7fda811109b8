//! Messages and packets between packages of two domains, over memory that both have.
//!
//! * `domain-ficm`: a message there and back (FICM), beside a message over channels between two
//!   packages of one domain. The same CPUs poll for either. Control: three trips for one.
//! * `domain-rfcom`: a packet of as many bytes there and back (RFcom), and bytes a second in
//!   packets of 32 KiB, beside the same channels, whose messages have 56 bytes, and beside a Unix
//!   socket between two threads that poll, on the same CPUs. There is no target.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use super::gauge::{Domain, Task, measure};
use super::machine::Machine;
use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::place::{Cpu, Stay, two_cpus};
use crate::rounds::{Times, order};

/// Bytes of what goes there and back: what a message holds. Bytes of a packet that goes one way,
/// and of all of them.
const TRIP: usize = 56;
const PACKET: usize = 32 << 10;
const STREAM: usize = 256 << 20;

/// Round trips over a socket, and as many before them.
const TRIPS: u32 = 20_000;

/// How long a measurement takes at most, where nothing disturbs it.
const TAKES: Duration = Duration::from_millis(400);

/// Two domains that share memory. Their first worker cores are on a CPU each, and the second one
/// of `batch` is where that of `web` is.
struct Two<'m> {
    web: Domain<'m>,
    batch: Domain<'m>,
}

impl<'m> Two<'m> {
    fn create(machine: &'m Machine, [here, there]: [Cpu; 2]) -> Result<Two<'m>, Failure> {
        let web = Domain::create(machine, "web", here, &[here])?;
        let batch = Domain::create(machine, "batch", here, &[there, here])?;
        let share = ["domain", "share", "rf", "--memory", "2M", "--with", "web,batch"];
        machine.say(&share)?;
        Ok(Two { web, batch })
    }

    /// What `batch.c1` and another core find that do this with each other, of whom the other leads.
    fn between(&self, what: &str, way: &str) -> Result<f64, Failure> {
        // Who leads: a core of its own node, or the other domain's.
        let (leader, core, [from, to]) = match way {
            "channel" => (&self.batch, 2, [2, 1]),
            "post" => (&self.web, 1, [self.web.place(), self.batch.place()]),
            _ => (&self.web, 1, [0, 0]),
        };
        let follow = Task {
            domain: &self.batch,
            core: 1,
            argument: format!("{what} {way} {from} follow"),
            tells: false,
        };
        let lead =
            Task { domain: leader, core, argument: format!("{what} {way} {to} lead"), tells: true };
        let found = measure(&[follow, lead], TAKES)?;
        found.first().copied().ok_or_else(|| Failure::Node("nothing was measured".into()))
    }

    /// Nanoseconds of a round trip.
    fn trip(&self, way: &str) -> Result<f64, Failure> {
        Ok(self.between("trips", way)? / 100.0)
    }

    /// Bytes a nanosecond, which is GB/s.
    fn stream(&self, way: &str) -> Result<f64, Failure> {
        Ok(self.between("stream", way)? / 1e6)
    }
}

/// See the module.
pub fn run_ficm(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let (rounds, trips) = if mode == Mode::Real { (15, 1.0) } else { (3, 3.0) };
    let machine = Machine::up("6", "320M")?;
    let two = Two::create(&machine, two_cpus()?)?;
    let mut times = Times::of(2);
    for round in 0..=rounds {
        for contestant in order(round, 2) {
            let took = match contestant {
                0 => two.trip("post")? * trips,
                _ => two.trip("channel")?,
            };
            if round > 0 {
                times.0[contestant].push(took);
            }
        }
    }
    let peer = Peer { name: "a channel of one node".into(), value: times.median(1) };
    let (ours, ratio) = (times.median(0), times.ratio(0, 1));
    let figure = Figure::with_ratio("domain-ficm", "ns", ours, peer, ratio, Target::AtMost(1.1));
    Ok(vec![figure.spread(&[("ours", &times.0[0]), ("channel", &times.0[1])])])
}

/// See the module.
pub fn run_rfcom(mode: Mode) -> Result<Vec<Figure>, Failure> {
    if mode == Mode::Control {
        eprintln!("  there is no target to miss");
        return Ok(Vec::new());
    }
    const ROUNDS: usize = 9;
    let cpus = two_cpus()?;
    let machine = Machine::up("6", "320M")?;
    let two = Two::create(&machine, cpus)?;
    // Nanoseconds of a round trip, and of a byte.
    let (mut trips, mut bytes) = (Times::of(3), Times::of(3));
    for round in 0..=ROUNDS {
        for contestant in order(round, 3) {
            let (trip, rate) = match contestant {
                0 => (two.trip("packets")?, two.stream("packets")?),
                1 => (two.trip("channel")?, two.stream("channel")?),
                _ => (socket_trip(cpus)?, socket_stream(cpus)?),
            };
            if round > 0 {
                trips.0[contestant].push(trip);
                bytes.0[contestant].push(1.0 / rate);
            }
        }
    }
    let peers = [("a channel of one node", "channel", 1), ("a Unix socket", "socket", 2)];
    let figures = peers.into_iter().flat_map(|(peer, short, at)| {
        let value = trips.median(at);
        let beside = Peer { name: peer.into(), value };
        let name = format!("domain-rfcom-{short}");
        let ratio = trips.ratio(0, at);
        let trip = Figure::with_ratio(name, "ns", trips.median(0), beside, ratio, Target::None);
        let beside = Peer { name: peer.into(), value: 1.0 / bytes.median(at) };
        let name = format!("domain-rfcom-rate-{short}");
        let (ours, ratio) = (1.0 / bytes.median(0), bytes.ratio(at, 0));
        let rate = Figure::with_ratio(name, "GB/s", ours, beside, ratio, Target::None);
        [trip.spread(&[("ours", &trips.0[0]), (short, &trips.0[at])]), rate]
    });
    Ok(figures.collect())
}

/// Nanoseconds that a message of a trip takes there and back over a socket, for which both poll.
fn socket_trip(cpus: [Cpu; 2]) -> Result<f64, Failure> {
    let (mut here, mut there) = pair()?;
    let answers = move || -> io::Result<()> {
        let mut bytes = [0; TRIP];
        for _ in 0..2 * TRIPS {
            read(&mut there, &mut bytes)?;
            write(&mut there, &bytes)?;
        }
        Ok(())
    };
    let asks = move || -> io::Result<f64> {
        let mut bytes = [0x5a; TRIP];
        let mut begun = Instant::now();
        for trip in 0..2 * TRIPS {
            if trip == TRIPS {
                begun = Instant::now();
            }
            write(&mut here, &bytes)?;
            read(&mut here, &mut bytes)?;
        }
        Ok(begun.elapsed().as_nanos() as f64 / f64::from(TRIPS))
    };
    on_two(cpus, asks, answers)
}

/// Bytes in a nanosecond that go one way, in pieces as long as a packet.
fn socket_stream(cpus: [Cpu; 2]) -> Result<f64, Failure> {
    let (mut here, mut there) = pair()?;
    let takes = move || -> io::Result<()> {
        let mut bytes = vec![0; PACKET];
        for _ in 0..STREAM / PACKET {
            read(&mut there, &mut bytes)?;
        }
        write(&mut there, &[1])
    };
    let sends = move || -> io::Result<f64> {
        let bytes = vec![0x5a; PACKET];
        let begun = Instant::now();
        for _ in 0..STREAM / PACKET {
            write(&mut here, &bytes)?;
        }
        read(&mut here, &mut [0])?;
        Ok(STREAM as f64 / begun.elapsed().as_nanos() as f64)
    };
    on_two(cpus, sends, takes)
}

fn pair() -> io::Result<(UnixStream, UnixStream)> {
    let (here, there) = UnixStream::pair()?;
    here.set_nonblocking(true)?;
    there.set_nonblocking(true)?;
    Ok((here, there))
}

/// What `here` gives, with the other one on the second CPU.
fn on_two(
    cpus: [Cpu; 2],
    here: impl FnOnce() -> io::Result<f64>,
    there: impl FnOnce() -> io::Result<()> + Send,
) -> Result<f64, Failure> {
    thread::scope(|scope| {
        let other = scope.spawn(move || {
            let _stay = Stay::on(cpus[1])?;
            there()
        });
        let _stay = Stay::on(cpus[0])?;
        let took = here();
        let ended = other.join().map_err(|_| Failure::Node("the other end panicked".into()))?;
        // Its own end says why it has failed.
        took.and_then(|took| ended.map(|()| took)).map_err(Failure::System)
    })
}

/// All of the bytes, for which it polls.
fn read(from: &mut UnixStream, mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match from.read(bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes = &mut bytes[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The same the other way.
fn write(to: &mut UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
