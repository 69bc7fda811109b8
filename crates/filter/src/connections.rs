//! The connections that packets were let through of. The table has a bounded size: a flood costs
//! connections that were not answered, and then no one new comes in.

use alloc::collections::BTreeMap;
use core::time::Duration;

use nile_abi::Instant;

use crate::packet::{Connection, Direction, Packet, Signal, TCP};
use crate::rule::{Action, State};

/// Connections that are known at once.
pub const MOST_CONNECTIONS: usize = 1024;

/// How long a connection is known in which nothing happens: not answered yet, answered, answered
/// and of TCP, and over.
const UNANSWERED: Duration = Duration::from_secs(30);
const ANSWERED: Duration = Duration::from_secs(180);
const OPEN: Duration = Duration::from_secs(5 * 24 * 3600);
const OVER: Duration = Duration::from_secs(60);

/// What was seen of a connection.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Which way its first packet went.
    begun: Direction,
    answered: bool,
    /// Whether the node's side has ended, and the other one's.
    ended: [bool; 2],
    until: Instant,
    /// What becomes of its packets once it is established, out and in, as far as it was asked.
    settled: [Option<Action>; 2],
}

/// The connections.
#[derive(Default)]
pub(crate) struct Connections(BTreeMap<Connection, Seen>);

impl Connections {
    /// How the connection of a packet stands.
    pub fn state(&self, now: Instant, packet: &Packet) -> State {
        match self.find(now, packet) {
            Some(seen) if packet.reports || seen.is_established(packet.direction) => {
                State::Established
            }
            _ => State::New,
        }
    }

    fn find(&self, now: Instant, packet: &Packet) -> Option<&Seen> {
        let seen = self.0.get(packet.connection.as_ref()?)?;
        let is_another = packet.signal == Signal::Begins && seen.ended == [true; 2];
        (seen.until > now && !is_another).then_some(seen)
    }

    /// What was said of the packets that go this way in its connection, which is established.
    pub fn settled(&self, now: Instant, packet: &Packet) -> Option<Action> {
        let seen = self.find(now, packet).filter(|_| !packet.reports)?;
        seen.settled[packet.direction as usize].filter(|_| seen.is_established(packet.direction))
    }

    /// Notes what was said of them.
    pub fn settle(&mut self, packet: &Packet, action: Action) {
        if let Some(connection) = &packet.connection
            && let Some(seen) = self.0.get_mut(connection)
            && !packet.reports
        {
            seen.settled[packet.direction as usize] = Some(action);
        }
    }

    /// Other rules are asked from now on.
    pub fn unsettle(&mut self) {
        self.0.values_mut().for_each(|seen| seen.settled = [None; 2]);
    }

    /// Notes that a packet goes on. `false` if its connection is new, and there is no room for it.
    pub fn note(&mut self, now: Instant, packet: &Packet) -> bool {
        let Some(connection) = packet.connection.filter(|_| !packet.reports) else { return true };
        if self.find(now, packet).is_none() {
            self.0.remove(&connection);
            if self.0.len() >= MOST_CONNECTIONS && !self.make_room(now) {
                return false;
            }
            let (begun, settled) = (packet.direction, [None; 2]);
            let seen = Seen { begun, answered: false, ended: [false; 2], until: now, settled };
            self.0.insert(connection, seen);
        }
        if let Some(seen) = self.0.get_mut(&connection) {
            seen.note(now, packet);
        }
        true
    }

    /// Knows an open connection of TCP from elsewhere.
    pub fn know(&mut self, now: Instant, connection: Connection) {
        if self.0.len() < MOST_CONNECTIONS {
            let (begun, until) = (Direction::In, now + OPEN);
            let seen = Seen { begun, answered: true, ended: [false; 2], until, settled: [None; 2] };
            self.0.entry(connection).or_insert(seen);
        }
    }

    /// Forgets those whose time is over, or else the one that has waited longest for an answer.
    fn make_room(&mut self, now: Instant) -> bool {
        let known = self.0.len();
        self.0.retain(|_, seen| seen.until > now);
        if self.0.len() < known {
            return true;
        }
        let waiting = self.0.iter().filter(|(_, seen)| !seen.answered);
        let longest = waiting.min_by_key(|(_, seen)| seen.until).map(|it| *it.0);
        longest.and_then(|connection| self.0.remove(&connection)).is_some()
    }

    /// How many are known, some of which may be over.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl Seen {
    fn is_established(&self, direction: Direction) -> bool {
        self.answered || self.begun != direction
    }

    fn note(&mut self, now: Instant, packet: &Packet) {
        self.answered |= self.begun != packet.direction;
        match packet.signal {
            Signal::Goes | Signal::Begins => {}
            Signal::Ends => self.ended[packet.direction as usize] = true,
            Signal::Breaks => self.ended = [true; 2],
        }
        let span = match (self.answered, self.ended) {
            (_, [true, true]) => OVER,
            (false, _) => UNANSWERED,
            (true, _) if packet.protocol == TCP => OPEN,
            (true, _) => ANSWERED,
        };
        self.until = now + span;
    }
}
