//! TCP segments in packets of IPv4 and IPv6, as bytes.

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, TcpControl, TcpPacket, TcpRepr,
    TcpSeqNumber,
};

/// Bytes of an IPv4 header without options, and of one of IPv6 without extensions, which is all
/// that is sent.
pub const IPV4_HEADER: usize = 20;
/// See above.
pub const IPV6_HEADER: usize = 40;

/// Bytes of a segment's header without options.
pub const TCP_HEADER: usize = 20;

/// How often a packet may be passed on.
const HOPS: u8 = 64;

/// Bytes of the header of a packet that we send to this address, or from it.
pub fn header_for(address: IpAddr) -> usize {
    if address.is_ipv4() { IPV4_HEADER } else { IPV6_HEADER }
}

/// Where a packet goes that was checked, or that we have made.
pub fn target_of(packet: &[u8]) -> IpAddr {
    match packet.first().map(|it| it >> 4) {
        Some(4) => Ipv4Packet::new_unchecked(packet).dst_addr().into(),
        _ => Ipv6Packet::new_unchecked(packet).dst_addr().into(),
    }
}

/// A packet with room for a payload; its header is complete. Both addresses are of one family:
/// that of `to`.
pub fn packet(from: IpAddr, to: IpAddr, protocol: IpProtocol, payload: usize) -> Vec<u8> {
    packet_with(from, to, protocol, payload, HOPS)
}

/// The same that may be passed on so often.
pub fn packet_with(
    from: IpAddr,
    to: IpAddr,
    next_header: IpProtocol,
    payload_len: usize,
    hop_limit: u8,
) -> Vec<u8> {
    let mut bytes = vec![0; header_for(to) + payload_len];
    match (from, to) {
        (IpAddr::V4(src_addr), IpAddr::V4(dst_addr)) => {
            let header = Ipv4Repr { src_addr, dst_addr, next_header, payload_len, hop_limit };
            let checksums = ChecksumCapabilities::default();
            header.emit(&mut Ipv4Packet::new_unchecked(&mut bytes[..]), &checksums);
        }
        (IpAddr::V6(src_addr), IpAddr::V6(dst_addr)) => {
            let header = Ipv6Repr { src_addr, dst_addr, next_header, payload_len, hop_limit };
            header.emit(&mut Ipv6Packet::new_unchecked(&mut bytes[..]));
        }
        _ => debug_assert!(false, "{from} speaks to {to}"),
    }
    bytes
}

/// A segment as a packet with its checksums.
pub fn emit(from: IpAddr, to: IpAddr, segment: &TcpRepr<'_>) -> Vec<u8> {
    let mut bytes = packet(from, to, IpProtocol::Tcp, segment.buffer_len());
    segment.emit(
        &mut TcpPacket::new_unchecked(&mut bytes[header_for(to)..]),
        &from.into(),
        &to.into(),
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
