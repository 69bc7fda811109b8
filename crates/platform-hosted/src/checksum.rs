//! CRC-32C in the fastest way that a library of Linux's has it.

use crc_fast::{CrcAlgorithm, Digest};

/// Bytes from which on multiplying is faster than the processor's instruction.
const LONG: usize = 4096;

/// The CRC-32C of what has the CRC `before`, with `bytes` behind it.
pub fn checksum(before: u32, bytes: &[u8]) -> u32 {
    if bytes.len() < LONG {
        return crc32c::crc32c_append(before, bytes);
    }
    let mut all = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, (!before).into());
    all.update(bytes);
    all.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_short_are_of_one_kind() {
        let bytes: Vec<u8> = (0..3 * LONG).map(|at| (at * at % 251) as u8).collect();
        assert_eq!(checksum(0, b"123456789"), 0xe306_9283);
        for end in [0, 1, LONG - 1, LONG, LONG + 1, 2 * LONG + 7, bytes.len()] {
            for before in [0, 1, u32::MAX] {
                let known = crc32c::crc32c_append(before, &bytes[..end]);
                assert_eq!(checksum(before, &bytes[..end]), known, "{end} bytes after {before}");
            }
        }
    }
}
