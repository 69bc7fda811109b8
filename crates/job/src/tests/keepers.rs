//! Keepers of a record: whoever ends the job, it ends once.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{Instant, NodeId};

use super::bench::{job, splits};
use crate::keeper::Action;
use crate::{
    Answer, Ask, End, Epoch, Job, JobError, Keeper, Record, Settings, Standing, ToKeeper, Verdict,
    Word,
};

/// Three keepers, each with what is durable, and what they want of their engine.
struct Three {
    now: Instant,
    keepers: [Option<Keeper>; 3],
    disks: [Record; 3],
    said: VecDeque<(NodeId, ToKeeper)>,
    appointed: Vec<(usize, Epoch)>,
    verdicts: Vec<(Epoch, Verdict)>,
}

impl Three {
    fn new() -> Three {
        let job = Job { keepers: vec![NodeId(1), NodeId(2), NodeId(3)], ..job(1) };
        let record = Record::new(job, splits(2, 3, 1));
        let now = Instant::from_nanos(1);
        let keeper = |node| Keeper::found(now, NodeId(node), record.clone(), Settings::default());
        let mut three = Three {
            now,
            keepers: [1, 2, 3].map(keeper),
            disks: [(); 3].map(|()| record.clone()),
            said: VecDeque::new(),
            appointed: Vec::new(),
            verdicts: Vec::new(),
        };
        three.pump();
        three
    }

    fn pump(&mut self) {
        for (place, keeper) in self.keepers.iter_mut().enumerate() {
            let Some(keeper) = keeper else { continue };
            while let Some(action) = keeper.poll() {
                match action {
                    Action::Store => self.disks[place] = keeper.record().clone(),
                    Action::Send(to, message) => self.said.push_back((to, message)),
                    Action::Appoint(epoch) => self.appointed.push((place, epoch)),
                    Action::Verdict(epoch, verdict) => self.verdicts.push((epoch, verdict)),
                    Action::Forget => panic!("{place} forgets"),
                }
            }
        }
    }

    /// Delivers what was said, but to keepers that are away.
    fn settle(&mut self) {
        self.pump();
        while let Some((to, message)) = self.said.pop_front() {
            let bytes = message.encode().unwrap();
            if let Some(keeper) = &mut self.keepers[to.0 as usize - 1] {
                keeper.receive(self.now, ToKeeper::decode(&bytes).unwrap());
            }
            self.pump();
        }
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            let dues = self.keepers.iter().flatten().filter_map(Keeper::next_due);
            let Some(due) = dues.min().filter(|due| *due <= end) else { break };
            self.now = self.now.max(due);
            self.keepers.iter_mut().flatten().for_each(|keeper| keeper.act(self.now));
        }
        self.now = end;
    }

    fn decide(&mut self, place: usize, epoch: Epoch, end: &End) {
        self.keepers[place].as_mut().unwrap().decide(self.now, epoch, end.clone());
    }

    fn restart(&mut self, place: usize) {
        let (node, record) = (NodeId(place as u32 + 1), self.disks[place].clone());
        self.keepers[place] = Keeper::restore(self.now, node, record, Settings::default());
    }
}

const CANCELLED: End = End::Failed(JobError::Cancelled);
const FAILED: End = End::Failed(JobError::NoWorkers);

#[test]
fn the_first_keeper_runs_the_master_and_ends_the_job() {
    let mut three = Three::new();
    three.wait(Duration::from_secs(60));
    assert_eq!(three.appointed, [(0, Epoch::FIRST)]);
    three.decide(0, Epoch::FIRST, &CANCELLED);
    three.settle();
    assert_eq!(three.verdicts, [(Epoch::FIRST, Verdict::Ended(CANCELLED))]);
    assert!(three.disks.iter().all(|disk| disk.standing() == Standing::Ended(CANCELLED)));
    // A repetition has the same answer.
    three.decide(0, Epoch::FIRST, &FAILED);
    three.settle();
    assert_eq!(three.verdicts[1], (Epoch::FIRST, Verdict::Ended(CANCELLED)));
}

#[test]
fn the_next_keeper_takes_over_and_the_former_master_ends_nothing() {
    let mut three = Three::new();
    let former = three.keepers[0].take();
    three.wait(Duration::from_secs(10));
    let second = Epoch::FIRST.after(1);
    assert_eq!(three.appointed, [(0, Epoch::FIRST), (1, second)]);
    assert_eq!(second.rank(), 1);
    // It was only slow.
    three.keepers[0] = former;
    three.decide(0, Epoch::FIRST, &CANCELLED);
    three.settle();
    assert_eq!(three.verdicts, [(Epoch::FIRST, Verdict::Superseded(second))]);
    three.decide(1, second, &FAILED);
    three.settle();
    assert_eq!(three.verdicts[1], (second, Verdict::Ended(FAILED)));
    assert!(three.disks.iter().all(|disk| disk.end() == Some(&FAILED)));
}

