//! All names in their order, as a majority of the keepers has them. Of each name that is what it
//! stood for at some time while it was asked for; names need not be of the same time.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use nile_abi::{Instant, NodeId};
use nile_order::SortedMap;
use nile_store::Name;

use crate::ballot::Ballot;
use crate::entry::{Entry, What};
use crate::message::{Answer, Ask, NamedCell, Reply, Request};
use crate::proposal::Lack;
use crate::random::Random;
use crate::settings::Settings;
use crate::view::{View, majority};

/// Names that are asked for at once.
const MOST: u32 = 1000;

/// What the scan's owner has to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Ask the keeper on this node; what it answers goes to [`Scan::receive`].
    Send(NodeId, Ask),
    /// The next names, in their order. Those without an entry are to be read by a
    /// [`Proposal`](crate::Proposal): keepers are not of one mind. Those that stand for nothing are
    /// left out.
    Names(Vec<(Name, Option<Entry>)>),
    /// There are no more names.
    Done,
    /// There was no majority in time. Some names are missing.
    Failed(Lack),
}

/// One walk through all names. Sans-IO, like [`Proposal`](crate::Proposal).
#[derive(Debug)]
pub struct Scan {
    keepers: Vec<NodeId>,
    settings: Settings,
    random: Random,
    /// The keepers that all pages that count believe in.
    view: View,
    /// All names up to this one are told.
    told: Option<Name>,
    pages: Vec<Page>,
    /// What still has to be told.
    most: usize,
    due: Instant,
    end: Instant,
    is_over: bool,
    actions: VecDeque<Action>,
}

/// What one keeper has said.
#[derive(Clone, Debug, Default)]
struct Page {
    tag: u64,
    is_heard: bool,
    is_fresh: bool,
    /// Its names behind those that are told.
    cells: SortedMap<Name, (Ballot, Entry)>,
    /// Up to where they are all there is.
    horizon: Horizon,
}

/// Up to where something is known.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
enum Horizon {
    #[default]
    Nowhere,
    Name(Name),
    End,
}

impl Scan {
    /// A scan that begins behind the name `after`, or else with the first, and ends early when
    /// `most` names were told. Its patience is that between pages. `seed` is drawn anew for each.
    pub fn new(
        now: Instant,
        keepers: &[NodeId],
        after: Option<Name>,
        most: usize,
        seed: u64,
        settings: Settings,
    ) -> Scan {
        let mut scan = Scan {
            keepers: keepers.to_vec(),
            settings,
            random: Random::new(seed),
            view: View::default(),
            told: after,
            pages: alloc::vec![Page::default(); keepers.len()],
            most,
            due: now,
            end: now,
            is_over: false,
            actions: VecDeque::new(),
        };
        scan.turn(now);
        scan
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When `tick` is to be called; none when it is over.
    pub fn next_due(&self) -> Option<Instant> {
        (!self.is_over).then(|| self.due.min(self.end))
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Instant) {
        if self.is_over {
            return;
        }
        if self.end <= now {
            let lack = self.lack();
            return self.finish(Action::Failed(lack));
        }
        if self.due <= now {
            self.ask(now);
        }
    }

    /// The answer of the keeper on node `from`.
    pub fn receive(&mut self, now: Instant, from: NodeId, answer: Answer) {
        let Some(from) = self.keepers.iter().position(|it| *it == from) else { return };
        let page = &mut self.pages[from];
        if self.is_over || page.tag != answer.tag || page.horizon != Horizon::Nowhere {
            return;
        }
        page.is_heard = true;
        page.is_fresh = answer.view.seats.is_empty();
        let Reply::Page { cells, is_last } = answer.reply else { return };
        page.horizon = match (is_last, cells.last()) {
            (false, Some(last)) => Horizon::Name(last.name.clone()),
            _ => Horizon::End,
        };
        let heard = cells.into_iter().filter(|it| it.cell.accepted != Ballot::NONE);
        let heard = heard.map(|NamedCell { name, cell }| (name, (cell.accepted, cell.entry)));
        page.cells = heard.collect();
        if answer.view != self.view {
            // Pages of different views say nothing together.
            self.view = answer.view;
            let others = self.pages.iter_mut().enumerate().filter(|(at, _)| *at != from);
            others.for_each(|(_, page)| page.forget());
        }
        self.tell(now);
    }

    /// Begins with the pages behind what is told.
    fn turn(&mut self, now: Instant) {
        for page in &mut self.pages {
            *page = Page { tag: self.random.next(), ..Page::default() };
        }
        self.end = now + self.settings.patience;
        self.ask(now);
    }

    /// Asks those who have not given a page.
    fn ask(&mut self, now: Instant) {
        self.due = now + self.settings.silence;
        for (keeper, page) in self.keepers.iter().zip(&self.pages) {
            if page.horizon == Horizon::Nowhere {
                let request = Request::Page { after: self.told.clone(), most: MOST };
                let ask = Ask { tag: page.tag, view: View::default(), request };
                self.actions.push_back(Action::Send(*keeper, ask));
            }
        }
    }

    /// Tells what a majority knows.
    fn tell(&mut self, now: Instant) {
        let needed = majority(self.keepers.len());
        let mut horizons: Vec<Horizon> = self.pages.iter().map(|it| it.horizon.clone()).collect();
        nile_order::sort_by(&mut horizons, |one, other| other.cmp(one));
        let horizon = horizons[needed - 1].clone();
        let told = match &horizon {
            Horizon::Nowhere => return,
            Horizon::Name(name) => Some(name.clone()),
            Horizon::End => None,
        };
        let mut votes: SortedMap<Name, Vec<(Ballot, Entry)>> = SortedMap::new();
        for page in self.pages.iter().filter(|page| page.horizon >= horizon) {
            for (name, cell) in &page.cells {
                if told.as_ref().is_none_or(|last| name <= last) {
                    votes.entry(name.clone()).or_default().push(cell.clone());
                }
            }
        }
        let agreed = |cells: &[(Ballot, Entry)]| {
            let count = |ballot| cells.iter().filter(|(it, _)| *it == ballot).count();
            let cell = cells.iter().find(|(ballot, _)| count(*ballot) >= needed);
            cell.map(|(_, entry)| entry.clone())
        };
        let names = votes.into_iter().map(|(name, cells)| (name, agreed(&cells)));
        let is_there = |entry: &Option<Entry>| match entry {
            Some(entry) => entry.what != What::Absent,
            None => true,
        };
        let mut names: Vec<_> = names.filter(|(_, entry)| is_there(entry)).collect();
        names.truncate(self.most);
        self.most -= names.len();
        if !names.is_empty() {
            self.actions.push_back(Action::Names(names));
        }
        match told.filter(|_| self.most > 0) {
            Some(name) => {
                self.told = Some(name);
                self.turn(now);
            }
            None => self.finish(Action::Done),
        }
    }

    fn lack(&self) -> Lack {
        let mut lack = Lack::default();
        for (keeper, page) in self.keepers.iter().zip(&self.pages) {
            let nodes = match (page.is_heard, page.is_fresh) {
                (true, true) => &mut lack.fresh,
                (true, false) => &mut lack.answered,
                (false, _) => &mut lack.missing,
            };
            nodes.push(*keeper);
        }
        lack
    }

    fn finish(&mut self, action: Action) {
        self.is_over = true;
        self.actions.push_back(action);
    }
}

impl Page {
    /// It has to be given again.
    fn forget(&mut self) {
        self.cells.clear();
        self.horizon = Horizon::Nowhere;
    }
}
