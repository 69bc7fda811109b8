//! How keepers get in: at first, and when a disk is lost.

use super::*;

#[test]
fn a_cluster_is_founded_when_all_are_there_once() {
    let mut cluster = Cluster::new(3);
    cluster.start(1);
    cluster.start(3);
    cluster.pass(1000);
    assert_eq!(cluster.standing(1), Standing::Waiting([NodeId(2)].into()));
    let lack = match cluster.run(&name("x"), Task::Read) {
        Outcome::NoMajority(lack) => lack,
        other => panic!("{other:?}"),
    };
    assert_eq!((lack.fresh, lack.missing), ([NodeId(1), NodeId(3)].into(), [NodeId(2)].into()));
    // It need not be all at a time: who founds is in, and tells whoever comes back.
    cluster.start(2);
    cluster.stop(3);
    cluster.pass(1000);
    cluster.stop(1);
    cluster.pass(1000);
    cluster.start(1);
    cluster.start(3);
    cluster.pass(1000);
    (1..=3).for_each(|node| assert_eq!(cluster.standing(node), Standing::In));
    assert_eq!(cluster.read(&name("x")), Entry::NEVER);
}

/// An answer of the first keeper, whose disk is lost since, comes late to one that has told its
/// successor that it is fresh.
#[test]
fn a_founding_that_is_lost_is_not_heard_of_after_the_next() {
    let mut cluster = Cluster::new(3);
    cluster.start(1);
    let hellos = |cluster: &mut Cluster, node| -> Vec<(NodeId, Ask)> {
        let keeper = cluster.keepers.get_mut(&NodeId(node)).unwrap();
        keeper.tick(cluster.now);
        let sent = core::iter::from_fn(|| keeper.poll()).filter_map(|action| match action {
            Action::Send(to, ask) => Some((to, ask)),
            Action::Store(_) => None,
        });
        sent.collect()
    };
    cluster.start(2);
    cluster.start(3);
    // The second has asked the first, which is in by the time that it answers.
    cluster.now = cluster.now + SETTINGS.silence * 3;
    let asked = hellos(&mut cluster, 2);
    let (to, ask) = asked.iter().find(|(to, _)| *to == NodeId(1)).unwrap();
    let founds = hellos(&mut cluster, 1);
    for (to, ask) in founds {
        let answer = cluster.ask(to, &ask).unwrap();
        cluster.keepers.get_mut(&NodeId(1)).unwrap().receive(to, answer);
    }
    assert_eq!(cluster.standing(1), Standing::In);
    // That is not heard: it was asked before the second has said that it is fresh.
    let late = cluster.ask(*to, ask).unwrap();
    assert_eq!(late.view.seats.len(), 3);
    cluster.keepers.get_mut(&NodeId(2)).unwrap().receive(*to, late);
    assert_ne!(cluster.standing(2), Standing::In);
    cluster.pass(1000);
    assert_eq!(cluster.standing(2), Standing::In);
}

#[test]
fn keepers_come_back_with_what_they_had() {
    let mut cluster = Cluster::founded(3);
    let x = name("x");
    cluster.run(&x, change(1, Expect::Absent, dataset(1)));
    (1..=3).for_each(|node| cluster.stop(node));
    (1..=3).for_each(|node| cluster.start(node));
    assert_eq!(cluster.read(&x).change, 1);
}

#[test]
fn an_old_copy_of_a_disk_counts_for_nothing() {
    let mut cluster = Cluster::founded(3);
    let x = name("x");
    cluster.run(&x, change(1, Expect::Absent, dataset(1)));
    cluster.stop(1);
    let Disk { charter, cells } = &cluster.disks[&NodeId(1)];
    let copy = Disk { charter: charter.clone(), cells: cells.clone() };
    // It goes on, and removes the name with the second one; the third hears of neither.
    cluster.start(1);
    cluster.pass(10);
    cluster.stop(3);
    cluster.run(&x, change(2, Expect::Any, What::Absent));
    cluster.stop(1);
    cluster.stop(2);
    cluster.disks.insert(NodeId(1), copy);
    cluster.start(1);
    cluster.start(3);
    cluster.pass(1000);
    assert_eq!(cluster.standing(1), Standing::Behind([NodeId(2)].into()), "it waits for both");
    assert!(matches!(cluster.run(&x, Task::Read), Outcome::NoMajority(_)));
    cluster.start(2);
    cluster.pass(1000);
    (1..=3).for_each(|node| assert_eq!(cluster.standing(node), Standing::In));
    assert_eq!(cluster.read(&x).what, What::Absent);
    cluster.stop(2);
    assert_eq!(cluster.read(&x).what, What::Absent, "it has it itself");
}

