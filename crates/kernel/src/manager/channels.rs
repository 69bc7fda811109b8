//! Channels as the management core sees them: who has which end, where the receiver runs, and
//! the procedure by which a receiver moves to another core (NewtOS 3.3).
//!
//! A move: the receiver's memory is entered in the new core's tables, the receiver map is
//! rewritten, and one extra notification goes to the new core, so that it finds a message whose
//! sender still read the old entry. If the old entry said "a store is enough", the sender's core
//! must execute a fence before that notification; it is asked to, and the move waits for it.

use alloc::vec::Vec;

use nile_abi::{ChannelId, CoreId, EndpointId, MAX_RECEIVERS, Status};
use nile_order::SortedMap;
use nile_platform::{Board, CorePhase, Grant, Machine};
use nile_ring::{LINE_BYTES, Mover, Wake};

use super::{Manager, links};
use crate::control::{End, Event, Reply, UNANSWERED};

/// One channel.
struct Channel {
    from: CoreId,
    to: CoreId,
    tag: u32,
    endpoint: EndpointId,
    grant: Grant,
    sender_open: bool,
    receiver_open: bool,
    /// Whether the end's core has spoken of it to this incarnation of the management core; until
    /// then the end is only taken to be open.
    sender_told: bool,
    receiver_told: bool,
    /// The move that waits for the sender's fence.
    moving: Option<Moving>,
}

impl Channel {
    /// A channel whose ends are both open.
    fn new(from: CoreId, to: CoreId, tag: u32, endpoint: EndpointId, grant: Grant) -> Channel {
        Channel {
            from,
            to,
            tag,
            endpoint,
            grant,
            sender_open: true,
            receiver_open: true,
            sender_told: true,
            receiver_told: true,
            moving: None,
        }
    }
}

struct Moving {
    number: u64,
    left: CoreId,
}

/// All channels of the node, and the pen of the receiver map.
pub struct Channels {
    channels: SortedMap<ChannelId, Channel>,
    mover: Mover,
    free_endpoints: Vec<EndpointId>,
}

impl Channels {
    /// No channels yet.
    pub fn new<M: Machine>(machine: &M) -> Channels {
        let notifier = machine.board().notifier();
        Channels {
            channels: SortedMap::new(),
            mover: Mover::new(notifier.map().clone(), notifier.doorbells().clone()),
            free_endpoints: Vec::new(),
        }
    }

    /// Writes that `endpoint` is on `home`, and makes `home` look at it.
    pub fn place<M: Machine>(
        &mut self,
        endpoint: EndpointId,
        home: CoreId,
        wake: Wake,
        machine: &M,
    ) {
        let begun = self.mover.begin(endpoint, home, wake);
        begun.expect("the board's map has an entry for every endpoint").finish(machine);
    }

    /// The channels that have an end on `core`.
    pub fn of(&self, core: CoreId) -> Vec<ChannelId> {
        let on_core = |(_, c): &(&ChannelId, &Channel)| c.from == core || c.to == core;
        self.channels.iter().filter(on_core).map(|(id, _)| *id).collect()
    }

    /// A new incarnation of `core` does not wait for the answers that its predecessor asked for.
    pub fn nobody_waits(&mut self, core: CoreId) {
        let moves = self.channels.values_mut().filter_map(|channel| channel.moving.as_mut());
        for moving in moves.filter(|moving| moving.left == core) {
            moving.number = UNANSWERED;
        }
    }

    /// An endpoint that no channel has. How many were ever taken is in the board, because channels
    /// of earlier incarnations of this core may still be in use.
    fn take_endpoint(&mut self, board: &Board) -> Result<EndpointId, Status> {
        if let Some(endpoint) = self.free_endpoints.pop() {
            return Ok(endpoint);
        }
        let next = usize::from(links::FIRST_FREE) + board.endpoints_taken();
        if next >= MAX_RECEIVERS {
            return Err(Status::NoMemory);
        }
        board.count_endpoint();
        Ok(EndpointId(next as u16))
    }
}

impl<M: Machine> Manager<M> {
    /// Whether `core` can get an end: `Busy` while it starts, `Dead` when it has stopped for good,
    /// or is away.
    fn must_run(&mut self, machine: &M, core: CoreId) -> Result<(), Status> {
        let board = machine.board();
        if core.index() >= board.cores() {
            return Err(Status::NotFound);
        }
        if self.links.has_restarted(board, core) {
            // Or this end would be closed with those of the last incarnation.
            self.core_down(machine, core);
        }
        match board.record(core).phase() {
            // One that leaves is still to take and to give answers.
            CorePhase::Running | CorePhase::Leaving => Ok(()),
            CorePhase::Offline | CorePhase::Starting | CorePhase::Restarting => Err(Status::Busy),
            CorePhase::Stopped | CorePhase::Away => Err(Status::Dead),
        }
    }

