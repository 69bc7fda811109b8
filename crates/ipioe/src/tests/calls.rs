//! Calls on good networks and bad ones.

use std::vec;
use std::vec::Vec;

use super::network::*;

#[test]
fn small_and_large_with_a_key_and_without() {
    for key in [None, Some(1)] {
        let mut network = Network::new(nodes(2, key));
        let sizes = [0, 1, 64, 1300, 1412, 1413, 3000, 64 << 10];
        for (asked, answered) in sizes.into_iter().zip(sizes.into_iter().rev()) {
            let data: Vec<u8> = (0..asked).map(|at| (at * 7) as u8).collect();
            let answer = vec![answered as u8; answered];
            assert_eq!(network.call(&data, &answer), answer);
        }
        network.run(100);
        for node in &network.nodes {
            let usage = node.usage();
            assert_eq!((usage.calls, usage.remembered, usage.bytes), (0, 0, 0), "{key:?}");
            let it = node.counters();
            let bad = it.malformed + it.forged + it.replayed + it.corrupt + it.dropped + it.stale;
            assert_eq!(bad + it.retransmitted, 0, "{it:?}");
        }
    }
}
