//! A disk that is encrypted where it lies: AES-256 in the mode XTS (IEEE 1619), in sectors
//! whose numbers are the tweaks. Whoever has the disk alone learns nothing but what changes;
//! that it was changed is seen by the checksums of blocks and records.

use aes::Aes256;
use aes::cipher::{Array, Block, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};

/// Bytes of a sector.
pub const SECTOR: u64 = 4096;

/// Bytes of a key: those of one for the data, then those of one for the sectors' numbers.
pub const KEY_BYTES: usize = 64;

/// Blocks that the processor is given at once, all of a sector: its widest instructions take 64 at
/// a time, and what is less one after the other.
const AT_ONCE: usize = SECTOR as usize / 16;

/// A disk's key, ready for use.
#[derive(Clone)]
pub struct Cipher {
    data: Aes256,
    tweak: Aes256,
}

impl core::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Cipher(..)")
    }
}

impl Cipher {
    /// The cipher of a key.
    pub fn new(key: &[u8; KEY_BYTES]) -> Cipher {
        let aes = |at: usize| {
            let mut half = [0; KEY_BYTES / 2];
            half.copy_from_slice(&key[at..at + KEY_BYTES / 2]);
            Aes256::new(&half.into())
        };
        Cipher { data: aes(0), tweak: aes(KEY_BYTES / 2) }
    }

    /// Encrypts whole sectors that are to lie at byte `at` of the disk, where a sector begins.
    pub fn encrypt(&self, at: u64, bytes: &mut [u8]) {
        self.each(at, bytes, |blocks| self.data.encrypt_blocks(blocks));
    }

    /// Decrypts whole sectors that lie at byte `at` of the disk.
    pub fn decrypt(&self, at: u64, bytes: &mut [u8]) {
        self.each(at, bytes, |blocks| self.data.decrypt_blocks(blocks));
    }

    fn each(&self, at: u64, bytes: &mut [u8], change: impl Fn(&mut [Block<Aes256>])) {
        debug_assert!(at.is_multiple_of(SECTOR) && (bytes.len() as u64).is_multiple_of(SECTOR));
        for (number, sector) in (at / SECTOR..).zip(bytes.chunks_mut(SECTOR as usize)) {
            let mut first: Block<Aes256> = u128::from(number).to_le_bytes().into();
            self.tweak.encrypt_block(&mut first);
            let mut tweak = u128::from_le_bytes(first.into());
            let (blocks, _) = Array::slice_as_chunks_mut(sector);
            for blocks in blocks.chunks_mut(AT_ONCE) {
                let mut tweaks = [0; AT_ONCE];
                for (block, kept) in blocks.iter_mut().zip(&mut tweaks) {
                    mix(block, tweak);
                    *kept = tweak;
                    tweak = doubled(tweak);
                }
                change(blocks);
                blocks.iter_mut().zip(tweaks).for_each(|(block, tweak)| mix(block, tweak));
            }
        }
    }
}

fn mix(block: &mut Block<Aes256>, tweak: u128) {
    *block = (u128::from_le_bytes((*block).into()) ^ tweak).to_le_bytes().into();
}

/// Times x in the field of 2^128 elements.
fn doubled(tweak: u128) -> u128 {
    const REDUCED: u128 = 0x87;
    (tweak << 1) ^ ((tweak >> 127) * REDUCED)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As another implementation of the standard has it (OpenSSL's aes-256-xts).
    #[test]
    fn it_is_the_standard() {
        let mut key = [0; KEY_BYTES];
        key.iter_mut().zip(1..).for_each(|(byte, at)| *byte = at);
        let cipher = Cipher::new(&key);
        let mut bytes = [0; 2 * SECTOR as usize];
        bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 7 % 251) as u8);
        let plain = bytes;
        cipher.encrypt(5 * SECTOR, &mut bytes);
        assert_eq!(bytes[..16], FIRST);
        assert_eq!(bytes[SECTOR as usize - 16..SECTOR as usize], LAST);
        assert_eq!(bytes[SECTOR as usize..][..16], NEXT);
        cipher.decrypt(5 * SECTOR, &mut bytes);
        assert!(bytes == plain);
    }

    const FIRST: [u8; 16] = [
        0x14, 0xfe, 0xe3, 0x49, 0x55, 0x4d, 0xd1, 0xa0, 0x19, 0x67, 0xb0, 0x77, 0x89, 0x49, 0x7c,
        0x54,
    ];
    const LAST: [u8; 16] = [
        0xc5, 0x05, 0x41, 0x31, 0xd2, 0x5c, 0xd7, 0x22, 0x3d, 0xa5, 0xc1, 0xf0, 0xd6, 0x01, 0x14,
        0x59,
    ];
    const NEXT: [u8; 16] = [
        0x3a, 0xd9, 0x47, 0xff, 0xd5, 0x09, 0x08, 0xe4, 0x5c, 0xae, 0x9b, 0x77, 0x0e, 0xdf, 0x8f,
        0x39,
    ];
}
