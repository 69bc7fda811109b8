//! Bulk transfer over a direct link of two hosted nodes, beside one thread's copy of the same
//! bytes: a thread on each of two CPUs has the protocol's endpoint and its end of the link; and two
//! nodes move as much from pool to pool through their services.
//!
//! The goodput on networks is measured in virtual time by the simulation, here as in `nile sim`.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant as Clock;

use nile_abi::{CoreId, Generation, Instant, MacAddress, NodeId};
use nile_bulk::{
    Endpoint, Event, Gone, IncomingId, Link, Memory, OutgoingId, Send, Settings, Unsealed,
};
use nile_platform_hosted::{Direct, Filled};
use nile_simulations::{Options, bulk as simulation};

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::number;
use crate::pair::{Pair, RESTLESS};
use crate::place::{Cpu, Stay, two_cpus};
use crate::sims;

/// Bytes of a transfer: far more than any cache holds.
pub const BYTES: usize = 256 << 20;

/// Bytes of the link's largest frame.
const FRAME: usize = 65_535;

/// How often both take turns.
const TURNS: usize = 5;

/// See the module. The control sends a quarter in each frame and checks every byte with the
/// portable checksum.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let cpus = two_cpus()?;
    let source: Vec<u8> = (0..BYTES).map(|at| (at * 7 + (at >> 12)) as u8).collect();
    let mut target = vec![1; BYTES];
    let turns = if mode == Mode::Control { 1 } else { TURNS };
    let (mut copies, mut transfers) = (Vec::new(), Vec::new());
    let (mut beside, mut served) = (Vec::new(), Vec::new());
    // One of each warms up.
    for _ in 0..=turns {
        copies.push(copy(cpus[0], &source, &mut target)?);
        transfers.push(transfer(cpus, mode, &source, &mut target)?);
        if source != target {
            return Err(Failure::Node("what arrived is not what was sent".into()));
        }
        beside.push(copy(cpus[0], &source, &mut target)?);
        served.push(through_services(cpus, mode)?);
    }
    let middle = |mut times: Vec<f64>| {
        times.remove(0);
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let rate = |seconds: f64| BYTES as f64 / seconds / 1e9;
    let peer = Peer { name: "memcpy".into(), value: rate(middle(copies)) };
    let ours = rate(middle(transfers));
    let mut figures = vec![Figure::new("bulk-hosted", "GB/s", ours, peer, Target::AtLeast(0.5))];
    let moved = middle(served);
    let peer = Peer { name: "memcpy".into(), value: rate(middle(beside)) };
    figures.push(Figure::new("bulk-nodes", "GB/s", rate(moved), peer, Target::AtLeast(0.5)));
    let options = Options::default();
    figures.extend(sims::figures(mode, "bulk", &simulation::run(&options))?);
    Ok(figures)
}

/// Seconds that as many bytes take from the pool of a node to that of another, through their
/// network services. The control does so in frames as short as networks have them.
pub fn through_services(cpus: [Cpu; 2], mode: Mode) -> Result<f64, Failure> {
    let frame = if mode == Mode::Control { "1514" } else { "65535" };
    let config = format!("{RESTLESS}[pool]\nbytes = \"32M\"\nbuffer = \"1M\"\n");
    let pair = Pair {
        name: "bulk",
        direct: true,
        sealed: mode == Mode::Control,
        config: &config,
        options: &["--memory", "128M", "--max-frame", frame],
    };
    let program = format!("bulk-cost nodes=2 rounds=3 megabytes={}", BYTES >> 20);
    let report = pair.run(cpus, &program)?;
    let figure = |name: &str| number(&report, &format!("program.figures.{name}"));
    Ok(figure("round-ns")? / 1e9 * BYTES as f64 / figure("round-bytes")?)
}

/// Seconds that a copy takes on one CPU.
pub fn copy(cpu: Cpu, source: &[u8], target: &mut [u8]) -> Result<f64, Failure> {
    let _stay = Stay::on(cpu)?;
    let begin = Clock::now();
    target.copy_from_slice(std::hint::black_box(source));
    std::hint::black_box(&target);
    Ok(begin.elapsed().as_secs_f64())
}

/// What one end has in memory.
struct Ours<'a> {
    source: &'a [u8],
    target: &'a mut [u8],
}

