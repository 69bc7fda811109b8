//! Messages, and what keepers have on their disks, in the binary form of the message language.
//!
//! A question is one record for all kinds, whose number says which fields count; so is an answer.
//! A list with at most one element is a field that may be missing.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use nile_abi::NodeId;
use nile_bosml::records::{from_bytes, to_bytes};
use nile_bosml::{Error, records};
use nile_store::{Name, Version};

use crate::ballot::Ballot;
use crate::cell::Cell;
use crate::entry::{Entry, Facts, MOST_NODES, What};
use crate::message::{Answer, Ask, Durable, Reply, Request};
use crate::view::{Charter, Seat, View};

/// The most keepers that a message can name.
const MOST_KEEPERS: usize = 16;

records! {
    /// An attempt at a name.
    pub struct BallotRecord {
        /// The round.
        pub round: u64,
        /// The proposer's node.
        pub node: u32,
        /// The proposer's number.
        pub draw: u64,
    }

    /// A keeper.
    pub struct SeatRecord {
        /// Its identity.
        pub identity: u64,
        /// Whether it was there from the first.
        pub is_founder: bool,
    }

    /// What is told of a dataset.
    pub struct FactsRecord {
        /// Its bytes.
        pub bytes: u64,
        /// Its blocks.
        pub blocks: u32,
        /// On how many nodes each is.
        pub copies: u8,
        /// Nodes that hold it.
        pub nodes: Vec<u32>,
    }

    /// What a name stands for.
    pub struct EntryRecord {
        /// How many changes led here.
        pub stamp: u64,
        /// The last of them.
        pub change: u64,
        /// 0 nothing, 1 a dataset, 2 an output that is made, 3 an output.
        pub kind: u8,
        /// Of a dataset its epoch, of others the job.
        pub number: u64,
        /// Of a dataset its attempt, of an output how many parts it has.
        pub detail: u32,
        /// Of a dataset and of an output.
        pub facts: Vec<FactsRecord>,
    }

    /// What a keeper has of a name.
    pub struct CellRecord {
        /// The name.
        pub name: String,
        /// What was promised.
        pub promised: BallotRecord,
        /// Of which attempt an entry was accepted.
        pub accepted: BallotRecord,
        /// The entry.
        pub entry: EntryRecord,
    }

    /// To a keeper.
    pub struct AskRecord {
        /// Tells the answer from others.
        pub tag: u64,
        /// The view.
        pub view: Vec<SeatRecord>,
        /// 0 look, 1 promise, 2 accept, 3 page, 4 hello, 5 adopt, 6 begin.
        pub kind: u8,
        /// The name; of `page` the one before, if any.
        pub name: Vec<String>,
        /// Of `promise` and `accept`.
        pub ballot: Vec<BallotRecord>,
        /// Of `accept`.
        pub entry: Vec<EntryRecord>,
        /// Of `page` the most cells, of `hello`, `adopt` and `begin` the seat.
        pub number: u32,
        /// Of `adopt` and `begin`.
        pub identity: u64,
        /// Of `begin` the life before, and the life.
        pub lives: Vec<u64>,
    }

    /// From a keeper.
    pub struct AnswerRecord {
        /// The question's.
        pub tag: u64,
        /// The view.
        pub view: Vec<SeatRecord>,
        /// 0 looked, 1 promised, 2 accepted, 3 refused, 4 page, 5 standing, 6 begun, 7 behind.
        pub kind: u8,
        /// Of `promised` that of the entry, of `refused` what was promised.
        pub ballot: Vec<BallotRecord>,
        /// Of `promised`.
        pub entry: Vec<EntryRecord>,
        /// Of `page`; of `looked` one, whose name is empty.
        pub cells: Vec<CellRecord>,
        /// Of `page` whether it is the last; of `begun` and `behind` whether the keeper is in.
        pub is_last: bool,
        /// Of `standing`.
        pub identity: u64,
    }

    /// What a keeper keeps.
    pub struct DurableRecord {
        /// Of a charter the identity.
        pub identity: u64,
        /// Of a charter the view; empty if it is not in.
        pub view: Vec<SeatRecord>,
        /// A cell; none if it is a charter.
        pub cell: Vec<CellRecord>,
        /// Of a charter the life before, the life, and the lives of all keepers.
        pub lives: Vec<u64>,
    }

    /// What a keeper kept that knew of no lives.
    pub struct OldDurableRecord {
        /// Of a charter the identity.
        pub identity: u64,
        /// Of a charter the view; empty if it is not in.
        pub view: Vec<SeatRecord>,
        /// A cell; none if it is a charter.
        pub cell: Vec<CellRecord>,
    }
}

