//! Data between two nodes that are joined as hosted domains are with `--direct`: each is a process
//! on a CPU of its own, and a link in memory goes from one to the other.
//!
//! * `domain-loop` (RFloop): buffers of 1 MiB by the nodes' services, beside a TCP connection over
//!   Linux's loopback between two threads on the same CPUs, written in pieces as long.
//! * `domain-bulk`: the same beside a copy of as many bytes.
//!
//! Control: frames as short as networks have them, sealed.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use crate::Mode;
use crate::bulk;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::place::{Cpu, Stay, two_cpus};
use crate::rounds::{Times, order};

/// Bytes of a write, as of a buffer of the nodes' pools.
const WRITE: usize = 1 << 20;

/// See the module.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let rounds = if mode == Mode::Real { 9 } else { 2 };
    let cpus = two_cpus()?;
    let source: Vec<u8> = (0..bulk::BYTES).map(|at| (at * 7 + (at >> 12)) as u8).collect();
    let mut target = vec![1; bulk::BYTES];
    let mut times = Times::of(3);
    for round in 0..=rounds {
        for contestant in order(round, 3) {
            let took = match contestant {
                0 => bulk::through_services(cpus, mode)?,
                1 => tcp(cpus, &source)?,
                _ => bulk::copy(cpus[0], &source, &mut target)?,
            };
            if round > 0 {
                times.0[contestant].push(took);
            }
        }
    }
    let rate = |contestant| bulk::BYTES as f64 / times.median(contestant) / 1e9;
    let figure = |name: &str, other, peer: &str, target| {
        let peer = Peer { name: peer.into(), value: rate(other) };
        Figure::with_ratio(name, "GB/s", rate(0), peer, times.ratio(other, 0), target)
    };
    Ok(vec![
        figure("domain-loop", 1, "TCP over loopback", Target::AtLeast(1.5)),
        figure("domain-bulk", 2, "memcpy", Target::AtLeast(0.8)),
    ])
}

/// Seconds that the bytes take over a connection, until all were read.
fn tcp([here, there]: [Cpu; 2], source: &[u8]) -> Result<f64, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut sender = TcpStream::connect(listener.local_addr()?)?;
    let (mut receiver, _) = listener.accept()?;
    let bytes = source.len();
    thread::scope(|scope| {
        let takes = scope.spawn(move || -> io::Result<()> {
            let _stay = Stay::on(there)?;
            let (mut place, mut came) = (vec![0; WRITE], 0);
            while came < bytes {
                match receiver.read(&mut place)? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    count => came += count,
                }
            }
            receiver.write_all(&[1])
        });
        let _stay = Stay::on(here)?;
        let begun = Instant::now();
        let sent = source.chunks(WRITE).try_for_each(|piece| sender.write_all(piece));
        sent.and_then(|()| sender.read_exact(&mut [0]))?;
        let took = begun.elapsed().as_secs_f64();
        takes.join().map_err(|_| Failure::Node("the receiver panicked".into()))??;
        Ok(took)
    })
}
