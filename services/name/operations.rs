//! Names read, changed and listed: the proposer's part of the protocol, over calls to the keepers.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::task::Poll;
use core::time::Duration;

use nile_abi::{CoreId, Instant, NodeId, Window};
use nile_bosml::Bytes;
use nile_names::proposal::Action as ProposalAction;
use nile_names::scan::Action as ScanAction;
use nile_names::{Answer, Ask, Entry, Expect, Lack, Outcome, Proposal, Scan, Settings, Task, What};
use nile_order::SortedMap;
use nile_stl::{CallResult, LocalFuture, all};
use nile_store::Name;

use super::{Shared, named, travel};
use crate::alarm::Alarm;
use crate::job::cluster::spawn;
use nile_interfaces::name::NameClient;
use nile_interfaces::name::records::{NamePage, NamedEntry};

/// How long a keeper may take: its disk is flushed.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long it is waited for an answer before the keepers that gave none are asked again.
const SILENCE: Duration = Duration::from_millis(100);

/// Names of a reply.
const MOST: usize = 128;

/// Answers that have come.
#[derive(Default)]
struct Inbox {
    answers: RefCell<VecDeque<(NodeId, Answer)>>,
    alarm: Alarm,
}

impl Shared {
    /// Asks a keeper, which may be this node.
    pub async fn ask(self: &Rc<Self>, node: NodeId, ask: &Ask) -> CallResult<Answer> {
        if node == self.cluster.node() {
            return self.answer(ask.clone()).await;
        }
        let at = self.cluster.at(node, CoreId::BOOT);
        let client = NameClient::find_at(&self.stl.with_patience(PATIENCE), at).await?;
        let answer = client.ask(Bytes::from(&ask.encode()?[..])).await?;
        Ok(Answer::decode(&answer.0)?)
    }

    /// Asks a keeper, and has the answer come to an inbox. Who cannot be asked says nothing.
    fn send(self: &Rc<Self>, inbox: &Rc<Inbox>, node: NodeId, ask: Ask) {
        let (shared, inbox) = (self.clone(), inbox.clone());
        spawn(&self.stl, async move {
            if let Ok(answer) = shared.ask(node, &ask).await {
                inbox.answers.borrow_mut().push_back((node, answer));
                inbox.alarm.ring();
            }
        });
    }

