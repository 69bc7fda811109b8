//! CRC-32C, the frames' check against noise.

use crc::{CRC_32_ISCSI, Crc, Table};

/// Continues a CRC-32C over more bytes: takes the CRC of what came before, zero at first, and
/// gives that of all. A machine that has an instruction for it gives its own.
pub type Checksum = fn(u32, &[u8]) -> u32;

/// Sixteen bytes are looked up at once; in the bare image, whose processors have an instruction but
/// for the oldest, one, by a table of a sixteenth.
#[cfg(not(freestanding))]
type Lookup = Table<16>;
#[cfg(freestanding)]
type Lookup = Table<1>;

static TABLE: Crc<u32, Lookup> = Crc::<u32, Lookup>::new(&CRC_32_ISCSI);

/// CRC-32C on any machine.
pub fn portable(before: u32, bytes: &[u8]) -> u32 {
    let mut digest = TABLE.digest_with_initial((!before).reverse_bits());
    digest.update(bytes);
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use super::portable;

    #[test]
    fn the_known_value_in_one_piece_and_in_several() {
        assert_eq!(portable(0, b"123456789"), 0xe306_9283);
        assert_eq!(portable(portable(portable(0, b"12"), b""), b"3456789"), 0xe306_9283);
        // More than is looked up at once, from both sides of that.
        let many: [u8; 100] = core::array::from_fn(|at| at as u8);
        for cut in [0, 1, 15, 16, 17, 99] {
            let (one, other) = many.split_at(cut);
            assert_eq!(portable(portable(0, one), other), portable(0, &many), "{cut}");
        }
    }
}
