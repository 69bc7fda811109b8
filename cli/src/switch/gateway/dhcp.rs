//! Leases for nodes (RFC 2131). A node's address follows from its number, and its number from the
//! address of its interface, so there is nothing to remember: what a node gives back it gets again.
//! Whoever is no node gets no answer.

use std::net::Ipv4Addr;

use nile_abi::MacAddress;
use nile_abi::ip::Addresses;
use smoltcp::wire::{DhcpMessageType, DhcpOption, DhcpPacket, DhcpRepr};

use super::names;

/// Seconds for which a node has its address, unless it asks again.
const LEASE: u32 = 3600;

/// Options that smoltcp has no field for.
const HOST_NAME: u8 = 12;
const DOMAIN_NAME: u8 = 15;

/// The answer to a message, and where it goes; `None` if there is none. `message` is any bytes.
pub fn answer(addresses: &Addresses, message: &[u8]) -> Option<(Ipv4Addr, Vec<u8>)> {
    let packet = DhcpPacket::new_checked(message).ok()?;
    let asked = DhcpRepr::parse(&packet).ok()?;
    let node = MacAddress(asked.client_hardware_address.0).node()?;
    let (address, server) = (addresses.address_of(node)?, addresses.gateway());
    if !asked.relay_agent_ip.is_unspecified() {
        return None;
    }
    let message_type = match asked.message_type {
        DhcpMessageType::Discover => DhcpMessageType::Offer,
        DhcpMessageType::Inform => DhcpMessageType::Ack,
        DhcpMessageType::Request if asked.server_identifier.is_some_and(|it| it != server) => {
            // It has chosen another server.
            return None;
        }
        DhcpMessageType::Request => match asked.requested_ip.unwrap_or(asked.client_ip) {
            wanted if wanted == address => DhcpMessageType::Ack,
            _ => DhcpMessageType::Nak,
        },
        _ => return None,
    };
    let is_nak = message_type == DhcpMessageType::Nak;
    let lends = !is_nak && asked.message_type != DhcpMessageType::Inform;
    let name = node.to_string();
    let more = [
        DhcpOption { kind: HOST_NAME, data: name.as_bytes() },
        DhcpOption { kind: DOMAIN_NAME, data: names::ZONE.as_bytes() },
    ];
    let has = |it: Ipv4Addr| (!is_nak).then_some(it);
    let answer = DhcpRepr {
        message_type,
        secs: 0,
        client_ip: if is_nak { Ipv4Addr::UNSPECIFIED } else { asked.client_ip },
        your_ip: if lends { address } else { Ipv4Addr::UNSPECIFIED },
        server_ip: Ipv4Addr::UNSPECIFIED,
        router: has(server),
        subnet_mask: has(addresses.mask()),
        requested_ip: None,
        client_identifier: None,
        server_identifier: Some(server),
        parameter_request_list: None,
        dns_servers: has(server).map(|it| [it].into_iter().collect()),
        max_size: None,
        lease_duration: lends.then_some(LEASE),
        renew_duration: None,
        rebind_duration: None,
        additional_options: if is_nak { &[] } else { &more },
        ..asked
    };
    let mut bytes = vec![0; answer.buffer_len()];
    answer.emit(&mut DhcpPacket::new_unchecked(&mut bytes[..])).ok()?;
    // Who has no address yet hears what is for everybody.
    let to = match asked.client_ip {
        it if it.is_unspecified() || is_nak => Ipv4Addr::BROADCAST,
        it => it,
    };
    Some((to, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_abi::NodeId;
    use nile_net::{Queues, engine_time};
    use proptest::prelude::*;
    use smoltcp::iface::{Config, Interface, SocketSet};
    use smoltcp::socket::dhcpv4::{Event, Socket};
    use smoltcp::wire::{EthernetAddress, HardwareAddress, UdpPacket};

    const USUAL: Addresses = Addresses::USUAL;

    fn asks(node: u32, message_type: DhcpMessageType) -> DhcpRepr<'static> {
        let mac = EthernetAddress(MacAddress::local(NodeId(node), 0).0);
        DhcpRepr {
            message_type,
            transaction_id: 7,
            secs: 0,
            client_hardware_address: mac,
            client_ip: Ipv4Addr::UNSPECIFIED,
            your_ip: Ipv4Addr::UNSPECIFIED,
            server_ip: Ipv4Addr::UNSPECIFIED,
            router: None,
            subnet_mask: None,
            relay_agent_ip: Ipv4Addr::UNSPECIFIED,
            broadcast: false,
            requested_ip: None,
            client_identifier: Some(mac),
            server_identifier: None,
            parameter_request_list: None,
            dns_servers: None,
            max_size: None,
            lease_duration: None,
            renew_duration: None,
            rebind_duration: None,
            additional_options: &[],
        }
    }

    fn bytes(message: &DhcpRepr<'_>) -> Vec<u8> {
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut DhcpPacket::new_unchecked(&mut bytes[..])).unwrap();
        bytes
    }

    /// What an answer says: its kind, the address, and where it goes.
    fn said(message: &DhcpRepr<'_>) -> Option<(DhcpMessageType, Ipv4Addr, Ipv4Addr)> {
        let (to, bytes) = answer(&USUAL, &bytes(message))?;
        let packet = DhcpPacket::new_checked(&bytes[..]).unwrap();
        let answer = DhcpRepr::parse(&packet).unwrap();
        assert_eq!(answer.transaction_id, message.transaction_id);
        assert_eq!(answer.server_identifier, Some(USUAL.gateway()));
        Some((answer.message_type, answer.your_ip, to))
    }

    #[test]
    fn a_node_gets_the_address_of_its_number_and_no_other() {
        use DhcpMessageType::{Ack, Discover, Inform, Nak, Offer, Release, Request};
        let (third, none) = (Ipv4Addr::new(10, 42, 0, 3), Ipv4Addr::UNSPECIFIED);
        let all = Ipv4Addr::BROADCAST;
        let request = asks(3, Request);
        let chosen = Some(USUAL.gateway());
        let wants = |it: [u8; 4]| DhcpRepr { requested_ip: Some(it.into()), ..request.clone() };
        let renews = |it: Ipv4Addr| DhcpRepr { client_ip: it, ..request.clone() };
        assert_eq!(said(&asks(3, Discover)), Some((Offer, third, all)));
        for (asked, answer) in [
            (wants([10, 42, 0, 3]), Some((Ack, third, all))),
            (
                DhcpRepr { server_identifier: chosen, ..wants([10, 42, 0, 3]) },
                Some((Ack, third, all)),
            ),
            (wants([10, 42, 0, 4]), Some((Nak, none, all))),
            (renews(third), Some((Ack, third, third))),
            (renews(Ipv4Addr::new(192, 168, 0, 3)), Some((Nak, none, all))),
            (DhcpRepr { server_identifier: Some(third), ..wants([10, 42, 0, 3]) }, None),
            (DhcpRepr { client_ip: third, ..asks(3, Inform) }, Some((Ack, none, third))),
            (DhcpRepr { client_ip: third, ..asks(3, Release) }, None),
            (DhcpRepr { relay_agent_ip: third, ..asks(3, Discover) }, None),
            (asks(0, Discover), None),
            (asks(u32::MAX, Discover), None),
        ] {
            assert_eq!(said(&asked), answer, "{asked:?}");
        }
        let stranger = EthernetAddress([0x52, 0x54, 0, 0, 0, 3]);
        let stranger = DhcpRepr { client_hardware_address: stranger, ..asks(3, Discover) };
        assert_eq!(said(&stranger), None);
    }

    /// The client of another project, as it is.
    #[test]
    fn a_stock_client_takes_its_lease() {
        let mut queues = Queues::of_frames(1514, usize::MAX);
        let mac = MacAddress::local(NodeId(258), 0);
        let config = Config::new(HardwareAddress::Ethernet(EthernetAddress(mac.0)));
        let start = engine_time(nile_abi::Instant::START);
        let mut interface = Interface::new(config, &mut queues, start);
        let mut sockets = SocketSet::new(Vec::new());
        let client = sockets.add(Socket::new());
        assert_eq!(sockets.get_mut::<Socket<'_>>(client).poll(), Some(Event::Deconfigured));
        for _ in 0..2 {
            interface.poll(start, &mut queues, &mut sockets);
            let frame = queues.goes.pop_front().expect("it asks");
            let message = UdpPacket::new_checked(&frame[34..]).unwrap().payload().to_vec();
            let (to, answer) = super::answer(&USUAL, &message).expect("it is answered");
            queues.came.push_back(frame_of(mac, to, &answer));
        }
        interface.poll(start, &mut queues, &mut sockets);
        let Some(Event::Configured(lease)) = sockets.get_mut::<Socket<'_>>(client).poll() else {
            panic!("it has no lease");
        };
        assert_eq!(lease.address.to_string(), "10.42.1.2/16");
        let gateway = USUAL.gateway();
        assert_eq!((lease.router, &lease.dns_servers[..]), (Some(gateway), &[gateway][..]));
    }

    /// A frame from the gateway with a datagram from server to client.
    fn frame_of(to: MacAddress, at: Ipv4Addr, payload: &[u8]) -> Vec<u8> {
        use smoltcp::phy::ChecksumCapabilities;
        use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv4Repr, UdpRepr};
        let mut frame =
            [&to.0[..], &[2, 0, 0, 0, 0, 9, 8, 0], &vec![0; 28 + payload.len()]].concat();
        let (from, checksums) = (USUAL.gateway(), ChecksumCapabilities::default());
        let header = Ipv4Repr {
            src_addr: from,
            dst_addr: at,
            next_header: IpProtocol::Udp,
            payload_len: 8 + payload.len(),
            hop_limit: 64,
        };
        header.emit(&mut Ipv4Packet::new_unchecked(&mut frame[14..]), &checksums);
        UdpRepr { src_port: 67, dst_port: 68 }.emit(
            &mut UdpPacket::new_unchecked(&mut frame[34..]),
            &from.into(),
            &at.into(),
            payload.len(),
            |room| room.copy_from_slice(payload),
            &checksums,
        );
        frame
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_or_not(
            at in 0..320usize,
            value: u8,
            length in 0..320usize,
            noise in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let mut message = bytes(&asks(3, DhcpMessageType::Discover));
            let end = message.len() - 1;
            message.splice(end.., noise);
            message.resize(length.max(1), 255);
            let at = at % message.len();
            message[at] = value;
            if let Some((_, said)) = answer(&USUAL, &message) {
                let packet = DhcpPacket::new_checked(&said[..]).unwrap();
                prop_assert!(DhcpRepr::parse(&packet).is_ok());
            }
        }
    }
}
