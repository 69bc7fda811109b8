//! A message in segments: which of them still have to be sent, and which have come.

use alloc::vec;
use alloc::vec::Vec;

use crate::wire::{MAX_SEGMENTS, Segment};

/// Segments that may be on their way beyond the first that is missing: what an acknowledgement
/// can tell of.
const WINDOW: u32 = 33;

/// A message that is being sent.
#[derive(Debug)]
pub struct Outgoing {
    data: Vec<u8>,
    /// Bytes of each segment but the last.
    step: usize,
    /// One bit for each segment that the peer has.
    acknowledged: u64,
    /// One bit for each segment that was sent since it was last thought lost.
    sent: u64,
}

impl Outgoing {
    /// A message in segments of `step` bytes, which is enough for [`MAX_SEGMENTS`] of them.
    pub fn new(data: Vec<u8>, step: usize) -> Outgoing {
        debug_assert!(data.len() <= step * MAX_SEGMENTS);
        Outgoing { data, step, acknowledged: 0, sent: 0 }
    }

    /// How many segments it has.
    pub fn count(&self) -> usize {
        self.data.len().div_ceil(self.step).max(1)
    }

    /// Bytes that it holds.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    fn all(&self) -> u64 {
        u64::MAX >> (MAX_SEGMENTS - self.count())
    }

    /// The next segment to send now, which is then taken as sent.
    pub fn next(&mut self) -> Option<usize> {
        let missing = (!self.acknowledged).trailing_zeros();
        let open = u64::MAX >> 64u32.saturating_sub(missing + WINDOW).min(63);
        let candidates = self.all() & open & !self.acknowledged & !self.sent;
        let index = (candidates != 0).then(|| candidates.trailing_zeros())?;
        self.sent |= 1 << index;
        Some(index as usize)
    }

    /// The bytes of a segment, and what its header says of it, if there are several.
    pub fn segment(&self, index: usize) -> (&[u8], Option<Segment>) {
        let (count, start) = (self.count(), index * self.step);
        let end = (start + self.step).min(self.data.len());
        let segment = (count > 1).then_some(Segment {
            index: index as u16,
            count: count as u16,
            total: self.data.len() as u32,
        });
        (&self.data[start..end], segment)
    }

    /// The peer has all segments before `first`, and that k + 1 after it for each bit k.
    pub fn acknowledge(&mut self, first: u16, bitmap: u32) {
        let first = u32::from(first).min(64);
        let before = (1u64.checked_shl(first).unwrap_or(0)).wrapping_sub(1);
        let after = u64::from(bitmap).checked_shl(first + 1).unwrap_or(0);
        self.acknowledged |= (before | after) & self.all();
    }

    /// The peer has all of it.
    pub fn acknowledge_all(&mut self) {
        self.acknowledged = self.all();
    }

    /// Whether the peer has all of it.
    pub fn is_complete(&self) -> bool {
        self.acknowledged == self.all()
    }

    /// What was sent and not acknowledged is lost.
    pub fn resend(&mut self) {
        self.sent = 0;
    }

    /// The first segment is sent again although the peer has it, as a question.
    pub fn ask(&mut self) {
        self.acknowledged &= !1;
        self.sent = !1;
    }
}

/// A message that is being received.
#[derive(Debug)]
pub struct Incoming {
    data: Vec<u8>,
    step: usize,
    count: u16,
    have: u64,
}

/// What a segment did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It is there now.
    New,
    /// It had come before.
    Known,
    /// It is of another message.
    Contradicts,
}

impl Incoming {
    /// A message of which `segment`, whose frame has `bytes` of data, came first.
    pub fn new(segment: Segment, bytes: usize) -> Option<Incoming> {
        let total = usize::try_from(segment.total).ok()?;
        let step = segment.step(bytes)?;
        Some(Incoming { data: vec![0; total], step, count: segment.count, have: 0 })
    }

    /// Takes a segment.
    pub fn take(&mut self, segment: Segment, data: &[u8]) -> Taken {
        let same = (segment.count, segment.total as usize, segment.step(data.len()));
        if same != (self.count, self.data.len(), Some(self.step)) {
            return Taken::Contradicts;
        }
        let bit = 1 << segment.index;
        if self.have & bit != 0 {
            return Taken::Known;
        }
        let start = usize::from(segment.index) * self.step;
        self.data[start..start + data.len()].copy_from_slice(data);
        self.have |= bit;
        Taken::New
    }

    /// Bytes of the whole message.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// How many segments have come.
    pub fn received(&self) -> u32 {
        self.have.count_ones()
    }

    /// Whether all have come.
    pub fn is_complete(&self) -> bool {
        self.received() == u32::from(self.count)
    }

    /// The first segment that is missing, and a bit k for each that has come k + 1 after it.
    pub fn progress(&self) -> (u16, u32) {
        let first = (!self.have).trailing_zeros();
        (first as u16, self.have.checked_shr(first + 1).unwrap_or(0) as u32)
    }

    /// The message.
    pub fn into_data(self) -> Vec<u8> {
        self.data
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Segments arrive in any order, some never; acknowledgements tell which are missing.
        #[test]
        fn what_is_lost_is_sent_again(
            length in 1usize..6000,
            step in 100usize..1000,
            lost in proptest::collection::vec(any::<u64>(), 1..20),
        ) {
            let data: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let mut outgoing = Outgoing::new(data.clone(), step);
            if outgoing.count() == 1 {
                prop_assert_eq!(outgoing.segment(0), (data.as_slice(), None));
                return Ok(());
            }
            let mut incoming: Option<Incoming> = None;
            for lost in lost.into_iter().chain([0]) {
                outgoing.resend();
                while let Some(index) = outgoing.next() {
                    let (bytes, segment) = outgoing.segment(index);
                    let segment = segment.expect("several");
                    if lost >> index & 1 != 0 {
                        continue;
                    }
                    let message = incoming
                        .get_or_insert_with(|| Incoming::new(segment, bytes.len()).unwrap());
                    prop_assert_eq!(message.take(segment, bytes), Taken::New);
                    prop_assert_eq!(message.take(segment, bytes), Taken::Known);
                }
                if let Some(message) = &incoming {
                    let (first, bitmap) = message.progress();
                    outgoing.acknowledge(first, bitmap);
                    prop_assert_eq!(outgoing.is_complete(), message.is_complete());
                }
            }
            while let Some(index) = outgoing.next() {
                let (bytes, segment) = outgoing.segment(index);
                incoming.as_mut().unwrap().take(segment.unwrap(), bytes);
            }
            prop_assert_eq!(incoming.unwrap().into_data(), data);
        }
    }

    #[test]
    fn no_more_is_on_its_way_than_an_acknowledgement_can_tell_of() {
        let mut outgoing = Outgoing::new(vec![0; MAX_SEGMENTS], 1);
        let mut sent = 0;
        while outgoing.next().is_some() {
            sent += 1;
        }
        assert_eq!(sent, 33);
        outgoing.acknowledge(40, 0);
        assert!(!outgoing.is_complete());
        outgoing.acknowledge(64, 0);
        assert!(outgoing.is_complete());
    }
}
