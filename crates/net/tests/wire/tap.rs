//! Frames of a link where all peers have one address, and a device of Linux that is such a link.

use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use smoltcp::phy::{Device as _, Medium, RxToken, TunTapInterface, TxToken, wait};
use smoltcp::time::Instant;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol,
    EthernetRepr, Ipv4Packet,
};

/// Bytes of a frame's header.
pub const ETHERNET: usize = 14;

/// All peers' address on the link.
pub const PEERS: EthernetAddress = EthernetAddress([2, 0, 0, 0, 1, 9]);

/// A packet of IPv4 as a frame from a peer.
pub fn frame(to: [u8; 6], packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ETHERNET + packet.len()];
    let (src_addr, dst_addr) = (PEERS, EthernetAddress(to));
    let header = EthernetRepr { src_addr, dst_addr, ethertype: EthernetProtocol::Ipv4 };
    header.emit(&mut EthernetFrame::new_unchecked(&mut bytes[..]));
    bytes[ETHERNET..].copy_from_slice(packet);
    bytes
}

/// The packet of IPv4 in a frame, with the last two bytes of where it goes, and its protocol.
pub fn ipv4_of(bytes: &[u8]) -> Option<([u8; 2], u8, &[u8])> {
    let frame = EthernetFrame::new_checked(bytes).ok()?;
    if frame.ethertype() != EthernetProtocol::Ipv4 {
        return None;
    }
    let ip = Ipv4Packet::new_checked(frame.payload()).ok()?;
    let [_, _, high, low] = ip.dst_addr().octets();
    let packet = &bytes[ETHERNET..][..usize::from(ip.total_len())];
    Some(([high, low], ip.next_header().into(), packet))
}

/// The answer to a question for a peer's address.
pub fn answer_arp(bytes: &[u8]) -> Option<Vec<u8>> {
    let frame = EthernetFrame::new_checked(bytes).ok()?;
    if frame.ethertype() != EthernetProtocol::Arp {
        return None;
    }
    let message = ArpRepr::parse(&ArpPacket::new_checked(frame.payload()).ok()?).ok()?;
    let ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: to,
        source_protocol_addr: asks,
        target_protocol_addr: asked,
        ..
    } = message
    else {
        return None;
    };
    // Nobody has the host's own address but itself.
    if asks == asked || asks.is_unspecified() {
        return None;
    }
    Some(arp(ArpOperation::Reply, asked, (to, asks)))
}

/// A question of a peer's for the host's address.
pub fn ask_arp(to: [u8; 6], asked: Ipv4Addr, asks: Ipv4Addr) -> Vec<u8> {
    arp(ArpOperation::Request, asks, (EthernetAddress(to), asked))
}

/// Whether a frame is the host's answer to that.
pub fn is_arp_answer(bytes: &[u8]) -> bool {
    let frame = EthernetFrame::new_unchecked(bytes);
    let message = ArpPacket::new_checked(frame.payload());
    frame.ethertype() == EthernetProtocol::Arp
        && message.is_ok_and(|it| it.operation() == ArpOperation::Reply)
}

fn arp(operation: ArpOperation, from: Ipv4Addr, to: (EthernetAddress, Ipv4Addr)) -> Vec<u8> {
    let message = ArpRepr::EthernetIpv4 {
        operation,
        source_hardware_addr: PEERS,
        source_protocol_addr: from,
        target_hardware_addr: to.0,
        target_protocol_addr: to.1,
    };
    let mut bytes = vec![0; ETHERNET + message.buffer_len()];
    let (src_addr, dst_addr) = (PEERS, to.0);
    let header = EthernetRepr { src_addr, dst_addr, ethertype: EthernetProtocol::Arp };
    header.emit(&mut EthernetFrame::new_unchecked(&mut bytes[..]));
    message.emit(&mut ArpPacket::new_unchecked(&mut bytes[ETHERNET..]));
    bytes
}

/// Says to the test that it runs in a namespace.
const INSIDE: &str = "NILE_TEST_NAMESPACE";

