//! Brings pairs from many sorted sources together by their keys.

use alloc::vec::Vec;

use crate::outcome::Outcome;
use crate::pairs::Reader;
use crate::task::Task;

/// Pairs of all sources, in the order of their keys; of equal keys, those of the earlier source
/// first.
pub(crate) struct Merge<'s> {
    readers: Vec<Reader<'s>>,
    /// Those that have a pair in front, as a heap: each comes before the two below it.
    heap: Vec<usize>,
}

impl<'s> Merge<'s> {
    pub fn new(task: &Task<'s>, mut readers: Vec<Reader<'s>>) -> Outcome<Merge<'s>> {
        let mut heap = Vec::new();
        for (number, reader) in readers.iter_mut().enumerate() {
            if reader.next(task)? {
                heap.push(number);
            }
        }
        let mut merge = Merge { readers, heap };
        for place in (0..merge.heap.len() / 2).rev() {
            merge.sink(place);
        }
        Ok(merge)
    }

    /// The source that has the next pair, with that in front; `None` at the end.
    pub fn first(&mut self) -> Option<&mut Reader<'s>> {
        let first = *self.heap.first()?;
        self.readers.get_mut(first)
    }

    /// Goes on to the pair after the first.
    pub fn next(&mut self, task: &Task<'s>) -> Outcome {
        if let Some(first) = self.first()
            && !first.next(task)?
        {
            self.heap.swap_remove(0);
        }
        self.sink(0);
        Ok(())
    }

    /// Puts what is at `place` of the heap where it belongs, at or below that.
    fn sink(&mut self, mut place: usize) {
        let comes_before = |heap: &[usize], one: usize, other: usize| {
            let [one, other] = [heap[one], heap[other]];
            (&self.readers[one].key, one) < (&self.readers[other].key, other)
        };
        loop {
            let mut first = place;
            for below in [2 * place + 1, 2 * place + 2] {
                if below < self.heap.len() && comes_before(&self.heap, below, first) {
                    first = below;
                }
            }
            if first == place {
                return;
            }
            self.heap.swap(place, first);
            place = first;
        }
    }
}
