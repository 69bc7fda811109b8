//! Writing a frame, where the device reads it.

use nile_abi::MacAddress;
use nile_abi::ethernet::{CALLS, HEADER_BYTES};

use super::*;

/// Writes fields one after the other.
struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn half(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    fn word(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    fn long(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }
}

impl Header {
    /// The opcode and all flags.
    fn kind(&self) -> (u8, u16) {
        let (op, mut flags) = match self.body {
            Body::Request { asker, .. } => (opcode::REQUEST, flag::TIMED | asker.flags()),
            Body::Reply { .. } => (opcode::REPLY, 0),
            Body::Broadcast { .. } => (opcode::BROADCAST, flag::NAMED),
            Body::Gossip { .. } => (opcode::GOSSIP, 0),
            Body::Acknowledge { .. } => (opcode::ACKNOWLEDGE, 0),
            Body::Hello { .. } => (opcode::HELLO, flag::NAMED),
        };
        let optional = [
            (flag::SEALED, self.sequence.is_some()),
            (flag::ENCODED, self.encoded),
            (flag::SEGMENTED, self.segment.is_some()),
            (flag::ROUTED, self.route.is_some()),
        ];
        for (flag, is_set) in optional {
            flags |= if is_set { flag } else { 0 };
        }
        (op, flags)
    }

    /// Bytes of the header, extensions included.
    pub fn bytes(&self) -> usize {
        let (op, flags) = self.kind();
        let own = layout(op).map_or(0, |(_, _, own)| own);
        let extensions = EXTENSIONS.iter().filter(|(flag, _)| flags & flag != 0);
        COMMON_BYTES + own + extensions.map(|(_, bytes)| bytes).sum::<usize>()
    }

    /// Writes the Ethernet header and this one, with the CRC still zero, to the front of `out`,
    /// which has room for them; the offset of the data.
    pub fn emit(
        &self,
        destination: MacAddress,
        source: MacAddress,
        data_bytes: u16,
        out: &mut [u8],
    ) -> usize {
        let (op, flags) = self.kind();
        let mut w = Writer { out, at: 0 };
        w.put(&destination.0);
        w.put(&source.0);
        w.half(CALLS);
        w.put(&[VERSION, self.bytes() as u8, op, 0]);
        w.half(flags);
        w.half(data_bytes);
        w.word(self.id);
        w.word(0);
        w.word(self.node.0);
        w.word(self.generation.0);
        let (mut timed, mut named) = (None, None);
        match self.body {
            Body::Broadcast { nonce } => named = Some(nonce),
            Body::Request {
                to,
                generation,
                source_core,
                core,
                service,
                method: last,
                patience,
                oldest,
                asker: _,
            } => {
                w.call(to, generation, [source_core.0, core.0, service, last]);
                timed = Some((patience, oldest));
            }
            Body::Reply { to, generation, source_core, core, service, status: last } => {
                w.call(to, generation, [source_core.0, core.0, service, last]);
            }
            Body::Gossip { to, core } => {
                w.word(to.0);
                w.half(core.0);
                w.half(0);
            }
            Body::Acknowledge { to, generation, id, bitmap, subject, segment } => {
                for word in [to.0, generation.0, id, bitmap] {
                    w.word(word);
                }
                w.put(&[subject as u8, 0]);
                w.half(segment);
            }
            Body::Hello { to, known, state, echo, echo_nonce, sequence, nonce } => {
                w.word(to.0);
                w.word(known.0);
                w.half(state);
                w.half(0);
                w.word(echo);
                w.put(&echo_nonce.0);
                w.long(sequence);
                named = Some(nonce);
            }
        }
        if let Some(Segment { index, count, total }) = self.segment {
            w.half(index);
            w.half(count);
            w.word(total);
        }
        if let Some(Route { source, destination }) = self.route {
            w.word(source);
            w.word(destination);
        }
        if let Some((patience, oldest)) = timed {
            w.word(patience);
            w.word(oldest);
        }
        if let Some(nonce) = named {
            w.put(&nonce.0);
        }
        if let Some(sequence) = self.sequence {
            w.long(sequence);
        }
        w.at
    }
}

impl Writer<'_> {
    fn call(&mut self, to: NodeId, generation: Generation, halves: [u16; 4]) {
        self.word(to.0);
        self.word(generation.0);
        for half in halves {
            self.half(half);
        }
    }
}

/// What a seal covers besides the data, written to `out`: the interface's address that the frame
/// comes from, and the header with a CRC of zero.
pub fn authenticated<'a>(
    source: MacAddress,
    header: &[u8],
    out: &'a mut [u8; AUTHENTICATED_BYTES],
) -> &'a [u8] {
    let end = 6 + header.len();
    out[..6].copy_from_slice(&source.0);
    out[6..end].copy_from_slice(header);
    out[18..22].fill(0);
    &out[..end]
}

/// Writes the CRC of a frame of which everything but the tag is written.
pub fn set_crc(frame: &mut [u8], checksum: Checksum) {
    let crc = crc(&frame[HEADER_BYTES..], checksum);
    frame[HEADER_BYTES + 12..HEADER_BYTES + 16].copy_from_slice(&crc.to_be_bytes());
}
