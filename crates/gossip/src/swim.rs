//! SWIM, by the `foca` crate: probes of those whom this node watches, suspicion, and denial. What
//! it finds out is told to the gossip around it, which tells the cluster.

use alloc::vec::Vec;
use core::num::{NonZeroU8, NonZeroUsize};
use core::time::Duration;

use foca::{
    Config, Foca, Member, Message, NoCustomBroadcast, Notification, PeriodicParams, Runtime, State,
    Timer,
};
use nile_abi::{Instant, NodeId};
use rand_xoshiro::Xoshiro128PlusPlus;

use crate::identity::{Id, NoPacket, Packets, sift};
use nile_order::SortedSet;

/// Failure detection of one node.
pub(crate) struct Swim {
    foca: Foca<Id, Packets, Xoshiro128PlusPlus, NoCustomBroadcast>,
    config: Config,
    timers: Vec<(Instant, Timer<Id>)>,
    /// One of the node's rounds, once it has any.
    round: Option<Instant>,
    suspects: SortedSet<NodeId>,
}

/// What came of a call.
#[derive(Default)]
pub(crate) struct Findings {
    /// Packets to send.
    pub packets: Vec<(NodeId, Vec<u8>)>,
    /// Nodes that did not deny their death.
    pub dead: Vec<Id>,
    /// This node had to deny its own death, and is now known by this.
    pub renewed: Option<Id>,
    /// It cannot deny it any more in this generation.
    pub is_over: bool,
    timers: Vec<(Timer<Id>, Duration)>,
}

impl Runtime<Id> for Findings {
    fn notify(&mut self, notification: Notification<'_, Id>) {
        match notification {
            Notification::MemberDown(id) => self.dead.push(*id),
            Notification::Rejoin(id) => self.renewed = Some(*id),
            Notification::Defunct => self.is_over = true,
            Notification::MemberUp(_)
            | Notification::Rename(..)
            | Notification::Active
            | Notification::Idle => {}
        }
    }

    fn send_to(&mut self, to: Id, data: &[u8]) {
        self.packets.push((to.node, data.to_vec()));
    }

    fn submit_after(&mut self, event: Timer<Id>, after: Duration) {
        self.timers.push((event, after));
    }
}

/// Periods in which a suspect can deny: its suspicion reaches it and the denial comes back by
/// rumours among those who watch it, which takes three each.
const SUSPICION_PERIODS: u32 = 6;

/// Periods after which a dead node need not be told that it is held for dead.
const BURIAL_PERIODS: u32 = 64;

impl Swim {
    /// That of the node `own`; `packet_bytes` is what fits one message beside the rest, `told` how
    /// many are told what changes, of those who are watched.
    pub fn new(
        own: Id,
        period: Duration,
        packet_bytes: usize,
        told: u8,
        random: Xoshiro128PlusPlus,
    ) -> Swim {
        let told = NonZeroUsize::new(told.into()).unwrap_or(NonZeroUsize::MIN);
        let config = Config {
            probe_period: period,
            probe_rtt: period * 2 / 5,
            num_indirect_probes: told,
            max_transmissions: const { NonZeroU8::new(12).expect("12 is not 0") },
            suspect_to_down_after: period * SUSPICION_PERIODS,
            remove_down_after: Some(period * BURIAL_PERIODS),
            max_packet_size: NonZeroUsize::new(packet_bytes).unwrap_or(NonZeroUsize::MIN),
            notify_down_members: true,
            periodic_announce: None,
            periodic_announce_to_down_members: None,
            periodic_gossip: Some(PeriodicParams { frequency: period, num_members: told }),
        };
        let foca = Foca::new(own, config.clone(), random, Packets);
        Swim { foca, config, timers: Vec::new(), round: None, suspects: SortedSet::new() }
    }

    /// A node lives and is to be watched, or is watched and has a new life.
    pub fn watch(&mut self, now: Instant, id: Id) -> Findings {
        self.tell(now, Member::alive(id))
    }

    /// A watched node is known to be dead. It is remembered a while, to be told.
    pub fn bury(&mut self, now: Instant, id: Id) -> Findings {
        self.tell(now, Member::down(id))
    }

    fn tell(&mut self, now: Instant, member: Member<Id>) -> Findings {
        self.run(now, |foca, findings| foca.apply_many([member].into_iter(), false, findings))
    }

    /// A node is not watched any more. `foca` forgets only the dead.
    pub fn forget(&mut self, id: Id) {
        let mut nothing = Findings::default();
        let down = [Member::down(id)].into_iter();
        // It fails only if a member cannot be written, and none is.
        let _ = self.foca.apply_many(down, false, &mut nothing);
        let _ = self.foca.handle_timer(Timer::RemoveDown(id), &mut nothing);
        // If nobody is left, the timers were for nothing; else there was none but the burial's.
    }

