//! Frames go where they are for, each charged to who sent it, and no flood keeps others' away.

use alloc::rc::Rc;
use alloc::vec;
use core::num::NonZeroU64;
use core::sync::atomic::Ordering;
use core::time::Duration;

use nile_domain::Limit;
use nile_ring::Region;

use super::*;
use crate::LoopInterface;
use crate::rfloop::LOOP_BYTES;
use crate::toll::TOLL_BYTES;

const OWN: MacAddress = MacAddress([2, 0, 0, 0, 1, 0]);
const ELSEWHERE: MacAddress = MacAddress([2, 0, 0, 0, 9, 0]);

type Frames = RefCell<Vec<Vec<u8>>>;

/// A network that keeps what is sent, and brings what it is told to.
#[derive(Clone, Default)]
struct Wire(Rc<(Frames, Frames)>);

impl Interface for Wire {
    fn address(&self) -> MacAddress {
        OWN
    }

    fn max_frame(&self) -> usize {
        1514
    }

    fn is_ready(&self) -> bool {
        !self.0.0.borrow().is_empty()
    }

    fn receive(&self, limit: usize, take: &mut dyn FnMut(&[u8])) -> usize {
        let mut incoming = self.0.0.borrow_mut();
        let count = incoming.len().min(limit);
        incoming.drain(..count).for_each(|it| take(&it));
        count
    }

    fn transmit(&self, fill: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> bool {
        let mut frame = vec![0; 1514];
        while let Some(bytes) = fill(&mut frame) {
            self.0.1.borrow_mut().push(frame[..bytes].to_vec());
        }
        true
    }

    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

fn frame(to: MacAddress, from: MacAddress) -> Vec<u8> {
    [&to.0[..], &from.0, &[0x88, 0xb5, 42]].concat()
}

fn take_all(from: &dyn Interface) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    from.receive(64, &mut |frame| all.push(frame.to_vec()));
    all
}

fn send(from: &dyn Interface, bytes: &[u8]) {
    let mut left = Some(bytes);
    from.transmit(&mut |frame| {
        let bytes = left.take()?;
        frame[..bytes.len()].copy_from_slice(bytes);
        Some(bytes.len())
    });
}

/// The loops of a supervisor's domains, and a clock.
struct Machine {
    wire: Wire,
    loops: Vec<FrameLoop>,
    tolls: Vec<Region>,
    clock: Rc<Cell<Instant>>,
    woken: Rc<RefCell<Vec<u32>>>,
}

impl Machine {
    fn new(domains: usize) -> Machine {
        let of = |bytes| (0..domains).map(move |_| Region::owned(bytes));
        let new = |it| FrameLoop::new(it).unwrap();
        let (wire, clock, woken) = Default::default();
        let (loops, tolls) = (of(LOOP_BYTES).map(new).collect(), of(TOLL_BYTES).collect());
        Machine { wire, loops, tolls, clock, woken }
    }

    fn bridge(&self) -> impl Interface + use<> {
        let tolls = self.tolls.iter().map(|it| Toll::new(it.clone()).unwrap());
        let ports: Vec<_> = self.loops.iter().cloned().zip(tolls).collect();
        let (clock, woken) = (self.clock.clone(), self.woken.clone());
        let wake = move |name| woken.borrow_mut().push(name);
        Bridge::new(Box::new(self.wire.clone()), ports.into_iter(), 0, wake, move || clock.get())
    }

    fn domain(&self, index: usize) -> LoopInterface<fn(u32)> {
        LoopInterface::open(&self.loops[index], 5, (|_| ()) as fn(u32)).unwrap()
    }

    fn limit(&self, index: usize, rate: u64, burst: u64, weight: u64) {
        for (word, value) in self.tolls[index].words().iter().zip([rate, burst, weight]) {
            word.store(value, Ordering::Relaxed);
        }
        let limit = Limit { rate: NonZeroU64::new(rate), burst, weight };
        assert_eq!(Toll::new(self.tolls[index].clone()).unwrap().limit(), limit);
    }

