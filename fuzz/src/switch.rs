//! What is plugged into the virtual switch: any frames, on cables that change all the time.

use std::time::Duration;

use nile_abi::Instant;
use nile_switch::{Link, PortId, Probability, Rate, Switch};

use crate::input::Input;

/// Steps of one input.
const MOST_STEPS: usize = 256;

/// Ports at first; steps attach more.
const PORTS: usize = 4;

/// The most ports.
const MOST_PORTS: usize = 16;

/// Steps: a frame, any bytes at all; a cable with other settings; a cable plugged in or out; a
/// port attached or taken away; a partition. Accepted: a frame reached somebody.
pub fn switch(bytes: &[u8]) -> bool {
    let mut input = Input::new(bytes);
    let mut switch = Switch::new(1);
    let mut ports: Vec<PortId> = (0..PORTS).map(|_| switch.attach()).collect();
    let (mut now, mut taken, mut reached) = (Instant::START, 0, 0);
    for _ in 0..MOST_STEPS {
        let Some([step, place]) = input.take() else { break };
        let port = ports[usize::from(place) % ports.len()];
        match step {
            0xf8.. => {
                let index = usize::from(place) % ports.len();
                switch.detach(ports[index]);
                ports[index] = switch.attach();
            }
            0xf0.. if ports.len() < MOST_PORTS => ports.push(switch.attach()),
            0xe8.. => switch.plug(port, step & 1 == 0),
            0xe0.. => switch.set_link(port, link(&mut input)),
            0xd8.. => {
                let (one, other) = ports.split_at(usize::from(place) % ports.len());
                switch.partition(&[one, other]);
            }
            0xd0.. => switch.heal(),
            length => {
                let before = switch.counts(port).received;
                switch.receive(now, port, input.most(usize::from(length)));
                taken += switch.counts(port).received - before;
            }
        }
        now = now + Duration::from_micros(u64::from(step));
        while let Some((to, frame)) = switch.poll(now) {
            assert!(frame.len() >= 14, "what is no frame is forwarded");
            assert!(ports.contains(&to), "a port that is gone gets a frame");
            reached += 1;
        }
    }
    while let Some(due) = switch.next_due() {
        assert!(switch.poll(due).is_some() || switch.next_due() != Some(due), "it does not end");
        reached += 1;
    }
    // Both cables can double a frame, and it does not go back.
    assert!(reached <= taken * 4 * MOST_PORTS as u64, "{reached} of {taken} frames");
    reached > 0
}

fn link(input: &mut Input<'_>) -> Link {
    let [rate, delay, loss, duplicate, reorder, corrupt] = input.take().unwrap_or_default();
    let chance = |byte: u8| Probability::per_million(u32::from(byte) * 4000);
    Link {
        delay: Duration::from_micros(u64::from(delay)),
        rate: Rate::bits_per_second(u64::from(rate) << 20),
        queue: usize::from(rate) * 16,
        loss: chance(loss),
        duplicate: chance(duplicate),
        reorder: chance(reorder),
        corrupt: chance(corrupt),
    }
}
