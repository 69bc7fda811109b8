//! This node as a keeper of names, if it is one: what it has of them is in notes of its first
//! store, each durable before anything is said that rests on it.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::task::Poll;
use core::time::Duration;

use nile_abi::{NodeId, Status, Window};
use nile_bosml::Bytes;
use nile_names::keeper::Action;
use nile_names::{Answer, Ask, Durable, Entry, Keeper, NamedCell, Settings, Standing};
use nile_stl::{CallError, CallResult};
use nile_store::Name;
use nile_sync::Notify;

use super::Shared;
use crate::alarm::Alarm;
use crate::job::cluster::spawn;
use nile_interfaces::dataset::DatasetClient;

/// The note with what a keeper knows of itself; no dataset is called so.
pub const CHARTER: &str = ".names";

/// How long a keeper that is not in waits for answers before it asks again.
const INTRODUCED: Duration = Duration::from_millis(40);

/// A keeper and the store in which it keeps what it has.
pub struct Hosted {
    keeper: RefCell<Keeper>,
    store: DatasetClient,
    /// Which store that is.
    identity: u64,
    /// What has yet to be made durable, in this order.
    queue: RefCell<VecDeque<Durable>>,
    is_writing: Cell<bool>,
    /// How many things were given out to be made durable, and how many are.
    given: Cell<u64>,
    durable: Cell<u64>,
    /// Why nothing can be made durable any more: what is in memory counts for nothing then.
    failed: RefCell<Option<CallError>>,
    changes: Notify,
    clock: Alarm,
}

impl Shared {
    /// Answers what a proposer or another keeper asks.
    pub async fn answer(self: &Rc<Self>, ask: Ask) -> CallResult<Answer> {
        let hosted = self.hosted().await?;
        let (answer, durable) = hosted.keeper.borrow_mut().handle(ask);
        durable.iter().for_each(|it| self.heed_passing(it));
        self.write(&hosted, durable);
        if hosted.keeper.borrow().next_due().is_some() {
            hosted.clock.ring();
        }
        hosted.until_durable().await?;
        Ok(answer)
    }

    /// How this node stands as a keeper. If its store is not the one that it was, it begins anew.
    pub async fn standing(self: &Rc<Self>) -> CallResult<Standing> {
        let mut hosted = self.hosted().await?;
        if hosted.store.store_identity().await? != hosted.identity {
            hosted.fail(CallError::new(Status::Failed, "the disk has another store now"));
            hosted = self.hosted().await?;
        }
        let standing = hosted.keeper.borrow().standing();
        Ok(standing)
    }

    /// The keeper, from the notes of this node's first store. `not_found` if the node is none, or
    /// has no disk.
    async fn hosted(self: &Rc<Self>) -> CallResult<Rc<Hosted>> {
        let _turn = self.loading.take().await;
        if let Some(hosted) = self.hosted.borrow().as_ref().filter(|it| !it.has_failed()) {
            return Ok(hosted.clone());
        }
        let hosted = Rc::new(self.load().await?);
        *self.hosted.borrow_mut() = Some(hosted.clone());
        let (shared, driven) = (self.clone(), hosted.clone());
        spawn(&self.stl, async move { shared.drive(&driven).await });
        self.watch_passing();
        Ok(hosted)
    }

    async fn load(&self) -> CallResult<Hosted> {
        let (node, keepers) = (self.cluster.node(), self.keepers());
        let none = |what: String| CallError::new(Status::NotFound, what);
        if !keepers.contains(&node) {
            return Err(none(format!("{node} keeps no names of datasets")));
        }
        let stores = self.cluster.stores().await?;
        let own = stores.into_iter().find(|store| store.is_first());
        let store = own.ok_or_else(|| none(format!("{node} has no disk yet")))?.client;
        let wrong = |error| {
            let what = format!("{node}: a note about names cannot be read: {error}");
            CallError::new(Status::Failed, what)
        };
        let identity = store.store_identity().await?;
        let (mut charter, mut cells) = (None, Vec::new());
        let mut after = String::new();
        loop {
            let page = store.notes(&after).await?;
            let Some(last) = page.last() else { break };
            after.clone_from(&last.key);
            for note in page {
                match Durable::decode(&note.value.0).map_err(wrong)? {
                    Durable::Charter(it) => charter = Some(it),
                    Durable::Cell(NamedCell { name, cell }) => cells.push((name, cell)),
                }
            }
        }
        let (now, seed) = (self.stl.host().now(), self.draw());
        // Others wait for a keeper that is not in.
        let settings = Settings { silence: INTRODUCED, ..Settings::default() };
        let keeper = match charter {
            Some(charter) => Keeper::restore(now, node, &keepers, charter, cells, seed, settings),
            None => Keeper::fresh(now, node, &keepers, self.draw(), seed, settings),
        };
        let keeper =
            keeper.map_err(|misfit| CallError::new(Status::Failed, format!("{misfit}")))?;
        Ok(Hosted {
            keeper: RefCell::new(keeper),
            store,
            identity,
            queue: RefCell::default(),
            is_writing: Cell::new(false),
            given: Cell::new(0),
            durable: Cell::new(0),
            failed: RefCell::default(),
            changes: Notify::default(),
            clock: Alarm::default(),
        })
    }