    /// Frames that went on, their bytes, and frames that were dropped.
    fn carried(&self, index: usize) -> [u64; 3] {
        let words = &self.tolls[index].words()[Limit::WORDS..];
        core::array::from_fn(|at| words[at].load(Ordering::Relaxed))
    }
}

/// A frame of so many bytes.
fn long(to: MacAddress, from: MacAddress, bytes: usize) -> Vec<u8> {
    let mut frame = frame(to, from);
    frame.resize(bytes, 7);
    frame
}

#[test]
fn frames_go_where_they_are_for() {
    let machine = Machine::new(2);
    let unplugged = LoopInterface::open(&machine.loops[0], 5, |_| ());
    assert!(unplugged.is_none(), "nobody has an address");
    let bridge = machine.bridge();
    let (one, two) = (machine.domain(0), machine.domain(1));
    let (first, second) = (one.address(), two.address());
    assert_eq!(first.0[..5], OWN.0[..5]);
    assert_ne!(first, second);
    let ways: [(&dyn Interface, MacAddress); 3] = [(&bridge, OWN), (&one, first), (&two, second)];
    for (sender, from) in ways {
        for to in [OWN, first, second, ELSEWHERE, MacAddress::BROADCAST] {
            if to == from {
                continue;
            }
            let frame = frame(to, from);
            send(sender, &frame);
            let came = [take_all(&bridge), take_all(&one), take_all(&two)];
            let went = core::mem::take(&mut *machine.wire.0.1.borrow_mut());
            let is_for = |address| address == to || to.is_group() && address != from;
            for (came, address) in came.iter().zip([OWN, first, second]) {
                assert_eq!(came.len(), usize::from(is_for(address)), "{from} to {to}");
                assert!(came.iter().all(|it| *it == frame));
            }
            assert_eq!(went.len(), usize::from(to == ELSEWHERE || to.is_group()));
        }
    }
    let bytes = frame(OWN, first).len() as u64;
    assert_eq!([machine.carried(0), machine.carried(1)], [[4, 4 * bytes, 0]; 2]);
}

#[test]
fn a_flood_takes_no_more_turns_than_its_weight_says() {
    let machine = Machine::new(3);
    machine.limit(2, 0, 4096, 3);
    let bridge = machine.bridge();
    let senders = [0, 1, 2].map(|index| machine.domain(index));
    // The first floods with small frames, and the others have large ones.
    let sizes = [60, 1000, 1000];
    let mut came = [0; 3];
    for _ in 0..600 {
        for (sender, bytes) in senders.iter().zip(sizes) {
            (0..40).for_each(|_| send(sender, &long(OWN, sender.address(), bytes)));
        }
        bridge.receive(16, &mut |frame| {
            let from = senders.iter().position(|it| frame[6..12] == it.address().0).unwrap();
            came[from] += frame.len() as u64 + FRAME_COST;
        });
    }
    let [flood, one, three] = came;
    assert!(one.abs_diff(flood) * 20 < one, "{came:?}");
    assert!(three.abs_diff(3 * one) * 20 < three, "{came:?}");
}

#[test]
fn a_loop_that_is_flooded_has_room_for_frames_of_others() {
    // The supervisor's own frames are the control: nothing keeps it from filling a loop.
    for floods_as_supervisor in [false, true] {
        let machine = Machine::new(3);
        let bridge = machine.bridge();
        let (red, blue, aim) = (machine.domain(0), machine.domain(1), machine.domain(2));
        let wanted = frame(aim.address(), blue.address());
        let (mut came, mut seen) = (0, 0);
        for _ in 0..100 {
            let flooder: &dyn Interface = if floods_as_supervisor { &bridge } else { &red };
            for _ in 0..SLOTS {
                send(flooder, &frame(aim.address(), flooder.address()));
            }
            bridge.receive(2 * SLOTS as usize, &mut |_| ());
            send(&blue, &wanted);
            bridge.receive(2 * SLOTS as usize, &mut |_| ());
            // It takes less than comes.
            seen += aim.receive(8, &mut |frame| came += usize::from(frame == wanted));
        }
        seen += aim.receive(SLOTS as usize, &mut |frame| came += usize::from(frame == wanted));
        assert!(seen >= 800, "{seen}");
        assert_eq!(came == 100, !floods_as_supervisor, "{came} of 100 came");
        if !floods_as_supervisor {
            let [frames, _, dropped] = machine.carried(0);
            assert_eq!((frames + dropped, frames + 100), (100 * SLOTS, seen as u64));
        }
    }
}

#[test]
fn a_rate_holds_a_flood_and_is_off_when_there_is_none() {
    let machine = Machine::new(1);
    let (bridge, red) = (machine.bridge(), machine.domain(0));
    let frame = long(OWN, red.address(), 500);
    let flood = |rate| {
        machine.limit(0, rate, 4000, 1);
        let mut came = 0;
        for _ in 0..100 {
            machine.clock.set(machine.clock.get() + Duration::from_millis(10));
            (0..SLOTS).for_each(|_| send(&red, &frame));
            bridge.receive(2 * SLOTS as usize, &mut |_| came += 1);
        }
        came
    };
    // What a burst is, and 990 ms at 50 kB/s; without a rate, all.
    assert_eq!(flood(50_000), 107);
    assert_eq!(flood(0), 100 * SLOTS);
    assert_eq!(flood(50_000), 107);
    let [frames, bytes, dropped] = machine.carried(0);
    assert_eq!((frames, bytes), (214 + 100 * SLOTS, 500 * frames));
    assert_eq!(frames + dropped, 300 * SLOTS);
}

#[test]
fn what_comes_from_the_network_goes_to_domains_and_nobody_speaks_as_another() {
    let machine = Machine::new(1);
    let (bridge, domain) = (machine.bridge(), machine.domain(0));
    assert!(!domain.is_ready() && !bridge.is_ready());
    let mine = frame(domain.address(), ELSEWHERE);
    machine.wire.0.0.borrow_mut().push(mine.clone());
    assert!(bridge.is_ready());
    assert!(take_all(&bridge).is_empty());
    assert_eq!((take_all(&domain), &*machine.woken.borrow()), (vec![mine], &vec![5]));
    // As the supervisor, to the network.
    send(&domain, &frame(ELSEWHERE, OWN));
    assert!(bridge.is_ready() && take_all(&bridge).is_empty());
    assert!(machine.wire.0.1.borrow().is_empty());
    assert_eq!((bridge.traffic().dropped, machine.carried(0)), (1, [0, 0, 1]));
}
