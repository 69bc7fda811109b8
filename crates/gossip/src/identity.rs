//! Nodes as `foca` names them, and its packets' binary form: fixed widths, nothing that a packet
//! could make larger than itself.

use core::fmt;

use bytes::{Buf, BufMut};
use foca::{Codec, Header, Identity, Member, Message, State};
use nile_abi::NodeId;

/// One life of a node, between two of its deaths as others saw them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Id {
    pub node: NodeId,
    pub generation: u32,
    pub renewal: u16,
}

impl Identity for Id {
    type Addr = NodeId;

    /// A node that is held for dead and lives says so by a renewal.
    fn renew(&self) -> Option<Id> {
        Some(Id { renewal: self.renewal.checked_add(1)?, ..*self })
    }

    fn addr(&self) -> NodeId {
        self.node
    }

    fn win_addr_conflict(&self, adversary: &Id) -> bool {
        (self.generation, self.renewal) > (adversary.generation, adversary.renewal)
    }
}

/// Reads and writes packets.
pub(crate) struct Packets;

/// The bytes are no packet, or there is no room for one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoPacket;

impl fmt::Display for NoPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no packet of the membership protocol")
    }
}

impl core::error::Error for NoPacket {}

const ID: usize = 10;

/// Bytes of what is said of a member.
const MEMBER: usize = ID + 3;

fn put_id(id: &Id, out: &mut impl BufMut) {
    out.put_u32(id.node.0);
    out.put_u32(id.generation);
    out.put_u16(id.renewal);
}

fn id(input: &mut impl Buf) -> Result<Id, NoPacket> {
    if input.remaining() < ID {
        return Err(NoPacket);
    }
    let node = NodeId(input.get_u32());
    Ok(Id { node, generation: input.get_u32(), renewal: input.get_u16() })
}

fn byte(input: &mut impl Buf) -> Result<u8, NoPacket> {
    if input.has_remaining() { Ok(input.get_u8()) } else { Err(NoPacket) }
}

fn member(input: &mut impl Buf) -> Result<Member<Id>, NoPacket> {
    if input.remaining() < MEMBER {
        return Err(NoPacket);
    }
    let id = id(input)?;
    let incarnation = input.get_u16();
    let state = match input.get_u8() {
        0 => State::Alive,
        1 => State::Suspect,
        2 => State::Down,
        _ => return Err(NoPacket),
    };
    Ok(Member::new(id, incarnation, state))
}

fn header(input: &mut impl Buf) -> Result<Header<Id>, NoPacket> {
    let (src, dst) = (id(input)?, id(input)?);
    if input.remaining() < 3 {
        return Err(NoPacket);
    }
    let src_incarnation = input.get_u16();
    let message = match input.get_u8() {
        0 => Message::Ping(byte(input)?),
        1 => Message::Ack(byte(input)?),
        2 => Message::PingReq { target: id(input)?, probe_number: byte(input)? },
        3 => Message::IndirectPing { origin: id(input)?, probe_number: byte(input)? },
        4 => Message::IndirectAck { target: id(input)?, probe_number: byte(input)? },
        5 => Message::ForwardedAck { origin: id(input)?, probe_number: byte(input)? },
        6 => Message::Gossip,
        7 => Message::TurnUndead,
        _ => return Err(NoPacket),
    };
    Ok(Header { src, src_incarnation, dst, message })
}

impl Codec<Id> for Packets {
    type Error = NoPacket;

    fn encode_header(&mut self, header: &Header<Id>, mut out: impl BufMut) -> Result<(), NoPacket> {
        // The largest header there is.
        if out.remaining_mut() < 3 * ID + 4 {
            return Err(NoPacket);
        }
        put_id(&header.src, &mut out);
        put_id(&header.dst, &mut out);
        out.put_u16(header.src_incarnation);
        let (kind, about, number) = match &header.message {
            Message::Ping(number) => (0, None, Some(*number)),
            Message::Ack(number) => (1, None, Some(*number)),
            Message::PingReq { target, probe_number } => (2, Some(target), Some(*probe_number)),
            Message::IndirectPing { origin, probe_number } => {
                (3, Some(origin), Some(*probe_number))
            }
            Message::IndirectAck { target, probe_number } => (4, Some(target), Some(*probe_number)),
            Message::ForwardedAck { origin, probe_number } => {
                (5, Some(origin), Some(*probe_number))
            }
            Message::Gossip => (6, None, None),
            Message::TurnUndead => (7, None, None),
            // Members are made known to foca by the gossip around it.
            Message::Announce | Message::Feed | Message::Broadcast => return Err(NoPacket),
        };
        out.put_u8(kind);
        if let Some(about) = about {
            put_id(about, &mut out);
        }
        if let Some(number) = number {
            out.put_u8(number);
        }
        Ok(())
    }

    fn decode_header(&mut self, mut input: impl Buf) -> Result<Header<Id>, NoPacket> {
        header(&mut input)
    }

    fn encode_member(&mut self, member: &Member<Id>, mut out: impl BufMut) -> Result<(), NoPacket> {
        if out.remaining_mut() < MEMBER {
            return Err(NoPacket);
        }
        put_id(member.id(), &mut out);
        out.put_u16(member.incarnation());
        out.put_u8(match member.state() {
            State::Alive => 0,
            State::Suspect => 1,
            State::Down => 2,
        });
        Ok(())
    }

    fn decode_member(&mut self, mut input: impl Buf) -> Result<Member<Id>, NoPacket> {
        member(&mut input)
    }
}

/// The packet's header, and the packet without what it says of nodes that are not `wanted`: foca
/// would take them for members. Fails if it is no packet.
pub(crate) fn sift(
    packet: &[u8],
    mut wanted: impl FnMut(&Id) -> bool,
) -> Result<(Header<Id>, alloc::vec::Vec<u8>), NoPacket> {
    let mut rest = packet;
    let header = header(&mut rest)?;
    let head = packet.len() - rest.len();
    let mut sifted = packet[..head].to_vec();
    if rest.is_empty() {
        return Ok((header, sifted));
    }
    if rest.len() < 2
        || rest.len() != 2 + usize::from(u16::from_be_bytes([rest[0], rest[1]])) * MEMBER
    {
        return Err(NoPacket);
    }
    let mut count = 0_u16;
    sifted.put_u16(0);
    for bytes in rest[2..].chunks_exact(MEMBER) {
        if wanted(member(&mut &bytes[..])?.id()) {
            sifted.extend_from_slice(bytes);
            count += 1;
        }
    }
    sifted[head..head + 2].copy_from_slice(&count.to_be_bytes());
    Ok((header, sifted))
}
