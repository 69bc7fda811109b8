//! Reading buffers where their owner keeps them, on another core or by another node of the machine:
//! without owning them, and knowing afterwards whether what was read was what the owner had meant.

use core::fmt;
use core::sync::atomic::fence;

use nile_abi::Part;

use super::{Pool, PoolError, State, Word};
use crate::buffer::Buffer;
use crate::region::Region;
use crate::sync::AtomicU64;
use crate::sync::Ordering::{Acquire, Relaxed};

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// The buffer's owner has given it up, or there is no such part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GivenUp;

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the owner of the buffer has given it up")
    }
}

impl core::error::Error for GivenUp {}

/// Knows where the buffers of a pool are and which of them are still what they were, whoever owns
/// them. It changes nothing there.
#[derive(Debug)]
pub struct Reader {
    control: Region,
    count: usize,
    size: usize,
}

impl Reader {
    /// Reads the pool whose memory `control` begins, all of it or so much that all words are there.
    pub fn attach(control: Region) -> Result<Reader, PoolError> {
        let (count, size) = Pool::shape(&control)?;
        let control = control.slice(0, Pool::first_buffer(count, size));
        Ok(Reader { control: control.ok_or(PoolError::TooSmall)?, count, size })
    }

    /// Fills `into` with a part's bytes from `at` on, by `copy`, which is told where in the pool
    /// they begin, and may fail. An error says that what is there now are any bytes.
    pub fn read(
        &self,
        part: Part,
        at: usize,
        into: &mut [u8],
        copy: impl FnOnce(usize, &mut [u8]) -> bool,
    ) -> Result<(), GivenUp> {
        let Part { index, generation, start, bytes } = part;
        let end = at.checked_add(into.len()).ok_or(GivenUp)?;
        let is_inside = end <= bytes as usize && start as usize + bytes as usize <= self.size;
        let word = super::word(&self.control, self.count, index).filter(|_| is_inside);
        let word = word.ok_or(GivenUp)?;
        let is_kept =
            |word: Word| word.generation == generation && !matches!(word.state, State::Free { .. });
        if !is_kept(Word::unpack(word.load(Acquire))) {
            return Err(GivenUp);
        }
        let first = Pool::first_buffer(self.count, self.size) + index as usize * self.size;
        let is_copied = copy(first + start as usize + at, into);
        // Whoever wrote there since had first to be given a buffer of another generation.
        fence(Acquire);
        let is_kept = is_kept(Word::unpack(word.load(Relaxed)));
        if is_copied && is_kept { Ok(()) } else { Err(GivenUp) }
    }
}

impl Pool {
    /// Fills `into` with a part's bytes from `at` on, whoever owns the buffer. An error says that
    /// what is there now are any bytes.
    pub fn read(&self, part: Part, at: usize, into: &mut [u8]) -> Result<(), GivenUp> {
        let Pool { control, count, size, .. } = self;
        let reader = Reader { control: control.clone(), count: *count, size: *size };
        reader.read(part, at, into, |place, into| {
            let first = place - Pool::first_buffer(*count, *size);
            copy(self.buffers.words(), first, into);
            true
        })
    }
}

impl Buffer {
    /// So many bytes of this buffer from `start` on, as others may read them; `None` if it has not
    /// so many.
    pub fn part(&self, start: usize, bytes: usize) -> Option<Part> {
        let end = start.checked_add(bytes)?;
        let generation = Word::unpack(self.pool().word(self.index())?.load(Relaxed)).generation;
        let part =
            Part { index: self.index(), generation, start: start as u32, bytes: bytes as u32 };
        (end <= self.len()).then_some(part)
    }
}

