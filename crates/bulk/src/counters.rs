//! What an endpoint has seen. What is wrong with a frame changes one of these and nothing else.

/// Counters since the endpoint started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Frames accepted.
    pub received: u64,
    /// Frames sent.
    pub sent: u64,
    /// Bytes of data given to memory, each once.
    pub delivered_bytes: u64,
    /// Bytes that were read where their sender has them, each once.
    pub fetched_bytes: u64,
    /// Bytes of data sent, repetitions included.
    pub sent_bytes: u64,
    /// Data frames sent because an earlier one was lost, or seemed so.
    pub repeated: u64,
    /// Data frames that came a second time.
    pub duplicate: u64,
    /// Frames that are none of this protocol's: lengths, version, reserved fields, values.
    pub malformed: u64,
    /// Frames for other nodes.
    pub elsewhere: u64,
    /// Frames whose CRC is wrong.
    pub corrupt: u64,
    /// Frames that should have been sealed, or should not.
    pub unsealed: u64,
    /// Sealed frames for which there is no key.
    pub no_key: u64,
    /// Sealed frames whose tag is wrong.
    pub forged: u64,
    /// Sealed frames that came again.
    pub replayed: u64,
    /// Frames of or for an incarnation that is gone, or of a transfer long over.
    pub stale: u64,
    /// Frames whose fields contradict what is known: blocks beyond the end, credit for what was
    /// never sent.
    pub nonsense: u64,
    /// Data frames beyond what was granted room for.
    pub beyond: u64,
    /// Frames dropped, or transfers refused, because a limit is reached.
    pub busy: u64,
}