impl Ask {
    /// The binary form. Fails if it is longer than a message can be.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let text = |name: &Name| String::from(name.as_str());
        let mut record = AskRecord {
            tag: self.tag,
            view: from_view(&self.view),
            kind: 0,
            name: Vec::new(),
            ballot: Vec::new(),
            entry: Vec::new(),
            number: 0,
            identity: 0,
            lives: Vec::new(),
        };
        match &self.request {
            Request::Look(name) => record.name = vec![text(name)],
            Request::Promise(name, ballot) => {
                (record.kind, record.name) = (1, vec![text(name)]);
                record.ballot = vec![from_ballot(ballot)];
            }
            Request::Accept(name, ballot, entry) => {
                (record.kind, record.name) = (2, vec![text(name)]);
                (record.ballot, record.entry) =
                    (vec![from_ballot(ballot)], vec![from_entry(entry)]);
            }
            Request::Page { after, most } => {
                record.kind = 3;
                (record.name, record.number) = (after.iter().map(text).collect(), *most);
            }
            Request::Hello { seat } => (record.kind, record.number) = (4, *seat),
            Request::Adopt { seat, identity } => {
                (record.kind, record.number, record.identity) = (5, *seat, *identity);
            }
            Request::Begin { seat, identity, before, life } => {
                (record.kind, record.number, record.identity) = (6, *seat, *identity);
                record.lives = vec![*before, *life];
            }
        }
        to_bytes(&record)
    }

    /// Reads one. Fails where it is none.
    pub fn decode(bytes: &[u8]) -> Result<Ask, Error> {
        from_bytes(bytes, "question to a keeper of names", |it: AskRecord| {
            let names: Option<Vec<Name>> = it.name.iter().map(|name| Name::new(name)).collect();
            let name = names?.into_iter().next();
            let ballot = it.ballot.first().map(to_ballot);
            let request = match it.kind {
                0 => Request::Look(name?),
                1 => Request::Promise(name?, ballot?),
                2 => {
                    let entry = to_entry(it.entry.into_iter().next()?)?;
                    Request::Accept(name?, ballot?, entry)
                }
                3 => Request::Page { after: name, most: it.number },
                4 => Request::Hello { seat: it.number },
                5 => Request::Adopt { seat: it.number, identity: it.identity },
                6 => {
                    let (before, life) = (*it.lives.first()?, *it.lives.get(1)?);
                    Request::Begin { seat: it.number, identity: it.identity, before, life }
                }
                _ => return None,
            };
            Some(Ask { tag: it.tag, view: to_view(&it.view)?, request })
        })
    }
}

impl Answer {
    /// The binary form. Fails if it is longer than a message can be.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        let mut record = AnswerRecord {
            tag: self.tag,
            view: from_view(&self.view),
            kind: 0,
            ballot: Vec::new(),
            entry: Vec::new(),
            cells: Vec::new(),
            is_last: false,
            identity: 0,
        };
        match &self.reply {
            Reply::Looked(cell) => record.cells = vec![from_cell("", cell)],
            Reply::Promised(ballot, entry) => {
                record.kind = 1;
                (record.ballot, record.entry) =
                    (vec![from_ballot(ballot)], vec![from_entry(entry)]);
            }
            Reply::Accepted => record.kind = 2,
            Reply::Refused(ballot) => {
                (record.kind, record.ballot) = (3, vec![from_ballot(ballot)]);
            }
            Reply::Page { cells, is_last } => {
                let cells = cells.iter().map(|(name, cell)| from_cell(name.as_str(), cell));
                (record.kind, record.cells, record.is_last) = (4, cells.collect(), *is_last);
            }
            Reply::Standing { identity } => (record.kind, record.identity) = (5, *identity),
            Reply::Begun { is_in } => (record.kind, record.is_last) = (6, *is_in),
            Reply::Behind { is_in } => (record.kind, record.is_last) = (7, *is_in),
        }
        to_bytes(&record)
    }

    /// Reads one. Fails where it is none.
    pub fn decode(bytes: &[u8]) -> Result<Answer, Error> {
        from_bytes(bytes, "answer of a keeper of names", |it: AnswerRecord| {
            let ballot = it.ballot.first().map(to_ballot);
            let mut cells = it.cells.into_iter();
            let reply = match it.kind {
                0 => Reply::Looked(to_cell(cells.next()?)?.1),
                1 => Reply::Promised(ballot?, to_entry(it.entry.into_iter().next()?)?),
                2 => Reply::Accepted,
                3 => Reply::Refused(ballot?),
                4 => {
                    let cells = cells.map(|cell| {
                        let (name, cell) = to_cell(cell)?;
                        Some((Name::new(&name)?, cell))
                    });
                    Reply::Page { cells: cells.collect::<Option<_>>()?, is_last: it.is_last }
                }
                5 => Reply::Standing { identity: it.identity },
                6 => Reply::Begun { is_in: it.is_last },
                7 => Reply::Behind { is_in: it.is_last },
                _ => return None,
            };
            Some(Answer { tag: it.tag, view: to_view(&it.view)?, reply })
        })
    }
}