    /// Does one operation on one name. Boxed, as are others here: its callers would each have a
    /// copy of all its code.
    pub fn operate(
        self: &Rc<Self>,
        name: Name,
        task: Task,
        until: Instant,
    ) -> LocalFuture<'static, Outcome> {
        let shared = self.clone();
        Box::pin(async move { shared.propose(name, task, until).await })
    }

    async fn propose(self: &Rc<Self>, name: Name, task: Task, until: Instant) -> Outcome {
        let host = self.stl.host();
        let (node, keepers) = (self.cluster.node(), self.keepers());
        let (seed, settings) = (self.draw(), settings(host.now(), until));
        let mut proposal = Proposal::new(host.now(), node, &keepers, name, task, seed, settings);
        let inbox: Rc<Inbox> = Rc::default();
        loop {
            while let Some(action) = proposal.poll() {
                match action {
                    ProposalAction::Send(node, ask) => self.send(&inbox, node, ask),
                    ProposalAction::Done(outcome) => return outcome,
                }
            }
            inbox
                .alarm
                .wait(&self.stl, proposal.next_due().map(Window::at), |_| Poll::Pending)
                .await;
            let answers = inbox.answers.take();
            for (from, answer) in answers {
                proposal.receive(host.now(), from, answer);
            }
            proposal.tick(host.now());
        }
    }

    /// Changes what a name means.
    pub async fn change(
        self: &Rc<Self>,
        name: &str,
        id: u64,
        expect: Expect,
        to: What,
    ) -> CallResult<Outcome> {
        let task = Task::Change { id, expect, to };
        Ok(self.operate(named(name)?, task, self.soon()).await)
    }

    /// When an operation ends that nobody waits for.
    fn soon(&self) -> Instant {
        self.stl.host().now() + PATIENCE * 2
    }

    /// What a name means; an error if most keepers do not answer.
    pub async fn read(self: &Rc<Self>, name: Name) -> CallResult<Entry> {
        match self.operate(name, Task::Read, self.soon()).await {
            Outcome::Done(entry) | Outcome::Refused(entry) => Ok(entry),
            Outcome::NoMajority(lack) | Outcome::Unknown(lack) => {
                Err(super::lacking(&missing(lack)))
            }
        }
    }

    /// The next names that mean something.
    pub fn list(
        self: &Rc<Self>,
        after: Option<Name>,
        until: Instant,
    ) -> LocalFuture<'static, CallResult<NamePage>> {
        let shared = self.clone();
        Box::pin(async move { shared.scan(after, until).await })
    }

    async fn scan(self: &Rc<Self>, after: Option<Name>, until: Instant) -> CallResult<NamePage> {
        let host = self.stl.host();
        let (seed, settings) = (self.draw(), settings(host.now(), until));
        let mut scan = Scan::new(host.now(), &self.keepers(), after, MOST, seed, settings);
        let inbox: Rc<Inbox> = Rc::default();
        let mut found: Vec<(Name, Option<Entry>)> = Vec::new();
        'scan: loop {
            while let Some(action) = scan.poll() {
                match action {
                    ScanAction::Send(node, ask) => self.send(&inbox, node, ask),
                    ScanAction::Names(names) => found.extend(names),
                    ScanAction::Done => break 'scan,
                    ScanAction::Failed(lack) => {
                        return Ok(NamePage::NoMajority(missing(lack)));
                    }
                }
            }
            inbox.alarm.wait(&self.stl, scan.next_due().map(Window::at), |_| Poll::Pending).await;
            let answers = inbox.answers.take();
            for (from, answer) in answers {
                scan.receive(host.now(), from, answer);
            }
            scan.tick(host.now());
        }
        let last = found.last().filter(|_| found.len() >= MOST);
        let more_behind = last.map(|(name, _)| name.to_string());
        let reads = all(found.into_iter().map(|(name, entry)| {
            let shared = self.clone();
            async move {
                let entry = match entry {
                    Some(entry) => entry,
                    None => shared.read(name.clone()).await?,
                };
                Ok((name, entry))
            }
        }));
        let read = reads.await.into_iter().collect::<CallResult<Vec<(Name, Entry)>>>()?;
        let there = read.into_iter().filter(|(_, entry)| entry.what != What::Absent);
        let named = |(name, entry): (Name, Entry)| NamedEntry {
            name: name.to_string(),
            entry: travel::told(entry),
        };
        Ok(NamePage::Names { names: there.map(named).collect(), more_behind })
    }

    /// Every name that means something.
    pub async fn everything(self: &Rc<Self>) -> CallResult<SortedMap<String, Entry>> {
        let mut entries = SortedMap::new();
        let mut after = None;
        loop {
            let (names, more_behind) = match self.list(after, self.soon()).await? {
                NamePage::Names { names, more_behind } => (names, more_behind),
                NamePage::NoMajority(missing) => return Err(super::lacking(&missing)),
            };
            entries.extend(names.into_iter().map(|it| (it.name, travel::entry(it.entry))));
            let Some(last) = more_behind else { return Ok(entries) };
            after = Some(named(&last)?);
        }
    }
}

/// The times of an operation whose caller waits until then: it is to hear what was missing.
fn settings(now: Instant, until: Instant) -> Settings {
    let usual = Settings::default();
    let patience = usual.patience.min(until.since(now) * 3 / 4);
    Settings { patience, silence: SILENCE, ..usual }
}

/// Those whose answers are missing.
pub fn missing(lack: Lack) -> Vec<NodeId> {
    [lack.missing, lack.fresh].concat()
}
