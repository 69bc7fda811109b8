//! The frames that docs/ipioe.md shows, byte for byte.

use std::format;
use std::string::String;
use std::vec::Vec;

use nile_abi::Instant;

use super::network::*;
use crate::{BootNonce, ClusterKey, Endpoint, Settings};

/// The example of the specification, run by two endpoints: every frame that they send, in hex.
fn frames(key: Option<ClusterKey>) -> Vec<String> {
    let nodes = [(1, 7, 0xa0), (2, 9, 0xb0)].map(|(node, generation, first)| {
        let nonce = BootNonce(core::array::from_fn(|at| first + at as u8));
        Endpoint::new(Settings { key: key.clone(), nonce, ..settings(node, generation, None) })
    });
    let mut network = Network::new(nodes.into());
    network.nodes[0].first_call = 0x64;
    network.now = Instant::from_nanos(1_000_000_000);
    let deadline = network.later(1000);
    network.nodes[0].call(network.now, request(2, deadline), b"ping".to_vec()).expect("room");
    network.wait_request(1);
    let hex = |frame: &Vec<u8>| frame.iter().map(|byte| format!("{byte:02x}")).collect();
    network.captured.iter().map(hex).collect()
}

#[test]
fn frames_are_as_specified() {
    let text = include_str!("../../../../docs/ipioe.md");
    let shown: String = text.split_whitespace().collect();
    let key = ClusterKey(core::array::from_fn(|at| at as u8));
    for (key, name) in [(None, "unsealed"), (Some(key), "sealed")] {
        let frames = frames(key);
        // Two hellos and the proof, then the request.
        assert_eq!(frames.len(), 4);
        for frame in &frames {
            std::println!("{name}: {frame}");
        }
        assert!(shown.contains(&frames[0]), "the {name} hello is another one");
        assert!(shown.contains(&frames[3]), "the {name} request is another one");
    }
}
