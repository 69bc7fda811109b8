//! What a node is in a cluster, from `nile.toml`:
//!
//! ```toml
//! [node]
//! id = 3               # n3; without it the node is alone, and has no network
//! generation = 17      # its incarnation, if whoever starts it keeps count; else the clock
//! keepers = [1, 2, 3]  # the nodes that keep the names of datasets, alike on all nodes
//! cluster = "5ad0…"    # the cluster's identity, up to 16 hexadecimal digits: its disks have it
//! plain_disk = true    # a new disk is not encrypted, though the cluster has a key
//!
//! [network]
//! key = "8f3c…"        # the cluster's key, 64 hexadecimal digits: every frame is sealed with it
//! unsealed = true      # in place of a key: frames are open to everybody on the network
//! interface = "packet:eth0"  # what a hosted node drives: see `nile-hosted --interface`
//! ```

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use nile_abi::ip::{Addresses, Wide};
use nile_abi::{Generation, NodeId};
use serde::Deserialize;
use toml::Spanned;

/// The part of the file that says who the node is.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NodeTable {
    id: Option<Spanned<u32>>,
    generation: Option<Spanned<u32>>,
    keepers: Option<Spanned<Vec<u32>>>,
    cluster: Option<Spanned<String>>,
    plain_disk: bool,
}

/// The part of the file that says how frames are protected.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NetworkTable {
    key: Option<Spanned<String>>,
    unsealed: bool,
    pub interface: Option<Spanned<String>>,
}

/// What a node is in a cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Membership {
    /// Its name.
    pub node: NodeId,
    /// Its incarnation, if the file says it.
    pub generation: Option<Generation>,
    /// The cluster's key; `None` if frames are not sealed.
    pub key: Option<[u8; 32]>,
    /// The nodes that keep the names of datasets: one or three (docs/names.md).
    pub keepers: Vec<NodeId>,
    /// The cluster's identity, which its disks have; zero if it has none.
    pub cluster: u64,
    /// Whether a new disk is not encrypted, though there is a key.
    pub plain_disk: bool,
    /// The addresses of its network.
    pub addresses: Addresses,
    /// Whether it has its own address lent, whatever these say.
    pub leases: bool,
    /// Where it has an address of IPv6.
    pub wide: Wide,
    /// The rules of its packet filter, one a line.
    pub rules: Arc<str>,
}

impl fmt::Debug for Membership {
    /// Not the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sealed = if self.key.is_some() { "sealed" } else { "unsealed" };
        write!(f, "{} {:?} {sealed}", self.node, self.generation)
    }
}

/// From here on numbers stand for what is no node: who decides on a dataset (docs/store.md).
const NOT_NODES: u32 = u32::MAX - 1;

