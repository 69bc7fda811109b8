//! A node: an endpoint behind an interface that sends one frame after the other, as quickly as
//! its cable takes them.

use std::time::Duration;

use nile_abi::ethernet::HEADER_BYTES;
use nile_abi::{Generation, Instant, MacAddress, NodeId};
use nile_bulk::wire::{Header, write_checksum};
use nile_bulk::{Endpoint, Link, Settings, Unsealed};
use nile_switch::Rate;

use super::memory::Pattern;
use crate::trace::Trace;
use crate::world::{Host, World};

/// One incarnation of a node.
pub struct Node {
    pub host: Host,
    pub endpoint: Endpoint,
    pub memory: Pattern,
    pub generation: Generation,
    rate: Rate,
    /// When the interface has sent its last frame.
    free: Instant,
    /// Frames are written here.
    out: Vec<u8>,
}

impl Node {
    /// The incarnation `generation` of the node at `host`, whose id is the host's number.
    pub fn new(host: Host, generation: Generation, link: Link, seed: u64) -> Node {
        let id = NodeId(host.0);
        let settings = Settings {
            checksum: crc32c::crc32c_append,
            seed: seed ^ u64::from(host.0) << 32 ^ u64::from(generation.0),
            ..Settings::new(id, generation, MacAddress::local(id, 0), link)
        };
        let rate = link.rate.and_then(Rate::bits_per_second);
        Node {
            host,
            endpoint: Endpoint::new(settings),
            memory: Pattern::default(),
            generation,
            rate: rate.unwrap_or(FASTEST),
            free: Instant::START,
            out: vec![0; link.max_frame],
        }
    }

    /// Takes a frame that has come.
    pub fn receive(&mut self, now: Instant, frame: &[u8]) {
        self.endpoint.receive(now, frame, &mut self.memory, &mut Unsealed);
    }

    /// Sends what is to be sent and sets the timer: called after everything that was done with the
    /// endpoint.
    pub fn settle(&mut self, world: &mut World, trace: &mut Trace) {
        let now = world.now();
        let mut more = false;
        if self.free <= now {
            let memory = &mut self.memory;
            let written = self.endpoint.transmit(now, &mut self.out, memory, &mut Unsealed);
            if let Some(bytes) = written {
                trace.note(now, u64::from(self.host.0), 1, bytes as u64);
                world.send(self.host, &self.out[..bytes]);
                self.free = now + self.rate.time(Rate::wire_bytes(bytes));
                more = true;
            }
        }
        // Whatever waits while the interface is busy goes when it is free.
        let free = (more || self.free > now).then_some(self.free);
        // A deadline that cannot be met at once must not hold the time still.
        let due = self.endpoint.next_due().map(|due| due.max(now + Duration::from_nanos(1)));
        world.set_timer(self.host, [free, due].into_iter().flatten().min());
    }
}

/// What an interface without a rate has: enough for virtual time to pass.
const FASTEST: Rate = match Rate::gigabits_per_second(1000) {
    Some(rate) => rate,
    None => panic!("a thousand is not zero"),
};

/// A frame with another header and other data, its checksum right, between the same interfaces as
/// `like`: what somebody on the way could have made of that one.
pub fn rewrite(header: &Header, data: &[u8], like: &[u8]) -> Option<Vec<u8>> {
    let mac = |at: usize| like.get(at..)?.first_chunk().copied().map(MacAddress);
    let mut out = vec![0; HEADER_BYTES + header.bytes(false) + data.len()];
    let start = header.write([mac(0)?, mac(6)?], false, data.len(), &mut out)?;
    out[start..].copy_from_slice(data);
    write_checksum(&mut out, crc32c::crc32c_append);
    Some(out)
}
