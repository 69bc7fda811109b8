//! The gateway as a node meets it whose stack is another project's, as it is: smoltcp's clients of
//! DHCP and DNS.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant as Clock};

use nile_abi::ethernet::STANDARD_FRAME;
use nile_abi::ip::{Addresses, FirstOfMany};
use nile_abi::{Instant, MacAddress, NodeId};
use nile_net::own::address_in;
use nile_net::{Advertised, Lease, Memory, Queues, Stack, Wide, engine_time, lease, memory};
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
    fn asks(
        &mut self,
        resolver: SocketHandle,
        name: &str,
        kind: DnsQueryType,
    ) -> Result<Vec<IpAddress>, ()> {
        let socket = self.sockets.get_mut::<dns::Socket<'_>>(resolver);
        let query = socket.start_query(self.interface.context(), name, kind).unwrap();
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
        wide: FirstOfMany::parse("fd42::1/64"),
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
        assert_eq!(node.asks(resolver, name, DnsQueryType::A), found, "{name}");
    }
    assert_eq!(node.asks(resolver, "nobody.cluster", DnsQueryType::A), Err(()));
    let found = Ok(vec![Ipv6Addr::new(0xfd42, 0, 0, 0, 0, 0, 0, 0x102).into()]);
    assert_eq!(node.asks(resolver, "n258.cluster", DnsQueryType::Aaaa), found);

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

/// The DHCP server and the router of QEMU's user mode network (slirp), as they are, and a node's
/// own stack. No machine is needed for it: its network and a stream of frames are plugged in each
/// other.
#[test]
fn a_node_has_its_addresses_from_a_server_and_a_router_of_another_project() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cable");
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-machine", "none", "-nodefaults", "-display", "none", "-monitor", "none"]);
    qemu.args(["-netdev", "user,id=user", "-netdev", "hubport,id=a,hubid=0,netdev=user"]);
    let stream = format!("stream,id=cable,server=on,addr.type=unix,addr.path={}", path.display());
    qemu.args(["-netdev", &stream, "-netdev", "hubport,id=b,hubid=0,netdev=cable"]);
    let Ok(mut qemu) = qemu.stdin(Stdio::null()).stderr(Stdio::null()).spawn() else {
        crate::say(format_args!("not run, as there is no QEMU"));
        return;
    };
    let begun = Clock::now();
    let mut cable = loop {
        match UnixStream::connect(&path) {
            Ok(cable) => break cable,
            Err(error) => assert!(begun.elapsed() < LONG, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    cable.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let words: Vec<_> = (0..memory::words(1)).map(|_| AtomicU64::new(0)).collect();
    let kept: Vec<_> = (0..lease::LEASE_BYTES / 8).map(|_| AtomicU64::new(0)).collect();
    let settings = nile_net::Settings {
        mac: MacAddress::local(NodeId(3), 0),
        address: Ipv4Addr::UNSPECIFIED,
        prefix: 0,
        gateway: None,
        resolver: None,
        wide: Wide::Advertised(Advertised::default()),
        max_packet: 1500,
    };
    let stack = |now| {
        let memory = Memory::new(&words, [1, 2]).unwrap();
        Stack::leasing(settings, Lease::load(&kept, now), memory, now)
    };
    let start = Instant::from_nanos(1);
    let mut node = stack(start);
    let lent = loop {
        let now = start + begun.elapsed();
        node.turn(now);
        while let Some(frame) = node.transmit() {
            cable.write_all(&(frame.len() as u32).to_be_bytes()).unwrap();
            cable.write_all(&frame).unwrap();
        }
        let mut length = [0; 4];
        match cable.read_exact(&mut length) {
            Ok(()) => {
                let mut frame = vec![0; u32::from_be_bytes(length) as usize];
                cable.read_exact(&mut frame).unwrap();
                node.receive(now, &frame);
            }
            Err(error) => assert!(matches!(error.kind(), ErrorKind::WouldBlock), "{error}"),
        }
        if let (Some(lease), Some(_)) = (node.lease(), node.router()) {
            break *lease;
        }
        assert!(begun.elapsed() < LONG, "nothing is lent, or nobody routes");
    };
    qemu.kill().unwrap();
    qemu.wait().unwrap();
    let server = Ipv4Addr::new(10, 0, 2, 2);
    let (gateway, resolver) = (Some(server), Some(Ipv4Addr::new(10, 0, 2, 3)));
    assert_eq!((lent.address, lent.prefix), (Ipv4Addr::new(10, 0, 2, 15), 24));
    assert_eq!((lent.gateway, lent.resolver, lent.server), (gateway, resolver, server));
    // slirp advertises fec0::/64 as the router fe80::2.
    let own = address_in(Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), settings.mac);
    let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
    assert_eq!((node.own().wide, node.router()), (own, Some(router)));
    lent.store(&kept);
    assert_eq!(stack(lent.renew).address(), lent.address, "the next incarnation has it");
    assert!(stack(lent.until).address().is_unspecified(), "and not when it is over");
}
