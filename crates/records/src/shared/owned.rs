//! Which writer has a part that no record needs: what a part says of itself, or, while it says
//! nothing, where it is.

use alloc::vec;
use alloc::vec::Vec;

use nile_sync::mvrlu::{Refused, Section};

use super::bytes::parts_of;
use super::{ENTRIES, Sizes};

/// A part's word of its owner and the next part.
pub fn by(seat: u16, next: u32) -> u64 {
    (u64::from(seat) + 1) << 32 | u64::from(next)
}

/// Whose a part is with this word; of what is no part, as nonsense in shared words may have it,
/// anybody's.
pub fn owner(word: u64, part: u32, sizes: Sizes) -> u16 {
    match (word >> 32) as u32 {
        0 => part.saturating_sub(sizes.buckets).checked_div(sizes.parts).unwrap_or(0) as u16,
        seat => (seat - 1) as u16,
    }
}

/// The parts that a writer has and no record needs, the first one last.
pub fn free_parts(section: &Section<'_>, sizes: Sizes, seat: u16) -> Result<Vec<u32>, Refused> {
    let needed = needed(section, sizes)?;
    let mut free = Vec::new();
    for (place, is_needed) in needed.into_iter().enumerate().rev() {
        let part = sizes.buckets + place as u32;
        if !is_needed && owner(section.word(part, 2)?, part, sizes) == seat {
            free.push(part);
        }
    }
    Ok(free)
}

/// Which parts a bucket leads to. `Corrupt` if one leads elsewhere, or twice to the same.
fn needed(section: &Section<'_>, sizes: Sizes) -> Result<Vec<bool>, Refused> {
    let parts = sizes.parts * u32::from(sizes.writers);
    let mut needed = vec![false; parts as usize];
    let mut need = |part: u32| {
        let place = part.checked_sub(sizes.buckets).ok_or(Refused::Corrupt)?;
        match needed.get_mut(place as usize) {
            Some(needed) if !*needed => {
                *needed = true;
                Ok(())
            }
            _ => Err(Refused::Corrupt),
        }
    };
    for first in 0..sizes.buckets {
        let mut bucket = first;
        loop {
            let count = section.word(bucket, 0)? as usize;
            for entry in 0..ENTRIES.min(count) {
                let mut part = section.word(bucket, 2 + entry)? as u32;
                let mut left = parts_of(section.word(part, 1)?);
                while left > 0 {
                    need(part)?;
                    part = section.word(part, 2)? as u32;
                    left -= 1;
                }
            }
            match section.word(bucket, 1)? as u32 {
                0 => break,
                next => need(next)?,
            }
            bucket = section.word(bucket, 1)? as u32;
        }
    }
    Ok(needed)
}
