//! Reading a frame: every field is checked once, here.

use nile_abi::ethernet::{CALLS, HEADER_BYTES};
use nile_abi::{CoreId, Generation, MacAddress, NodeId};

use super::*;

/// An Ethernet frame of this protocol whose every field has been checked, but neither its CRC nor
/// its seal.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    /// From the common header to the tag, without padding.
    bytes: &'a [u8],
    header_bytes: usize,
    source: MacAddress,
    destination: MacAddress,
    header: Header,
}

impl<'a> Frame<'a> {
    /// Reads an Ethernet frame without its check sequence.
    pub fn parse(frame: &'a [u8]) -> Result<Frame<'a>, Malformed> {
        let (ethernet, rest) =
            frame.split_first_chunk::<HEADER_BYTES>().ok_or(Malformed::Length)?;
        let mut fields = Fields(ethernet);
        let (destination, source) = (MacAddress(fields.take()), MacAddress(fields.take()));
        if fields.half() != CALLS || source.is_group() {
            return Err(Malformed::Version);
        }

        let mut common = Fields(rest.get(..COMMON_BYTES).ok_or(Malformed::Length)?);
        let [version, header_bytes, op, reserved] = common.take();
        let (flags, data_bytes) = (common.half(), usize::from(common.half()));
        let id = common.word();
        let _crc = common.word();
        let (node, generation) = (NodeId(common.word()), Generation(common.word()));

        if version != VERSION {
            return Err(Malformed::Version);
        }
        let (may, must, own_bytes) = layout(op).ok_or(Malformed::Opcode)?;
        if flags & !may != 0 || flags & must != must {
            return Err(Malformed::Flags);
        }
        let asker = Asker::of(flags).ok_or(Malformed::Flags)?;
        if reserved != 0 || node.0 == 0 || generation.0 == 0 {
            return Err(Malformed::Field);
        }
        let carries_data = may & flag::ENCODED != 0;
        if data_bytes != 0 && !carries_data {
            return Err(Malformed::Field);
        }
        let extensions: usize =
            EXTENSIONS.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, bytes)| bytes).sum();
        let header_bytes = usize::from(header_bytes);
        if header_bytes != COMMON_BYTES + own_bytes + extensions {
            return Err(Malformed::Length);
        }
        let tag = if flags & flag::SEALED != 0 { TAG_BYTES } else { 0 };
        let bytes = rest.get(..header_bytes + data_bytes + tag).ok_or(Malformed::Length)?;
        if bytes.len() < rest.len() && frame.len() > MIN_ETHERNET {
            return Err(Malformed::Length);
        }

        let (own, extensions) = bytes[COMMON_BYTES..header_bytes].split_at(own_bytes);
        let extensions = Extensions { asker, ..Extensions::read(flags, Fields(extensions)) };
        if let Some(segment) = extensions.segment {
            segment.check(data_bytes)?;
        }
        let header = Header {
            id,
            node,
            generation,
            encoded: flags & flag::ENCODED != 0,
            segment: extensions.segment,
            route: extensions.route,
            sequence: extensions.sequence,
            body: body(op, Fields(own), &extensions)?,
        };
        Ok(Frame { bytes, header_bytes, source, destination, header })
    }

    /// Who sent it, as the link says.
    pub fn source(&self) -> MacAddress {
        self.source
    }

    /// Where it went, as the link says.
    pub fn destination(&self) -> MacAddress {
        self.destination
    }

    /// Its header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The header's bytes, as they came.
    pub fn header_bytes(&self) -> &'a [u8] {
        &self.bytes[..self.header_bytes]
    }

    /// The data, sealed if the frame is.
    pub fn data(&self) -> &'a [u8] {
        &self.bytes[self.header_bytes..self.bytes.len() - self.tag().len()]
    }

    /// The seal's tag; empty if the frame is not sealed.
    pub fn tag(&self) -> &'a [u8] {
        let tag = if self.header.sequence.is_some() { TAG_BYTES } else { 0 };
        &self.bytes[self.bytes.len() - tag..]
    }

    /// Whether the CRC is that of the header and the data.
    pub fn is_intact(&self, checksum: Checksum) -> bool {
        let end = self.bytes.len() - self.tag().len();
        crc(&self.bytes[..end], checksum).to_be_bytes() == self.bytes[12..16]
    }
}

impl Segment {
    /// Every segment but the last has the same number of bytes, which the last does not exceed.
    fn check(self, data: usize) -> Result<(), Malformed> {
        let (index, count) = (usize::from(self.index), usize::from(self.count));
        if !(2..=MAX_SEGMENTS).contains(&count) || index >= count {
            return Err(Malformed::Field);
        }
        let total = usize::try_from(self.total).unwrap_or(usize::MAX);
        let step = self.step(data).ok_or(Malformed::Field)?;
        let fits = total <= MAX_MESSAGE && (count - 1) * step < total && total <= count * step;
        let last = index + 1 == count;
        if fits && (!last || data == total - (count - 1) * step) {
            Ok(())
        } else {
            Err(Malformed::Field)
        }
    }

