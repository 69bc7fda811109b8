//! SipHash-2-4 (Aumasson and Bernstein, 2012) of two words: a hash that nobody can predict who does
//! not know the key.

/// The hash of `words` under `key`.
pub fn hash(key: [u64; 2], words: [u64; 2]) -> u64 {
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    // The last word has the length in its highest byte: 16 bytes and no rest.
    for word in words.into_iter().chain([16 << 56]) {
        v[3] ^= word;
        (0..2).for_each(|_| round(&mut v));
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    (0..4).for_each(|_| round(&mut v));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[1]);
    v[0] = v[0].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    #[allow(deprecated)]
    fn it_is_siphash() {
        use core::hash::{Hasher, SipHasher};
        for (key, words) in [([0, 0], [0, 0]), ([1, 2], [3, 4]), ([u64::MAX, 7], [1 << 63, 9])] {
            let mut other = SipHasher::new_with_keys(key[0], key[1]);
            words.iter().for_each(|word: &u64| other.write(&word.to_le_bytes()));
            assert_eq!(hash(key, words), other.finish());
        }
    }
}
