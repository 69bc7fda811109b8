//! Changes of one name: made, refused, repeated, in each other's way, without a majority.

use super::*;

fn done(stamp: u64, change: u64, what: What) -> Outcome {
    Outcome::Done(Entry { stamp, change, what })
}

#[test]
fn a_name_has_one_history() {
    for keepers in [1, 3] {
        let mut cluster = Cluster::founded(keepers);
        let x = name("x");
        assert_eq!(cluster.read(&x), Entry::NEVER);
        let put = |id| change(id, Expect::Absent, dataset(id));
        assert_eq!(cluster.run(&x, put(11)), done(1, 11, dataset(11)));
        let first = Entry { stamp: 1, change: 11, what: dataset(11) };
        assert_eq!(cluster.run(&x, put(12)), Outcome::Refused(first.clone()));
        // What was done is done, if it is asked for again.
        assert_eq!(cluster.run(&x, put(11)), Outcome::Done(first.clone()));
        let replace = |id, stamp| change(id, Expect::Stamp(stamp), dataset(id));
        assert_eq!(cluster.run(&x, replace(13, 1)), done(2, 13, dataset(13)));
        let second = Entry { stamp: 2, change: 13, what: dataset(13) };
        assert_eq!(cluster.run(&x, replace(14, 1)), Outcome::Refused(second));
        let remove = change(15, Expect::Any, What::Absent);
        assert_eq!(cluster.run(&x, remove), done(3, 15, What::Absent));
        assert_eq!(cluster.run(&x, put(16)), done(4, 16, dataset(16)));
        assert_eq!(cluster.read(&name("y")), Entry::NEVER);
    }
}

#[test]
fn an_output_is_published_by_the_job_that_makes_it() {
    let mut cluster = Cluster::founded(3);
    let x = name("out");
    let facts = Facts { bytes: 9, blocks: 3, copies: 1, nodes: [].into() };
    let output = |job| What::Output { job, parts: 3, facts: facts.clone() };
    let begin = |id, job| change(id, Expect::Absent, What::Making { job });
    assert_eq!(cluster.run(&x, begin(1, 70)), done(1, 1, What::Making { job: 70 }));
    assert!(matches!(cluster.run(&x, begin(2, 71)), Outcome::Refused(_)));
    let publish = |id, job| change(id, Expect::Making(job), output(job));
    assert!(matches!(cluster.run(&x, publish(3, 71)), Outcome::Refused(_)));
    assert_eq!(cluster.run(&x, publish(4, 70)), done(2, 4, output(70)));
}

#[test]
fn one_keeper_may_be_away_and_two_may_not() {
    let mut cluster = Cluster::founded(3);
    let x = name("x");
    cluster.stop(1);
    let put = |id| change(id, Expect::Any, dataset(id));
    assert_eq!(cluster.run(&x, put(1)), done(1, 1, dataset(1)));
    cluster.stop(3);
    let missing = [NodeId(1), NodeId(3)].into();
    let lack = Lack { answered: [NodeId(2)].into(), fresh: [].into(), missing };
    assert_eq!(cluster.run(&x, put(2)), Outcome::NoMajority(lack));
    // Who was away learns what was done, from a read, too.
    cluster.start(1);
    assert_eq!(cluster.read(&x), Entry { stamp: 1, change: 1, what: dataset(1) });
    cluster.stop(2);
    cluster.start(3);
    assert_eq!(cluster.read(&x), Entry { stamp: 1, change: 1, what: dataset(1) });
}

/// Answers what a proposal asks until it asks for this, and gives back what that is.
fn up_to(
    cluster: &mut Cluster,
    proposal: &mut Proposal,
    is_meant: impl Fn(&Request) -> bool,
) -> Vec<(NodeId, Ask)> {
    let mut asked = Vec::new();
    while let Some(proposal::Action::Send(node, ask)) = proposal.poll() {
        if is_meant(&ask.request) {
            asked.push((node, ask));
        } else if let Some(answer) = cluster.ask(node, &ask) {
            proposal.receive(cluster.now, node, answer);
        }
    }
    asked
}

#[test]
fn what_a_minority_has_accepted_is_done_by_whoever_comes_next() {
    let mut cluster = Cluster::founded(3);
    let x = name("x");
    let mut dead = cluster.propose(&x, change(1, Expect::Absent, dataset(1)));
    let asks = up_to(&mut cluster, &mut dead, |ask| matches!(ask, Request::Accept { .. }));
    assert_eq!(asks.len(), 3);
    cluster.ask(asks[0].0, &asks[0].1);
    // The keeper that has accepted it is one of the majority.
    cluster.stop(3);
    let put = change(2, Expect::Absent, dataset(2));
    let first = Entry { stamp: 1, change: 1, what: dataset(1) };
    assert_eq!(cluster.run(&x, put), Outcome::Refused(first.clone()));
    cluster.start(3);
    cluster.stop(1);
    assert_eq!(cluster.read(&x), first);
}

