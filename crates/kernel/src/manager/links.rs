//! The management core's ends of the control channels: one pair of rings for every core, made by
//! the boot path, attached anew by every incarnation of either side.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use nile_abi::{CoreId, EndpointId, Generation, MAX_CORES};
use nile_platform::{Board, CONTROL_BYTES, Machine};
use nile_ring::{Endpoint, Message, ReceiveError, Receiver, Region, Sender};

/// Cells of a control ring.
const CELLS: usize = 64;

/// The receiver of what the management core tells `core`.
pub fn to_core(core: CoreId) -> EndpointId {
    EndpointId(core.0)
}

/// The receiver of what `core` asks the management core.
pub fn to_manager(core: CoreId) -> EndpointId {
    EndpointId(MAX_CORES as u16 + core.0)
}

/// Receivers before this one belong to control channels.
pub const FIRST_FREE: u16 = 2 * MAX_CORES as u16;

/// The ring of a control region that leads to the management core, and the one that leads back.
pub fn rings(region: &Region) -> Option<(Region, Region)> {
    let bytes = nile_ring::channel::region_len(CELLS);
    Some((region.slice(0, bytes)?, region.slice(CONTROL_BYTES / 2, bytes)?))
}

/// The link to one core.
struct Link {
    memory: Region,
    /// `None` for the management core itself: its messages stay in the queue.
    rings: Option<(Sender, Receiver)>,
    /// What waits for room in the ring.
    queue: VecDeque<Message>,
    /// Once the queue is sent, the core is signalled even if its doorbell says that it is awake:
    /// it may be in a turn of a package.
    urgent: bool,
    generation: Generation,
    introduced: bool,
    /// The core has stopped for good, or is away: nothing is sent to it.
    is_out: bool,
}

/// The links to all cores.
pub struct Links {
    links: Vec<Link>,
    own: Endpoint,
    next: usize,
}

impl Links {
    /// The links of the machine's board; messages for earlier incarnations of this core are
    /// dropped when they come.
    pub fn attach<M: Machine>(machine: &M) -> Links {
        let own = machine.core();
        let generation = machine.generation();
        let link = |core: CoreId| {
            let memory = machine.control(core);
            let generation = machine.board().record(core).generation();
            let mut link = Link {
                memory,
                rings: None,
                queue: VecDeque::new(),
                urgent: false,
                generation,
                introduced: core == own,
                is_out: false,
            };
            if core != own {
                link.connect(core, machine.generation());
            }
            link
        };
        Links {
            links: machine.board().core_ids().map(link).collect(),
            own: Endpoint { id: to_manager(own), generation },
            next: 0,
        }
    }

    fn link(&mut self, core: CoreId) -> Option<&mut Link> {
        self.links.get_mut(core.index())
    }

    /// Queues a message for `core`.
    pub fn post(&mut self, core: CoreId, kind: u8, payload: &[u8]) {
        if let (Some(link), Ok(message)) = (self.link(core), Message::new(kind, payload))
            && !link.is_out
        {
            link.queue.push_back(message);
        }
    }

    /// Makes `core` look at what is queued for it now, whatever it is doing.
    pub fn urge(&mut self, core: CoreId) {
        if let Some(link) = self.link(core) {
            link.urgent = link.rings.is_some();
        }
    }

    /// Sends what is queued, as far as the rings have room; whether anything was sent.
    pub fn flush<M: Machine>(&mut self, machine: &M) -> bool {
        let mut sent = false;
        for (core, link) in (0..).map(CoreId).zip(&mut self.links) {
            let Some((sender, _)) = &mut link.rings else { continue };
            let mut published = false;
            while let Some(message) = link.queue.front() {
                if sender.try_send(message).is_err() {
                    break;
                }
                link.queue.pop_front();
                published = true;
            }
            if published {
                sender.notify(machine.board().notifier(), machine);
                sent = true;
            }
            if link.queue.is_empty() && core::mem::take(&mut link.urgent) {
                machine.signal(core);
            }
        }
        sent
    }

    /// The next message for the management core itself.
    pub fn take_local(&mut self, own: CoreId) -> Option<Message> {
        self.link(own)?.queue.pop_front()
    }

    /// Whether a core has sent something, or a message waits for room: nobody rings when a ring
    /// has room again, so this core stays awake until it has.
    pub fn is_ready(&self) -> bool {
        self.links.iter().any(|link| {
            let waits = !link.queue.is_empty();
            link.rings.as_ref().is_some_and(|(_, receiver)| waits || receiver.is_ready())
        })
    }

    /// The next request of any core, each core in its turn.
    pub fn next_message(&mut self) -> Option<(CoreId, Message)> {
        for _ in 0..self.links.len() {
            let at = self.next;
            self.next = (self.next + 1) % self.links.len();
            let Some((_, receiver)) = &mut self.links[at].rings else { continue };
            loop {
                match receiver.try_recv() {
                    Ok(Some(message)) => return Some((CoreId(at as u16), message)),
                    Ok(None) => break,
                    // For an earlier incarnation of this core, or no message at all: the asker
                    // learns from `Hello` that it must ask again.
                    Err(ReceiveError::Stale(_) | ReceiveError::Corrupt) => {}
                }
            }
        }
        None
    }

    /// Whether a core's record shows another incarnation than the one known here, or that it has
    /// stopped for good, has gone away or is back.
    pub fn has_restarted(&self, board: &Board, core: CoreId) -> bool {
        let record = board.record(core);
        let is_out = record.phase().is_out();
        self.links
            .get(core.index())
            .is_some_and(|link| record.generation() != link.generation || is_out != link.is_out)
    }

    /// Whether a core has stopped for good, or is away.
    pub fn is_out(&self, core: CoreId) -> bool {
        self.links.get(core.index()).is_some_and(|link| link.is_out)
    }

    /// The first core of which that is so; the same one until [`Links::renew`].
    pub fn next_restarted(&self, board: &Board) -> Option<CoreId> {
        board.core_ids().find(|core| self.has_restarted(board, *core))
    }

    /// Turns to the present incarnation of `core`. What it sent before it introduces itself is
    /// its predecessor's.
    pub fn renew<M: Machine>(&mut self, machine: &M, core: CoreId) {
        let record = machine.board().record(core);
        let generation = record.generation();
        let (own, own_core) = (self.own.generation, machine.core());
        if let Some(link) = self.link(core) {
            let first = link.generation.0 == 0;
            link.generation = generation;
            link.is_out = record.phase().is_out();
            if core != own_core {
                link.queue.clear();
                link.rings = None;
                if !link.is_out {
                    link.connect(core, own);
                }
            }
            link.introduced &= first;
        }
    }

    /// `core` says that it runs as `generation`.
    pub fn introduce(&mut self, core: CoreId, generation: Generation) {
        if let Some(link) = self.link(core) {
            link.introduced |= link.generation == generation;
        }
    }

    /// Whether the present incarnation of `core` has introduced itself.
    pub fn is_introduced(&self, core: CoreId) -> bool {
        self.links.get(core.index()).is_some_and(|link| link.introduced)
    }
}

impl Link {
    /// Attaches both rings, as they were left.
    fn connect(&mut self, core: CoreId, own: Generation) {
        let to = Endpoint { id: to_core(core), generation: self.generation };
        let from = Endpoint { id: to_manager(core), generation: own };
        self.rings = rings(&self.memory).and_then(|(inbound, outbound)| {
            Some((Sender::attach(outbound, to).ok()?, Receiver::attach(inbound, from).ok()?))
        });
    }
}