impl Memory for Ours<'_> {
    fn read(&mut self, _: OutgoingId, offset: u64, into: &mut [u8]) -> Result<(), Gone> {
        let from = self.source.get(offset as usize..).and_then(|it| it.get(..into.len()));
        into.copy_from_slice(from.ok_or(Gone)?);
        Ok(())
    }

    fn write(&mut self, _: IncomingId, offset: u64, bytes: &[u8]) -> Result<(), Gone> {
        let to = self.target.get_mut(offset as usize..).and_then(|it| it.get_mut(..bytes.len()));
        to.ok_or(Gone)?.copy_from_slice(bytes);
        Ok(())
    }
}

/// Seconds that a transfer takes from one CPU to another.
fn transfer(
    [here, there]: [Cpu; 2],
    mode: Mode,
    source: &[u8],
    target: &mut [u8],
) -> Result<f64, Failure> {
    let max_frame = if mode == Mode::Control { FRAME / 32 } else { FRAME };
    let memory = Direct::memory(max_frame)?;
    let sender = &Direct::map(&memory, max_frame, true, address(2))?;
    let receiver = &Direct::map(&memory, max_frame, false, address(1))?;
    let over = AtomicBool::new(false);
    let begin = Clock::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            let Ok(_stay) = Stay::on(there) else { return };
            let mut ours = Ours { source: &[], target };
            drive(endpoint(2, mode, max_frame), receiver, &mut ours, &begin, &over);
        });
        let _stay = Stay::on(here)?;
        let mut endpoint = endpoint(1, mode, max_frame);
        let send = Send {
            to: NodeId(2),
            generation: None,
            source_core: CoreId::BOOT,
            core: CoreId::BOOT,
            tag: 1,
            label: 0,
            total: Some(source.len() as u64),
        };
        let now = Instant::from_nanos(begin.elapsed().as_nanos() as u64);
        endpoint.send(now, send).map_err(|error| Failure::Node(error.to_string()))?;
        drive(endpoint, sender, &mut Ours { source, target: &mut [] }, &begin, &over);
        Ok(begin.elapsed().as_secs_f64())
    })
}

fn address(node: u32) -> MacAddress {
    MacAddress::local(NodeId(node), 0)
}

fn endpoint(node: u32, mode: Mode, max_frame: usize) -> Endpoint {
    let link = Link {
        trusted: mode == Mode::Real,
        ..Link::shared_memory(max_frame, (12 * max_frame) as u64)
    };
    let settings = Settings::new(NodeId(node), Generation::FIRST, address(node), link);
    Endpoint::new(settings)
}

/// Runs one end until the transfer is over at the sender, or has failed.
fn drive(
    mut endpoint: Endpoint,
    link: &Direct,
    memory: &mut Ours<'_>,
    begin: &Clock,
    over: &AtomicBool,
) {
    let mut dropped = 0;
    while !over.load(Ordering::Relaxed) {
        let now = Instant::from_nanos(begin.elapsed().as_nanos() as u64);
        let mut taken = link.receive(
            16,
            &mut |frame| {
                endpoint.receive(now, frame, memory, &mut Unsealed);
            },
            &mut dropped,
        );
        if endpoint.next_due().is_some_and(|due| due <= now) {
            endpoint.on_time(now);
        }
        while let Some(event) = endpoint.poll() {
            match event {
                Event::Announced { transfer, .. } => endpoint.accept(now, transfer, u64::MAX),
                Event::Finished { transfer: nile_bulk::Transfer::Out(_), .. }
                | Event::Failed { .. } => over.store(true, Ordering::Relaxed),
                _ => {}
            }
        }
        let mut put = link.put_before();
        let mut fill = |place: &mut [u8]| endpoint.transmit(now, place, memory, &mut Unsealed);
        // The first frame is for all: where its peer is, the end has yet to hear.
        let mut to_all = Vec::new();
        while match link.fill(&mut put, &mut fill, &mut |frame| to_all = frame.to_vec()) {
            Filled::Put(_) => true,
            Filled::Other => link.put(&to_all, &mut put),
            Filled::Nothing | Filled::NoRoom => false,
        } {
            taken += 1;
        }
        link.show(put);
        if taken == 0 {
            spin_loop();
        }
    }
}
