//! The names that a cluster has for its nodes, as DNS asks for them.

use std::net::Ipv4Addr;
use std::path::Path;

use nile_abi::NodeId;
use nile_abi::ip::Addresses;

use crate::cluster::folder::Folder;

/// The zone of the cluster's own names: `n1` is `n1.cluster`, too.
pub const ZONE: &str = "cluster";

/// What the gateway itself is called.
const GATEWAY: &str = "gateway";

/// The names of a cluster.
pub struct Names {
    pub addresses: Addresses,
    /// The cluster's folder, where domains are written down as they come and go.
    folder: Folder,
}

impl Names {
    /// Those of the cluster in `folder`.
    pub fn new(addresses: Addresses, folder: &Path) -> Names {
        Names { addresses, folder: Folder::at(folder) }
    }

    /// The address of a name without a dot, in small letters: a node's, a domain's, or
    /// `gateway`.
    pub fn find(&self, name: &str) -> Option<Ipv4Addr> {
        if name == GATEWAY {
            return Some(self.addresses.gateway());
        }
        let number = name.strip_prefix('n').filter(|it| !it.starts_with(['0', '+']));
        if let Some(node) = number.and_then(|it| it.parse().ok()) {
            return self.addresses.address_of(NodeId(node));
        }
        let record = self.folder.record().ok()?;
        let is_it = |domain: &str| domain.eq_ignore_ascii_case(name);
        let mut nodes = record.nodes.iter();
        let node = nodes.find(|node| node.domain.as_ref().is_some_and(|it| is_it(&it.name)))?;
        self.addresses.address_of(node.node())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_domains_and_the_gateway_have_names() {
        let folder = tempfile::tempdir().unwrap();
        let names = Names::new(Addresses::USUAL, folder.path());
        let find = |name| names.find(name).map(|it| it.octets());
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
