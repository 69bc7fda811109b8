//! The switch as its owner sees it.

extern crate std;

use core::time::Duration;
use std::vec;
use std::vec::Vec;

use nile_abi::ethernet::CALLS;
use nile_abi::{Instant, MacAddress, NodeId};
use proptest::prelude::*;

use crate::addresses::PER_PORT;
use crate::backlog::BACKLOG;
use crate::frame::MAX_FRAME;
use crate::lane::IN_FLIGHT;
use crate::{Counts, Link, PortId, Probability, Rate, Switch};

const EVERYBODY: MacAddress = MacAddress::BROADCAST;

fn mac(node: u32) -> MacAddress {
    MacAddress::local(NodeId(node), 0)
}

fn frame(to: MacAddress, from: MacAddress, data: &[u8]) -> Vec<u8> {
    [&to.0, &from.0, &CALLS.to_be_bytes()[..], data].concat()
}

fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

/// Everything that leaves, one deadline after the other: when, where, what.
fn drain(switch: &mut Switch) -> Vec<(Instant, PortId, Vec<u8>)> {
    let mut left = Vec::new();
    while let Some(due) = switch.next_due() {
        while let Some((port, frame)) = switch.poll(due) {
            left.push((due, port, frame.to_vec()));
        }
    }
    left
}

fn ports_of(left: &[(Instant, PortId, Vec<u8>)]) -> Vec<usize> {
    left.iter().map(|(_, port, _)| port.index()).collect()
}

/// A switch with ports `0..N`, behind each of which the address of its number is known.
fn known<const N: usize>() -> (Switch, [PortId; N]) {
    let mut switch = Switch::new(1);
    let ports = core::array::from_fn(|_| switch.attach());
    for (node, port) in ports.into_iter().enumerate() {
        switch.receive(at(0), port, &frame(EVERYBODY, mac(node as u32), b""));
    }
    drain(&mut switch);
    (switch, ports)
}

#[test]
fn addresses_are_learned_and_stay_whose_they_are() {
    let mut switch = Switch::new(1);
    let ports: [PortId; 3] = core::array::from_fn(|_| switch.attach());
    let hello = frame(mac(1), mac(0), b"hello");
    switch.receive(at(0), ports[0], &hello);
    let left = drain(&mut switch);
    assert_eq!(ports_of(&left), [1, 2], "an unknown address is flooded");
    assert_eq!(left[0].2, hello);
    switch.receive(at(0), ports[1], &frame(mac(0), mac(1), b"here"));
    assert_eq!(ports_of(&drain(&mut switch)), [0]);
    switch.receive(at(0), ports[0], &hello);
    assert_eq!(ports_of(&drain(&mut switch)), [1]);
    // Port 2 repeats a frame of port 1: it is carried, but the address stays where it was.
    switch.receive(at(0), ports[2], &frame(mac(0), mac(1), b"here"));
    assert_eq!(ports_of(&drain(&mut switch)), [0]);
    assert_eq!((switch.counts(ports[2]).misnamed, switch.counts(ports[1]).misnamed), (1, 0));
    switch.receive(at(0), ports[0], &hello);
    assert_eq!(ports_of(&drain(&mut switch)), [1]);
    // With port 1 unplugged, who uses its address next has it.
    switch.plug(ports[1], false);
    switch.receive(at(0), ports[2], &frame(mac(0), mac(1), b"moved"));
    drain(&mut switch);
    switch.receive(at(0), ports[0], &hello);
    assert_eq!(ports_of(&drain(&mut switch)), [2]);
}

#[test]
fn an_address_can_be_owned_before_it_is_used() {
    let (mut switch, ports) = known::<3>();
    let late = mac(7);
    switch.receive(at(0), ports[0], &frame(mac(1), late, b"mine"));
    switch.own(ports[2], late);
    let to_it = |switch: &mut Switch| {
        switch.receive(at(0), ports[1], &frame(late, mac(1), b"whose?"));
        ports_of(&drain(switch))
    };
    drain(&mut switch);
    assert_eq!(to_it(&mut switch), [2]);
    switch.plug(ports[2], false);
    switch.receive(at(0), ports[0], &frame(mac(1), late, b"mine"));
    drain(&mut switch);
    assert_eq!(to_it(&mut switch), [] as [usize; 0]);
    switch.detach(ports[2]);
    switch.receive(at(0), ports[0], &frame(mac(1), late, b"mine"));
    drain(&mut switch);
    assert_eq!(to_it(&mut switch), [0]);
}

