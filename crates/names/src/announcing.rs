//! How a keeper tells all others that it goes on, each time that it begins a *life*, so that an old
//! copy of its disk is known for what it is. A life has a number: in its upper half a count, which
//! rises by one with each, in its lower half one that is drawn. The others keep the last life that
//! they have heard of.
//!
//! A keeper that comes back is in when the first of the others has heard of its new life, and none
//! knows of one that its disk does not know: then the disk is *behind*. What it has promised since
//! is not on it, so it counts for nothing any more, and takes the place of a lost disk as soon as
//! all others are in. So does one whose seat another disk has got in the view of one of the others,
//! which may have died before the rest had heard of it.

use alloc::vec;
use alloc::vec::Vec;

use crate::message::{Answer, Ask, Reply, Request};
use crate::random::Random;
use crate::view::{Charter, View};

/// The most times that the pause between questions doubles, before the keeper is in and after.
const MOST_DOUBLED: [u32; 2] = [2, 8];

/// One that others have to hear of.
#[derive(Debug)]
pub(crate) struct Announcing {
    seat: usize,
    /// Whether the keeper is in.
    pub is_in: bool,
    /// Others know of a later life.
    pub is_behind: bool,
    /// How often it has asked.
    asked: u32,
    others: Vec<Other>,
    pub random: Random,
}

#[derive(Clone, Debug)]
struct Other {
    /// What its next answer has to have.
    tag: u64,
    has_heard: bool,
    /// Whether it was in when it answered last.
    is_in: bool,
    /// The view that it had in which this keeper's disk is not.
    excludes: Option<View>,
}

/// What comes of an answer.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum News {
    Nothing,
    /// The keeper is in.
    In,
    /// All others have heard of it.
    All,
    /// It is as good as lost, and all others are there to make up for it.
    Lost,
}

/// The life after this one.
pub(crate) fn next_life(life: u64, random: &mut Random) -> u64 {
    ((life >> 32) + 1) << 32 | random.next() >> 32
}

/// Whether one who knows of the life `known` lets that of `life` begin after `before`.
pub(crate) fn may_begin(known: u64, before: u64, life: u64) -> bool {
    [0, before, life].contains(&known) || known >> 32 < before >> 32
}

impl Announcing {
    pub fn new(seat: usize, keepers: usize, is_in: bool, mut random: Random) -> Announcing {
        let other = || Other { tag: random.next(), has_heard: false, is_in: false, excludes: None };
        let others = core::iter::repeat_with(other).take(keepers).collect();
        Announcing { seat, is_in, is_behind: false, asked: 0, others, random }
    }

    /// All others have heard of it.
    pub fn has_told_all(&mut self) {
        self.others.iter_mut().for_each(|other| other.has_heard = true);
    }

    /// Another one has come into this seat, which has heard of nothing.
    pub fn tell_anew(&mut self, seat: usize) {
        self.others[seat].has_heard = false;
        self.asked = 0;
    }

    fn seats(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.seat;
        (0..self.others.len()).filter(move |seat| *seat != own)
    }

    /// The seats of those on whom it waits: all who have not heard of it, or are not in.
    pub fn missing(&self) -> Vec<usize> {
        let is_missing = |seat: &usize| match self.is_behind {
            true => !self.others[*seat].is_in,
            false => !self.others[*seat].has_heard,
        };
        self.seats().filter(is_missing).collect()
    }

    /// How much longer than usual the pause before the next question is.
    pub fn patience(&self) -> u32 {
        1 << self.asked.min(MOST_DOUBLED[usize::from(self.is_in)])
    }

    /// What is asked of the others, again and again.
    pub fn ask(&mut self, charter: &Charter) -> Vec<(usize, Ask)> {
        self.asked += 1;
        let Charter { identity, before, life, .. } = *charter;
        let view = charter.view.clone().unwrap_or_default();
        let request = Request::Begin { seat: self.seat as u32, identity, before, life };
        let rest = self.seats().filter(|seat| self.is_behind || !self.others[*seat].has_heard);
        let ask = |seat: usize| Ask {
            tag: self.others[seat].tag,
            view: view.clone(),
            request: request.clone(),
        };
        rest.map(|seat| (seat, ask(seat))).collect()
    }

    pub fn receive(&mut self, identity: u64, from: usize, answer: Answer) -> News {
        if from == self.seat || self.others[from].tag != answer.tag {
            return News::Nothing;
        }
        self.others[from].tag = self.random.next();
        let other = &mut self.others[from];
        match answer.reply {
            Reply::Begun { is_in } => {
                (other.has_heard, other.is_in, other.excludes) = (true, is_in, None);
            }
            Reply::Behind { is_in } if answer.view.names(self.seat, identity) => {
                (other.is_in, other.excludes) = (is_in, None);
                (self.is_behind, self.is_in, self.asked) = (true, false, 0);
            }
            Reply::Behind { is_in } => {
                (other.is_in, other.excludes) = (is_in, Some(answer.view));
            }
            _ => {
                (other.is_in, other.excludes) = (false, None);
                return News::Nothing;
            }
        }
        let others = || self.seats().map(|seat| &self.others[seat]);
        let excludes = |other: &Other| other.excludes.is_some();
        let first = others().next().and_then(|other| other.excludes.as_ref());
        let is_out = others().all(|it| excludes(it) && it.excludes.as_ref() == first);
        let is_lost = self.is_behind || others().any(excludes);
        if is_out || is_lost && others().all(|it| it.is_in) {
            return News::Lost;
        }
        if self.is_behind {
            return News::Nothing;
        }
        let was_in = self.is_in;
        let have_heard = others().filter(|it| it.has_heard).count();
        let have_all = have_heard == others().count();
        self.is_in |= have_heard > 0;
        match (have_all, self.is_in && !was_in) {
            (true, _) => News::All,
            (false, true) => News::In,
            (false, false) => News::Nothing,
        }
    }
}

/// What one knows of the others' lives at first.
pub(crate) fn no_lives(keepers: usize) -> Vec<u64> {
    vec![0; keepers]
}
