//! What nobody can predict: the processor's random numbers (Intel SDM volume 1, 7.3.17).

use core::arch::x86_64::_rdrand64_step;

/// How often the instruction is asked for one number. It may have none ready; ten times in a row
/// it has none only if it is broken.
const ATTEMPTS: usize = 16;

/// Fills `bytes`, or says `false`, and what is in them is of no use. CPUID must have RDRAND.
pub fn fill(bytes: &mut [u8]) -> bool {
    // SAFETY: the caller has asked CPUID.
    fill_from(bytes, || unsafe {
        let mut number = 0;
        (_rdrand64_step(&mut number) == 1).then_some(number)
    })
}

/// The same from any source that may have no number ready. A source that gives the same number
/// twice in a row is broken: some processors give all ones for ever.
fn fill_from(bytes: &mut [u8], mut source: impl FnMut() -> Option<u64>) -> bool {
    let mut last = None;
    bytes.chunks_mut(size_of::<u64>()).all(|chunk| {
        let next = (0..ATTEMPTS).find_map(|_| source().filter(|next| last != Some(*next)));
        if let Some(number) = next {
            chunk.copy_from_slice(&number.to_le_bytes()[..chunk.len()]);
        }
        last = next;
        next.is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_filled_although_the_source_is_slow() {
        let mut bytes = [0; 19];
        let mut asked = 0u64;
        assert!(fill_from(&mut bytes, || {
            asked += 1;
            asked.is_multiple_of(5).then_some(0x0101_0101_0101_0101 * asked)
        }));
        assert_eq!(bytes, [[5; 8].as_slice(), &[10; 8], &[15; 3]].concat()[..]);
    }

    #[test]
    fn a_source_that_is_dead_or_stuck_is_none() {
        let mut bytes = [0; 16];
        assert!(!fill_from(&mut bytes, || None));
        assert!(!fill_from(&mut bytes, || Some(u64::MAX)));
    }
}
