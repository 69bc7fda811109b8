//! The seal of frames, AES-256-GCM under one key, and the cipher of disks ([`disk`]).
//!
//! It is a crate of its own because it runs over every byte that travels or is kept. The ciphers'
//! code is generic, so it is compiled where it is used; what is around it is compiled for size in
//! the kernel's image, and the ciphers for speed (docs/decisions/cipher.md has the difference).
#![no_std]
#![forbid(unsafe_code)]

pub mod disk;

use core::fmt;

use aes_gcm::aead::AeadInOut;
use aes_gcm::{Aes256Gcm, Key, KeyInit, Tag};

/// Bytes of what proves that data are what was sealed.
pub const TAG_BYTES: usize = 16;

/// One key.
#[derive(Clone)]
pub struct Seal(Aes256Gcm);

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seal(..)")
    }
}

impl Seal {
    /// Expands a key.
    pub fn new(key: [u8; 32]) -> Seal {
        Seal(Aes256Gcm::new(&Key::<Aes256Gcm>::from(key)))
    }

    /// Seals `data` in place, and `header` with them; the tag. `sequence` has never been used with
    /// this key.
    pub fn seal(&self, sequence: u64, header: &[u8], data: &mut [u8]) -> [u8; TAG_BYTES] {
        let sealed = self.0.encrypt_inout_detached(&nonce(sequence).into(), header, data.into());
        sealed.expect("frames are far shorter than the cipher's 64 GiB").into()
    }

    /// Opens `data` in place; whether they and `header` are what was sealed. What is left in
    /// `data` if not, is worth nothing.
    #[must_use]
    pub fn open(&self, sequence: u64, header: &[u8], data: &mut [u8], tag: &[u8]) -> bool {
        let Ok(tag) = <[u8; TAG_BYTES]>::try_from(tag) else { return false };
        let (nonce, tag) = (nonce(sequence).into(), Tag::from(tag));
        self.0.decrypt_inout_detached(&nonce, header, data.into(), &tag).is_ok()
    }
}

/// The cipher's nonce: four zero bytes and the sequence.
fn nonce(sequence: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&sequence.to_be_bytes());
    nonce
}