/// What is wrong, and the byte of the file where.
pub(crate) type Wrong = (Option<usize>, &'static str);

impl Membership {
    /// What the tables say; `None` if the node is alone.
    pub(crate) fn from_tables(
        node: NodeTable,
        network: NetworkTable,
    ) -> Result<Option<Membership>, Wrong> {
        let key = match &network.key {
            Some(text) => {
                let bad = (Some(text.span().start), "key is not 64 hexadecimal digits");
                Some(digits(text.get_ref()).ok_or(bad)?)
            }
            None => None,
        };
        if let (Some(key), true) = (&network.key, network.unsealed) {
            let message = "there is a key, and `unsealed = true` as well; leave one of them out";
            return Err((Some(key.span().start), message));
        }
        let Some(id) = node.id else { return Ok(None) };
        let at = Some(id.span().start);
        if key.is_none() && !network.unsealed {
            let message = "a node with an id needs either a key or `unsealed = true` in [network]";
            return Err((at, message));
        }
        let generation = match node.generation {
            Some(it) if *it.get_ref() == 0 => {
                return Err((Some(it.span().start), "generation is 0; the first is 1"));
            }
            it => it.map(|it| Generation(it.into_inner())),
        };
        let keepers = match &node.keepers {
            None => Vec::from([NodeId(1)]),
            Some(it) => {
                let bad = (Some(it.span().start), "keepers is a list of one node, or of three");
                keepers(it.get_ref()).ok_or(bad)?
            }
        };
        let cluster = match &node.cluster {
            None => 0,
            Some(it) => {
                let bad = (Some(it.span().start), "cluster is not 1 to 16 hexadecimal digits");
                identity(it.get_ref()).ok_or(bad)?
            }
        };
        match NodeId(id.into_inner()) {
            NodeId(0 | NOT_NODES..) => Err((at, "id is 1 to 4294967293")),
            name => {
                let plain_disk = node.plain_disk;
                Ok(Some(Membership {
                    node: name,
                    generation,
                    key,
                    keepers,
                    cluster,
                    plain_disk,
                    addresses: Addresses::USUAL,
                    leases: false,
                    wide: Wide::None,
                    rules: "".into(),
                }))
            }
        }
    }

    /// The node's incarnation while its network core is in its own `network`th: each of that
    /// core's is one of the node, because what the last one remembered of calls is gone with it.
    ///
    /// Without a number in the file it is from `started`, the time since 1970 when the node began:
    /// in quarters of seconds since 2025. That may be known to a second only, therefore there
    /// are eight numbers between two incarnations of the core.
    pub(crate) fn generation(&self, started: Option<Duration>, network: Generation) -> Generation {
        const YEAR_2025: u64 = 1_735_689_600;
        let by_clock = |since: Duration| {
            let quarters = since.as_millis() / 250;
            let quarters = quarters.saturating_sub(u128::from(YEAR_2025) * 4).max(1);
            // It wraps in 2059; peers then have the node take more than the highest they know.
            Generation(quarters as u32)
        };
        let first = self.generation.or_else(|| started.map(by_clock)).unwrap_or(Generation::FIRST);
        let later = network.0.saturating_sub(1).saturating_mul(8);
        Generation(first.0.wrapping_add(later).max(1))
    }
}

/// Different nodes, so many that a majority of them outlives one.
fn keepers(ids: &[u32]) -> Option<Vec<NodeId>> {
    let mut keepers: Vec<NodeId> = ids.iter().copied().map(NodeId).collect();
    nile_order::sort(&mut keepers);
    keepers.dedup();
    let is_node = |node: &NodeId| !matches!(node.0, 0 | NOT_NODES..);
    let is_right = matches!(ids.len(), 1 | 3) && keepers.len() == ids.len();
    (is_right && keepers.iter().all(is_node)).then_some(keepers)
}

/// The number that hexadecimal digits are; none that is zero.
fn identity(text: &str) -> Option<u64> {
    let are_digits = text.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|number| are_digits && *number != 0)
}

