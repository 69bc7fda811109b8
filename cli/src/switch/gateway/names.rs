//! The names that a cluster has for its nodes, as DNS asks for them.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

use nile_abi::NodeId;
use nile_abi::ip::{Addresses, FirstOfMany};

use crate::cluster::folder::Folder;

/// The zone of the cluster's own names: `n1` is `n1.cluster`, too.
pub const ZONE: &str = "cluster";

/// What the gateway itself is called.
const GATEWAY: &str = "gateway";

/// The addresses of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    pub v4: Ipv4Addr,
    pub v6: Option<Ipv6Addr>,
}

/// The names of a cluster.
pub struct Names {
    pub addresses: Addresses,
    /// Those of IPv6, if they follow from the nodes' numbers.
    wide: Option<FirstOfMany>,
    /// The cluster's folder, where domains are written down as they come and go.
    folder: Folder,
}

impl Names {
    /// Those of the cluster in `folder`.
    pub fn new(addresses: Addresses, wide: Option<FirstOfMany>, folder: &Path) -> Names {
        Names { addresses, wide, folder: Folder::at(folder) }
    }

    /// The addresses of a name without a dot, in small letters: a node's, a domain's, or
    /// `gateway`.
    pub fn find(&self, name: &str) -> Option<Found> {
        if name == GATEWAY {
            let v6 = self.wide.map(|it| it.gateway());
            return Some(Found { v4: self.addresses.gateway(), v6 });
        }
        let node = self.node(name)?;
        let v6 = self.wide.and_then(|it| it.address_of(node));
        Some(Found { v4: self.addresses.address_of(node)?, v6 })
    }

    fn node(&self, name: &str) -> Option<NodeId> {
        let number = name.strip_prefix('n').filter(|it| !it.starts_with(['0', '+']));
        if let Some(node) = number.and_then(|it| it.parse().ok()) {
            return Some(NodeId(node));
        }
        let record = self.folder.record().ok()?;
        let is_it = |domain: &str| domain.eq_ignore_ascii_case(name);
        let mut nodes = record.nodes.iter();
        let node = nodes.find(|node| node.domain.as_ref().is_some_and(|it| is_it(&it.name)))?;
        Some(node.node())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_domains_and_the_gateway_have_names() {
        let folder = tempfile::tempdir().unwrap();
        let wide = FirstOfMany::parse("fd42::1/64");
        let names = Names::new(Addresses::USUAL, wide, folder.path());
        let v6 = |name| names.find(name).and_then(|it| it.v6).map(|it| it.to_string());
        assert_eq!(v6("n258"), Some("fd42::102".into()));
        assert_eq!(v6("gateway"), Some("fd42::ffff:ffff:ffff:ff7f".into()));
        let names = Names::new(Addresses::USUAL, None, folder.path());
        assert_eq!(names.find("n1").and_then(|it| it.v6), None);
        let find = |name| names.find(name).map(|it| it.v4.octets());
        assert_eq!(find("n1"), Some([10, 42, 0, 1]));
        assert_eq!(find("n258"), Some([10, 42, 1, 2]));
        assert_eq!(find("gateway"), Some([10, 42, 255, 254]));
        for name in ["", "n", "n0", "n01", "n+1", "n65534", "n4294967296", "web"] {
            assert_eq!(find(name), None, "{name}");
        }
        let domain = r#"{"name": "Web", "cores": [], "bounds": [1, 2], "memory": 0,
            "most_memory": 0, "is_guarded": false}"#;
        let record = format!(
            r#"{{"cores": 4, "memory": 0, "sealed": false, "keepers": [1], "nodes": [
            {{"id": 7, "machine": "hosted", "generation": 1, "domain": {domain}}}]}}"#
        );
        Folder::at(folder.path()).write("cluster.json", &record).unwrap();
        assert_eq!((find("web"), find("we")), (Some([10, 42, 0, 7]), None));
    }
}
