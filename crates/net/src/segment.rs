//! TCP segments in IPv4 packets, as bytes.

use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    IpAddress, IpProtocol, Ipv4Packet, Ipv4Repr, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber,
};

/// Bytes of an IPv4 header without options, which is all that is sent.
pub const IP_HEADER: usize = 20;

/// How often a packet may be passed on.
const HOPS: u8 = 64;

/// An IPv4 packet with room for a payload; its header is complete.
pub fn packet(from: Ipv4Addr, to: Ipv4Addr, protocol: IpProtocol, payload: usize) -> Vec<u8> {
    let header = Ipv4Repr {
        src_addr: from,
        dst_addr: to,
        next_header: protocol,
        payload_len: payload,
        hop_limit: HOPS,
    };
    let mut bytes = vec![0; IP_HEADER + payload];
    header.emit(&mut Ipv4Packet::new_unchecked(&mut bytes[..]), &ChecksumCapabilities::default());
    bytes
}

/// A segment as a packet with its checksums.
pub fn emit(from: Ipv4Addr, to: Ipv4Addr, segment: &TcpRepr<'_>) -> Vec<u8> {
    let mut bytes = packet(from, to, IpProtocol::Tcp, segment.buffer_len());
    segment.emit(
        &mut TcpPacket::new_unchecked(&mut bytes[IP_HEADER..]),
        &IpAddress::Ipv4(from),
        &IpAddress::Ipv4(to),
        &ChecksumCapabilities::default(),
    );
    bytes
}

/// A segment without payload and options.
pub fn bare(
    (from, to): (u16, u16),
    control: TcpControl,
    sequence: u32,
    acknowledges: Option<u32>,
) -> TcpRepr<'static> {
    TcpRepr {
        src_port: from,
        dst_port: to,
        control,
        seq_number: number(sequence),
        ack_number: acknowledges.map(number),
        window_len: 0,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    }
}

/// A sequence number as smoltcp has it.
pub fn number(sequence: u32) -> TcpSeqNumber {
    TcpSeqNumber(sequence as i32)
}