#[test]
fn who_has_no_room_is_given_more_when_it_has() {
    let (mut switch, ports) = known::<3>();
    let numbered = |number: u8| frame(mac(2), mac(0), &[number]);
    (0..3).for_each(|number| switch.receive(at(0), ports[0], &numbered(number)));
    switch.receive(at(0), ports[0], &frame(mac(1), mac(0), b"held up by nobody"));
    let (port, first) = switch.poll(at(0)).unwrap();
    assert_eq!((port, first.to_vec()), (ports[2], numbered(0)));
    let (_, second) = switch.poll(at(0)).unwrap();
    switch.refuse(ports[2], second);
    assert_eq!(ports_of(&drain(&mut switch)), [1]);
    assert_eq!((switch.next_due(), switch.counts(ports[2]).sent), (None, 3));
    switch.receive(at(5), ports[0], &numbered(3));
    assert_eq!(drain(&mut switch), []);
    switch.resume(ports[2]);
    let left: Vec<u8> = drain(&mut switch).iter().map(|left| left.2[14]).collect();
    assert_eq!(left, [1, 2, 3]);
    assert_eq!(switch.counts(ports[2]).overrun, 0);
}

#[test]
fn who_floods_takes_nothing_from_others() {
    let (mut switch, ports) = known::<3>();
    switch.receive(at(0), ports[1], &frame(mac(2), mac(1), b"first"));
    let (_, first) = switch.poll(at(0)).unwrap();
    switch.refuse(ports[2], first);
    let flood = frame(mac(2), mac(0), &[0; 1000]);
    (0..100_000).for_each(|_| switch.receive(at(0), ports[0], &flood));
    (0..10).for_each(|_| switch.receive(at(0), ports[1], &frame(mac(2), mac(1), b"honest")));
    switch.resume(ports[2]);
    let left = drain(&mut switch);
    assert!(left.len() * flood.len() < BACKLOG + 20 * flood.len(), "memory is not bounded");
    let overrun = switch.counts(ports[2]).overrun as usize;
    assert_eq!(overrun, 100_011 - left.len());
    let honest = left.iter().take(20).filter(|left| left.2.ends_with(b"honest")).count();
    assert_eq!(honest, 10, "all of them are among the first");
}

#[test]
fn a_perfect_link_needs_no_timer() {
    let (mut switch, ports) = known::<2>();
    switch.receive(at(7), ports[0], &frame(mac(1), mac(0), b"now"));
    assert_eq!(switch.next_due(), Some(at(7)));
    assert!(switch.poll(at(7)).is_some());
    assert_eq!((switch.poll(at(7)), switch.next_due()), (None, None));
}

#[test]
fn delay_and_rate_add_up_over_both_cables() {
    let (mut switch, ports) = known::<2>();
    // 1000 bytes on the wire are 8 µs at 1 Gbit/s.
    let data = vec![0; 1000 - 24 - 14];
    let delay = Duration::from_micros(10);
    let link = Link { delay, rate: Rate::gigabits_per_second(1), ..Link::PERFECT };
    switch.set_link(ports[0], link);
    switch.set_link(ports[1], link);
    for _ in 0..3 {
        switch.receive(at(100), ports[0], &frame(mac(1), mac(0), &data));
    }
    assert!(switch.poll(at(135)).is_none());
    let arrivals: Vec<Instant> = drain(&mut switch).iter().map(|left| left.0).collect();
    // Stored and forwarded: 8 + 10 in each cable, then one every 8 µs.
    assert_eq!(arrivals, [at(136), at(144), at(152)]);
    // The other direction is not held up.
    switch.receive(at(200), ports[0], &frame(mac(1), mac(0), &data));
    switch.receive(at(200), ports[1], &frame(mac(0), mac(1), &data));
    assert_eq!(drain(&mut switch).iter().map(|left| left.0).collect::<Vec<_>>(), [at(236); 2]);
}

