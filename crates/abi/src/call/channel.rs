//! Channels between packages as the system calls see them: what `channel` asks and gives, and the
//! events that `wait` gives. Everything is little-endian words of fixed places, and decoding is
//! total: what makes no sense is `None`.

use crate::{ChannelId, CoreId, Instant, VirtAddr};

/// The first of the tags by which packages and services of kernels have channels.
pub const KERNELS_TAGS: u32 = 0xffff_0000;

/// Whether a channel of this tag has a package at one end and a service of a kernel at the other:
/// no package accepts such a channel that another package opens.
pub const fn is_kernels(tag: u32) -> bool {
    tag >= KERNELS_TAGS
}

/// What the `channel` call asks: its input, [`ChannelCall::BYTES`] long. The call's word is not
/// looked at.
///
/// A [`ChannelId`] names one end of a channel to the package that has it, and is never given twice
/// to one package. Tags of packages are names among packages alone: no kernel listens to one, but
/// for those that are [kernels'](is_kernels).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelCall {
    /// A channel to the package on `to` that accepts `tag`, with room for `cells` messages, a
    /// power of two. Gives a [`ChannelPlace`]; does not wait for the acceptor.
    Open {
        /// Its core; on the caller's own another package gets it.
        to: CoreId,
        /// What the acceptor knows it by.
        tag: u32,
        /// Messages that it has room for.
        cells: u32,
    },
    /// The receiving end of a channel that was or will be opened to `tag` here. Gives a
    /// [`ChannelPlace`]; `Timeout` if none comes in time.
    Accept {
        /// What the opener calls it.
        tag: u32,
        /// How long to wait.
        until: Instant,
    },
    /// Gives an end up: the other end learns that it is closed. The ring's memory stays the
    /// package's until the package ends.
    Close(ChannelId),
}

/// Where an end of a channel is: the output of [`ChannelCall::Open`] and [`ChannelCall::Accept`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelPlace {
    /// The end's name.
    pub channel: ChannelId,
    /// The core of the other end.
    pub peer: CoreId,
    /// The ring's first byte in user memory.
    pub at: VirtAddr,
    /// Bytes of the ring.
    pub bytes: u64,
}

