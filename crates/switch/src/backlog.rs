//! What waits at a port for its owner, shared fairly between the ports that it came from: deficit
//! round robin (Shreedhar and Varghese, 1995). Whoever floods a port waits for itself; a frame of
//! anybody else waits for one round.

use alloc::collections::VecDeque;

use crate::frame::Frame;

/// The most bytes that wait for an owner who has stopped taking them.
pub const BACKLOG: usize = 4 << 20;

/// Bytes that a sender may send in one round: those of a standard frame.
const QUANTUM: usize = 1514;

/// Frames for one owner, by sender.
#[derive(Default)]
pub struct Backlog {
    /// Those who have frames here; the first is at turn.
    round: VecDeque<Flow>,
    bytes: usize,
    /// The memory of a queue that is empty, for the next one that is needed.
    spare: VecDeque<Frame>,
}

/// What came from one port. It is never empty.
struct Flow {
    from: usize,
    frames: VecDeque<Frame>,
    bytes: usize,
    /// Bytes that it may still send in this round.
    credit: usize,
}

impl Backlog {
    /// Adds a frame that came from the port at `from`.
    pub fn push(&mut self, from: usize, frame: Frame) {
        self.bytes += frame.len();
        if let Some(flow) = self.round.iter_mut().find(|flow| flow.from == from) {
            flow.bytes += frame.len();
            flow.frames.push_back(frame);
            return;
        }
        let (mut frames, bytes) = (core::mem::take(&mut self.spare), frame.len());
        frames.push_back(frame);
        self.round.push_back(Flow { from, frames, bytes, credit: QUANTUM });
    }

    /// Adds a frame if that leaves at most [`BACKLOG`] bytes here. Who has most here makes room:
    /// its last frames go, or this one if it is its own. Gives how many frames were lost.
    pub fn push_bounded(&mut self, from: usize, frame: Frame) -> u64 {
        let mut lost = 0;
        while self.bytes + frame.len() > BACKLOG {
            let Some(most) = self.round.iter_mut().max_by_key(|flow| flow.bytes) else { return 1 };
            if most.from == from || most.frames.len() == 1 {
                return lost + 1;
            }
            let dropped = most.frames.pop_back().map_or(0, |dropped| dropped.len());
            most.bytes -= dropped;
            self.bytes -= dropped;
            lost += 1;
        }
        self.push(from, frame);
        lost
    }

    /// The next frame.
    pub fn pop(&mut self) -> Option<Frame> {
        loop {
            let alone = self.round.len() == 1;
            let flow = self.round.front_mut()?;
            let bytes = flow.frames.front().map_or(0, |frame| frame.len());
            if flow.credit < bytes && !alone {
                flow.credit += QUANTUM;
                self.round.rotate_left(1);
                continue;
            }
            flow.credit = flow.credit.saturating_sub(bytes);
            flow.bytes -= bytes;
            self.bytes -= bytes;
            let frame = flow.frames.pop_front();
            if flow.frames.is_empty()
                && let Some(flow) = self.round.pop_front()
            {
                self.spare = flow.frames;
            }
            return frame;
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.round.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn frame(bytes: usize) -> Frame {
        Frame::new(&vec![0; bytes]).expect("it is a frame")
    }

    fn lengths(backlog: &mut Backlog, count: usize) -> Vec<usize> {
        (0..count).map_while(|_| backlog.pop()).map(|frame| frame.len()).collect()
    }

    #[test]
    fn one_sender_is_a_queue() {
        let mut backlog = Backlog::default();
        (20..40).for_each(|bytes| backlog.push(7, frame(bytes)));
        assert_eq!(lengths(&mut backlog, 99), (20..40).collect::<Vec<_>>());
        assert!(backlog.is_empty() && backlog.bytes == 0);
    }

    #[test]
    fn who_floods_waits_for_itself() {
        let mut backlog = Backlog::default();
        (0..1000).for_each(|_| backlog.push(1, frame(1500)));
        backlog.push(2, frame(60));
        let first = lengths(&mut backlog, 3);
        assert!(first.contains(&60), "{first:?}");
        assert_eq!(lengths(&mut backlog, 9999).len(), 998);
    }

    #[test]
    fn bytes_are_shared_and_not_frames() {
        let mut backlog = Backlog::default();
        (0..3000).for_each(|_| backlog.push(1, frame(60)));
        (0..300).for_each(|_| backlog.push(2, frame(1514)));
        (0..10).for_each(|_| backlog.push(3, frame(60_000)));
        let mut sent = [0; 3];
        for length in lengths(&mut backlog, 1000) {
            let from = [60, 1514, 60_000].iter().position(|it| *it == length).unwrap();
            sent[from] += length;
        }
        let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
        assert!(most - least <= 60_000 + 2 * QUANTUM, "{sent:?}");
    }

    #[test]
    fn who_has_most_makes_room() {
        let mut backlog = Backlog::default();
        let mut lost = 0;
        while lost == 0 {
            lost += backlog.push_bounded(1, frame(1500));
        }
        assert!(backlog.bytes <= BACKLOG && backlog.bytes + 1500 > BACKLOG);
        assert_eq!(backlog.push_bounded(2, frame(3000)), 2, "the other's last ones go");
        assert_eq!(backlog.push_bounded(1, frame(3000)), 1, "its own goes");
        assert!(backlog.bytes <= BACKLOG);
        assert!(lengths(&mut backlog, 9).contains(&3000));
    }
}