    /// Has something made durable behind all that was before.
    fn write(&self, hosted: &Rc<Hosted>, durable: Option<Durable>) {
        let Some(durable) = durable else { return };
        hosted.queue.borrow_mut().push_back(durable);
        hosted.given.set(hosted.given.get() + 1);
        if !hosted.is_writing.replace(true) {
            let hosted = hosted.clone();
            self.stl.host().spawn(Box::pin(async move { hosted.write_all().await }));
        }
    }

    /// Does what the keeper wants by itself: as long as it is not in, it asks the others, and then
    /// tells all of them that it goes on.
    async fn drive(self: &Rc<Self>, hosted: &Rc<Hosted>) {
        while !hosted.has_failed() {
            hosted.keeper.borrow_mut().tick(self.stl.host().now());
            let poll = || hosted.keeper.borrow_mut().poll();
            while let Some(action) = poll() {
                match action {
                    Action::Store(durable) => self.write(hosted, Some(durable)),
                    Action::Send(node, ask) => self.send_from(hosted, node, ask),
                }
            }
            let due = hosted.keeper.borrow().next_due();
            hosted.clock.wait(&self.stl, due.map(Window::at), |_| Poll::Pending).await;
        }
    }

    /// Asks another keeper, as soon as all is durable that the question may rest on.
    fn send_from(self: &Rc<Self>, hosted: &Rc<Hosted>, node: NodeId, ask: Ask) {
        let (shared, hosted) = (self.clone(), hosted.clone());
        spawn(&self.stl, async move {
            if hosted.until_durable().await.is_ok()
                && let Ok(answer) = shared.ask(node, &ask).await
            {
                let was_behind = hosted.is_behind();
                hosted.keeper.borrow_mut().receive(node, answer);
                if hosted.is_behind() && !was_behind {
                    shared.stl.host().log(format_args!(
                        "the disk is an old copy: other nodes know of later changes; what names \
                         mean is taken from them, and what is missing comes by a repair"
                    ));
                }
                hosted.clock.ring();
            }
        });
    }
}

impl Hosted {
    /// What `pick` takes of the names that this keeper knows.
    pub(super) fn passing<T>(&self, mut pick: impl FnMut(&Name, &Entry) -> Option<T>) -> Vec<T> {
        let keeper = self.keeper.borrow();
        keeper.cells().filter_map(|(name, cell)| pick(name, &cell.entry)).collect()
    }

    fn is_behind(&self) -> bool {
        matches!(self.keeper.borrow().standing(), Standing::Behind(_))
    }

    fn has_failed(&self) -> bool {
        self.failed.borrow().is_some()
    }

    async fn write_all(&self) {
        loop {
            let Some(next) = self.queue.borrow_mut().pop_front() else { break };
            let key = match &next {
                Durable::Charter(_) => String::from(CHARTER),
                Durable::Cell(it) => String::from(it.name.as_str()),
            };
            let written = match next.encode() {
                Ok(bytes) => self.store.note(&key, Bytes::from(&bytes[..])).await,
                Err(error) => Err(error.into()),
            };
            match written {
                Err(error) => self.fail(error),
                Ok(()) => {
                    self.durable.set(self.durable.get() + 1);
                    self.changes.notify();
                }
            }
        }
        self.is_writing.set(false);
    }

    /// What is in memory counts for nothing any more.
    fn fail(&self, error: CallError) {
        *self.failed.borrow_mut() = Some(error);
        self.queue.borrow_mut().clear();
        self.changes.notify();
        self.clock.ring();
    }

    /// Waits until all is durable that was given out so far.
    async fn until_durable(&self) -> CallResult<()> {
        let given = self.given.get();
        self.changes
            .until(|| match &*self.failed.borrow() {
                Some(error) => Some(Err(error.clone())),
                None => (self.durable.get() >= given).then_some(Ok(())),
            })
            .await
    }
}
