//! CRC-32C by the processor's instruction (Intel SDM volume 2, CRC32).

use core::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};

/// Continues a CRC-32C over more bytes; zero begins one. CPUID must have SSE4.2.
pub fn crc32c(before: u32, bytes: &[u8]) -> u32 {
    // SAFETY: the caller has asked CPUID.
    unsafe { by_instruction(before, bytes) }
}

#[target_feature(enable = "sse4.2")]
fn by_instruction(before: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let start = u64::from(!before);
    let whole = words.iter().fold(start, |crc, word| _mm_crc32_u64(crc, u64::from_le_bytes(*word)));
    !rest.iter().fold(whole as u32, |crc, byte| _mm_crc32_u8(crc, *byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::Features;

    #[test]
    fn the_known_value_in_one_piece_and_in_several() {
        if !Features::detect().crc32 {
            return;
        }
        assert_eq!(crc32c(0, b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(crc32c(crc32c(0, b"1"), b"23456"), b"789"), 0xe306_9283);
        assert_eq!(crc32c(0, b""), 0);
    }
}
