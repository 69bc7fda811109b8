//! How a keeper whose store is new gets *in*: with all others, as one of the founders; or in place
//! of a lost store, when the others have adopted it and have given it all that they have.

use alloc::vec;
use alloc::vec::Vec;

use nile_store::Name;

use crate::message::{Answer, Ask, NamedCell, Reply, Request};
use crate::random::Random;
use crate::view::View;

/// One that is not in.
#[derive(Debug)]
pub(crate) struct Joining {
    seat: usize,
    /// For each keeper what is asked of it and what it has said of itself.
    others: Vec<Other>,
    /// It is adopted: the view for which the others give it what they have.
    taking: Option<View>,
    pub random: Random,
}

#[derive(Clone, Debug)]
struct Other {
    /// What its next answer has to have.
    tag: u64,
    /// Its identity, and the view in which it is in.
    known: Option<(u64, Option<View>)>,
    /// Whether it has said so since it was asked last.
    is_there: bool,
    /// The name behind which it is to go on.
    after: Option<Name>,
    has_given_all: bool,
}

/// What comes of an answer.
pub(crate) enum Step {
    Nothing,
    Ask(Vec<(usize, Ask)>),
    /// Take over these, and ask on.
    Take(Vec<NamedCell>, Vec<(usize, Ask)>),
    /// Take over these, and be in.
    Enter(Vec<NamedCell>, View),
}

impl Joining {
    pub fn new(seat: usize, keepers: usize, mut random: Random) -> Joining {
        let other = || Other {
            tag: random.next(),
            known: None,
            is_there: false,
            after: None,
            has_given_all: false,
        };
        let others = core::iter::repeat_with(other).take(keepers).collect();
        Joining { seat, others, taking: None, random }
    }

    /// The first keeper was told that this one is not in, and may found the cluster on it: what
    /// others have said before, of a founding that may be lost by now, is not heard any more.
    pub fn has_said_that_it_is_fresh(&mut self) {
        for other in &mut self.others {
            other.tag = self.random.next();
        }
    }

    pub fn is_taking(&self) -> bool {
        self.taking.is_some()
    }

    /// The seats of those of whom it knows nothing.
    pub fn missing(&self) -> Vec<usize> {
        self.seats().filter(|seat| self.others[*seat].known.is_none()).collect()
    }

    /// If one is in, and has had another in this seat: those that are not in, either.
    pub fn lost(&self) -> Option<Vec<usize>> {
        let known = |seat: usize| self.others[seat].known.as_ref();
        let has_view = |seat: &usize| known(*seat).is_some_and(|(_, view)| view.is_some());
        let is_new = |seat: &usize| known(*seat).is_some_and(|(_, view)| view.is_none());
        let lost: Vec<usize> = self.seats().filter(is_new).collect();
        (self.seats().any(|seat| has_view(&seat)) && !lost.is_empty()).then_some(lost)
    }

    fn seats(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.seat;
        (0..self.others.len()).filter(move |seat| *seat != own)
    }

    /// What is asked of all others, again and again.
    pub fn ask(&mut self, identity: u64) -> Vec<(usize, Ask)> {
        if self.taking.is_some() {
            let rest = self.seats().filter(|seat| !self.others[*seat].has_given_all);
            return rest.map(|seat| (seat, self.page(seat))).collect();
        }
        // While the others believe in different keepers they have no majority. That is to be short:
        // nobody adopts this one while another is lost, or is not there.
        let are_there = self.seats().all(|seat| self.others[seat].is_there);
        let views: Vec<Option<&View>> = self.seats().map(|seat| self.view(seat)).collect();
        let base = views.first().copied().flatten();
        let can_adopt = are_there && views.iter().all(|view| self.is_alike(*view, base));
        let seat = self.seat as u32;
        let asks = self.seats().map(|other| {
            let view = self.view(other).filter(|it| can_adopt && !it.names(self.seat, identity));
            let request = match view {
                Some(_) => Request::Adopt { seat, identity },
                None => Request::Hello { seat },
            };
            let view = view.cloned().unwrap_or_default();
            (other, Ask { tag: self.others[other].tag, view, request })
        });
        let asks = asks.collect();
        self.others.iter_mut().for_each(|other| other.is_there = false);
        asks
    }

