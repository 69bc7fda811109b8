//! The IPv4 network of a cluster, from `nile.toml`, alike on all its nodes:
//!
//! ```toml
//! [ip]
//! address = "10.42.0.1/16"    # that of n1; n2 has the next one, and so on; or "dhcp"
//! gateway = "10.42.255.254"   # without it, the last address of the network
//! ipv6 = "fd42::1/64"         # n1's; n2 has the next one; or "auto", from routers
//! forward = ["8080:n1:80"]    # ports of the machine that `nile up` starts the cluster on
//! ```

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use nile_abi::NodeId;
use nile_abi::ip::{Addresses, FirstOfMany, Wide};
use serde::Deserialize;
use toml::Spanned;

use crate::config::{ConfigError, Named};
use crate::filter::{self, FilterTable};
use crate::membership::Membership;

/// The address of nodes that have theirs lent.
const LENT: &str = "dhcp";

/// The addresses of IPv6 that routers say.
const AUTO: &str = "auto";

/// The part of the file that says so.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct IpTable {
    address: Option<Spanned<String>>,
    gateway: Option<Spanned<String>>,
    ipv6: Option<Spanned<String>>,
    forward: Vec<Spanned<String>>,
}

/// The network, and what of the machine leads there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IpConfig {
    /// Its addresses.
    pub addresses: Addresses,
    /// Whether nodes have theirs lent: the gateway of a cluster lends those above.
    pub leases: bool,
    /// Where nodes have their addresses of IPv6.
    pub wide: Wide,
    /// The line that says so, if one does.
    line: Option<usize>,
    /// Ports that lead to ports of nodes, for whoever starts the cluster.
    pub forwards: Vec<Named>,
}

impl Default for IpConfig {
    fn default() -> IpConfig {
        let (addresses, leases) = (Addresses::USUAL, false);
        IpConfig { addresses, leases, wide: Wide::None, line: None, forwards: Vec::new() }
    }
}

impl IpConfig {
    /// What the table says. `line_of` gives the line of a byte.
    fn from_table(
        table: IpTable,
        line_of: impl Fn(usize) -> usize,
    ) -> Result<IpConfig, ConfigError> {
        let line = |said: &Spanned<String>| Some(line_of(said.span().start));
        let wrong = |said: &Spanned<String>, name: &str, what: &str| ConfigError {
            line: line(said),
            message: format!("{name} is \"{}\"; {what}", said.get_ref()),
        };
        let leases = table.address.as_ref().is_some_and(|it| it.get_ref() == LENT);
        let gateway = match &table.gateway {
            Some(said) if leases => {
                return Err(wrong(said, "gateway", "it comes with an address that is lent"));
            }
            Some(said) => {
                let gateway: Option<Ipv4Addr> = said.get_ref().parse().ok();
                Some(gateway.ok_or_else(|| wrong(said, "gateway", "it is as \"10.42.255.254\""))?)
            }
            None => None,
        };
        let wide = match &table.ipv6 {
            Some(said) if said.get_ref() == AUTO => Wide::Advertised,
            Some(said) => {
                let what = "it is n1's, with the 8 to 120 bits that all have in common, as \
                            \"fd42::1/64\", or \"auto\"";
                let all = FirstOfMany::parse(said.get_ref());
                Wide::From(all.ok_or_else(|| wrong(said, "ipv6", what))?)
            }
            None => Wide::None,
        };
        let usual = Addresses::USUAL;
        let (first, prefix) = match &table.address {
            Some(said) if !leases => {
                let parsed = Addresses::parse(said.get_ref());
                let what = "it is n1's, with the bits that all have in common, as \
                            \"10.42.0.1/16\", or \"dhcp\"";
                parsed.ok_or_else(|| wrong(said, "address", what))?
            }
            _ => (usual.first(), usual.prefix()),
        };
        let addresses = Addresses::new(first, prefix, gateway).ok_or_else(|| {
            let what =
                "a network has 8 to 30 bits in common, a first node, and a gateway beside it";
            match (&table.gateway, &table.address) {
                (Some(said), _) => wrong(said, "gateway", what),
                (None, Some(said)) => wrong(said, "address", what),
                (None, None) => ConfigError { line: None, message: what.into() },
            }
        })?;
        let said = table.address.as_ref().filter(|_| !leases).or(table.gateway.as_ref());
        let line = said.and_then(line);
        let named =
            |it: Spanned<String>| Named { line: line_of(it.span().start), name: it.into_inner() };
        let forwards = table.forward.into_iter().map(named).collect();
        Ok(IpConfig { addresses, leases, wide, line, forwards })
    }