    /// Makes a channel from `from` to `to`.
    pub(super) fn open(
        &mut self,
        machine: &M,
        from: CoreId,
        to: CoreId,
        tag: u32,
        cells: u32,
    ) -> Result<Reply, Status> {
        self.must_run(machine, to)?;
        let cells = cells.max(1).checked_next_power_of_two().ok_or(Status::Invalid)?;
        let bytes = (u64::from(cells) + 2) * LINE_BYTES as u64;
        let endpoint = self.channels.take_endpoint(machine.board())?;
        let made = self.memory.take_run(bytes).and_then(|grant| {
            self.give(machine, grant, &[from, to])?;
            Ok(grant)
        });
        let grant = match made {
            Ok(grant) => grant,
            Err(status) => {
                self.channels.free_endpoints.push(endpoint);
                return Err(status);
            }
        };
        self.place(endpoint, to, machine);
        let id = ChannelId(machine.board().count_channel());
        self.channels.channels.insert(id, Channel::new(from, to, tag, endpoint, grant));
        self.event(to, Event::Attached { channel: id, endpoint, tag, from, grant });
        Ok(Reply::Opened { channel: id, to, endpoint, grant })
    }

    /// `core` has an end of a channel that an earlier incarnation of this core made. The other end
    /// is taken to be open until its core says otherwise or restarts, but an end on this core died
    /// with that incarnation.
    pub(super) fn rejoin(
        &mut self,
        machine: &M,
        core: CoreId,
        (id, end): (ChannelId, End),
        (peer, endpoint, tag, grant): (CoreId, EndpointId, u32, Grant),
    ) {
        let (from, to) = match end {
            End::Sender => (core, peer),
            End::Receiver => (peer, core),
        };
        if end == End::Receiver {
            // A move may have been under way.
            self.place(endpoint, core, machine);
        }
        if let Some(known) = self.channels.channels.get_mut(&id) {
            // Each side knows for sure only where its own end is.
            match end {
                End::Sender => (known.from, known.sender_told) = (core, true),
                End::Receiver => {
                    (known.to, known.receiver_told, known.tag) = (core, true, tag);
                }
            }
            return;
        }
        let (sender_told, receiver_told) = (end == End::Sender, end == End::Receiver);
        let channel = Channel::new(from, to, tag, endpoint, grant);
        self.channels.channels.insert(id, Channel { sender_told, receiver_told, ..channel });
    }

    /// Every core has said what it has: an end that none spoke of is gone.
    pub(super) fn close_untold(&mut self) {
        let mut closed = Vec::new();
        for (id, channel) in &mut self.channels.channels {
            if !channel.receiver_told && channel.receiver_open {
                (channel.receiver_told, channel.receiver_open) = (true, false);
                closed.push((*id, channel.from, channel.sender_open));
            } else if !channel.sender_told && channel.sender_open {
                (channel.sender_told, channel.sender_open) = (true, false);
                closed.push((*id, channel.to, channel.receiver_open));
            }
        }
        for (id, peer, open) in closed {
            if open {
                self.event(peer, Event::Closed { channel: id });
            } else {
                self.forget(id);
            }
        }
    }

    /// Enters a grant that the sender's core has in the tables of `core`, which has the receiving
    /// end. The channel stands for the grant: its sender's core closes it before it gives the grant
    /// back, so that what is entered here is never somebody else's by now.
    pub(super) fn join(
        &mut self,
        id: ChannelId,
        grant: Grant,
        core: CoreId,
    ) -> Result<Reply, Status> {
        let channel = self.channels.channels.get(&id).ok_or(Status::NotFound)?;
        if channel.to != core || !channel.receiver_open || !channel.sender_open {
            return Err(Status::NotFound);
        }
        if !channel.sender_told {
            // Its core has yet to say whether it is there, and what memory it has.
            return Err(Status::Busy);
        }
        if !self.memory.is_held(grant, channel.from) {
            return Err(Status::NotFound);
        }
        match self.memory.share(grant, core) {
            Ok(()) => Ok(Reply::Granted { grant }),
            Err(Status::Busy) => Err(Status::Busy),
            Err(status) => {
                self.revoke(grant, core);
                Err(status)
            }
        }
    }

