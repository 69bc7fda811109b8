//! The verdict on each packet.

use nile_abi::Instant;

use crate::connections::Connections;
use crate::packet::{Connection, Packet};
use crate::rule::{Action, Rules, State};

/// What was counted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct FilterCounts {
    /// Packets that have gone on.
    pub allowed: u64,
    /// Packets that a rule has denied.
    pub denied: u64,
    /// Packets that were dropped as there were too many connections.
    pub crowded: u64,
}

/// Rules and the connections that have come about under them.
#[derive(Default)]
pub struct Filter {
    rules: Rules,
    connections: Connections,
    counts: FilterCounts,
}

impl Filter {
    /// Has other rules from now on. `open` are the connections of TCP that there are: rules may
    /// come when they have been open for long.
    pub fn set(&mut self, now: Instant, rules: Rules, open: impl Iterator<Item = Connection>) {
        self.rules = rules;
        self.connections.unsettle();
        open.for_each(|it| self.connections.know(now, it));
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Whether there is none, and so nothing to look at.
    pub fn is_open(&self) -> bool {
        self.rules.all().is_empty()
    }

    /// What was counted.
    pub fn counts(&self) -> FilterCounts {
        self.counts
    }

    /// How many connections are known.
    pub fn connections(&self) -> usize {
        self.connections.count()
    }

    /// Whether a packet goes on. Rules are asked once for each way of a connection that is
    /// established, whatever there are many of.
    pub fn lets(&mut self, now: Instant, packet: &Packet) -> bool {
        let action = self.connections.settled(now, packet).unwrap_or_else(|| {
            let state = self.connections.state(now, packet);
            let action = self.rules.action(packet, state);
            if state == State::Established {
                self.connections.settle(packet, action);
            }
            action
        });
        match action {
            Action::Deny => self.counts.denied += 1,
            Action::Allow if self.connections.note(now, packet) => {
                self.counts.allowed += 1;
                return true;
            }
            Action::Allow => self.counts.crowded += 1,
        }
        false
    }
}