    /// What both tables say, of which the node is told if it is in a network: its addresses, and
    /// the rules of the filter there. `line_of` gives the line of a byte.
    pub(crate) fn of(
        (ip, filter): (IpTable, FilterTable),
        membership: &mut Option<Membership>,
        line_of: impl Fn(usize) -> usize,
    ) -> Result<IpConfig, ConfigError> {
        let ip = IpConfig::from_table(ip, &line_of)?;
        let rules = filter::rules_of(filter, &line_of)?;
        if let Some(membership) = membership {
            ip.check(membership.node)?;
            (membership.addresses, membership.leases) = (ip.addresses, ip.leases);
            membership.wide = ip.wide;
            membership.rules = rules;
        }
        Ok(ip)
    }

    /// Refuses a network that has no address for a node.
    pub fn check(&self, node: NodeId) -> Result<(), ConfigError> {
        if let Wide::From(all) = self.wide
            && all.address_of(node).is_none()
        {
            let (first, prefix) = (all.first(), all.prefix());
            let message = format!("the network of {first}/{prefix} has no address for {node}");
            return Err(ConfigError { line: None, message });
        }
        // Nobody has asked for the usual one.
        if self.line.is_none() || self.addresses.address_of(node).is_some() {
            return Ok(());
        }
        let (first, prefix) = (self.addresses.first(), self.addresses.prefix());
        let message = format!("the network of {first}/{prefix} has no address for {node}");
        Err(ConfigError { line: self.line, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn error(text: &str) -> String {
        format!("{}", Config::parse(text).expect_err("a bad file"))
    }

    #[test]
    fn a_network_is_read_or_refused_with_its_line() {
        let ip = |text| Config::parse(text).unwrap().ip;
        assert_eq!(ip("").addresses, Addresses::USUAL);
        let said = ip("[ip]\naddress = \"192.168.7.5/24\"\nforward = [\n\"8080:n1:80\"]\n");
        assert_eq!(said.addresses.address_of(NodeId(3)), Some([192, 168, 7, 7].into()));
        assert_eq!(said.addresses.gateway(), Ipv4Addr::new(192, 168, 7, 254));
        assert_eq!(said.forwards, [Named { name: "8080:n1:80".into(), line: 4 }]);
        assert!(said.check(NodeId(249)).is_ok());
        let refused = format!("{}", said.check(NodeId(250)).unwrap_err());
        assert_eq!(refused, "line 2: the network of 192.168.7.5/24 has no address for n250");
        let auto = ip("[ip]\nipv6 = \"auto\"\n");
        assert_eq!((auto.wide, said.wide), (Wide::Advertised, Wide::None));
        let all = ip("[ip]\nipv6 = \"fd42::fffe/112\"\n");
        let Wide::From(first) = all.wide else { panic!("{all:?}") };
        assert_eq!(first.address_of(NodeId(2)).map(|it| it.segments()[7]), Some(0xffff));
        let refused = format!("{}", all.check(NodeId(3)).unwrap_err());
        assert!(refused.ends_with("fd42::fffe/112 has no address for n3"), "{refused}");
        let lent = ip("[ip]\naddress = \"dhcp\"\n");
        assert_eq!((lent.addresses, lent.leases), (Addresses::USUAL, true));
        assert!(!said.leases && lent.check(NodeId(70_000)).is_ok());
        for (text, part) in [
            ("address = \"dhcp\"\ngateway = \"10.42.0.9\"", "it comes with an address"),
            ("address = \"10.0.0.1\"", "address is \"10.0.0.1\"; it is n1's, with the bits"),
            ("address = \"10.0.0.1/300\"", "it is n1's, with the bits"),
            ("address = \"ten/8\"", "it is n1's, with the bits"),
            ("address = \"10.0.0.1/32\"", "a network has 8 to 30 bits in common"),
            ("gateway = \"10.42.0\"", "gateway is \"10.42.0\"; it is as"),
            ("gateway = \"10.43.0.1\"", "gateway is \"10.43.0.1\"; a network has"),
            ("ipv6 = \"fe80::1/64\"", "ipv6 is \"fe80::1/64\"; it is n1's, with the 8 to 120"),
            ("ipv6 = \"fd42::1\"", "it is n1's, with the 8 to 120 bits"),
            ("adress = \"10.0.0.1/8\"", "unknown field `adress`"),
        ] {
            let said = error(&format!("[ip]\n{text}\n"));
            assert!(said.starts_with("line ") && said.contains(part), "{said}");
        }
    }

    #[test]
    fn a_node_has_an_address_in_its_network() {
        let text = "[node]\nid = 7\n[network]\nunsealed = true\n[ip]\naddress = \"10.0.0.1/30\"\n";
        assert_eq!(error(text), "line 6: the network of 10.0.0.1/30 has no address for n7");
    }
}