/// Fills `into` with the bytes that begin `first` bytes after the first word. There are so many.
pub(super) fn copy(words: &[AtomicU64], first: usize, into: &mut [u8]) {
    let mut words = words[first / WORD..].iter().map(|word| word.load(Relaxed).to_ne_bytes());
    let begun = first % WORD;
    let (head, rest) = into.split_at_mut(((WORD - begun) % WORD).min(into.len()));
    if let Some(word) = (!head.is_empty()).then(|| words.next()).flatten() {
        head.copy_from_slice(&word[begun..begun + head.len()]);
    }
    let (whole, tail) = rest.as_chunks_mut::<WORD>();
    whole.iter_mut().zip(&mut words).for_each(|(place, word)| *place = word);
    if let Some(word) = words.next() {
        tail.copy_from_slice(&word[..tail.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::PoolId;
    use nile_abi::CoreId;

    fn pool() -> Pool {
        Pool::owned(PoolId(0), CoreId(1), 3, 256).expect("a pool")
    }

    fn filled(pool: &Pool) -> Buffer {
        let mut buffer = pool.alloc().expect("a buffer");
        buffer.iter_mut().zip((0..=255).cycle()).for_each(|(byte, at)| *byte = at);
        buffer
    }

    #[test]
    fn any_bytes_of_a_part_are_read_while_its_owner_keeps_them() {
        let pool = pool();
        let _first = pool.alloc();
        let buffer = filled(&pool);
        for start in 0..20 {
            for bytes in 0..40 {
                let part = buffer.part(start, bytes).expect("so many");
                for at in 0..=bytes {
                    let mut into = [0xaa; 40];
                    let into = &mut into[..bytes - at];
                    assert_eq!(pool.read(part, at, into), Ok(()));
                    assert_eq!(into, &buffer[start + at..start + bytes]);
                }
            }
        }
    }

    #[test]
    fn what_was_given_up_is_not_read_for_what_it_was() {
        let pool = pool();
        let read = |part| pool.read(part, 0, &mut [0; 8]);
        let buffer = filled(&pool);
        let part = buffer.part(0, 8).expect("a part");
        assert_eq!(read(part), Ok(()));
        drop(buffer);
        assert_eq!(read(part), Err(GivenUp), "free");
        let buffer = filled(&pool);
        assert_eq!(buffer.index(), part.index);
        assert_eq!(read(part), Err(GivenUp), "another owner's, or the same one's anew");
        let part = buffer.part(0, 8).expect("a part");
        let handle = buffer.into_handle(8);
        assert_eq!(read(part), Err(GivenUp), "on its way");
        let claimed = pool.claim(handle).expect("a buffer");
        assert_eq!(read(part), Err(GivenUp), "claimed");
        assert_eq!(read(claimed.part(0, 8).expect("a part")), Ok(()));
    }

    #[test]
    fn what_is_not_there_is_not_read() {
        let pool = pool();
        let buffer = filled(&pool);
        assert_eq!(buffer.part(250, 7), None);
        assert_eq!(buffer.part(usize::MAX, 2), None);
        let part = buffer.part(0, 256).expect("all of it");
        for wrong in [
            Part { index: 3, ..part },
            Part { index: u32::MAX, ..part },
            Part { start: 1, ..part },
            Part { start: u32::MAX, bytes: u32::MAX, ..part },
            Part { bytes: 7, ..part },
        ] {
            assert_eq!(pool.read(wrong, 0, &mut [0; 8]), Err(GivenUp), "{wrong:?}");
        }
        assert_eq!(pool.read(part, 249, &mut [0; 8]), Err(GivenUp));
        assert_eq!(pool.read(part, usize::MAX, &mut [0; 8]), Err(GivenUp));
    }

    #[test]
    fn by_its_first_lines_alone_a_pool_is_read_in_another_way() {
        // SAFETY: nobody else knows this memory.
        let pool = unsafe {
            let region = Region::owned(Pool::region_len(3, 256));
            (region.clone(), Pool::format(region, PoolId(0), CoreId(1), 256).expect("a pool"))
        };
        let (region, pool) = pool;
        let few = region.slice(0, 128).expect("two lines");
        assert_eq!(Reader::attach(few).err(), Some(PoolError::TooSmall));
        assert_eq!(Reader::attach(Region::owned(512)).err(), Some(PoolError::TooSmall), "no pool");
        let lines = region.slice(0, 192).expect("its words");
        let reader = Reader::attach(lines).expect("a pool");
        let (_first, buffer) = (pool.alloc(), filled(&pool));
        let part = buffer.part(8, 100).expect("a part");
        let mut told = None;
        let mut read = |is_copied| {
            reader.read(part, 7, &mut [0; 50], |place, into| {
                told = Some((place, into.len()));
                is_copied
            })
        };
        assert_eq!((read(true), read(false)), (Ok(()), Err(GivenUp)));
        assert_eq!(told, Some((buffer.offset() + 15, 50)));
        let mut buffer = Some(buffer);
        let given_up = reader.read(part, 0, &mut [0; 50], |_, _| {
            buffer = None;
            true
        });
        assert_eq!(given_up, Err(GivenUp), "in the midst of it");
    }
}
