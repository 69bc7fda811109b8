//! All names in their order.

use super::*;

/// What a scan tells.
fn scan(cluster: &mut Cluster, after: Option<Name>, most: usize) -> Vec<(Name, Option<Entry>)> {
    let seed = cluster.draw();
    let mut scan = Scan::new(cluster.now, &cluster.nodes, after, most, seed, SETTINGS);
    let mut found = Vec::new();
    loop {
        while let Some(action) = scan.poll() {
            match action {
                scan::Action::Names(names) => found.extend(names),
                scan::Action::Done => return found,
                scan::Action::Failed(lack) => panic!("{lack:?}"),
                scan::Action::Send(node, ask) => {
                    if let Some(answer) = cluster.ask(node, &ask) {
                        scan.receive(cluster.now, node, answer);
                    }
                }
            }
        }
        cluster.pass(10);
        scan.tick(cluster.now);
    }
}

#[test]
fn a_scan_tells_all_names_in_their_order() {
    let mut cluster = Cluster::founded(3);
    assert_eq!(scan(&mut cluster, None, usize::MAX), []);
    let names: Vec<Name> = (1000..2000).map(|at| name(&std::format!("name {at}"))).collect();
    for (at, name) in names.iter().enumerate() {
        cluster.run(name, change(at as u64 + 1, Expect::Absent, dataset(1)));
    }
    let removed = change(5000, Expect::Any, What::Absent);
    cluster.run(&names[17], removed);
    // One is away, and comes back without what was put meanwhile.
    cluster.stop(2);
    cluster.run(&names[500], change(5001, Expect::Any, dataset(2)));
    cluster.start(2);
    cluster.stop(1);
    let found = scan(&mut cluster, None, usize::MAX);
    assert_eq!(found.len(), 999);
    assert!(found.is_sorted_by_key(|(name, _)| name) && found.iter().all(|it| it.0 != names[17]));
    let unsure: Vec<_> = found.iter().filter(|(_, entry)| entry.is_none()).collect();
    assert_eq!(unsure, [&(names[500].clone(), None)]);
    assert_eq!(scan(&mut cluster, None, 10), found[..10]);
    assert_eq!(scan(&mut cluster, Some(names[499].clone()), 2), found[499..501]);
}
