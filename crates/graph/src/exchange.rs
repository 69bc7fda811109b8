//! What a part of a divided graph knows of the others, and the letters between them. A letter of
//! each to each comes once and in order, as long as none of them is opened anew; then all begin
//! again with their first.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use crate::bytes::Read;
use crate::edges::Vertex;
use crate::graph::Publication;
use crate::letter::{Kind, Letter, MOST_ITEMS, Received, Summary};
use crate::part::Part;

/// No share has been told.
const UNTOLD: u64 = u64::MAX;

/// Where a part is in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The round is over.
    Rests,
    /// It has told its counts, and waits for those of others.
    Counts,
    /// It has told its shares, and waits for those of others.
    Shares,
    /// It sweeps.
    Sweeps,
}

/// What is between a vertex and another part.
#[derive(Clone, Copy)]
struct Tie {
    /// How many edges lead there.
    count: u32,
    /// The share that was told last.
    told: u64,
}

/// Another part.
struct Other {
    /// Letters to it, each with a number that no other of this part has.
    outbox: VecDeque<(u64, Vec<u8>)>,
    written: u64,
    /// The last one that came there, if it is of this round.
    last: Option<Vec<u8>>,
    inbox: VecDeque<Letter>,
    come: u64,
    /// By own vertices.
    ties: Vec<Tie>,
    /// What it has said of itself in this round, and whether all its shares have come.
    summary: Option<Summary>,
    has_shared: bool,
}

impl Other {
    fn new() -> Other {
        Other {
            outbox: VecDeque::new(),
            written: 0,
            last: None,
            inbox: VecDeque::new(),
            come: 0,
            ties: Vec::new(),
            summary: None,
            has_shared: false,
        }
    }
}

/// The exchange of a part with the others.
pub struct Exchange {
    part: Part,
    graph: u64,
    /// How often each part was opened, as far as is known: it only grows. Who hears of more begins
    /// anew with all others.
    lives: Vec<u64>,
    pub round: u64,
    pub phase: Phase,
    others: Vec<Other>,
    posted: u64,
    /// How many letters had come when this part was [reminded](Exchange::remind) last, and whether
    /// it was waiting for more.
    reminded: (u64, bool),
    /// What this part says of itself next.
    pub own: Summary,
    /// Who looks at all parts, so that no round may begin.
    pub lookers: u32,
    /// The publication of all parts together.
    pub whole: Publication,
}

impl Exchange {
    /// That of a part which is opened the `life`th time.
    pub fn new(part: Part, graph: u64, life: u64) -> Exchange {
        let mut lives = vec![0; part.of as usize];
        lives[part.number as usize] = life;
        Exchange {
            part,
            graph,
            lives,
            round: 0,
            phase: Phase::Rests,
            others: (0..part.of).map(|_| Other::new()).collect(),
            posted: 0,
            reminded: (0, false),
            own: Summary::default(),
            lookers: 0,
            whole: Publication::default(),
        }
    }

    /// How often this part has been opened.
    fn life(&self) -> u64 {
        self.lives[self.part.number as usize]
    }

    fn numbers(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.part.number as usize;
        (0..self.part.of as usize).filter(move |it| *it != own)
    }

    /// A letter has come: what it tells, and whether all begin anew, since parts were opened anew.
    /// Fails if the bytes are none.
    pub fn receive(&mut self, bytes: &[u8]) -> Read<(Received, bool)> {
        let letter = Letter::decode(self.part, bytes)?;
        if letter.graph != self.graph {
            // Nobody waits for it.
            return Ok((Received::Taken { writer: 0 }, false));
        }
        if letter.lives[self.part.number as usize] > self.life() {
            return Ok((Received::Superseded, false));
        }
        let latest = self.lives.iter().zip(&letter.lives).map(|(own, its)| *own.max(its));
        let latest: Vec<u64> = latest.collect();
        let is_new = latest != self.lives;
        if is_new {
            self.begin_anew(latest);
        }
        // One that is of before is not wanted any more; its writer is told of the news.
        let writer = self.lives[letter.from as usize];
        let other = &mut self.others[letter.from as usize];
        if letter.lives == self.lives && letter.number == other.come {
            other.come += 1;
            other.inbox.push_back(letter);
        }
        Ok((Received::Taken { writer }, is_new))
    }

    fn begin_anew(&mut self, lives: Vec<u64>) {
        self.lives = lives;
        (self.round, self.phase) = (0, Phase::Rests);
        (self.own.has_swept, self.own.is_new) = (false, true);
        self.others.iter_mut().for_each(|it| *it = Other::new());
    }

    /// The next letter to a part, and its number. It stays until it is [sent](Exchange::sent).
    pub fn letter(&self, to: u32) -> Option<(u64, &[u8])> {
        let (number, bytes) = self.others.get(to as usize)?.outbox.front()?;
        Some((*number, bytes))
    }