    /// What the one in that seat was in when it last said so.
    fn view(&self, seat: usize) -> Option<&View> {
        self.others[seat].known.as_ref()?.1.as_ref()
    }

    /// Whether two others believe in the same keepers but for this one.
    fn is_alike(&self, one: Option<&View>, other: Option<&View>) -> bool {
        let (Some(one), Some(other)) = (one, other) else { return false };
        let differ = |seat: usize| one.seats.get(seat) != other.seats.get(seat);
        one.seats.len() == other.seats.len() && !self.seats().any(differ)
    }

    fn page(&self, seat: usize) -> Ask {
        let Other { tag, after, .. } = &self.others[seat];
        let request = Request::Page { after: after.clone(), most: u32::MAX };
        Ask { tag: *tag, view: View::default(), request }
    }

    pub fn receive(&mut self, identity: u64, from: usize, answer: Answer) -> Step {
        let seats = answer.view.seats.len();
        let is_in = seats > 0;
        // One that believes in more or fewer keepers has another configuration.
        let is_strange = is_in && seats != self.others.len();
        if from == self.seat || self.others[from].tag != answer.tag || is_strange {
            return Step::Nothing;
        }
        self.others[from].tag = self.random.next();
        match (answer.reply, &self.taking) {
            (Reply::Page { cells, is_last }, Some(view)) if *view == answer.view => {
                let view = view.clone();
                self.take(view, from, cells, is_last)
            }
            (Reply::Standing { identity: other }, _) => {
                // If it was to give something: its view is another one by now.
                self.taking = None;
                self.others[from].is_there = true;
                self.others[from].known = Some((other, is_in.then_some(answer.view)));
                self.settle(identity)
            }
            (Reply::Page { .. }, _) => {
                self.taking = None;
                Step::Nothing
            }
            _ => Step::Nothing,
        }
    }

    fn take(&mut self, view: View, from: usize, cells: Vec<NamedCell>, is_last: bool) -> Step {
        let other = &mut self.others[from];
        other.has_given_all = is_last || cells.is_empty();
        other.after = cells.last().map(|it| it.name.clone());
        if self.seats().all(|seat| self.others[seat].has_given_all) {
            return Step::Enter(cells, view);
        }
        let asks = match self.others[from].has_given_all {
            true => Vec::new(),
            false => vec![(from, self.page(from))],
        };
        Step::Take(cells, asks)
    }

    /// Whether what is known is enough.
    fn settle(&mut self, identity: u64) -> Step {
        let named = |view: &&View| view.names(self.seat, identity);
        let founded = self.seats().filter_map(|seat| self.view(seat)).filter(named);
        if let Some(view) = founded.into_iter().find(|view| view.seats[self.seat].is_founder) {
            return Step::Enter(Vec::new(), view.clone());
        }
        let is_new = |seat: usize| matches!(self.others[seat].known, Some((_, None)));
        if self.seat == 0 && self.seats().all(is_new) {
            let known = self.others.iter().map(|it| it.known.as_ref().map_or(identity, |it| it.0));
            return Step::Enter(Vec::new(), View::founded(known));
        }
        let Some(view) = self.seats().next().and_then(|seat| self.view(seat)) else {
            return Step::Nothing;
        };
        let view = view.clone();
        let is_adopted = view.names(self.seat, identity);
        if !is_adopted || self.seats().any(|seat| self.view(seat) != Some(&view)) {
            return Step::Nothing;
        }
        for other in &mut self.others {
            (other.after, other.has_given_all) = (None, false);
        }
        self.taking = Some(view);
        Step::Ask(self.ask(identity))
    }
}