impl Durable {
    /// The binary form, of less than a kilobyte. Fails if it is longer than a message can be.
    pub fn encode(&self) -> Result<Vec<u8>, Error> {
        to_bytes(&match self {
            Durable::Charter(Charter { identity, view, before, life, lives }) => DurableRecord {
                identity: *identity,
                view: view.as_ref().map(from_view).unwrap_or_default(),
                cell: Vec::new(),
                lives: [*before, *life].iter().chain(lives).copied().collect(),
            },
            Durable::Cell(name, cell) => DurableRecord {
                identity: 0,
                view: Vec::new(),
                cell: vec![from_cell(name.as_str(), cell)],
                lives: Vec::new(),
            },
        })
    }

    /// Reads one. Fails where it is none.
    pub fn decode(bytes: &[u8]) -> Result<Durable, Error> {
        let what = "what a keeper of names keeps";
        let now = from_bytes(bytes, what, Durable::of);
        now.or_else(|error| {
            let old = |it: OldDurableRecord| {
                let OldDurableRecord { identity, view, cell } = it;
                Durable::of(DurableRecord { identity, view, cell, lives: Vec::new() })
            };
            from_bytes(bytes, what, old).map_err(|_| error)
        })
    }

    fn of(it: DurableRecord) -> Option<Durable> {
        let Some(cell) = it.cell.into_iter().next() else {
            let view = to_view(&it.view)?;
            let view = (!view.seats.is_empty()).then_some(view);
            let mut lives = it.lives.into_iter();
            let (before, life) = (lives.next().unwrap_or(0), lives.next().unwrap_or(0));
            let lives = lives.take(MOST_KEEPERS).collect();
            let identity = it.identity;
            return Some(Durable::Charter(Charter { identity, view, before, life, lives }));
        };
        let (name, cell) = to_cell(cell)?;
        Some(Durable::Cell(Name::new(&name)?, cell))
    }
}

fn from_ballot(ballot: &Ballot) -> BallotRecord {
    let Ballot { round, node, draw } = *ballot;
    BallotRecord { round, node: node.0, draw }
}

fn to_ballot(record: &BallotRecord) -> Ballot {
    let BallotRecord { round, node, draw } = *record;
    Ballot { round, node: NodeId(node), draw }
}

fn from_view(view: &View) -> Vec<SeatRecord> {
    let record = |seat: &Seat| {
        let Seat { identity, is_founder } = *seat;
        SeatRecord { identity, is_founder }
    };
    view.seats.iter().map(record).collect()
}

fn to_view(records: &[SeatRecord]) -> Option<View> {
    let seat = |record: &SeatRecord| {
        let SeatRecord { identity, is_founder } = *record;
        Seat { identity, is_founder }
    };
    let is_short = records.len() <= MOST_KEEPERS;
    is_short.then(|| View { seats: records.iter().map(seat).collect() })
}

fn from_cell(name: &str, cell: &Cell) -> CellRecord {
    CellRecord {
        name: name.into(),
        promised: from_ballot(&cell.promised),
        accepted: from_ballot(&cell.accepted),
        entry: from_entry(&cell.entry),
    }
}

fn to_cell(record: CellRecord) -> Option<(String, Cell)> {
    let (promised, accepted) = (to_ballot(&record.promised), to_ballot(&record.accepted));
    Some((record.name, Cell { promised, accepted, entry: to_entry(record.entry)? }))
}

fn from_entry(entry: &Entry) -> EntryRecord {
    let facts = |facts: &Facts| FactsRecord {
        bytes: facts.bytes,
        blocks: facts.blocks,
        copies: facts.copies,
        nodes: facts.nodes.iter().map(|node| node.0).collect(),
    };
    let (kind, number, detail, facts) = match &entry.what {
        What::Absent => (0, 0, 0, Vec::new()),
        What::Dataset(version, it) => (1, version.epoch.0, version.attempt.0, vec![facts(it)]),
        What::Making { job } => (2, *job, 0, Vec::new()),
        What::Output { job, parts, facts: it } => (3, *job, *parts, vec![facts(it)]),
    };
    EntryRecord { stamp: entry.stamp, change: entry.change, kind, number, detail, facts }
}

fn to_entry(record: EntryRecord) -> Option<Entry> {
    let facts = record.facts.into_iter().next().map(|it| Facts {
        bytes: it.bytes,
        blocks: it.blocks,
        copies: it.copies,
        nodes: it.nodes.into_iter().map(NodeId).collect(),
    });
    let is_short = |facts: &Facts| facts.nodes.len() <= MOST_NODES;
    let (number, detail) = (record.number, record.detail);
    let what = match record.kind {
        0 => What::Absent,
        1 => What::Dataset(Version::new(number, detail), facts.filter(is_short)?),
        2 => What::Making { job: number },
        3 => What::Output { job: number, parts: detail, facts: facts.filter(is_short)? },
        _ => return None,
    };
    Some(Entry { stamp: record.stamp, change: record.change, what })
}
