//! A core's side of its control channel: the requests that wait for an answer, the receiving ends
//! that wait for an acceptor, the ends whose fate the management core announces, and the packages
//! that it may stop.

mod queue;
mod user;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use core::sync::atomic::{Ordering, fence};
use core::time::Duration;

use nile_abi::call::UserSlot;
use nile_abi::{ChannelId, CoreId, EndpointId, Generation, Instant, PhysAddr, Status};
use nile_order::{SortedMap, SortedSet};
use nile_platform::{Grant, Machine};
use nile_ring::{
    Endpoint, Message, ReceiveError, Receiver, Region, Request as Asked, RequestId, Requests,
    Sender,
};
use nile_sync::{Flag, Lock, Notify, OneShot};

use crate::channel::Offer;
use crate::control::{self, End, Event, Reply, Request};
use crate::core::{Core, Inner};
use crate::input::Input;
use crate::manager::links;
use crate::packages::{Control, PackageId};
use queue::Queue;
use user::UserGrants;

/// Requests that one core may have unanswered. Their places fit 16 bits and leave out the one
/// that [`control::UNANSWERED`] would have.
const MOST_ASKED: u32 = 64;

/// How long the management core may go on to say that it is busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a core waits before it asks again.
const BUSY_BACKOFF: Duration = Duration::from_micros(50);

/// Where an answer is left for the task that waits for it.
type Answer = OneShot<Result<Reply, Status>>;

/// The ends of the control channel, on every core but the management core, whose messages to
/// itself take no channel.
struct Rings {
    memory: Region,
    sender: Sender,
    receiver: Receiver,
}

/// A sending end as the management core knows it.
struct SenderEnd {
    /// The core that has the receiving end, at first.
    to: CoreId,
    endpoint: EndpointId,
    grant: Grant,
    /// Raised when the receiver is gone.
    closed: Rc<Flag>,
}

/// A receiving end as the management core knows it.
struct ReceiverEnd {
    offer: Offer,
    /// `None` before it has been accepted and after it has been dropped here.
    input: Option<Rc<Input>>,
    /// The sender is gone.
    closed: bool,
}

/// A core's side of its control channel.
pub struct Client {
    rings: RefCell<Option<Rings>>,
    /// What waits for room in the ring.
    backlog: RefCell<VecDeque<Message>>,
    asked: RefCell<Requests<Answer>>,
    offers: RefCell<SortedMap<u32, VecDeque<Offer>>>,
    /// By tags: notified of each.
    acceptors: RefCell<SortedMap<u32, Rc<Notify>>>,
    /// The ends of channels that the management core believes are here.
    senders: RefCell<SortedMap<ChannelId, SenderEnd>>,
    receivers: RefCell<SortedMap<ChannelId, ReceiverEnd>>,
    /// How many receiving ends have come here.
    arrivals: Cell<u64>,
    /// The grants that this core has attached.
    regions: RefCell<BTreeMap<PhysAddr, Region>>,
    /// The grants that it has forgotten, until the management core knows, and those on their way
    /// to the user half.
    leaving: RefCell<SortedSet<Grant>>,
    /// The grants in the user half of its tables.
    users: UserGrants,
    /// A slot is emptied: one at a time, as what one gives up another one may still have.
    empties: Lock,
    /// Somebody asks for a keep.
    pub(crate) asks_for_keep: Cell<bool>,
    /// The packages that run here, by their slots.
    running: RefCell<[Option<Rc<Control>>; UserSlot::COUNT]>,
    /// How many packages have run here.
    packages: Cell<u32>,
    /// The tasks that wait for the loop's next pass.
    resting: Notify,
    /// The packages that wait for their next turn.
    pub(crate) queue: Queue,
}

