//! The domain's end of the protocol (RainForest 5.2: *subOScon*): what its managing core does with
//! the supervisor's messages. The domain never waits for the supervisor.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::extent::Extent;
use crate::message::Message;
use nile_order::SortedMap;

/// What the domain's kernel is to do, or the line to the supervisor is to carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Send this to the supervisor.
    Send(Message),
    /// Start a core, or keep it if it is about to leave; then say [`Managing::started`] or
    /// [`Managing::not_started`].
    Start(u16),
    /// Have a core end what it does and go.
    Leave(u16),
    /// A core was taken: what it did is lost.
    Lost(u16),
    /// Use this memory from now on.
    Use(Extent),
    /// Find so many free units, have every core forget them, and say [`Managing::found`].
    Find(u32),
    /// End.
    Stop,
}

/// How far a core is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Core {
    Starting,
    Running,
    Leaving,
}

/// A domain's end.
#[derive(Clone, Default, Debug)]
pub struct Managing {
    cores: SortedMap<u16, Core>,
    /// What was given back and not accepted yet.
    given: Vec<Extent>,
    acts: VecDeque<Act>,
}

impl Managing {
    /// The end of a domain that starts on these cores. It says so when it runs.
    pub fn new(cores: impl IntoIterator<Item = u16>) -> Managing {
        let cores = cores.into_iter().map(|core| (core, Core::Running)).collect();
        Managing { cores, ..Managing::default() }
    }

    /// The domain runs on all its cores.
    pub fn up(&mut self) {
        self.send(Message::Hello);
    }

    /// What is to be done next, if anything is.
    pub fn take_act(&mut self) -> Option<Act> {
        self.acts.pop_front()
    }

    /// The supervisor says something.
    pub fn heard(&mut self, message: Message) {
        match message {
            Message::Back => {
                self.send(Message::Hello);
                for extent in self.given.clone() {
                    self.send(Message::MemoryGiven(extent));
                }
            }
            Message::OfferCore(core) => match self.cores.get(&core) {
                Some(Core::Running) => self.send(Message::CoreTaken(core)),
                Some(Core::Starting) => {}
                Some(Core::Leaving) | None => {
                    self.cores.insert(core, Core::Starting);
                    self.acts.push_back(Act::Start(core));
                }
            },
            Message::TakeCore(core) => {
                // The supervisor knows by itself that a core which was never here is not.
                if let Some(state) = self.cores.get_mut(&core) {
                    *state = Core::Leaving;
                    self.acts.push_back(Act::Leave(core));
                }
            }
            Message::CoreParked(core) => {
                if self.cores.remove(&core).is_some() {
                    self.acts.push_back(Act::Lost(core));
                }
            }
            Message::OfferMemory(extent) => {
                let is_other =
                    |it: &Extent| it.units().end <= extent.start || extent.units().end <= it.start;
                self.given.retain(is_other);
                self.acts.push_back(Act::Use(extent));
                self.send(Message::MemoryTaken(extent));
            }
            Message::WantMemory(units) => self.acts.push_back(Act::Find(units)),
            Message::MemoryAccepted(extent) => self.given.retain(|it| *it != extent),
            Message::Stop => self.acts.push_back(Act::Stop),
            // What a domain says, no domain hears.
            Message::Hello
            | Message::CoreTaken(_)
            | Message::CoreRefused(_)
            | Message::MemoryTaken(_)
            | Message::MemoryGiven(_)
            | Message::MemoryRefused(_) => {}
        }
    }

    /// Whether a core is the domain's, as far as it has heard: one that it was to start may have
    /// been taken since.
    pub fn has(&self, core: u16) -> bool {
        self.cores.contains_key(&core)
    }

    /// A core that was to start runs.
    pub fn started(&mut self, core: u16) {
        if let Some(state) = self.cores.get_mut(&core)
            && *state == Core::Starting
        {
            *state = Core::Running;
            self.send(Message::CoreTaken(core));
        }
    }

    /// A core that was to start does not.
    pub fn not_started(&mut self, core: u16) {
        if self.cores.get(&core) == Some(&Core::Starting) {
            self.cores.remove(&core);
            self.send(Message::CoreRefused(core));
        }
    }

    /// A core is gone, asked or not.
    pub fn left(&mut self, core: u16) {
        self.cores.remove(&core);
    }

    /// A core that was to leave does not.
    pub fn kept(&mut self, core: u16) {
        if let Some(state) = self.cores.get_mut(&core)
            && *state == Core::Leaving
        {
            *state = Core::Running;
            self.send(Message::CoreRefused(core));
        }
    }

    /// These units were free, and no core has them any more; or so many are missing, and all is as
    /// it was.
    pub fn found(&mut self, found: Result<Vec<Extent>, u32>) {
        match found {
            Ok(extents) => {
                for extent in extents {
                    self.given.push(extent);
                    self.send(Message::MemoryGiven(extent));
                }
            }
            Err(missing) => self.send(Message::MemoryRefused(missing)),
        }
    }

    fn send(&mut self, message: Message) {
        self.acts.push_back(Act::Send(message));
    }
}