    /// `core` has dropped its end: the other end learns it, and the ring's memory leaves the
    /// core's tables unless the core has the other end, too.
    pub(super) fn close(&mut self, id: ChannelId, end: End, core: CoreId) -> Result<Reply, Status> {
        let channel = self.channels.channels.get_mut(&id).ok_or(Status::NotFound)?;
        let (home, open) = match end {
            End::Sender => (channel.from, &mut channel.sender_open),
            End::Receiver => (channel.to, &mut channel.receiver_open),
        };
        if home != core || !*open {
            return Err(Status::NotFound);
        }
        *open = false;
        let (peer, peer_open) = match end {
            End::Sender => (channel.to, channel.receiver_open),
            End::Receiver => (channel.from, channel.sender_open),
        };
        let grant = channel.grant;
        // What the completion of a move takes from this core stays until then.
        let moves = channel.moving.as_ref().is_some_and(|moving| moving.left == core);
        if peer_open {
            self.event(peer, Event::Closed { channel: id });
        } else {
            self.forget(id);
        }
        if peer_open && (peer == core || moves) {
            return Ok(Reply::Done);
        }
        Ok(Reply::Granted { grant: self.memory.unshare(grant, core)? })
    }

    /// The ends that a dead incarnation of `core` had are closed. Its memory is taken back by the
    /// caller.
    pub(super) fn close_dead(&mut self, machine: &M, id: ChannelId, core: CoreId) {
        let Some(channel) = self.channels.channels.get_mut(&id) else { return };
        channel.sender_open &= channel.from != core || !channel.sender_told;
        channel.receiver_open &= channel.to != core || !channel.receiver_told;
        let (sender, receiver) = (channel.sender_open, channel.receiver_open);
        let (from, to) = (channel.from, channel.to);
        if channel.moving.is_some() && (from == core || to == core) {
            // The sender that the move waits for is gone, and with it what it might have sent; or
            // the core that it goes to is.
            self.complete_move(machine, id);
        }
        match (sender, receiver) {
            (true, true) => {}
            (true, false) => self.event(from, Event::Closed { channel: id }),
            (false, true) => self.event(to, Event::Closed { channel: id }),
            (false, false) => self.forget(id),
        }
    }

    /// Both ends are gone.
    fn forget(&mut self, id: ChannelId) {
        if let Some(channel) = self.channels.channels.remove(&id) {
            self.channels.free_endpoints.push(channel.endpoint);
        }
    }

    /// Moves the receiving end, which `core` has let go of, to `to`.
    pub(super) fn move_receiver(
        &mut self,
        machine: &M,
        core: CoreId,
        number: u64,
        id: ChannelId,
        to: CoreId,
    ) -> Result<Option<Reply>, Status> {
        self.must_run(machine, to)?;
        if to == core {
            return Err(Status::Invalid);
        }
        let channel = self.channels.channels.get_mut(&id).ok_or(Status::NotFound)?;
        if channel.to != core || !channel.receiver_open || channel.moving.is_some() {
            return Err(Status::NotFound);
        }
        self.memory.share(channel.grant, to)?;
        let begun = self.channels.mover.begin(channel.endpoint, to, self.wakes[to.index()]);
        let begun = begun.map_err(|_| Status::NotFound)?;
        let from = channel.from;
        channel.to = to;
        channel.moving = Some(Moving { number, left: core });
        let waits = begun.needs_fence() && channel.sender_open;
        begun.finish(machine);
        if waits {
            self.event(from, Event::Fence { channel: id });
        } else {
            self.complete_move(machine, id);
        }
        Ok(None)
    }

    /// The sender's core says that it has executed its fence.
    pub(super) fn finish_move(&mut self, machine: &M, id: ChannelId, core: CoreId) {
        let waits = |c: &Channel| c.moving.is_some() && c.from == core;
        if self.channels.channels.get(&id).is_some_and(waits) {
            self.complete_move(machine, id);
        }
    }

    /// The extra notification: the new core gets the end and looks at the ring; the old one is
    /// answered and forgets the ring's memory unless it has the other end.
    fn complete_move(&mut self, machine: &M, id: ChannelId) {
        let Some(channel) = self.channels.channels.get_mut(&id) else { return };
        let Some(Moving { number, left }) = channel.moving.take() else { return };
        let Channel { from, to, tag, endpoint, grant, sender_open, receiver_open, .. } = *channel;
        if receiver_open {
            self.place(endpoint, to, machine);
            self.event(to, Event::Attached { channel: id, endpoint, tag, from, grant });
            if !sender_open {
                // It closed before the move, and the core that is left now was told.
                self.event(to, Event::Closed { channel: id });
            }
        }
        let keeps = from == left && sender_open;
        let result = if keeps {
            Ok(Reply::Done)
        } else {
            self.memory.unshare(grant, left).map(|grant| Reply::Granted { grant })
        };
        self.reply(left, number, result);
    }
}
