//! Every message survives its way; any bytes are a message or an error.

use super::*;

fn samples() -> (Vec<Ask>, Vec<Answer>, Vec<Durable>) {
    let ballot = |round| Ballot { round, node: NodeId(2), draw: 3 };
    let seat = |identity, is_founder| Seat { identity, is_founder };
    let view = View { seats: [seat(5, true), seat(6, true), seat(7, false)].into() };
    let longest = name(&"n".repeat(128));
    let facts = Facts { bytes: 1, blocks: 2, copies: 3, nodes: [NodeId(4); MOST_NODES].into() };
    let whats = [
        What::Absent,
        dataset(9),
        What::Making { job: 8 },
        What::Output { job: 7, parts: 6, facts },
    ];
    let entries = whats.map(|what| Entry { stamp: u64::MAX, change: 11, what });
    let cell = |entry: &Entry| Cell {
        promised: ballot(u64::MAX),
        accepted: ballot(4),
        entry: entry.clone(),
    };
    let mut requests: Vec<Request> =
        entries.iter().map(|entry| accept(longest.clone(), ballot(1), entry.clone())).collect();
    requests.extend([
        Request::Look(name("x")),
        Request::Promise { name: name("x"), ballot: ballot(2) },
        Request::Page { after: None, most: 3 },
        Request::Page { after: Some(name("x")), most: 3 },
        Request::Hello { seat: 2 },
        Request::Adopt { seat: 1, identity: 99 },
        Request::Begin { seat: 2, identity: 3, before: 4, life: 5 },
    ]);
    let mut replies: Vec<Reply> = entries.iter().map(|it| Reply::Looked(cell(it))).collect();
    let named = |entry| NamedCell { name: longest.clone(), cell: cell(entry) };
    let cells: Vec<NamedCell> = entries.iter().map(named).collect();
    replies.extend([
        Reply::Promised { accepted: Ballot::NONE, entry: Entry::NEVER },
        Reply::Accepted,
        Reply::Refused(ballot(3)),
        Reply::Page { cells: cells.clone(), is_last: true },
        Reply::Page { cells: [].into(), is_last: false },
        Reply::Standing { identity: 12 },
        Reply::Begun { is_in: true },
        Reply::Behind { is_in: false },
    ]);
    let ask = |request| Ask { tag: 13, view: view.clone(), request };
    let answer = |reply| Answer { tag: 14, view: view.clone(), reply };
    let mut durables: Vec<Durable> = cells.into_iter().map(Durable::Cell).collect();
    let views = [None, Some(view.clone())];
    durables.extend(views.map(|view| {
        Durable::Charter(Charter { identity: 15, view, before: 3, life: 4, lives: [5, 6].into() })
    }));
    (requests.into_iter().map(ask).collect(), replies.into_iter().map(answer).collect(), durables)
}

fn accept(name: Name, ballot: Ballot, entry: Entry) -> Request {
    Request::Accept { name, ballot, entry }
}

#[test]
fn every_message_survives_its_way() {
    let (asks, answers, durables) = samples();
    for ask in asks {
        assert_eq!(Ask::decode(&ask.encode().unwrap()), Ok(ask));
    }
    for answer in answers {
        assert_eq!(Answer::decode(&answer.encode().unwrap()), Ok(answer));
    }
    for durable in durables {
        let bytes = durable.encode().unwrap();
        assert!(bytes.len() < 700, "{} bytes", bytes.len());
        assert_eq!(Durable::decode(&bytes), Ok(durable));
    }
}

#[test]
fn what_is_too_long_is_an_error() {
    let facts = Facts { bytes: 1, blocks: 1, copies: 1, nodes: [NodeId(1); 17].into() };
    let entry =
        Entry { stamp: 1, change: 2, what: What::Dataset { version: Version::new(1, 1), facts } };
    let request = accept(name("x"), Ballot::NONE, entry);
    let ask = Ask { tag: 1, view: View::default(), request };
    assert!(Ask::decode(&ask.encode().unwrap()).is_err());
    let seats = alloc::vec![Seat { identity: 1, is_founder: true }; 17];
    let ask = Ask { tag: 1, view: View { seats }, request: Request::Hello { seat: 1 } };
    assert!(Ask::decode(&ask.encode().unwrap()).is_err());
}

#[test]
fn the_longest_page_is_a_message() {
    let mut cluster = Cluster::founded(1);
    let facts = Facts { bytes: 1, blocks: 1, copies: 1, nodes: [NodeId(1); MOST_NODES].into() };
    let what = What::Dataset { version: Version::new(1, 1), facts };
    for at in 0..300 {
        let longest = name(&std::format!("{at:0128}"));
        cluster.run(&longest, change(at + 1, Expect::Absent, what.clone()));
    }
    let request = Request::Page { after: None, most: u32::MAX };
    let ask = Ask { tag: 1, view: View::default(), request };
    let answer = cluster.ask(NodeId(1), &ask).unwrap();
    let bytes = answer.encode().unwrap().len();
    assert!((20_000..32_000).contains(&bytes), "{bytes} bytes");
}

#[test]
fn what_another_version_wrote_is_called_that() {
    let (_, _, durables) = samples();
    let mut bytes = durables[0].encode().unwrap();
    bytes[0] ^= 1;
    let told = std::format!("{}", Durable::decode(&bytes).unwrap_err());
    assert!(told.contains("another version"), "{told}");
}