impl Client {
    /// The client of the calling core.
    pub fn attach<M: Machine>(machine: &M) -> Client {
        let own = machine.core();
        let rings = (own != CoreId::BOOT).then(|| {
            let memory = machine.control(own);
            connect(machine, memory).expect("the control region has the size that links agree on")
        });
        Client {
            rings: RefCell::new(rings),
            backlog: RefCell::default(),
            asked: RefCell::new(Requests::with_capacity(MOST_ASKED)),
            offers: RefCell::default(),
            acceptors: RefCell::default(),
            senders: RefCell::default(),
            receivers: RefCell::default(),
            arrivals: Cell::new(0),
            regions: RefCell::default(),
            leaving: RefCell::default(),
            users: UserGrants::default(),
            empties: Lock::default(),
            asks_for_keep: Cell::new(false),
            running: RefCell::default(),
            packages: Cell::new(0),
            resting: Notify::default(),
            queue: Queue::default(),
        }
    }

    /// The incarnation of the management core that messages are meant for: not always the one
    /// that its record shows, which changes before this core has heard of it.
    fn bound_to<M: Machine>(&self, machine: &M) -> Generation {
        let rings = self.rings.borrow();
        rings.as_ref().map_or(machine.generation(), |rings| rings.sender.to().generation)
    }

    /// Tells the management core which incarnation speaks from now on.
    pub fn introduce<M: Machine>(&self, core: &Core<M>) {
        let generation = core.machine.generation();
        self.post(core, Request::Started { generation }.encode(control::UNANSWERED));
    }

    /// Makes the management core look at this core's record.
    pub fn wake_manager<M: Machine>(&self, core: &Core<M>) {
        core.machine.board().notifier().doorbells().wake(CoreId::BOOT, &core.machine);
    }

    /// Whether the ring has a message, or there is one to put into it, or a task that is no
    /// package's waits for a pass.
    pub fn is_ready(&self) -> bool {
        !self.backlog.borrow().is_empty()
            || self.resting.waits()
            || self.rings.borrow().as_ref().is_some_and(|rings| rings.receiver.is_ready())
    }

    /// Takes what the management core sent and sends what waits; whether there was anything.
    pub fn drain<M: Machine>(&self, core: &Core<M>) -> bool {
        let mut found = self.resting.notify() | self.queue.wake();
        while let Some(message) = self.next_message() {
            found = true;
            self.dispatch(core, &message);
        }
        self.flush(core);
        found
    }

    /// The same for the management core's messages to itself.
    pub fn take_local<M: Machine>(&self, core: &Core<M>) -> bool {
        let mut found = false;
        while let Some(message) = core.manager.as_ref().and_then(|m| m.borrow_mut().take_local()) {
            found = true;
            self.dispatch(core, &message);
        }
        found
    }

    fn next_message(&self) -> Option<Message> {
        let mut rings = self.rings.borrow_mut();
        let rings = rings.as_mut()?;
        loop {
            match rings.receiver.try_recv() {
                Ok(message) => return message,
                // For this core's predecessor: what it waited for died with it.
                Err(ReceiveError::Stale(_) | ReceiveError::Corrupt) => {}
            }
        }
    }

    fn dispatch<M: Machine>(&self, core: &Core<M>, message: &Message) {
        match message.kind() {
            control::REPLY => {
                let Some((number, result)) = control::decode_reply(message.payload()) else {
                    return;
                };
                if let Some(answer) = self.asked.borrow_mut().complete(id_of(number)) {
                    // Its end may be told before the task that opened it goes on.
                    if let Ok(Reply::Opened { channel, to, endpoint, grant }) = result {
                        let end = SenderEnd { to, endpoint, grant, closed: Rc::default() };
                        self.senders.borrow_mut().insert(channel, end);
                    }
                    answer.give(result);
                }
            }
            control::EVENT => {
                if let Some(event) = Event::decode(message.payload()) {
                    self.happened(core, event);
                }
            }
            _ => {}
        }
    }