#[test]
fn a_full_queue_drops_what_comes_last() {
    let (mut switch, ports) = known::<3>();
    let data = vec![0; 1000 - 24 - 14];
    let rate = Rate::gigabits_per_second(1);
    switch.set_link(ports[2], Link { rate, queue: 3000, ..Link::PERFECT });
    for number in 0..10u8 {
        let port = usize::from(number % 2);
        let mut bytes = frame(mac(2), mac(port as u32), &data);
        bytes[20] = number;
        switch.receive(at(0), ports[port], &bytes);
    }
    let left = drain(&mut switch);
    assert_eq!(left.iter().map(|left| left.2[20]).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(switch.counts(ports[2]).overflowed, 7);
    // A queue smaller than a frame still lets one through at a time.
    switch.set_link(ports[2], Link { rate, queue: 0, ..Link::PERFECT });
    switch.receive(at(100), ports[0], &frame(mac(2), mac(0), &data));
    switch.receive(at(100), ports[0], &frame(mac(2), mac(0), &data));
    assert_eq!(drain(&mut switch).len(), 1);
    // Another rate does not wait for what the old one held up.
    switch.set_link(ports[2], Link { rate: Rate::bits_per_second(8), ..Link::PERFECT });
    switch.receive(at(200), ports[0], &frame(mac(2), mac(0), &data));
    switch.set_link(ports[2], Link { rate, queue: 2000, ..Link::PERFECT });
    switch.receive(at(300), ports[0], &frame(mac(2), mac(0), &data));
    assert_eq!(switch.next_due(), Some(at(308)));
}

#[test]
fn a_long_cable_holds_a_bounded_number_of_bytes() {
    let (mut switch, ports) = known::<2>();
    switch.set_link(ports[1], Link { delay: Duration::from_secs(9), ..Link::PERFECT });
    let large = frame(mac(1), mac(0), &vec![0; 60_000]);
    for _ in 0..1000 {
        switch.receive(at(0), ports[0], &large);
    }
    let left = drain(&mut switch).len();
    assert!(left > 250 && left * large.len() <= IN_FLIGHT, "{left}");
    assert_eq!(switch.counts(ports[1]).overflowed as usize, 1000 - left);
    switch.receive(at(20_000_000), ports[0], &large);
    assert_eq!(drain(&mut switch).len(), 1, "there is room again");
}

/// What comes out at port 1, over `link`, of `count` frames that are numbered.
fn through(link: Link, count: u32) -> (Vec<(Instant, Vec<u8>)>, Counts) {
    let (mut switch, ports) = known::<2>();
    switch.set_link(ports[1], link);
    for number in 0..count {
        let data = [&number.to_be_bytes()[..], &[0; 42]].concat();
        switch.receive(at(1000), ports[0], &frame(mac(1), mac(0), &data));
    }
    let left = drain(&mut switch).into_iter().map(|(at, _, bytes)| (at, bytes)).collect();
    (left, switch.counts(ports[1]))
}

fn numbers(left: &[(Instant, Vec<u8>)]) -> Vec<u32> {
    left.iter().map(|(_, bytes)| u32::from_be_bytes(bytes[14..18].try_into().unwrap())).collect()
}

/// Whether `count` of 10,000 is what a probability of ten percent gives: within five deviations.
fn about_a_tenth(count: usize) -> bool {
    (850..=1150).contains(&count)
}

const SOMETIMES: Probability = Probability::percent(10);

#[test]
fn a_cable_keeps_the_order_of_frames() {
    let link = Link { delay: Duration::from_micros(5), ..Link::PERFECT };
    let (left, _) = through(link, 1000);
    assert_eq!(numbers(&left), (0..1000).collect::<Vec<_>>());
}

#[test]
fn time_does_not_run_backwards() {
    let (mut switch, ports) = known::<2>();
    switch.set_link(ports[1], Link { delay: Duration::from_micros(5), ..Link::PERFECT });
    switch.receive(at(100), ports[0], &frame(mac(1), mac(0), b"first"));
    switch.receive(at(50), ports[0], &frame(mac(1), mac(0), b"second"));
    let arrivals: Vec<Instant> = drain(&mut switch).iter().map(|left| left.0).collect();
    assert_eq!(arrivals, [at(105); 2]);
}

#[test]
fn some_frames_are_lost() {
    let (left, counts) = through(Link { loss: SOMETIMES, ..Link::PERFECT }, 10_000);
    assert!(about_a_tenth(10_000 - left.len()), "{}", left.len());
    assert_eq!(counts.lost as usize, 10_000 - left.len());
    assert!(numbers(&left).is_sorted());
    assert!(through(Link { loss: Probability::ALWAYS, ..Link::PERFECT }, 100).0.is_empty());
}

#[test]
fn some_frames_come_twice() {
    let (left, counts) = through(Link { duplicate: SOMETIMES, ..Link::PERFECT }, 10_000);
    assert!(about_a_tenth(left.len() - 10_000), "{}", left.len());
    assert_eq!(counts.duplicated as usize, left.len() - 10_000);
    let mut seen = numbers(&left);
    seen.dedup();
    assert_eq!(seen, (0..10_000).collect::<Vec<_>>());
}

#[test]
fn some_frames_are_overtaken() {
    let delay = Duration::from_micros(30);
    let (left, counts) = through(Link { reorder: SOMETIMES, delay, ..Link::PERFECT }, 10_000);
    assert!(about_a_tenth(counts.reordered as usize), "{}", counts.reordered);
    let late = left.iter().filter(|(when, _)| *when > at(1030)).count();
    assert_eq!(late, counts.reordered as usize);
    let latest = left.iter().map(|left| left.0).max().unwrap();
    assert!(latest <= at(1030 + 160) && latest > at(1030 + 150), "{latest}");
    let mut seen = numbers(&left);
    assert!(!seen.is_sorted());
    seen.sort();
    assert_eq!(seen, (0..10_000).collect::<Vec<_>>());
}

#[test]
fn some_frames_are_damaged_behind_their_addresses() {
    let (left, counts) = through(Link { corrupt: SOMETIMES, ..Link::PERFECT }, 10_000);
    let mut damaged = 0;
    for (number, (_, bytes)) in left.iter().enumerate() {
        let data = [&(number as u32).to_be_bytes()[..], &[0; 42]].concat();
        let whole = frame(mac(1), mac(0), &data);
        assert_eq!((bytes.len(), &bytes[..12]), (whole.len(), &whole[..12]));
        let wrong: Vec<usize> = (0..whole.len()).filter(|&at| bytes[at] != whole[at]).collect();
        if let (Some(first), Some(last)) = (wrong.first(), wrong.last()) {
            assert!(last - first < 8);
            damaged += 1;
        }
    }
    assert!(about_a_tenth(damaged), "{damaged}");
    assert_eq!(counts.corrupted as usize, damaged);
}

#[test]
fn sides_of_a_partition_do_not_hear_each_other() {
    let (mut switch, ports) = known::<5>();
    // Port 4 is on no side, like one who looks at the cluster from outside.
    switch.partition(&[&ports[..2], &ports[2..4]]);
    switch.receive(at(0), ports[0], &frame(EVERYBODY, mac(0), b"all"));
    assert_eq!(ports_of(&drain(&mut switch)), [1, 4]);
    switch.receive(at(0), ports[0], &frame(mac(3), mac(0), b"one"));
    assert_eq!(ports_of(&drain(&mut switch)), [] as [usize; 0]);
    assert_eq!((switch.counts(ports[3]).partitioned, switch.counts(ports[2]).partitioned), (2, 1));
    switch.receive(at(0), ports[4], &frame(EVERYBODY, mac(4), b"all"));
    assert_eq!(ports_of(&drain(&mut switch)), [0, 1, 2, 3]);
    switch.heal();
    switch.receive(at(0), ports[0], &frame(mac(3), mac(0), b"one"));
    assert_eq!(ports_of(&drain(&mut switch)), [3]);
}

#[test]
fn a_cable_that_is_not_plugged_in_carries_nothing() {
    let (mut switch, ports) = known::<3>();
    switch.set_link(ports[1], Link { delay: Duration::from_micros(5), ..Link::PERFECT });
    switch.receive(at(0), ports[0], &frame(mac(1), mac(0), b"on its way"));
    switch.plug(ports[1], false);
    assert_eq!(drain(&mut switch), []);
    switch.receive(at(0), ports[1], &frame(mac(0), mac(1), b"from nowhere"));
    assert_eq!(drain(&mut switch), []);
    assert_eq!(switch.counts(ports[1]).unplugged, 2);
    // Its address is forgotten, its settings are not.
    switch.plug(ports[1], true);
    switch.receive(at(0), ports[0], &frame(mac(1), mac(0), b"flooded"));
    assert_eq!(ports_of(&drain(&mut switch)), [2, 1]);
}

#[test]
fn a_port_that_is_gone_leaves_nothing_to_its_successor() {
    let (mut switch, ports) = known::<2>();
    switch.set_all_links(Link { delay: Duration::from_micros(5), ..Link::PERFECT });
    switch.set_link(ports[0], Link::PERFECT);
    switch.receive(at(0), ports[0], &frame(mac(1), mac(0), b"to"));
    switch.receive(at(0), ports[1], &frame(mac(0), mac(1), b"from"));
    switch.detach(ports[1]);
    let successor = switch.attach();
    assert_eq!((successor.index(), successor == ports[1]), (1, false));
    assert_eq!(drain(&mut switch), []);
    assert_eq!(switch.counts(successor), Counts::default());
    assert_eq!(switch.link(successor).delay, Duration::from_micros(5));
    // The old name reaches nothing.
    switch.receive(at(50), ports[1], &frame(mac(0), mac(1), b"late"));
    switch.set_link(ports[1], Link::PERFECT);
    switch.detach(ports[1]);
    assert_eq!(drain(&mut switch), []);
    assert_eq!(switch.link(successor).delay, Duration::from_micros(5));
}

#[test]
fn what_is_no_frame_is_counted() {
    let (mut switch, ports) = known::<2>();
    let group = MacAddress([0x03; 6]);
    let long = vec![0; MAX_FRAME + 1];
    for bytes in [&b""[..], &[0; 13], &long, &frame(mac(1), group, b"")] {
        switch.receive(at(0), ports[0], bytes);
    }
    assert_eq!(drain(&mut switch), []);
    assert_eq!(switch.counts(ports[0]).malformed, 4);
    let largest = frame(mac(1), mac(0), &long[..MAX_FRAME - 14]);
    switch.receive(at(0), ports[0], &largest);
    assert_eq!(drain(&mut switch).len(), 1, "the largest frame passes");
}

#[test]
fn who_invents_addresses_forgets_only_its_own() {
    let (mut switch, ports) = known::<3>();
    for number in 0..100_000 {
        switch.receive(at(0), ports[2], &frame(mac(2), mac(1000 + number), b""));
        drain(&mut switch);
    }
    assert!(switch.addresses() <= PER_PORT + 2, "{}", switch.addresses());
    switch.receive(at(0), ports[0], &frame(mac(1), mac(0), b"still known"));
    assert_eq!(ports_of(&drain(&mut switch)), [1]);
    switch.detach(ports[2]);
    assert_eq!(switch.addresses(), 2);
}

#[test]
fn wire_time_is_that_of_ethernet() {
    assert_eq!(Rate::wire_bytes(14), 84);
    assert_eq!(Rate::wire_bytes(1514), 1538);
    let time = |bits, bytes| Rate::bits_per_second(bits).unwrap().time(bytes).as_nanos();
    assert_eq!(time(10_000_000_000, 1538), 1231);
    assert_eq!(time(1, 1), 8_000_000_000);
    assert!(time(1, usize::MAX) > 0, "no overflow");
    assert_eq!(Rate::gigabits_per_second(0), None);
}

/// One call of the switch's owner.
#[derive(Clone, Debug)]
enum Step {
    Send { from: usize, source: u32, to: u32, length: usize },
    Wait(u64),
    Attach,
    Detach(usize),
    Plug(usize, bool),
    Faults(usize, u32),
    Partition(usize),
    Heal,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let port = 0..6usize;
    let send = (port.clone(), 0..8u32, 0..9u32, 0..80usize);
    let send = send.prop_map(|(from, source, to, length)| Step::Send { from, source, to, length });
    let step = prop_oneof![
        8 => send,
        3 => (0..200u64).prop_map(Step::Wait),
        1 => Just(Step::Attach),
        1 => port.clone().prop_map(Step::Detach),
        1 => (port.clone(), any::<bool>()).prop_map(|(port, on)| Step::Plug(port, on)),
        1 => (port.clone(), 0..40u32).prop_map(|(port, percent)| Step::Faults(port, percent)),
        1 => port.prop_map(Step::Partition),
        1 => Just(Step::Heal),
    ];
    proptest::collection::vec(step, 0..120)
}

fn faults(percent: u32) -> Link {
    let some = Probability::percent(percent);
    let rate = Rate::bits_per_second(u64::from(percent) * 1_000_000);
    let delay = Duration::from_micros(u64::from(percent));
    Link { delay, rate, queue: 2000, loss: some, duplicate: some, reorder: some, corrupt: some }
}

/// Takes the steps and gives everything that left; `perfect` takes no fault.
fn take(steps: &[Step], perfect: bool) -> Vec<(Instant, PortId, Vec<u8>)> {
    let mut switch = Switch::new(3);
    let mut ports: Vec<PortId> = (0..6).map(|_| switch.attach()).collect();
    let (mut now, mut left) = (at(0), Vec::new());
    let address = |node| if node == 8 { EVERYBODY } else { mac(node) };
    for step in steps {
        match *step {
            Step::Send { from, source, to, length } => {
                let bytes = frame(address(to), mac(source), &vec![7; length]);
                switch.receive(now, ports[from], &bytes);
            }
            Step::Wait(micros) => now = now + Duration::from_micros(micros),
            Step::Attach => ports[0] = switch.attach(),
            Step::Detach(port) => switch.detach(ports[port]),
            Step::Plug(port, plugged) => switch.plug(ports[port], plugged),
            Step::Faults(..) if perfect => {}
            Step::Faults(port, percent) => switch.set_link(ports[port], faults(percent)),
            Step::Partition(port) => switch.partition(&[&ports[..port], &ports[port..]]),
            Step::Heal => switch.heal(),
        }
        while let Some((port, frame)) = switch.poll(now) {
            left.push((now, port, frame.to_vec()));
        }
    }
    left.extend(drain(&mut switch));
    assert_eq!(switch.poll(Instant::from_nanos(u64::MAX)), None);
    left
}

/// What a perfect network delivers, by looking through everything that was sent before.
struct Model {
    /// For each port: its name, whether it is there, plugged in, and its side.
    ports: Vec<(PortId, bool, bool, Option<bool>)>,
    /// Which port was the first to use which address.
    seen: Vec<(PortId, u32)>,
}

impl Model {
    fn position(&self, port: PortId) -> Option<usize> {
        self.ports.iter().position(|known| known.0 == port && known.1)
    }

    fn place(&self, address: u32) -> Option<PortId> {
        let there = |seen: &&(PortId, u32)| seen.1 == address && self.position(seen.0).is_some();
        self.seen.iter().find(there).map(|(port, _)| *port)
    }

    fn send(&mut self, from: PortId, source: u32, to: u32) -> Vec<PortId> {
        let Some(sender) = self.position(from).filter(|&at| self.ports[at].2) else {
            return Vec::new();
        };
        if self.place(source).is_none() {
            self.seen.push((from, source));
        }
        let one = self.place(to);
        let hears = |port: &&(PortId, bool, bool, Option<bool>)| {
            let side = self.ports[sender].3;
            let apart = port.3.is_some() && side.is_some() && port.3 != side;
            port.1 && port.2 && !apart && port.0 != from && one.is_none_or(|one| one == port.0)
        };
        self.ports.iter().filter(hears).map(|port| port.0).collect()
    }
}

/// The same steps as `take` without faults, for the model.
fn expected(steps: &[Step]) -> Vec<PortId> {
    let mut names = Switch::new(3);
    let mut ports: Vec<PortId> = (0..6).map(|_| names.attach()).collect();
    let there = ports.iter().map(|port| (*port, true, true, None)).collect();
    let mut model = Model { ports: there, seen: Vec::new() };
    let mut left = Vec::new();
    for step in steps {
        match *step {
            Step::Send { from, source, to, .. } => {
                let mut hears = model.send(ports[from], source, to);
                hears.sort();
                left.extend(hears);
            }
            Step::Attach => {
                ports[0] = names.attach();
                model.ports.push((ports[0], true, true, None));
            }
            Step::Detach(port) => {
                names.detach(ports[port]);
                model.ports.iter_mut().filter(|at| at.0 == ports[port]).for_each(|at| at.1 = false);
            }
            Step::Plug(port, plugged) => {
                let Some(at) = model.position(ports[port]) else { continue };
                model.ports[at].2 = plugged;
                if !plugged {
                    // What it used nobody has; a new user is noted behind this.
                    let gone = model.ports[at].0;
                    let held: Vec<u32> =
                        (0..8).filter(|&node| model.place(node) == Some(gone)).collect();
                    model.seen.retain(|seen| !held.contains(&seen.1));
                }
            }
            Step::Partition(port) => {
                for at in &mut model.ports {
                    let before = ports[..port].contains(&at.0);
                    let after = ports[port..].contains(&at.0);
                    at.3 = if after { Some(true) } else { before.then_some(false) };
                }
            }
            Step::Heal => model.ports.iter_mut().for_each(|at| at.3 = None),
            Step::Wait(_) | Step::Faults(..) => {}
        }
    }
    left
}

proptest! {
    #[test]
    fn a_perfect_network_is_the_naive_one(steps in steps()) {
        let left: Vec<PortId> = take(&steps, true).into_iter().map(|left| left.1).collect();
        prop_assert_eq!(left, expected(&steps));
    }

    #[test]
    fn the_same_calls_have_the_same_outcome(steps in steps()) {
        let left = take(&steps, false);
        prop_assert!(left.is_sorted_by_key(|left| left.0));
        prop_assert_eq!(left, take(&steps, false));
    }
}
