//! The gateway as a node meets it whose stack is another project's, as it is: smoltcp's clients of
//! DHCP and DNS.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant as Clock};

use nile_abi::ethernet::STANDARD_FRAME;
use nile_abi::ip::Addresses;
use nile_abi::{Instant, MacAddress, NodeId};
use nile_net::{Queues, engine_time};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::{dhcpv4, dns};
use smoltcp::wire::{DnsQueryType, EthernetAddress, HardwareAddress, IpAddress, IpCidr};

use super::{Settings, start};

/// How long a test waits for what must happen.
const LONG: Duration = Duration::from_secs(20);

struct Node {
    cable: OwnedFd,
    frames: Queues,
    interface: Interface,
    sockets: SocketSet<'static>,
    start: Clock,
}

impl Node {
    fn new(cable: OwnedFd, number: u32) -> Node {
        let mut frames = Queues::of_frames(STANDARD_FRAME, usize::MAX);
        let mac = EthernetAddress(MacAddress::local(NodeId(number), 0).0);
        let config = Config::new(HardwareAddress::Ethernet(mac));
        let interface = Interface::new(config, &mut frames, engine_time(Instant::START));
        let (sockets, start) = (SocketSet::new(Vec::new()), Clock::now());
        Node { cable, frames, interface, sockets, start }
    }

    /// What `look` finds, which is asked until it finds something.
    fn until<T>(&mut self, mut look: impl FnMut(&mut SocketSet<'static>) -> Option<T>) -> T {
        let begun = Clock::now();
        let mut frame = [0; STANDARD_FRAME];
        loop {
            while let Ok(bytes) = rustix::io::read(&self.cable, &mut frame) {
                self.frames.came.push_back(frame[..bytes].into());
            }
            let now = engine_time(Instant::START + self.start.elapsed());
            self.interface.poll(now, &mut self.frames, &mut self.sockets);
            for frame in std::mem::take(&mut self.frames.goes) {
                rustix::io::write(&self.cable, &frame).unwrap();
            }
            if let Some(found) = look(&mut self.sockets) {
                return found;
            }
            assert!(begun.elapsed() < LONG, "nothing comes of it");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What a resolver says of a name.
    fn asks(&mut self, resolver: SocketHandle, name: &str) -> Result<Vec<IpAddress>, ()> {
        let socket = self.sockets.get_mut::<dns::Socket<'_>>(resolver);
        let query = socket.start_query(self.interface.context(), name, DnsQueryType::A).unwrap();
        self.until(|sockets| {
            match sockets.get_mut::<dns::Socket<'_>>(resolver).get_query_result(query) {
                Ok(found) => Some(Ok(found.to_vec())),
                Err(dns::GetQueryResultError::Pending) => None,
                Err(dns::GetQueryResultError::Failed) => Some(Err(())),
            }
        })
    }
}

#[test]
fn a_stock_node_has_its_address_lent_and_knows_names() {
    let folder = tempfile::tempdir().unwrap();
    let settings = |lends| Settings {
        forwards: &[],
        addresses: Addresses::USUAL,
        folder: folder.path(),
        lends,
        seed: 1,
    };
    let mut node = Node::new(start(&settings(true)).unwrap(), 3);
    let client = node.sockets.add(dhcpv4::Socket::new());
    let (address, resolver) =
        node.until(|sockets| match sockets.get_mut::<dhcpv4::Socket<'_>>(client).poll()? {
            dhcpv4::Event::Configured(lease) => Some((lease.address, lease.dns_servers[0])),
            dhcpv4::Event::Deconfigured => None,
        });
    assert_eq!(address.to_string(), "10.42.0.3/16");
    node.interface.update_ip_addrs(|own| own.push(IpCidr::Ipv4(address)).unwrap());
    let resolver = node.sockets.add(dns::Socket::new(&[resolver.into()], vec![]));
    for (name, last) in [("n1.cluster", [0, 1]), ("N258", [1, 2]), ("gateway", [255, 254])] {
        let [third, fourth] = last;
        let found = Ok(vec![Ipv4Addr::new(10, 42, third, fourth).into()]);
        assert_eq!(node.asks(resolver, name), found, "{name}");
    }
    assert_eq!(node.asks(resolver, "nobody.cluster"), Err(()));

    // Where another server may be, this one says nothing.
    let mut other = Node::new(start(&settings(false)).unwrap(), 3);
    let client = other.sockets.add(dhcpv4::Socket::new());
    let begun = Clock::now();
    let is_lent = other.until(|sockets| {
        let event = sockets.get_mut::<dhcpv4::Socket<'_>>(client).poll();
        let is_lent = matches!(event, Some(dhcpv4::Event::Configured(_)));
        (is_lent || begun.elapsed() > Duration::from_millis(100)).then_some(is_lent)
    });
    assert!(!is_lent);
}