    fn happened<M: Machine>(&self, core: &Core<M>, event: Event) {
        match event {
            Event::Attached { channel, endpoint, tag, from, grant } => {
                let arrival = self.arrivals.get() + 1;
                self.arrivals.set(arrival);
                let offer = Offer { channel, endpoint, tag, from, grant, arrival };
                let end = ReceiverEnd { offer, input: None, closed: false };
                self.receivers.borrow_mut().insert(channel, end);
                self.offers.borrow_mut().entry(tag).or_default().push_back(offer);
                // All of them look: the first may have gone away.
                if let Some(acceptors) = self.acceptors.borrow().get(&tag) {
                    acceptors.notify();
                }
            }
            Event::Closed { channel } => {
                if let Some(end) = self.senders.borrow().get(&channel) {
                    end.closed.raise();
                }
                if let Some(end) = self.receivers.borrow_mut().get_mut(&channel) {
                    end.closed = true;
                    if let Some(input) = &end.input {
                        input.close();
                    }
                }
            }
            Event::Fence { channel } => {
                fence(Ordering::SeqCst);
                self.post(core, Request::Fenced { channel }.encode(control::UNANSWERED));
            }
            Event::Revoked { grant } => {
                let core = core.clone();
                // It may be out of the user half, which no task here knows of.
                core.machine.flush();
                core.clone().spawn(async move { core.forget(grant).await });
            }
            Event::StopPackage { package } => {
                let running = self.running.borrow();
                if let Some(control) = running.iter().flatten().find(|it| it.id() == package) {
                    control.stop();
                }
            }
            Event::End => panic!("the core manager was asked to end this core"),
            Event::Leave { patience_ms } => {
                core.begin_to_leave(Duration::from_millis(patience_ms.into()));
            }
            Event::Hello { generation } => self.greet(core, generation),
        }
    }

    /// The management core has a new incarnation: what the old one owed is lost.
    fn greet<M: Machine>(&self, core: &Core<M>, generation: Generation) {
        if self.bound_to(&core.machine) != generation {
            let mut rings = self.rings.borrow_mut();
            if let Some(memory) = rings.take().map(|rings| rings.memory) {
                *rings = connect(&core.machine, memory);
            }
            drop(rings);
            self.backlog.borrow_mut().clear();
            let lost: VecDeque<_> = self.asked.borrow_mut().peer_restarted(generation).collect();
            for request in lost {
                request.context.give(Err(Status::Dead));
            }
            self.introduce(core);
        }
        self.tell_what_is_here(core);
    }

    /// Everything that the management core's new incarnation cannot know: what memory this core
    /// has, and which ends of channels.
    fn tell_what_is_here<M: Machine>(&self, core: &Core<M>) {
        let regions = self.regions.borrow();
        let attached = regions
            .iter()
            .map(|(start, region)| Grant { start: *start, bytes: region.len() as u64 });
        for grant in attached.chain(self.leaving.borrow().iter().copied()) {
            self.post(core, Request::Holds { grant }.encode(control::UNANSWERED));
        }
        // Before the ends of channels, whose memory a package may have.
        for holds in self.users.told() {
            self.post(core, holds.encode(control::UNANSWERED));
        }
        for (channel, SenderEnd { to, endpoint, grant, .. }) in self.senders.borrow().iter() {
            let (channel, peer, endpoint) = (*channel, *to, *endpoint);
            let (end, tag, grant) = (End::Sender, 0, *grant);
            let rejoin = Request::Rejoin { channel, end, peer, endpoint, tag, grant };
            self.post(core, rejoin.encode(control::UNANSWERED));
        }
        for ReceiverEnd { offer, .. } in self.receivers.borrow().values() {
            let Offer { channel, endpoint, tag, from, grant, .. } = *offer;
            let (end, peer) = (End::Receiver, from);
            let rejoin = Request::Rejoin { channel, end, peer, endpoint, tag, grant };
            self.post(core, rejoin.encode(control::UNANSWERED));
        }
        core.machine.flush();
        self.post(core, Request::Flushed.encode(control::UNANSWERED));
    }

