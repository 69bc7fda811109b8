//! Ports of this machine that lead to ports of nodes, as people write them: `8080:n1:80`, and
//! `5353:n1:53/udp` for datagrams.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;
use std::str::FromStr;

use nile_abi::NodeId;
use nile_kernel::Named;
use nile_kernel::ip::IpConfig;

use crate::failure::Failure;

/// A port of this machine, and where connections or datagrams to it go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forward {
    /// The port on 127.0.0.1.
    pub from: u16,
    /// The node.
    pub node: NodeId,
    /// The port there.
    pub to: u16,
    /// Whether it is for datagrams.
    pub is_udp: bool,
}

/// What takes connections or datagrams.
pub enum Door {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

impl Forward {
    /// Takes the port. Fails if somebody else has it.
    pub fn open(&self) -> Result<Door, Failure> {
        let at = (Ipv4Addr::LOCALHOST, self.from);
        let open = || {
            Ok(match self.is_udp {
                true => {
                    let socket = UdpSocket::bind(at)?;
                    socket.set_nonblocking(true)?;
                    Door::Udp(socket)
                }
                false => {
                    let listener = TcpListener::bind(at)?;
                    listener.set_nonblocking(true)?;
                    Door::Tcp(listener)
                }
            })
        };
        open().map_err(|error: io::Error| {
            Failure::request(format!(
                "--forward {self}: port {} of this machine cannot be had: {error}",
                self.from
            ))
        })
    }
}

/// All that lead to a cluster: those of the command line, and those of its configuration `file`.
pub fn all(own: &[Forward], file: Option<&Path>, ip: &IpConfig) -> Result<Vec<Forward>, Failure> {
    let written = ip.forwards.iter().map(|Named { name, line }| {
        name.parse::<Forward>().map_err(|what| {
            let file = file.unwrap_or(Path::new("the configuration")).display();
            Failure::request(format!("{file}:{line}: forward: {what}"))
        })
    });
    own.iter().copied().map(Ok).chain(written).collect()
}

/// Refuses forwards of which one could not be had, to one of so many nodes.
pub fn check(forwards: &[Forward], nodes: usize) -> Result<(), Failure> {
    let mut doors = Vec::new();
    for forward in forwards {
        if forward.node.0 as usize > nodes {
            return Err(Failure::request(format!(
                "--forward {forward}: the cluster has no {}, its last node is n{nodes}",
                forward.node
            )));
        }
        // Kept until all are had: one port is had once.
        doors.push(forward.open()?);
    }
    Ok(())
}

impl FromStr for Forward {
    type Err = String;

    fn from_str(text: &str) -> Result<Forward, String> {
        let wrong =
            || format!("`{text}` is not PORT:NODE:PORT, such as 8080:n1:80, or PORT:NODE:PORT/udp");
        let (text, is_udp) = match text.strip_suffix("/udp") {
            Some(rest) => (rest, true),
            None => (text.strip_suffix("/tcp").unwrap_or(text), false),
        };
        let parts: Vec<&str> = text.split(':').collect();
        let [from, node, to] = parts[..] else { return Err(wrong()) };
        let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
        let node = node.strip_prefix('n').and_then(|it| it.parse().ok()).map(NodeId);
        let node = node.filter(|node| node.0 > 0);
        let (from, node, to) = (port(from), node, port(to));
        let all = (|| Some(Forward { from: from?, node: node?, to: to?, is_udp }))();
        all.ok_or_else(wrong)
    }
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_udp { "/udp" } else { "" };
        write!(f, "{}:{}:{}{kind}", self.from, self.node, self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forward_is_read_as_it_is_written() {
        let forward: Forward = "8080:n1:80".parse().unwrap();
        assert_eq!(forward, Forward { from: 8080, node: NodeId(1), to: 80, is_udp: false });
        assert_eq!(forward.to_string(), "8080:n1:80");
        assert_eq!("8080:n1:80/tcp".parse(), Ok(forward));
        let datagrams: Forward = "5353:n1:53/udp".parse().unwrap();
        assert_eq!((datagrams.to, datagrams.is_udp), (53, true));
        assert_eq!(datagrams.to_string(), "5353:n1:53/udp");
        for wrong in [
            "",
            "8080",
            "8080:n1",
            "8080:1:80",
            "0:n1:80",
            "8080:n0:80",
            "8080:n1:99999",
            "1:n1:2:3",
            "1:n1:2/sctp",
            "1:n1:2/udp/udp",
        ] {
            assert!(wrong.parse::<Forward>().unwrap_err().contains("8080:n1:80"), "{wrong}");
        }
    }

    #[test]
    fn a_port_is_had_once_and_a_node_has_to_be_there() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let from = taken.local_addr().unwrap().port();
        let forward = Forward { from, node: NodeId(1), to: 80, is_udp: false };
        assert!(check(&[forward], 1).unwrap_err().to_string().contains(&from.to_string()));
        drop(taken);
        assert!(check(&[forward], 1).is_ok());
        assert!(check(&[forward, forward], 1).is_err());
        let datagrams = Forward { is_udp: true, ..forward };
        assert!(check(&[forward, datagrams], 1).is_ok(), "they are two");
        assert!(check(&[datagrams, datagrams], 1).is_err());
        assert!(check(&[Forward { node: NodeId(2), ..forward }], 1).is_err());
    }
    #[test]
    fn a_configuration_has_forwards_of_its_own() {
        let ip = |text: &str| nile_kernel::Config::parse(text).unwrap().ip;
        let own = Forward { from: 1, node: NodeId(1), to: 2, is_udp: false };
        let file = Path::new("nile.toml");
        let good = ip("[ip]\nforward = [\"8080:n1:80\", \"7007:n2:7\"]\n");
        let all = super::all(&[own], Some(file), &good).unwrap();
        assert_eq!(all.iter().map(|it| it.from).collect::<Vec<_>>(), [1, 8080, 7007]);
        let wrong = ip("[ip]\nforward = [\n  \"8080:80\"]\n");
        let refused = super::all(&[], Some(file), &wrong).unwrap_err().to_string();
        assert!(refused.starts_with("nile.toml:3: forward: `8080:80` is not"), "{refused}");
    }
}
