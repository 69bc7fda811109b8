//! Packets with segments, made and read by smoltcp's codecs.

use std::net::Ipv4Addr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    Icmpv4DstUnreachable, Icmpv4Packet, Icmpv4Repr, Icmpv4TimeExceeded, IpProtocol, Ipv4Packet,
    Ipv4Repr, TcpOption, TcpPacket, TcpSeqNumber,
};

use crate::script::{Error, Flags, Segment};

pub const IP_HEADER: usize = 20;

/// Who speaks with whom: addresses and ports.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub host: (Ipv4Addr, u16),
    pub peer: (Ipv4Addr, u16),
}

/// A segment as it came.
#[derive(Clone, Debug)]
pub struct Came {
    pub flags: Flags,
    pub seq: u32,
    pub ack: u32,
    pub window: u16,
    pub mss: Option<u16>,
    pub scale: Option<u8>,
    pub sackok: bool,
    pub sack: Option<(u32, u32)>,
    pub has_time: bool,
    pub payload: Vec<u8>,
}

impl Came {
    /// What a packet of the host's says; `Err`: it is malformed.
    pub fn parse(packet: &[u8]) -> Result<Came, &'static str> {
        let ip = Ipv4Packet::new_checked(packet).map_err(|_| "no packet")?;
        let tcp = TcpPacket::new_checked(ip.payload()).map_err(|_| "no segment")?;
        let ends = (ip.src_addr().into(), ip.dst_addr().into());
        if !ip.verify_checksum() || !tcp.verify_checksum(&ends.0, &ends.1) {
            return Err("a wrong checksum");
        }
        let summary = tcp.options_summary().map_err(|_| "wrong options")?;
        Ok(Came {
            flags: Flags {
                syn: tcp.syn(),
                ack: tcp.ack(),
                fin: tcp.fin(),
                rst: tcp.rst(),
                urg: tcp.urg(),
            },
            seq: tcp.seq_number().0 as u32,
            ack: if tcp.ack() { tcp.ack_number().0 as u32 } else { 0 },
            window: tcp.window_len(),
            mss: summary.max_segment_size,
            scale: summary.window_scale,
            sackok: summary.sack_permitted,
            sack: summary.sack_ranges[0],
            has_time: summary.timestamp.is_some(),
            payload: tcp.payload().to_vec(),
        })
    }

    /// How many numbers it takes.
    pub fn takes(&self) -> u32 {
        self.payload.len() as u32 + u32::from(self.flags.syn) + u32::from(self.flags.fin)
    }

    /// Whether it does nothing but acknowledge.
    pub fn is_bare(&self) -> bool {
        self.flags == Flags { ack: true, ..Flags::default() } && self.payload.is_empty()
    }
}

/// The byte at an offset of each stream.
pub fn byte_at(offset: i64) -> u8 {
    (offset.rem_euclid(251) as u8).wrapping_mul(7)
}

/// A peer's segment as a packet, with absolute numbers.
pub fn emit(ends: &Ends, it: &Segment, (seq, ack): (u32, u32), payload: &[u8]) -> Vec<u8> {
    let mut options = it.raw.clone();
    let mut add = |option: TcpOption<'_>| {
        let at = options.len();
        options.resize(at + option.buffer_len(), 0);
        option.emit(&mut options[at..]);
    };
    it.mss.into_iter().for_each(|mss| add(TcpOption::MaxSegmentSize(mss)));
    it.scale.into_iter().for_each(|scale| add(TcpOption::WindowScale(scale)));
    if it.sackok {
        add(TcpOption::SackPermitted);
    }
    if let Some((tsval, tsecr)) = it.time {
        add(TcpOption::TimeStamp { tsval, tsecr });
    }
    options.resize(options.len().next_multiple_of(4), 0);
    let header = 20 + options.len();
    let mut bytes = packet(ends, IpProtocol::Tcp, header + payload.len());
    let mut tcp = TcpPacket::new_unchecked(&mut bytes[IP_HEADER..]);
    tcp.set_src_port(ends.peer.1);
    tcp.set_dst_port(ends.host.1);
    tcp.set_seq_number(TcpSeqNumber(seq as i32));
    tcp.set_ack_number(TcpSeqNumber(ack as i32));
    tcp.clear_flags();
    tcp.set_syn(it.flags.syn);
    tcp.set_ack(it.flags.ack);
    tcp.set_fin(it.flags.fin);
    tcp.set_rst(it.flags.rst);
    tcp.set_urg(it.flags.urg);
    tcp.set_psh(!payload.is_empty());
    tcp.set_urgent_at(it.urgent);
    tcp.set_window_len(match it.window {
        Some(crate::script::Window::Is(window)) => window,
        _ => 32_000,
    });
    tcp.set_header_len(header as u8);
    tcp.options_mut().copy_from_slice(&options);
    tcp.payload_mut().copy_from_slice(payload);
    if let Some(words) = it.header {
        tcp.set_header_len(4 * words);
    }
    tcp.fill_checksum(&ends.peer.0.into(), &ends.host.0.into());
    if it.bad {
        let right = tcp.checksum();
        tcp.set_checksum(right ^ 0x0101);
    }
    bytes
}

/// A report to the host of an error of a packet of its own.
pub fn report(ends: &Ends, error: Error, of: &[u8]) -> Option<Vec<u8>> {
    let checksums = ChecksumCapabilities::default();
    let ip = Ipv4Packet::new_checked(of).ok()?;
    let header = Ipv4Repr::parse(&ip, &checksums).ok()?;
    let data = ip.payload().get(..8)?;
    let unreachable = |reason| Icmpv4Repr::DstUnreachable { reason, header, data };
    let message = match error {
        Error::NoHost => unreachable(Icmpv4DstUnreachable::HostUnreachable),
        Error::NoPort => unreachable(Icmpv4DstUnreachable::PortUnreachable),
        Error::TimeOver => {
            Icmpv4Repr::TimeExceeded { reason: Icmpv4TimeExceeded::TtlExpired, header, data }
        }
    };
    let mut bytes = packet(ends, IpProtocol::Icmp, message.buffer_len());
    message.emit(&mut Icmpv4Packet::new_unchecked(&mut bytes[IP_HEADER..]), &checksums);
    Some(bytes)
}

/// A packet of a peer's with room for a payload.
pub fn packet(ends: &Ends, next_header: IpProtocol, payload_len: usize) -> Vec<u8> {
    let mut bytes = vec![0; IP_HEADER + payload_len];
    let (src_addr, dst_addr) = (ends.peer.0, ends.host.0);
    let header = Ipv4Repr { src_addr, dst_addr, next_header, payload_len, hop_limit: 64 };
    header.emit(&mut Ipv4Packet::new_unchecked(&mut bytes[..]), &ChecksumCapabilities::default());
    bytes
}