    /// Sends a request that nobody waits for.
    pub(crate) fn post<M: Machine>(&self, core: &Core<M>, payload: [u8; control::BYTES]) {
        let message = Message::new(control::REQUEST, &payload);
        let message = message.expect("a control message fills a cell");
        self.backlog.borrow_mut().push_back(message);
        self.flush(core);
    }

    /// Sends what waits, as far as there is room.
    fn flush<M: Machine>(&self, core: &Core<M>) {
        let mut backlog = self.backlog.borrow_mut();
        if backlog.is_empty() {
            return;
        }
        let mut rings = self.rings.borrow_mut();
        match rings.as_mut() {
            Some(rings) => {
                let mut sent = false;
                while let Some(message) = backlog.front() {
                    if rings.sender.try_send(message).is_err() {
                        break;
                    }
                    backlog.pop_front();
                    sent = true;
                }
                if sent {
                    rings.sender.notify(core.machine.board().notifier(), &core.machine);
                }
            }
            None => {
                let Some(manager) = &core.manager else { return };
                // A message that comes while the manager is at work waits for the next pass.
                let Ok(mut manager) = manager.try_borrow_mut() else { return };
                while let Some(message) = backlog.pop_front() {
                    manager.receive(&core.machine, core.id(), &message);
                }
            }
        }
    }

    /// The memory of a grant, made usable on this core if it is not yet.
    pub fn region<M: Machine>(&self, core: &Inner<M>, grant: Grant) -> Result<Region, Status> {
        if let Some(region) = self.regions.borrow().get(&grant.start) {
            return Ok(region.clone());
        }
        let region = core.machine.attach(grant)?;
        self.regions.borrow_mut().insert(grant.start, region.clone());
        Ok(region)
    }

    /// The next receiving end for `tag`. Waits for one.
    pub(crate) async fn take_offer(&self, tag: u32) -> Offer {
        let next = || self.offers.borrow_mut().get_mut(&tag).and_then(VecDeque::pop_front);
        let acceptors = self.acceptors.borrow_mut().entry(tag).or_default().clone();
        acceptors.until(next).await
    }

    /// A package begins to run here, which shares the core or not: its number, and its slot.
    /// `Exists` while there is another, unless all share and a slot is free.
    pub(crate) fn enter_package(&self, shares: bool) -> Result<Rc<Control>, Status> {
        let mut running = self.running.borrow_mut();
        let free = UserSlot::all().find(|slot| running[slot.index()].is_none());
        let fits = running.iter().flatten().all(|other| shares && other.shares());
        let slot = free.filter(|_| fits).ok_or(Status::Exists)?;
        self.packages.set(self.packages.get() + 1);
        let control = Rc::new(Control::new(PackageId(self.packages.get()), slot, shares));
        running[slot.index()] = Some(control.clone());
        Ok(control)
    }

    /// How many packages are here.
    pub(crate) fn packages(&self) -> usize {
        self.running.borrow().iter().flatten().count()
    }

    /// Ends the packages that are here before their next turns.
    pub(crate) fn stop_packages(&self) {
        self.running.borrow().iter().flatten().for_each(|control| control.stop());
    }

    /// The package of this slot is gone.
    pub(crate) fn leave_package(&self, slot: UserSlot) {
        self.running.borrow_mut()[slot.index()] = None;
    }

    /// Waits for the loop's next pass, until what the management core sent was taken.
    pub(crate) async fn next_pass(&self) {
        self.resting.next().await;
    }

    /// Where it is said that the receiver of a sending end here is gone.
    pub(crate) fn closed(&self, channel: ChannelId) -> Option<Rc<Flag>> {
        self.senders.borrow().get(&channel).map(|end| end.closed.clone())
    }

    /// Gives a receiving end its input, or takes that away; the management core has yet to be
    /// told of the end's end.
    pub(crate) fn set_input(&self, offer: Offer, input: Option<&Rc<Input>>) {
        let mut receivers = self.receivers.borrow_mut();
        let end = receivers.get_mut(&offer.channel);
        if let Some(end) = end.filter(|end| end.offer.arrival == offer.arrival) {
            end.input = input.cloned();
            if let Some(input) = input.filter(|_| end.closed) {
                input.close();
            }
        }
    }