    /// The letter of this number has come to its part.
    pub fn sent(&mut self, to: u32, number: u64) {
        let outbox = &mut self.others[to as usize].outbox;
        if outbox.front().is_some_and(|it| it.0 == number) {
            let last = outbox.pop_front().map(|it| it.1);
            self.others[to as usize].last = last;
        }
    }

    /// Some time has passed. If nothing has come meanwhile that this part waits for, others may not
    /// know of it: the letter that came last to each may have come to one that had lost its part,
    /// or was about to end. It is sent again, and who has the part learns by it what is new.
    pub fn remind(&mut self) {
        let come =
            self.others.iter().map(|it| it.come).sum::<u64>() + self.lives.iter().sum::<u64>();
        let waits = matches!(self.phase, Phase::Counts | Phase::Shares);
        if self.reminded == (come, true) && waits {
            for other in &mut self.others {
                let last = other.last.clone().filter(|_| other.outbox.is_empty());
                other.outbox.extend(last.map(|it| (self.posted, it)));
                self.posted += 1;
            }
        }
        self.reminded = (come, waits);
    }

    /// Tells another part all of this.
    fn tell(&mut self, to: usize, kind: Kind, items: &[(u64, u64)]) {
        let mut rest = items;
        loop {
            let (these, behind) = rest.split_at(rest.len().min(MOST_ITEMS));
            let end = behind.is_empty().then_some(self.own);
            let letter = Letter {
                graph: self.graph,
                lives: self.lives.clone(),
                from: self.part.number,
                number: self.others[to].written,
                round: self.round,
                kind,
                items: these.to_vec(),
                end,
            };
            self.others[to].written += 1;
            self.others[to].outbox.push_back((self.posted, letter.encode()));
            self.posted += 1;
            rest = behind;
            if end.is_some() {
                return;
            }
        }
    }

    /// Begins a round: tells each part how many edges come from its vertices.
    pub fn tell_counts(&mut self, mut counts: Vec<Vec<(u64, u64)>>) {
        self.round += 1;
        self.phase = Phase::Counts;
        for to in self.numbers() {
            (self.others[to].summary, self.others[to].has_shared) = (None, false);
            self.tell(to, Kind::Counts, &core::mem::take(&mut counts[to]));
        }
    }

    /// Whether somebody has begun the next round.
    pub fn is_called(&self) -> bool {
        self.numbers().any(|it| self.others[it].inbox.front().is_some())
    }

    /// What has come that is of this round and phase: the part it is of, and what it tells.
    pub fn take(&mut self) -> Option<(u32, Vec<(u64, u64)>)> {
        let kind = match self.phase {
            Phase::Counts => Kind::Counts,
            Phase::Shares => Kind::Shares,
            Phase::Rests | Phase::Sweeps => return None,
        };
        for number in self.numbers() {
            let (round, other) = (self.round, &mut self.others[number]);
            let letter = other.inbox.pop_front_if(|it| it.round == round && it.kind == kind);
            let Some(letter) = letter else { continue };
            match kind {
                Kind::Counts => other.summary = letter.end,
                Kind::Shares => other.has_shared = letter.end.is_some(),
            }
            return Some((letter.from, letter.items));
        }
        None
    }

    /// Whether all counts of this round have come, or all shares.
    pub fn has_all(&self) -> bool {
        self.numbers().all(|it| match self.phase {
            Phase::Counts => self.others[it].summary.is_some(),
            _ => self.others[it].has_shared,
        })
    }

    /// What all parts have said of themselves in this round.
    pub fn summaries(&self) -> impl Iterator<Item = Summary> {
        let others = self.numbers().filter_map(|it| self.others[it].summary);
        others.chain([self.own])
    }

    /// So many edges lead from an own vertex to a part; how many did before. Its share is told.
    pub fn tie(&mut self, to: u32, vertex: Vertex, count: u32) -> u32 {
        let (ties, at) = (&mut self.others[to as usize].ties, vertex as usize);
        let none = Tie { count: 0, told: UNTOLD };
        if ties.len() <= at {
            ties.resize(at + 1, none);
        }
        core::mem::replace(&mut ties[at], Tie { count, told: UNTOLD }).count
    }

    /// Tells each part the shares of the vertices from which edges lead to it, where they are
    /// others than were told last.
    pub fn tell_shares(&mut self, share: impl Fn(Vertex) -> (u64, u64)) {
        self.phase = Phase::Shares;
        for to in self.numbers() {
            let mut items = Vec::new();
            for (tie, vertex) in self.others[to].ties.iter_mut().zip(0..) {
                if tie.count == 0 {
                    continue;
                }
                let (name, share) = share(vertex);
                if tie.told != share {
                    tie.told = share;
                    items.push((name, share));
                }
            }
            self.tell(to, Kind::Shares, &items);
        }
    }
}
