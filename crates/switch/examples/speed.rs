//! How many frames a second the switch forwards: cargo run --release --example speed.

use std::time::{Duration, Instant as Clock};

use nile_abi::ethernet::CALLS;
use nile_abi::{Instant, MacAddress, NodeId};
use nile_switch::{Link, Probability, Rate, Switch};

const FRAMES: u32 = 2_000_000;

fn main() {
    let far = Link { delay: Duration::from_micros(10), ..Link::PERFECT };
    let some = Probability::percent(1);
    let faulty = Link { loss: some, duplicate: some, reorder: some, corrupt: some, ..far };
    let limited = Link { rate: Rate::gigabits_per_second(10), ..faulty };
    for ports in [2, 100, 10_000] {
        for (name, link) in [("perfect", Link::PERFECT), ("10 us", far), ("all faults", limited)] {
            println!("{ports:6} ports, {name:10} {:6.2} million frames/s", measure(ports, link));
        }
    }
}

fn measure(ports: u32, link: Link) -> f64 {
    let mut switch = Switch::new(1);
    switch.set_all_links(link);
    let ids: Vec<_> = (0..ports).map(|_| switch.attach()).collect();
    let address = |node| MacAddress::local(NodeId(node), 0);
    let frame = |to, from| {
        let MacAddress(to) = address(to);
        let MacAddress(from) = address(from);
        [&to[..], &from[..], &CALLS.to_be_bytes(), &[0; 100]].concat()
    };
    let mut now = Instant::START;
    for (node, port) in ids.iter().enumerate() {
        // To itself: learned, and forwarded to nobody.
        switch.receive(now, *port, &frame(node as u32, node as u32));
        now = now + Duration::from_micros(100);
        while switch.poll(now).is_some() {}
    }
    let frames: Vec<_> = (0..ports).map(|from| frame((from * 7 + 1) % ports, from)).collect();
    let start = Clock::now();
    let mut left = 0;
    for number in 0..FRAMES {
        let from = (number % ports) as usize;
        switch.receive(now, ids[from], &frames[from]);
        now = now + Duration::from_nanos(100);
        while switch.poll(now).is_some() {
            left += 1;
        }
    }
    assert!(left > FRAMES / 2, "{left} of {FRAMES} frames arrived");
    f64::from(FRAMES) / start.elapsed().as_secs_f64() / 1e6
}