/// What `wait` gives. An event of a channel is its value alone; any other is in its output, whose
/// bytes are the value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// A call to a service of the package's, as the transport layer encodes it.
    Call(&'a [u8]),
    /// The sender of this channel has woken its receiver.
    Woken(ChannelId),
    /// The other end of this channel is gone. What is in the ring can still be received.
    Closed(ChannelId),
    /// A call that the package has begun is over: what names it, and its end.
    Ended(u64, &'a [u8]),
}

impl ChannelCall {
    /// Bytes of an encoded call.
    pub const BYTES: usize = 24;

    /// The input of the system call.
    pub fn encode(self) -> [u8; ChannelCall::BYTES] {
        pack(match self {
            ChannelCall::Open { to, tag, cells } => {
                [0, u64::from(tag) << 32 | u64::from(to.0), u64::from(cells)]
            }
            ChannelCall::Accept { tag, until } => [1, u64::from(tag), until.as_nanos()],
            ChannelCall::Close(channel) => [2, u64::from(channel.0), 0],
        })
    }

    /// The call that an input asks for.
    pub fn decode(input: &[u8]) -> Option<ChannelCall> {
        let [operation, first, second] = unpack(input)?;
        Some(match operation {
            0 => ChannelCall::Open {
                to: CoreId(u16::try_from(first & 0xffff_ffff).ok()?),
                tag: (first >> 32) as u32,
                cells: u32::try_from(second).ok()?,
            },
            1 => ChannelCall::Accept {
                tag: u32::try_from(first).ok()?,
                until: Instant::from_nanos(second),
            },
            2 if second == 0 => ChannelCall::Close(ChannelId(u32::try_from(first).ok()?)),
            _ => return None,
        })
    }
}

impl ChannelPlace {
    /// Bytes of an encoded place.
    pub const BYTES: usize = 24;

    /// The output of the system call.
    pub fn encode(self) -> [u8; ChannelPlace::BYTES] {
        pack([u64::from(self.peer.0) << 32 | u64::from(self.channel.0), self.at.0, self.bytes])
    }

    /// The place that an output tells.
    pub fn decode(output: &[u8]) -> Option<ChannelPlace> {
        let [names, at, bytes] = unpack(output)?;
        let (channel, peer) = (ChannelId(names as u32), u16::try_from(names >> 32).ok()?);
        Some(ChannelPlace { channel, peer: CoreId(peer), at: VirtAddr(at), bytes })
    }
}

impl<'a> Event<'a> {
    /// The first byte of an event that is a [`Event::Call`]; the call's own bytes follow.
    pub const CALL: u8 = 0;

    const ENDED: u8 = 3;

    /// In a value: it is an event of the channel that the lower half names, and that is closed.
    const CHANNEL: u64 = 1 << 63;
    const CLOSED: u64 = 1 << 62;

    /// Bytes before the end of a call that was begun.
    pub const END_BYTES: usize = 9;

    /// The value of `wait` for an event of a channel.
    pub fn value_of(channel: ChannelId, closed: bool) -> u64 {
        let kind = if closed { Event::CHANNEL | Event::CLOSED } else { Event::CHANNEL };
        kind | u64::from(channel.0)
    }

    /// What stands before the end of a call that was begun, in the output of `wait`.
    pub fn end_head(begun: u64) -> [u8; Event::END_BYTES] {
        let mut head = [Event::ENDED; Event::END_BYTES];
        head[1..].copy_from_slice(&begun.to_le_bytes());
        head
    }

    /// The event that a value tells, with the output.
    #[inline]
    pub fn of(value: u64, output: &'a [u8]) -> Option<Event<'a>> {
        if value & Event::CHANNEL == 0 {
            return Event::decode(output.get(..usize::try_from(value).ok()?)?);
        }
        let channel = ChannelId(value as u32);
        let is_closed = value & Event::CLOSED != 0;
        Some(if is_closed { Event::Closed(channel) } else { Event::Woken(channel) })
    }

    /// The event that an output tells.
    pub fn decode(output: &'a [u8]) -> Option<Event<'a>> {
        let (kind, rest) = output.split_first()?;
        match *kind {
            Event::CALL => Some(Event::Call(rest)),
            Event::ENDED => {
                let (begun, end) = rest.split_first_chunk()?;
                Some(Event::Ended(u64::from_le_bytes(*begun), end))
            }
            _ => None,
        }
    }
}

pub(super) fn pack(words: [u64; 3]) -> [u8; 24] {
    let mut bytes = [0; 24];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

pub(super) fn unpack(bytes: &[u8]) -> Option<[u64; 3]> {
    let bytes: &[u8; 24] = bytes.try_into().ok()?;
    let word = |at: usize| bytes[at..at + 8].iter().rev().fold(0, |w, b| w << 8 | u64::from(*b));
    Some([0, 8, 16].map(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: ChannelId = ChannelId(0xfedc_ba98);

    #[test]
    fn calls_survive() {
        for call in [
            ChannelCall::Open { to: CoreId(u16::MAX), tag: u32::MAX, cells: 1 },
            ChannelCall::Open { to: CoreId(0), tag: 0, cells: u32::MAX },
            ChannelCall::Accept { tag: 7, until: Instant::from_nanos(u64::MAX) },
            ChannelCall::Close(CHANNEL),
        ] {
            assert_eq!(ChannelCall::decode(&call.encode()), Some(call));
        }
    }

    #[test]
    fn places_and_events_survive() {
        let (peer, at) = (CoreId(u16::MAX), VirtAddr(1 << 44));
        let place = ChannelPlace { channel: CHANNEL, peer, at, bytes: 4096 };
        assert_eq!(ChannelPlace::decode(&place.encode()), Some(place));
        for (closed, event) in [(false, Event::Woken(CHANNEL)), (true, Event::Closed(CHANNEL))] {
            assert_eq!(Event::of(Event::value_of(CHANNEL, closed), &[]), Some(event));
        }
        assert_eq!(Event::decode(&[Event::CALL, 1, 2]), Some(Event::Call(&[1, 2])));
        assert_eq!(Event::of(2, &[Event::CALL, 1, 2]), Some(Event::Call(&[1])));
        assert_eq!((Event::of(0, &[1]), Event::of(4, &[0; 3])), (None, None));
        let head = Event::end_head(u64::MAX - 1);
        let event = [&head[..], &[1, 2]].concat();
        assert_eq!(Event::decode(&event), Some(Event::Ended(u64::MAX - 1, &[1, 2])));
        assert_eq!(Event::decode(&head[..8]), None);
    }

    #[test]
    fn nonsense_is_none() {
        for input in [&[][..], &[0; 23], &[0; 25], &[3; 24], &[0xff; 24]] {
            assert_eq!(ChannelCall::decode(input), None);
        }
        // No core, no tag and no channel has so great a number.
        let wide = |operation: u64, first: u64| ChannelCall::decode(&pack([operation, first, 0]));
        assert_eq!(wide(0, 1 << 16), None);
        assert_eq!((wide(1, 1 << 32), wide(2, 1 << 32)), (None, None));
        assert_eq!(ChannelPlace::decode(&[0xff; 24]), None);
        for output in [&[][..], &[1], &[2, 0, 0, 0], &[1, 0, 0, 0, 0, 0], &[3, 0, 0, 0, 0]] {
            assert_eq!(Event::decode(output), None);
        }
    }
}