    /// Bytes of each segment but the last, given those of this one.
    pub fn step(self, data: usize) -> Option<usize> {
        if self.index + 1 < self.count {
            return (data > 0).then_some(data);
        }
        let before = usize::try_from(self.total).ok()?.checked_sub(data)?;
        let others = usize::from(self.count) - 1;
        (before % others == 0 && (1..=before / others).contains(&data)).then_some(before / others)
    }
}

/// Fields of a header whose length has been checked.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk().expect("the header's length was checked");
        self.0 = rest;
        *field
    }

    fn half(&mut self) -> u16 {
        u16::from_be_bytes(self.take())
    }

    fn word(&mut self) -> u32 {
        u32::from_be_bytes(self.take())
    }

    fn long(&mut self) -> u64 {
        u64::from_be_bytes(self.take())
    }
}

#[derive(Default)]
struct Extensions {
    segment: Option<Segment>,
    route: Option<Route>,
    patience: u32,
    oldest: u32,
    nonce: BootNonce,
    sequence: Option<u64>,
    /// Not an extension, but flags alone.
    asker: Asker,
}

impl Extensions {
    fn read(flags: u16, mut fields: Fields<'_>) -> Extensions {
        let mut it = Extensions::default();
        if flags & flag::SEGMENTED != 0 {
            let (index, count) = (fields.half(), fields.half());
            it.segment = Some(Segment { index, count, total: fields.word() });
        }
        if flags & flag::ROUTED != 0 {
            it.route = Some(Route { source: fields.word(), destination: fields.word() });
        }
        if flags & flag::TIMED != 0 {
            (it.patience, it.oldest) = (fields.word(), fields.word());
        }
        if flags & flag::NAMED != 0 {
            it.nonce = BootNonce(fields.take());
        }
        if flags & flag::SEALED != 0 {
            it.sequence = Some(fields.long());
        }
        it
    }
}

/// The opcode's own header.
fn body(op: u8, mut fields: Fields<'_>, extensions: &Extensions) -> Result<Body, Malformed> {
    if op == opcode::BROADCAST {
        return Ok(Body::Broadcast { nonce: extensions.nonce });
    }
    let to = NodeId(fields.word());
    if to.0 == 0 && op != opcode::HELLO {
        return Err(Malformed::Field);
    }
    if op == opcode::GOSSIP {
        let (core, reserved) = (CoreId(fields.half()), fields.half());
        return if reserved == 0 { Ok(Body::Gossip { to, core }) } else { Err(Malformed::Field) };
    }
    let generation = Generation(fields.word());
    if generation.0 == 0 && matches!(op, opcode::REPLY | opcode::ACKNOWLEDGE) {
        return Err(Malformed::Field);
    }
    Ok(match op {
        opcode::REQUEST | opcode::REPLY => {
            let (source_core, core) = (CoreId(fields.half()), CoreId(fields.half()));
            let (service, last) = (fields.half(), fields.half());
            if op == opcode::REPLY {
                Body::Reply { to, generation, source_core, core, service, status: last }
            } else {
                let Extensions { patience, oldest, asker, .. } = *extensions;
                let method = last;
                Body::Request {
                    to,
                    generation,
                    source_core,
                    core,
                    service,
                    method,
                    patience,
                    oldest,
                    asker,
                }
            }
        }
        opcode::ACKNOWLEDGE => {
            let (id, bitmap) = (fields.word(), fields.word());
            let [subject, reserved] = fields.take();
            let segment = fields.half();
            let subject = match subject {
                0 if segment == 0 => Subject::Ended,
                1 => Subject::Request,
                2 => Subject::Reply,
                _ => return Err(Malformed::Field),
            };
            if reserved != 0 || usize::from(segment) > MAX_SEGMENTS {
                return Err(Malformed::Field);
            }
            Body::Acknowledge { to, generation, id, bitmap, subject, segment }
        }
        _ => {
            let (state, reserved, echo) = (fields.half(), fields.half(), fields.word());
            let echo_nonce = BootNonce(fields.take());
            let sequence = fields.long();
            let known = state::ASKS | state::ECHOES | state::REFUSES | state::LEAVES;
            if reserved != 0 || state & !known != 0 {
                return Err(Malformed::Field);
            }
            let nonce = extensions.nonce;
            Body::Hello { to, known: generation, state, echo, echo_nonce, sequence, nonce }
        }
    })
}