#[test]
fn a_copy_of_a_disk_that_was_replaced_counts_for_nothing() {
    let mut cluster = Cluster::founded(3);
    cluster.stop(2);
    let Disk { charter, cells } = &cluster.disks[&NodeId(2)];
    let copy = Disk { charter: charter.clone(), cells: cells.clone() };
    cluster.lose_disk(2);
    cluster.start(2);
    cluster.pass(1000);
    cluster.stop(2);
    cluster.disks.insert(NodeId(2), copy);
    cluster.start(2);
    cluster.pass(1000);
    (1..=3).for_each(|node| assert_eq!(cluster.standing(node), Standing::In));
}

/// Its successor has died when only one of the others had heard of it.
#[test]
fn a_copy_of_a_disk_that_was_half_replaced_counts_for_nothing() {
    for heard in [1, 3] {
        let mut cluster = Cluster::founded(3);
        cluster.stop(2);
        let Disk { charter, cells } = &cluster.disks[&NodeId(2)];
        let copy = Disk { charter: charter.clone(), cells: cells.clone() };
        cluster.start(2);
        cluster.pass(1000);
        cluster.stop(2);
        let adopted = cluster.disks[&NodeId(heard)].charter.clone().unwrap();
        let view = adopted.view.unwrap().with(1, 77);
        cluster.disks.insert(NodeId(2), copy);
        cluster.stop(heard);
        let disk = cluster.disks.get_mut(&NodeId(heard)).unwrap();
        disk.charter = Some(Charter { view, ..disk.charter.clone().unwrap() });
        cluster.start(heard);
        cluster.start(2);
        cluster.pass(3000);
        (1..=3).for_each(|node| assert_eq!(cluster.standing(node), Standing::In));
        assert_eq!(cluster.read(&name("x")), Entry::NEVER);
    }
}

#[test]
fn one_other_is_enough_to_come_back() {
    let mut cluster = Cluster::founded(3);
    (1..=3).for_each(|node| cluster.stop(node));
    cluster.start(3);
    cluster.pass(1000);
    let others = [NodeId(1), NodeId(2)];
    assert_eq!(cluster.standing(3), Standing::Returning(others.into()));
    cluster.start(1);
    cluster.pass(1000);
    [1, 3].iter().for_each(|node| assert_eq!(cluster.standing(*node), Standing::In));
}

#[test]
fn a_lost_disk_is_made_up_for_before_it_counts() {
    let mut cluster = Cluster::founded(3);
    // One keeper is away when this is put; then the disk of one that has it is lost.
    let names: Vec<Name> = (0..1000).map(|at| name(&std::format!("name {at}"))).collect();
    cluster.stop(3);
    for (at, name) in names.iter().enumerate() {
        let put = change(at as u64 + 1, Expect::Absent, dataset(1));
        assert!(matches!(cluster.run(name, put), Outcome::Done(_)));
    }
    cluster.lose_disk(1);
    cluster.start(1);
    cluster.pass(1000);
    assert_eq!(cluster.standing(1), Standing::Waiting([NodeId(3)].into()));
    assert!(matches!(cluster.run(&names[0], Task::Read), Outcome::NoMajority(_)));
    cluster.start(3);
    cluster.pass(1000);
    assert_eq!(cluster.standing(1), Standing::In);
    assert_eq!(cluster.disks[&NodeId(1)].cells.len(), 1000);
    // Now it may be any two.
    cluster.stop(2);
    for (at, name) in names.iter().enumerate().step_by(100) {
        assert_eq!(cluster.read(name).change, at as u64 + 1);
    }
}