#[test]
fn of_two_that_are_in_each_others_way_one_wins_and_the_other_is_told() {
    let mut cluster = Cluster::founded(3);
    let x = name("x");
    let mut slow = cluster.propose(&x, change(1, Expect::Absent, dataset(1)));
    let asks = up_to(&mut cluster, &mut slow, |ask| matches!(ask, Request::Accept { .. }));
    let quick = cluster.run(&x, change(2, Expect::Absent, dataset(2)));
    let entry = Entry { stamp: 1, change: 2, what: dataset(2) };
    assert_eq!(quick, Outcome::Done(entry.clone()));
    for (node, ask) in asks {
        let answer = cluster.ask(node, &ask).unwrap();
        assert!(matches!(answer.reply, Reply::Refused(_)), "{answer:?}");
        slow.receive(cluster.now, node, answer);
    }
    assert_eq!(cluster.drive(&mut slow), Outcome::Refused(entry));
}

#[test]
fn a_change_that_may_have_been_overwritten_is_not_made_twice() {
    let mut cluster = Cluster::founded(3);
    let x = name("x");
    let mut slow = cluster.propose(&x, change(1, Expect::Any, dataset(1)));
    let asks = up_to(&mut cluster, &mut slow, |ask| matches!(ask, Request::Accept { .. }));
    // Most accept it, and their answers are lost.
    asks[..2].iter().for_each(|(node, ask)| drop(cluster.ask(*node, ask)));
    let next = cluster.run(&x, change(2, Expect::Any, dataset(2)));
    assert_eq!(next, done(2, 2, dataset(2)));
    assert!(matches!(cluster.drive(&mut slow), Outcome::Unknown(_)));
    assert_eq!(cluster.read(&x).stamp, 2);
}

#[test]
fn a_change_whose_keepers_go_away_is_not_known() {
    let mut cluster = Cluster::founded(3);
    let mut lost = cluster.propose(&name("x"), change(1, Expect::Any, dataset(1)));
    up_to(&mut cluster, &mut lost, |ask| matches!(ask, Request::Accept { .. }));
    (1..=3).for_each(|node| cluster.stop(node));
    let missing = [NodeId(1), NodeId(2), NodeId(3)].into();
    let lack = Lack { missing, ..Lack::default() };
    assert_eq!(cluster.drive(&mut lost), Outcome::Unknown(lack));
}

/// The entry that it goes by may itself be one that only a minority has accepted.
#[test]
fn what_is_refused_is_not_made_later() {
    let mut cluster = Cluster::founded(3);
    let x = name("x");
    cluster.run(&x, change(1, Expect::Absent, dataset(1)));
    // One keeper accepts that it is removed, and then that it is put again.
    let accepts = |ask: &Request| matches!(ask, Request::Accept { .. });
    let mut remove = cluster.propose(&x, change(2, Expect::Any, What::Absent));
    let asks = up_to(&mut cluster, &mut remove, accepts);
    cluster.ask(asks[0].0, &asks[0].1);
    cluster.stop(3);
    let mut put = cluster.propose(&x, change(3, Expect::Absent, dataset(3)));
    let asks = up_to(&mut cluster, &mut put, accepts);
    cluster.ask(asks[0].0, &asks[0].1);
    // The others have not heard of either, and promise not to.
    cluster.start(3);
    cluster.pass(10);
    cluster.stop(1);
    let mut dead = cluster.propose(&x, change(4, Expect::Any, dataset(4)));
    up_to(&mut cluster, &mut dead, accepts);
    let first = Entry { stamp: 1, change: 1, what: dataset(1) };
    assert_eq!(cluster.drive(&mut put), Outcome::Refused(first.clone()));
    cluster.start(1);
    cluster.stop(2);
    assert_eq!(cluster.read(&x), first);
}

/// Of three keepers one has promised it, one somebody else, and one is silent: no more answers will
/// come to this ballot.
#[test]
fn a_ballot_that_cannot_win_is_followed_by_another() {
    let mut cluster = Cluster::founded(3);
    cluster.stop(3);
    let name = name("a");
    let mut own = cluster.propose(&name, change(1, Expect::Any, dataset(1)));
    let seed = cluster.draw();
    let task = change(2, Expect::Any, dataset(2));
    // Of two ballots of a round that of the higher node is the higher one.
    let node = NodeId(10);
    let mut other = Proposal::new(cluster.now, node, &cluster.nodes, name, task, seed, SETTINGS);
    for proposal in [&mut own, &mut other] {
        for node in 1..=3 {
            let Some(proposal::Action::Send(to, ask)) = proposal.poll() else { panic!("{node}") };
            if let Some(answer) = cluster.ask(to, &ask) {
                proposal.receive(cluster.now, to, answer);
            }
        }
    }
    while let Some(proposal::Action::Send(to, ask)) = other.poll() {
        if to == NodeId(2) {
            cluster.ask(to, &ask).expect("it is there");
        }
    }
    assert_eq!(cluster.drive(&mut own), done(1, 1, dataset(1)));
}