    /// The management core knows that a sending end is not here any more.
    pub(crate) fn remove_sender(&self, channel: ChannelId) {
        self.senders.borrow_mut().remove(&channel);
    }

    /// The same for a receiving end, unless it has come back since.
    pub(crate) fn remove_receiver(&self, offer: Offer) {
        let mut receivers = self.receivers.borrow_mut();
        if receivers.get(&offer.channel).is_some_and(|end| end.offer.arrival == offer.arrival) {
            receivers.remove(&offer.channel);
        }
    }
}

impl<M: Machine> Core<M> {
    /// Asks the management core. `Dead` if its incarnation ended before it answered; else what it
    /// says. While it says `Busy` (another core has yet to let go of something), asks again until
    /// that has lasted too long: `Timeout`.
    pub(crate) async fn request(&self, request: Request) -> Result<Reply, Status> {
        let deadline = self.now() + PATIENCE;
        loop {
            match self.ask(request).await {
                Err(Status::Busy) if self.now() < deadline => self.sleep(BUSY_BACKOFF).await,
                Err(Status::Busy) => return Err(Status::Timeout),
                result => return result,
            }
        }
    }

    /// Drops this core's use of a grant that is no longer in its tables, and every translation of
    /// it, and says so. When the management core restarts meanwhile, its next incarnation believes
    /// that this core has the grant, and takes it out of the tables once more.
    pub(crate) async fn forget(&self, grant: Grant) -> Result<(), Status> {
        self.client.regions.borrow_mut().remove(&grant.start);
        self.client.leaving.borrow_mut().insert(grant);
        self.machine.detach(grant);
        let result = loop {
            match self.request(Request::Invalidated { grant }).await {
                Err(Status::Dead) => {
                    // Whatever it answers, the invalidation that follows settles it.
                    let _ = self.request(Request::Release { grant, at: None }).await;
                    self.machine.detach(grant);
                }
                result => break result,
            }
        };
        self.client.leaving.borrow_mut().remove(&grant);
        result.map(|_| ())
    }

    async fn ask(&self, request: Request) -> Result<Reply, Status> {
        let answer = Answer::default();
        let id = self.client.asked.borrow_mut().issue(|id| {
            let payload = request.encode(number_of(id));
            Asked {
                peer: self.client.bound_to(&self.machine),
                message: Message::new(control::REQUEST, &payload)
                    .expect("a control message fills a cell"),
                // It answers, or its next incarnation says that it will not.
                deadline: Instant::from_nanos(u64::MAX),
                context: answer.clone(),
            }
        });
        let id = id.map_err(|_| Status::Busy)?;
        self.client.post(self, request.encode(number_of(id)));
        answer.await
    }
}

/// A request's id as the 48 bits that a control message has room for; the table is small enough
/// for 16 bits of place.
fn number_of(id: RequestId) -> u64 {
    let bits = id.to_bits();
    bits >> 32 << 16 | bits & 0xffff
}

fn id_of(number: u64) -> RequestId {
    RequestId::from_bits(number >> 16 << 32 | number & 0xffff)
}

/// The rings as an earlier incarnation of either side left them.
fn connect<M: Machine>(machine: &M, memory: Region) -> Option<Rings> {
    let own = machine.core();
    let manager = machine.board().record(CoreId::BOOT).generation();
    let to = Endpoint { id: links::to_manager(own), generation: manager };
    let from = Endpoint { id: links::to_core(own), generation: machine.generation() };
    let (outbound, inbound) = links::rings(&memory)?;
    let sender = Sender::attach(outbound, to).ok()?;
    let receiver = Receiver::attach(inbound, from).ok()?;
    Some(Rings { memory, sender, receiver })
}