#[test]
fn an_adoption_goes_on_where_it_was_when_power_fails() {
    let mut cluster = Cluster::founded(3);
    let x = name("x");
    cluster.run(&x, change(1, Expect::Absent, dataset(1)));
    for victim in 1..=3 {
        cluster.lose_disk(victim);
        cluster.start(victim);
        // One other is adopted by, and away again before the rest.
        let (one, other) = (victim % 3 + 1, (victim + 1) % 3 + 1);
        for away in [one, other, victim] {
            cluster.stop(away);
            cluster.pass(300);
            cluster.start(away);
            cluster.pass(150);
        }
        cluster.pass(1000);
        assert_eq!(cluster.standing(victim), Standing::In);
        assert_eq!(cluster.read(&x).change, 1);
    }
}

#[test]
fn two_lost_disks_are_two_too_many() {
    let mut cluster = Cluster::founded(3);
    let x = name("x");
    cluster.run(&x, change(1, Expect::Absent, dataset(1)));
    for node in [1, 2] {
        cluster.lose_disk(node);
    }
    for node in [1, 2] {
        cluster.start(node);
    }
    cluster.pass(3000);
    assert_eq!(cluster.standing(1), Standing::Lost([NodeId(2)].into()));
    assert_eq!(cluster.standing(2), Standing::Lost([NodeId(1)].into()));
    assert!(matches!(cluster.run(&x, Task::Read), Outcome::NoMajority(_)));
}

#[test]
fn no_majority_is_of_two_views() {
    let mut cluster = Cluster::founded(3);
    let x = name("x");
    cluster.run(&x, change(1, Expect::Absent, dataset(1)));
    // A change is promised by all, and then the third keeper's disk is lost.
    let mut slow = cluster.propose(&x, change(2, Expect::Any, dataset(2)));
    let mut accepts = Vec::new();
    while let Some(proposal::Action::Send(node, ask)) = slow.poll() {
        match ask.request {
            Request::Accept { .. } => accepts.push((node, ask)),
            _ => {
                let answer = cluster.ask(node, &ask).unwrap();
                slow.receive(cluster.now, node, answer);
            }
        }
    }
    let (node, ask) = accepts.pop().unwrap();
    let accepted = cluster.ask(node, &ask).unwrap();
    assert_eq!(accepted.reply, Reply::Accepted);
    slow.receive(cluster.now, node, accepted);
    cluster.lose_disk(3);
    cluster.start(3);
    cluster.pass(1000);
    assert_eq!(cluster.standing(3), Standing::In);
    // The others believe in another third keeper by now, whose word is not in what was accepted.
    for (node, ask) in accepts {
        let answer = cluster.ask(node, &ask).unwrap();
        assert!(matches!(answer.reply, Reply::Standing { .. }), "{answer:?}");
        slow.receive(cluster.now, node, answer);
    }
    assert_eq!(cluster.read(&x).change, 1);
    assert!(matches!(cluster.drive(&mut slow), Outcome::Done(Entry { stamp: 2, .. })));
}

#[test]
fn a_disk_of_another_configuration_is_not_taken() {
    let cluster = Cluster::founded(3);
    let charter = cluster.disks[&NodeId(2)].charter.clone().unwrap();
    let restore = |node, keepers: &[u32]| {
        let keepers: Vec<NodeId> = keepers.iter().copied().map(NodeId).collect();
        let now = Instant::START;
        Keeper::restore(now, NodeId(node), &keepers, charter.clone(), [], 1, SETTINGS).err()
    };
    assert_eq!(restore(2, &[1, 2, 3]), None);
    assert_eq!(restore(2, &[1, 3]), Some(Misfit::NoKeeper(NodeId(2))));
    assert_eq!(restore(2, &[2]), Some(Misfit::Number(3)));
    assert_eq!(restore(2, &[2, 1, 3]), Some(Misfit::Order(NodeId(2))));
}