    /// Begins anew by a new name and with other random numbers, since this node was held for dead:
    /// whatever it believed of others while they did not hear it may be wrong. It watches nobody.
    pub fn rename(&mut self, own: Id, random: Xoshiro128PlusPlus) {
        self.foca = Foca::new(own, self.config.clone(), random, Packets);
        self.timers.clear();
    }

    /// A packet has come. What it says of nodes that are not `wanted` is left out. Gives its
    /// sender too; fails if it is no packet, or not one for this node.
    pub fn receive(
        &mut self,
        now: Instant,
        from: NodeId,
        packet: &[u8],
        mut wanted: impl FnMut(NodeId) -> bool,
    ) -> Result<(Id, Findings), NoPacket> {
        let own = *self.foca.identity();
        let (header, packet) = sift(packet, |id| match id.node == own.node {
            true => *id == own,
            false => wanted(id.node),
        })?;
        let sender = header.src;
        if sender.node != from {
            return Err(NoPacket);
        }
        // A probe that is answered is asked by nobody else: the timer for that is over at once.
        let is_of_it = |(_, timer): &(Instant, Timer<Id>)| match timer {
            Timer::SendIndirectProbe { probed_id, .. } => *probed_id == sender,
            _ => false,
        };
        let place = match header.message {
            Message::Ack(_) => self.timers.iter().position(is_of_it),
            _ => None,
        };
        let answered = place.map(|place| self.timers.swap_remove(place).1);
        let mut outcome = Ok(());
        let findings = self.run(now, |foca, findings| {
            outcome = foca.handle_data(&packet, &mut *findings).map_err(|_| NoPacket);
            answered.map_or(Ok(()), |timer| foca.handle_timer(timer, findings))
        });
        outcome.map(|()| (sender, findings))
    }

    /// The next moment at which there is something to do.
    pub fn next_due(&self) -> Option<Instant> {
        self.timers.iter().map(|(at, _)| *at).min()
    }

    /// Does one thing that is due, if there is any.
    pub fn on_time(&mut self, now: Instant) -> Option<Findings> {
        // Those of one moment in foca's order: what ends a probe comes before the next one.
        let first = self.timers.iter().enumerate().min_by_key(|(_, (at, timer))| (*at, timer));
        let place = first.filter(|(_, (at, _))| *at <= now).map(|(place, _)| place)?;
        let (_, timer) = self.timers.remove(place);
        // It fails if the last member went meanwhile; the next one begins anew.
        Some(self.run(now, |foca, findings| foca.handle_timer(timer, findings)))
    }

    /// What goes on in periods goes on at this moment and whole periods from it: in the node's
    /// rounds, so that a core wakes once for all.
    pub fn keep_step(&mut self, round: Instant) {
        self.round = Some(round);
    }

    /// When a timer fires that is set for `at`: periodic ones at the round that is nearest, so that
    /// one that was late does not shift the next.
    fn in_step(&self, timer: &Timer<Id>, at: Instant) -> Instant {
        let is_periodic = matches!(timer, Timer::ProbeRandomMember(_) | Timer::PeriodicGossip(_));
        let Some(round) = self.round.filter(|_| is_periodic) else { return at };
        let period = self.config.probe_period;
        let rounds = (at - round + period / 2).as_nanos() / period.as_nanos().max(1);
        round + period.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX))
    }

    fn run(
        &mut self,
        now: Instant,
        what: impl FnOnce(
            &mut Foca<Id, Packets, Xoshiro128PlusPlus, NoCustomBroadcast>,
            &mut Findings,
        ) -> Result<(), foca::Error>,
    ) -> Findings {
        let mut findings = Findings::default();
        let _ = what(&mut self.foca, &mut findings);
        for (timer, after) in core::mem::take(&mut findings.timers) {
            self.timers.push((self.in_step(&timer, now + after), timer));
        }
        findings
    }

    /// Whom this node suspects, as of the last [`Swim::news`].
    pub fn suspects(&self) -> impl Iterator<Item = NodeId> {
        self.suspects.iter().copied()
    }

    /// Whether this node suspects another.
    pub fn is_suspect(&self, node: NodeId) -> bool {
        self.suspects.contains(&node)
    }

    /// Who became suspect since the last time, and who is suspect no more.
    pub fn news(&mut self) -> (Vec<NodeId>, Vec<NodeId>) {
        let members = self.foca.iter_members();
        let suspects: SortedSet<NodeId> = members
            .filter(|member| member.state() == State::Suspect)
            .map(|member| member.id().node)
            .collect();
        let new = suspects.difference(&self.suspects).copied().collect();
        let old = self.suspects.difference(&suspects).copied().collect();
        self.suspects = suspects;
        (new, old)
    }
}
