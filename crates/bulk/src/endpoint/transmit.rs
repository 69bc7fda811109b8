//! What is said next: answers first, then announcements and credit, then data, in turns.

use nile_abi::ethernet::HEADER_BYTES;
use nile_abi::{Generation, Instant, MacAddress, Status};

use super::{Endpoint, Memory};
use crate::event::{IncomingId, OutgoingId, Transfer, Why};
use crate::pace::Permit;
use crate::peers::is_before;
use crate::seal::Sealer;
use crate::wire::{Body, Header, TAG_BYTES, write_checksum};

impl Endpoint {
    /// Writes the next frame that is to be sent, Ethernet header included, to the start of `out`,
    /// which has room for the link's largest frame; gives its bytes. `None`: nothing is to be sent
    /// now. `sealer` is asked if the endpoint's frames are sealed.
    pub fn transmit(
        &mut self,
        now: Instant,
        out: &mut [u8],
        memory: &mut dyn Memory,
        sealer: &mut dyn Sealer,
    ) -> Option<usize> {
        self.grant(now);
        loop {
            let written = if let Some(header) = self.replies.pop_front() {
                self.write(&header, &[], out, sealer)
            } else if let Some(transfer) = self.words.pop_front() {
                match transfer {
                    Transfer::Out(id) => self.write_announcement(id, out, sealer),
                    Transfer::In(id) => self.write_credit(id, out, sealer),
                }
            } else if let Some(number) = self.sending.pop_front() {
                self.write_block(now, number, out, memory, sealer)
            } else {
                return None;
            };
            // What could not be written is counted, or of a transfer that has just ended.
            if written.is_some() {
                return written;
            }
        }
    }

    /// Grants what the window and the link's rate permit, a batch for each transfer in turn.
    fn grant(&mut self, now: Instant) {
        self.grant_due = None;
        while let Some(id) = self.wanting.pop_front() {
            let Some(incoming) = self.incoming.get_mut(&id) else { continue };
            let wants = incoming.wants();
            let wire = incoming.wire();
            let frames = wants.min(self.pace.batch(wire, self.wanting.len() + 1));
            if frames == 0 {
                incoming.in_turn = false;
                continue;
            }
            let before = incoming.on_the_way();
            match self.pace.permits(now, u64::from(frames) * wire) {
                Permit::Now => {}
                Permit::Full => return self.wanting.push_front(id),
                Permit::At(at) => {
                    self.grant_due = Some(at);
                    return self.wanting.push_front(id);
                }
            }
            incoming.grant(now, frames);
            self.pace.grant(now, u64::from(frames) * wire);
            self.pace.account(before, incoming.on_the_way());
            incoming.in_turn = wants > frames;
            if incoming.in_turn {
                self.wanting.push_back(id);
            }
            let expires = incoming.expires();
            self.wake_at(expires);
            self.say(id);
        }
    }

    fn write_announcement(
        &mut self,
        id: OutgoingId,
        out: &mut [u8],
        sealer: &mut dyn Sealer,
    ) -> Option<usize> {
        let numbers = self.outgoing.iter().map(|(number, _)| *number);
        let oldest = numbers.reduce(|a, b| if is_before(b, a) { b } else { a }).unwrap_or(id.0);
        let outgoing = self.outgoing.get_mut(&id.0)?;
        outgoing.announce_due = false;
        let body = Body::Announce(outgoing.announce(oldest));
        let generation = outgoing.generation.unwrap_or(Generation(0));
        let (to, shown) = (outgoing.to, core::mem::take(&mut outgoing.shown));
        let written = self.write(&self.header(to, generation, id.0, body), &shown, out, sealer);
        if let Some(outgoing) = self.outgoing.get_mut(&id.0) {
            outgoing.shown = shown;
        }
        written
    }

    fn write_credit(
        &mut self,
        id: IncomingId,
        out: &mut [u8],
        sealer: &mut dyn Sealer,
    ) -> Option<usize> {
        let incoming = self.incoming.get_mut(&id)?;
        incoming.credit_due = false;
        incoming.said();
        let mut bitmap = [0; crate::wire::BITMAP_BYTES];
        // What a small frame has no room for is said when the blocks before it are there.
        let room = usize::from(incoming.block);
        let bytes = incoming.window().bitmap_bytes().min(room).min(bitmap.len());
        incoming.window().write_bitmap(&mut bitmap[..bytes]);
        let body = Body::Credit(incoming.credit());
        let header = self.header(id.from, id.generation, id.number, body);
        self.write(&header, &bitmap[..bytes], out, sealer)
    }

    fn write_block(
        &mut self,
        now: Instant,
        number: u32,
        out: &mut [u8],
        memory: &mut dyn Memory,
        sealer: &mut dyn Sealer,
    ) -> Option<usize> {
        let outgoing = self.outgoing.get_mut(&number)?;
        let picked = outgoing.pick(now);
        outgoing.in_turn = outgoing.can_send();
        if outgoing.in_turn {
            self.sending.push_back(number);
        }
        let (to, generation, due) = (outgoing.to, outgoing.generation?, outgoing.due);
        let picked = picked?;
        self.wake_at(due);
        let header = self.header(to, generation, number, Body::Data(picked.data));
        let start =
            header.write(self.addresses(&header), self.settings.sealed, picked.bytes, out)?;
        let into = &mut out[start..start + picked.bytes];
        if memory.read(OutgoingId(number), picked.offset, into).is_err() {
            let transfer = Transfer::Out(OutgoingId(number));
            self.fail(transfer, Why::MemoryGone, Some(Status::NotFound));
            return None;
        }
        self.counters.repeated += u64::from(picked.repeated);
        self.counters.sent_bytes += picked.bytes as u64;
        self.close(&header, start, picked.bytes, out, sealer)
    }

    /// Writes a whole frame.
    fn write(
        &mut self,
        header: &Header,
        data: &[u8],
        out: &mut [u8],
        sealer: &mut dyn Sealer,
    ) -> Option<usize> {
        let start = header.write(self.addresses(header), self.settings.sealed, data.len(), out)?;
        out[start..start + data.len()].copy_from_slice(data);
        self.close(header, start, data.len(), out, sealer)
    }

    fn addresses(&self, header: &Header) -> [MacAddress; 2] {
        [self.peers.mac(header.destination), self.settings.mac]
    }

    /// Seals and checks a frame whose header and data are written; gives its bytes.
    fn close(
        &mut self,
        header: &Header,
        start: usize,
        data_bytes: usize,
        out: &mut [u8],
        sealer: &mut dyn Sealer,
    ) -> Option<usize> {
        let mut end = start + data_bytes;
        if self.settings.sealed {
            let (head, rest) = out.split_at_mut(start);
            let (data, rest) = rest.split_at_mut(data_bytes);
            let (to, generation) = (header.destination, header.destination_generation);
            let sealed = sealer.seal(to, generation, &mut head[HEADER_BYTES..], data);
            let Some(tag) = sealed else {
                // As if the network had lost it: it is said again.
                self.counters.no_key += 1;
                return None;
            };
            rest[..TAG_BYTES].copy_from_slice(&tag);
            end += TAG_BYTES;
        }
        if !self.settings.link.trusted {
            write_checksum(&mut out[..end], self.settings.checksum);
        }
        self.counters.sent += 1;
        Some(end)
    }
}