/// The bytes of a text of hexadecimal digits.
fn digits(text: &str) -> Option<[u8; 32]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let mut key = [0; 32];
    if pairs.len() != key.len() || !rest.is_empty() {
        return None;
    }
    for (byte, pair) in key.iter_mut().zip(pairs) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use alloc::format;

    fn parse(text: &str) -> Result<Option<Membership>, String> {
        Config::parse(text).map(|it| it.membership).map_err(|error| format!("{error}"))
    }

    #[test]
    fn a_node_is_alone_unless_it_has_an_id() {
        assert_eq!(parse(""), Ok(None));
        assert_eq!(parse("[network]\nunsealed = true\n"), Ok(None));
        let key = "0123456789abcdefABCDEF".repeat(3);
        let text = format!("[node]\nid = 3\ngeneration = 9\n[network]\nkey = \"{}\"\n", &key[..64]);
        let membership = parse(&text).unwrap().unwrap();
        assert_eq!((membership.node, membership.generation), (NodeId(3), Some(Generation(9))));
        assert_eq!(membership.key.unwrap()[..3], [0x01, 0x23, 0x45]);
        assert!(!format!("{membership:?}").contains("23"), "keys are not shown");
        let open = parse("[node]\nid = 1\n[network]\nunsealed = true\n").unwrap().unwrap();
        assert_eq!((open.generation, open.key), (None, None));
        assert_eq!(open.keepers, [NodeId(1)]);
    }

    #[test]
    fn one_node_or_three_keep_names() {
        let of = |keepers: &str| {
            let text = format!("[node]\nid = 9\nkeepers = {keepers}\n[network]\nunsealed = true\n");
            parse(&text).map(|it| it.unwrap().keepers)
        };
        assert_eq!(of("[5, 2, 4]"), Ok([2, 4, 5].map(NodeId).into()));
        assert_eq!(of("[7]"), Ok([NodeId(7)].into()));
        let wrong = "line 3: keepers is a list of one node, or of three";
        for keepers in ["[]", "[1, 2]", "[1, 2, 2]", "[0]", "[1, 2, 4294967294]", "[1, 2, 3, 4]"] {
            assert_eq!(of(keepers), Err(wrong.into()), "{keepers}");
        }
    }

    #[test]
    fn a_cluster_has_an_identity() {
        let of = |cluster: &str| {
            let text = format!("[node]\nid = 9\n{cluster}[network]\nunsealed = true\n");
            parse(&text).map(|it| it.unwrap().cluster)
        };
        assert_eq!(of(""), Ok(0));
        assert_eq!(of("cluster = \"5AD0\"\n"), Ok(0x5ad0));
        assert_eq!(of(&format!("cluster = \"{}\"\n", "f".repeat(16))), Ok(u64::MAX));
        let wrong = "line 3: cluster is not 1 to 16 hexadecimal digits";
        for cluster in ["", "0", "+5", "5x", "11112222333344445"] {
            assert_eq!(of(&format!("cluster = \"{cluster}\"\n")), Err(wrong.into()), "{cluster}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let needs =
            "line 2: a node with an id needs either a key or `unsealed = true` in [network]";
        assert_eq!(parse("[node]\nid = 1\n"), Err(needs.into()));
        for (node, line) in [("[node]\nid = 1\n", 5), ("", 3)] {
            let key = "a".repeat(64);
            let both = format!("{node}[network]\nunsealed = true\nkey = \"{key}\"");
            let said = "there is a key, and `unsealed = true` as well; leave one of them out";
            assert_eq!(parse(&both), Err(format!("line {line}: {said}")));
        }
        let short = "[network]\nkey = \"abc\"\n";
        assert_eq!(parse(short), Err("line 2: key is not 64 hexadecimal digits".into()));
        let not_hex = format!("[network]\nkey = \"{}\"\n", "g".repeat(64));
        assert_eq!(parse(&not_hex), Err("line 2: key is not 64 hexadecimal digits".into()));
        let open = "\n[network]\nunsealed = true\n";
        assert_eq!(
            parse(&format!("[node]\nid = 0{open}")),
            Err("line 2: id is 1 to 4294967293".into())
        );
        let zero = format!("[node]\nid = 1\ngeneration = 0{open}");
        assert_eq!(parse(&zero), Err("line 3: generation is 0; the first is 1".into()));
        assert!(parse(&format!("[node]\nid = -1{open}")).is_err());
    }

    #[test]
    fn generations_only_grow() {
        let open = "[node]\nid = 1\n[network]\nunsealed = true\n";
        let membership = parse(open).unwrap().unwrap();
        let at = |seconds: u64, core| {
            let started = Duration::from_secs(1_735_689_600 + seconds);
            membership.generation(Some(started), Generation(core)).0
        };
        assert_eq!(at(1, 1), 4);
        assert!(at(1, 2) > at(2, 1), "though the clock is read a second wrongly");
        assert!(at(100, 1) > at(1, 12));
        assert_eq!(membership.generation(None, Generation(1)), Generation::FIRST);
        let counted = Membership { generation: Some(Generation(7)), ..membership };
        assert_eq!(counted.generation(Some(Duration::MAX), Generation(1)), Generation(7));
    }
}
