//! Two threads as two cores that talk over a channel each way.

use nile_abi::{CoreId, EndpointId, Generation};
use nile_ring::channel::region_len;
use nile_ring::{
    Doorbell, Doorbells, Endpoint, Message, Mover, Notifier, Receiver, ReceiverMap, Region, Sender,
    Signal, Wake,
};

/// The cores of the two ends.
pub const CORES: [CoreId; 2] = [CoreId(0), CoreId(1)];

/// One core's end of both channels.
pub struct End {
    /// To the other core.
    pub sender: Sender,
    /// From the other core.
    pub receiver: Receiver,
    /// Wakes the other core.
    pub notifier: Notifier,
    /// What this core sleeps behind.
    pub bell: Doorbell,
}

/// Two ends whose receivers wait in the way `wake`, over rings of `capacity` cells.
pub fn ends(capacity: usize, wake: Wake) -> [End; 2] {
    let bells = Doorbells::attach(Region::owned(Doorbells::region_len(CORES.len())));
    let map = ReceiverMap::attach(Region::owned(ReceiverMap::region_len(CORES.len())));
    let map = map.expect("the region has the size that a map asks for");
    let mut mover = Mover::new(map.clone(), bells.clone());
    let receivers = CORES.map(|core| {
        let at = Endpoint { id: EndpointId(core.0), generation: Generation::FIRST };
        let step = mover.begin(at.id, core, wake).expect("the map has room for both");
        step.finish(&Nobody);
        (at, Region::owned(region_len(capacity)))
    });
    CORES.map(|core| {
        let (own, from) = &receivers[core.index()];
        let (to, into) = &receivers[1 - core.index()];
        End {
            sender: Sender::attach(into.clone(), *to).expect("a ring's size"),
            receiver: Receiver::attach(from.clone(), *own).expect("a ring's size"),
            notifier: Notifier::new(bells.clone(), map.clone()),
            bell: bells.of(core).expect("every core has a bell"),
        }
    })
}

/// Nobody sleeps.
pub struct Nobody;

impl Signal for Nobody {
    fn signal(&self, _: CoreId) {}
}

/// A message that carries a number.
#[inline]
pub fn numbered(number: u64) -> Message {
    Message::new(1, &number.to_le_bytes()).expect("eight bytes fit a cell")
}

/// The number that a message carries.
#[inline]
pub fn number(message: &Message) -> u64 {
    u64::from_le_bytes(*message.payload().first_chunk().expect("eight bytes were sent"))
}
