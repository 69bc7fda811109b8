//! Networks outside of this program: a TAP device, whose other end the host has, or a device of
//! the host itself. Both take privileges (`CAP_NET_ADMIN`, `CAP_NET_RAW`).

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nile_abi::MacAddress;
use nile_abi::ethernet::{BULK, CALLS, HEADER_BYTES};
use rustix::fs::{Mode, OFlags};
use rustix::net::SocketFlags;

/// A network interface of Linux that a node drives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outside {
    /// A TAP device of this name, made if there is none: what the host sends to it comes here. The
    /// host's administrator brings it up and connects it to something.
    Tap(String),
    /// A device of the host, real or not (`AF_PACKET`). The host keeps using it, too.
    Packet(String),
}

/// The longest name that Linux gives a device.
const LONGEST_NAME: usize = 15;

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outside::Tap(name) => write!(f, "tap:{name}"),
            Outside::Packet(name) => write!(f, "packet:{name}"),
        }
    }
}

impl Outside {
    /// Reads `tap:NAME` or `packet:NAME`; says what is wrong with any other text.
    pub fn parse(text: &str) -> Result<Outside, String> {
        let wrong = || format!("`{text}` is no interface; write tap:NAME or packet:NAME");
        let (kind, name) = text.split_once(':').ok_or_else(wrong)?;
        let plain = |c: char| c.is_ascii_graphic() && c != '/' && c != ':';
        if !(1..=LONGEST_NAME).contains(&name.len()) || !name.chars().all(plain) {
            return Err(wrong());
        }
        match kind {
            "tap" => Ok(Outside::Tap(name.into())),
            "packet" => Ok(Outside::Packet(name.into())),
            _ => Err(wrong()),
        }
    }

    /// The address that frames to this node carry, if it is the device's and not the node's own.
    /// Fails if there is no such device.
    pub fn address(&self) -> io::Result<Option<MacAddress>> {
        let Outside::Packet(name) = self else { return Ok(None) };
        let text = fs::read_to_string(format!("/sys/class/net/{name}/address"))?;
        let bytes = text.trim().split(':').map(|byte| u8::from_str_radix(byte, 16).ok());
        let bytes: Option<Vec<u8>> = bytes.collect();
        let address = bytes.and_then(|bytes| bytes.try_into().ok()).map(MacAddress);
        // Some devices have addresses of another kind.
        address.map(Some).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Bytes of the largest frame that the device takes, header included; `None` if it is yet to be
    /// made.
    pub fn max_frame(&self) -> Option<usize> {
        let (Outside::Tap(name) | Outside::Packet(name)) = self;
        let text = fs::read_to_string(format!("/sys/class/net/{name}/mtu")).ok()?;
        Some(HEADER_BYTES + text.trim().parse::<usize>().ok()?)
    }

    /// Opens it. Frames are then read and written one at a time, and nothing blocks.
    pub fn open(&self) -> io::Result<OwnedFd> {
        match self {
            Outside::Tap(name) => tap(name),
            Outside::Packet(name) => packet(name),
        }
    }

    /// The same for a switch, behind which are other addresses than the device's own: frames to
    /// any address come.
    pub fn open_for_all(&self) -> io::Result<OwnedFd> {
        let opened = self.open()?;
        if let Outside::Packet(name) = self {
            let request = libc::packet_mreq {
                mr_ifindex: rustix::net::netdevice::name_to_index(&opened, name)? as i32,
                mr_type: libc::PACKET_MR_PROMISC as u16,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            set(&opened, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)?;
        }
        Ok(opened)
    }
}

fn tap(name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    // SAFETY: zeros are a request; all of its variants are plain numbers.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(LONGEST_NAME)) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: the file is the one that knows this request, which lives through the call.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

fn packet(name: &str) -> io::Result<OwnedFd> {
    // It hears nothing until it is bound.
    let flags = libc::SOCK_RAW | (SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).bits() as i32;
    // SAFETY: no memory is passed.
    let number = unsafe { libc::socket(libc::AF_PACKET, flags, 0) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the socket was just made, and nobody else has its number.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    only_ours(&socket)?;
    set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)?;
    let everything = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: zeros are an address; all of its fields are numbers.
    let mut address: libc::sockaddr_ll = unsafe { core::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = everything;
    address.sll_ifindex = rustix::net::netdevice::name_to_index(&socket, name)? as i32;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address lives through the call and is as long as it says.
    match unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) } {
        0 => Ok(socket),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Has Linux pass on frames of our two protocols alone: the device carries others' as well.
fn only_ours(socket: &OwnedFd) -> io::Result<()> {
    let step = |code, yes, no, k| libc::sock_filter { code, jt: yes, jf: no, k };
    let load_half = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
    let is_equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let give = (libc::BPF_RET | libc::BPF_K) as u16;
    let mut program = [
        step(load_half, 0, 0, 12),
        step(is_equal, 1, 0, u32::from(CALLS)),
        step(is_equal, 0, 1, u32::from(BULK)),
        step(give, 0, 0, u32::MAX),
        step(give, 0, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

fn set<T>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    let number = socket.as_fd().as_raw_fd();
    // SAFETY: the value, and what it points to, live through the call; Linux checks the length.
    match unsafe { libc::setsockopt(number, level, option, (&raw const *value).cast(), length) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_or_refused() {
        assert_eq!(Outside::parse("tap:nile0"), Ok(Outside::Tap("nile0".into())));
        assert_eq!(Outside::parse("packet:eth0"), Ok(Outside::Packet("eth0".into())));
        for wrong in ["", "eth0", "tap:", "tap:a/b", "tun:x", "packet:0123456789abcdef"] {
            assert!(Outside::parse(wrong).is_err_and(|said| said.contains("tap:NAME")), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_there_is_no_interface() {
        let nowhere = Outside::Packet("no-such-device".into());
        assert!(nowhere.address().is_err() && nowhere.open().is_err());
        assert_eq!(nowhere.max_frame(), None);
    }
}