#[test]
fn an_end_that_one_keeper_may_have_accepted_is_the_end() {
    let mut three = Three::new();
    // Only the second keeper hears of the end; the first dies and never comes back.
    three.decide(0, Epoch::FIRST, &CANCELLED);
    three.pump();
    three.said.retain(|(to, _)| *to == NodeId(2));
    let first = three.keepers[0].take();
    three.settle();
    drop(first);
    three.restart(1);
    three.wait(Duration::from_secs(10));
    assert_eq!(three.appointed, [(0, Epoch::FIRST)], "nobody has to do the job again");
    assert!(three.disks[1..].iter().all(|disk| disk.end() == Some(&CANCELLED)));
}

#[test]
fn an_end_that_a_later_master_has_not_heard_of_is_void() {
    let mut three = Three::new();
    // Nobody but the first keeper itself accepts the end; then it is away.
    three.decide(0, Epoch::FIRST, &CANCELLED);
    three.pump();
    three.said.clear();
    three.keepers[0] = None;
    three.wait(Duration::from_secs(10));
    assert_eq!(three.appointed[1..], [(1, Epoch::FIRST.after(1))]);
    // That master, who may have dropped what the end needs, dies in turn.
    three.keepers[1] = None;
    three.restart(0);
    three.wait(Duration::from_secs(10));
    assert_eq!(three.appointed.len(), 3, "{:?}", three.appointed);
    assert!(three.disks.iter().all(|disk| disk.end().is_none()));
}

#[test]
fn an_answer_to_something_else_is_no_vote_for_an_end() {
    let mut three = Three::new();
    let keeper = three.keepers[0].as_mut().unwrap();
    keeper.decide(three.now, Epoch::FIRST, CANCELLED);
    while keeper.poll().is_some() {}
    for answer in [Answer::Follows, Answer::Promised { epoch: Epoch::FIRST, end: None }] {
        let (job, from, word) = (crate::JobId(7), NodeId(2), Word::Answer(answer));
        keeper.receive(three.now, ToKeeper { job, from, epoch: Epoch::FIRST, word });
        assert_eq!((keeper.poll(), keeper.record().end()), (None, None));
    }
}

#[test]
fn one_keeper_alone_ends_nothing_and_a_majority_of_strangers_ends_it() {
    let mut three = Three::new();
    (three.keepers[1], three.keepers[2]) = (None, None);
    three.decide(0, Epoch::FIRST, &CANCELLED);
    three.wait(Duration::from_secs(60));
    assert_eq!(three.verdicts, []);
    let ask = ToKeeper {
        job: three.disks[0].job.id,
        from: NodeId(1),
        epoch: Epoch::FIRST,
        word: Word::Ask(Ask::Promise(Epoch::FIRST)),
    };
    let keeper = three.keepers[0].as_mut().unwrap();
    for node in [2, 3] {
        assert_eq!(keeper.poll(), None);
        keeper.receive(three.now, Keeper::stranger(NodeId(node), &ask).unwrap());
    }
    assert_eq!(keeper.poll(), Some(Action::Forget));
}

#[test]
fn records_survive_their_way_to_the_disk() {
    let mut three = Three::new();
    let many = Record::new(three.disks[0].job.clone(), splits(1000, 7, 3));
    assert_eq!(Record::decode(&many.encode().unwrap()), Ok(many.clone()));
    let messages = many.encode().unwrap();
    assert!(messages.len() > 10 && messages.iter().all(|it| it.len() < 48 << 10));
    assert!(Record::decode(&messages[..5]).is_err());
    assert!(Record::decode(&messages[1..]).is_err());
    three.decide(0, Epoch::FIRST, &CANCELLED);
    three.pump();
    let accepted = three.keepers[0].as_ref().unwrap().record().clone();
    assert_eq!(Record::decode(&accepted.encode().unwrap()), Ok(accepted.clone()));
    assert_eq!(accepted.end(), None);
    three.settle();
    let ended = three.disks[0].clone();
    assert_eq!(Record::decode(&ended.encode().unwrap()), Ok(ended.clone()));
    assert_ne!(ended, accepted);
}

#[test]
fn what_is_for_another_job_or_of_no_keeper_is_not_heard() {
    let mut three = Three::new();
    let keeper = three.keepers[0].as_mut().unwrap();
    let later = Epoch::FIRST.after(1);
    for (job, from) in [(8, 2), (7, 9), (7, 1)] {
        let word = Word::Ask(Ask::Promise(later));
        let message = ToKeeper { job: crate::JobId(job), from: NodeId(from), epoch: later, word };
        keeper.receive(three.now, message);
        assert_eq!((keeper.poll(), keeper.record().epoch()), (None, Epoch::FIRST));
    }
    let word = Word::Answer(Answer::Accepted);
    let (job, from) = (crate::JobId(7), NodeId(2));
    keeper.receive(three.now, ToKeeper { job, from, epoch: Epoch::FIRST, word });
    assert_eq!(keeper.poll(), None);
}
