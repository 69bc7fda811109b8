//! Waking a receiver in the way it needs, which its sender need not know.

use nile_abi::{CoreId, EndpointId};

use crate::doorbell::Doorbells;
use crate::receivers::ReceiverMap;
use crate::sync::Ordering::SeqCst;
use crate::sync::fence;

/// The platform's way to interrupt the wait of a core that does not watch its line.
pub trait Signal {
    /// Ends `core`'s wait (an IPI to a halted core, a futex wake), or its next one if it has not
    /// begun. All that this core has stored before is visible to `core` when it wakes.
    fn signal(&self, core: CoreId);
}

/// All that a sender needs to wake receivers. Clones share the same memory.
#[derive(Clone, Debug)]
pub struct Notifier {
    bells: Doorbells,
    map: ReceiverMap,
}

impl Notifier {
    /// A notifier over the node's doorbells and its map of receivers.
    pub fn new(bells: Doorbells, map: ReceiverMap) -> Notifier {
        Notifier { bells, map }
    }

    /// The node's doorbells.
    pub fn doorbells(&self) -> &Doorbells {
        &self.bells
    }

    /// The node's map of receivers.
    pub fn map(&self) -> &ReceiverMap {
        &self.map
    }

    /// Makes the core that runs `receiver` look at its channels again, after what this core has
    /// stored so far; `stamp` as for [`Doorbells::touch`]. A receiver that the map does not hold
    /// has no core to wake.
    #[inline]
    pub fn notify(&self, receiver: EndpointId, stamp: u64, signal: &impl Signal) {
        if self.map.needs_signal(receiver) {
            // The home is read after the fence: either it is the present one, or the move that
            // changes it finds the message (see `receivers`).
            fence(SeqCst);
            if let Some(home) = self.map.home(receiver) {
                self.bells.wake_after_fence(home, signal);
            }
        } else if let Some(home) = self.map.home(receiver) {
            self.bells.touch(home, stamp);
        }
    }
}