/// Whether this program runs in a network namespace of its own. If not, the test of this name
/// does, in a program that has one, and must hold there.
pub fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let unshare = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--net", "--"]).args(words);
        command
    };
    let mut probe = unshare(&["ip", "tuntap", "add", "probe", "mode", "tap"]);
    let probed = probe.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !probed.is_ok_and(|it| it.success()) {
        eprintln!("not run: this user may make no network namespace with a TAP");
        return false;
    }
    let program = std::env::current_exe().expect("the path of the test");
    let program = program.to_str().expect("a plain path");
    let mut command = unshare(&[program, "--exact", test, "--nocapture"]);
    let ended = command.env(INSIDE, "1").status().expect("unshare is there");
    assert!(ended.success(), "{test} has failed in its namespace");
    false
}

/// Runs `ip`, which must succeed.
pub fn ip(words: &[&str]) {
    let done = Command::new("ip").args(words).status();
    assert!(done.is_ok_and(|it| it.success()), "ip {words:?}");
}

/// A TAP: the host has its other end.
pub struct Device(TunTapInterface);

impl Device {
    /// Makes one whose host's end has an address, and its own one on the link.
    pub fn open(address: &str, mac: &str) -> Device {
        let device = TunTapInterface::new("wire0", Medium::Ethernet).expect("a TAP");
        ip(&["link", "set", "lo", "up"]);
        ip(&["link", "set", "wire0", "address", mac]);
        ip(&["address", "add", address, "dev", "wire0"]);
        ip(&["link", "set", "wire0", "up"]);
        Device(device)
    }

    /// Sends a frame to the host.
    pub fn send(&mut self, frame: &[u8]) {
        let token = self.0.transmit(Instant::ZERO).expect("it takes frames");
        token.consume(frame.len(), |bytes| bytes.copy_from_slice(frame));
    }

    /// The host's next frame, if one comes within this time.
    pub fn next(&mut self, within: Duration) -> Option<Vec<u8>> {
        if let Some(frame) = self.take() {
            return Some(frame);
        }
        wait(self.0.as_raw_fd(), Some(within.into())).expect("it can be waited for");
        self.take()
    }

    fn take(&mut self) -> Option<Vec<u8>> {
        self.0.receive(Instant::ZERO).map(|(token, _)| token.consume(<[u8]>::to_vec))
    }
}

/// How often it is looked whether a frame is to be sent.
const PAUSE: Duration = Duration::from_millis(1);

/// Makes a device that many send to; `comes` is given what the host sends, by a thread.
pub fn open(address: &str, mac: &str, comes: impl FnMut(&[u8]) + Send + 'static) -> Tap {
    let (sends, goes) = channel();
    let (says, is_there) = channel();
    let (address, mac) = (address.to_string(), mac.to_string());
    thread::spawn(move || {
        let device = Device::open(&address, &mac);
        says.send(()).expect("it is waited for");
        run(device, &goes, comes);
    });
    is_there.recv().expect("a TAP");
    Tap(sends)
}

/// Where frames to the device go.
#[derive(Clone)]
pub struct Tap(Sender<(Vec<u8>, Sender<()>)>);

impl Tap {
    /// Sends a frame. The host has it then.
    pub fn send(&self, frame: Vec<u8>) {
        let (says, is_done) = channel();
        self.0.send((frame, says)).expect("the thread of the TAP runs");
        is_done.recv().expect("the thread of the TAP runs");
    }
}

fn run(mut device: Device, goes: &Receiver<(Vec<u8>, Sender<()>)>, mut comes: impl FnMut(&[u8])) {
    loop {
        while let Ok((frame, done)) = goes.try_recv() {
            device.send(&frame);
            done.send(()).expect("who sends waits for it");
        }
        let Some(frame) = device.next(PAUSE) else { continue };
        match answer_arp(&frame) {
            Some(answer) => device.send(&answer),
            None => comes(&frame),
        }
    }
}
